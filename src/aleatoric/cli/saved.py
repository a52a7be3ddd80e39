"""Commands that read saved runs: score, compare, report, view."""

from __future__ import annotations

import os
import sys
import webbrowser
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from aleatoric.cli.options import (
    AllowedProbeOption,
    FormatOption,
    IntervalOption,
    JsonOption,
    RunArgument,
    SeedOption,
    check_named_once,
)
from aleatoric.cli.printing import say, show_run, show_tables, shown, track
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.levels import base
from aleatoric.probes.base import check_known_probes, probe_options
from aleatoric.runs.run import Store


def score(
    run: RunArgument,
    export: Annotated[
        list[Path] | None, typer.Option(help="Write per-item rows to FILE.parquet or FILE.csv.")
    ] = None,
    analysis: Annotated[
        list[str] | None, typer.Option(help="Run a study: see aleatoric list analyses.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="The system that a study or --by looks at.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="agreement: the leading metrics by quartiles of human agreement."),
    ] = None,
    probe: AllowedProbeOption = None,
    interval: IntervalOption = DEFAULT_METHOD,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Score a saved run again; needs no model.

    Examples: `aleatoric score runs/gpt2 --export rows.parquet --analysis replacement`,
    `aleatoric score runs/gpt2 --by agreement`
    """
    from aleatoric.studies.by_agreement import by_agreement

    check_method(interval)
    if by not in (None, "agreement"):
        raise UsageError(f"--by {by} is not known; use --by agreement.")
    with Store.open(run) as store:
        check_known_probes(probe or (), store.manifest.get("probes") or ())
        monitor = base.Monitor(track, allowed_probes=tuple(probe or ()))
        base.score(store, monitor, again=not analysis and not by)
        if names := base.refused_probes(store, probe or ()):
            say(f"note: not scored again; to call {', '.join(names)} add {probe_options(names)}")
        for path in export or ():
            from aleatoric.studies.export import export_rows

            export_rows(store, path)
            say(f"wrote {path}")
        if not by and not analysis:
            show_run(store, interval, as_json, layout)
            return
        studies = [] if by else analysis or []
        tables = [t for name in studies for t in base.run_study(store, name, system, track).tables]
        tables += [by_agreement(store, system and [system])] if by else []
        with shown():
            show_tables(tables, as_json, layout)


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN [RUN]", help="Run directories.")],
    system: Annotated[
        list[str] | None, typer.Option(help="Only these systems, controls too; repeatable.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Only these, or a pattern like 'w1_*'; repeatable.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Significance level of the letters.")] = 0.05,
    matched: Annotated[
        bool, typer.Option("--matched", help="Subsample all systems to the same number of draws.")
    ] = False,
    interval: IntervalOption = DEFAULT_METHOD,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Do systems differ? Paired differences on common items, with tests.

    Example: `aleatoric compare runs/gpt2 runs/bloom --metric overlap`
    """
    from aleatoric.report.comparisons import comparison_tables
    from aleatoric.studies import compare as comparing

    if not 0 < alpha < 1:
        raise UsageError(
            f"--alpha {alpha:g} is no significance level; use a number between 0 and 1, as 0.05."
        )
    check_named_once(runs)
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.open(run)) for run in runs]
        for store in stores:
            base.score(store, base.Monitor(track), again=False)
        compared = comparing.compare(
            stores, system or (), metric or (), alpha, seed, interval, matched=matched
        )
    show_tables(comparison_tables(compared), as_json, layout, compared.as_dict())
    for note in () if as_json else compared.notes:
        say(f"note: {note}")


RunsArgument = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Run directories, of any levels.")
]
InputsOption = Annotated[
    list[str] | None,
    typer.Option("--input", help="Text level: show this input on the page; repeatable."),
]


def report(
    runs: RunsArgument,
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page.")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Draw figures (PDF, SVG, PNG) and tables into this folder.")
    ] = None,
    inputs: InputsOption = None,
) -> None:
    """Write pages, figures and tables of saved runs.

    Example: `aleatoric report runs/gpt2 runs/bloom --html report.html --figures figures`
    """
    from aleatoric.report.page import make_report

    if html is None and figures is None:
        raise UsageError("nothing to write: give --html FILE, --figures DIR or both.")
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.open(run)) for run in dict.fromkeys(runs)]
        for path in make_report(stores, html, figures, track, tuple(inputs or ())):
            say(f"wrote {path}")


def view(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories.")],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
    tagger: Annotated[
        str | None,
        typer.Option(help="Tag contexts to filter them by part of speech: textblob, spacy:NAME."),
    ] = None,
) -> None:
    """Explore runs of any size in the browser, also while they are written.

    Example: `aleatoric view runs/gpt2 runs/bloom`
    """
    from aleatoric.report.explorer.library import Library
    from aleatoric.report.explorer.server import Explorer

    check_named_once(runs)
    library = Library(runs, tagger)
    with Explorer(library, port) as explorer:
        library.start()
        print(explorer.url, flush=True)
        say("open this address in a browser of this machine; Ctrl-C ends the explorer.")
        if not no_browser and _has_screen():
            webbrowser.open(explorer.url)
        try:
            explorer.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            library.stop()


def _has_screen() -> bool:
    """Whether a browser window can be opened; a text browser would take over the terminal."""
    has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(has_display) or sys.platform in ("darwin", "win32")
