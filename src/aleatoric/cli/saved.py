"""Commands that read saved runs: score, compare, report, view."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import aleatoric.cli.options as options
from aleatoric.cli.options import Output, prints_results
from aleatoric.cli.printing import say, show_lines, show_run, show_tables, shown, track
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.levels import base
from aleatoric.probes.base import check_known_probes, probe_options
from aleatoric.runs.run import Store

if TYPE_CHECKING:
    from aleatoric.studies.compare import Compared
    from aleatoric.studies.tasks import ComparedTasks


@prints_results
def score(
    output: Output,
    run: options.RunArgument,
    export: Annotated[
        list[Path] | None, Option(help="Write per-item rows to FILE.parquet or FILE.csv.")
    ] = None,
    export_texts: Annotated[
        list[Path] | None,
        Option(help="Text level: write one row per text to FILE.parquet or FILE.csv."),
    ] = None,
    export_pairs: Annotated[
        list[Path] | None,
        Option(help="Text level: write the distance of every pair to FILE.parquet or FILE.csv."),
    ] = None,
    analysis: Annotated[
        list[str] | None, Option(help="Run a study: see aleatoric list analyses.")
    ] = None,
    system: Annotated[str | None, Option(help="The system that a study or --by looks at.")] = None,
    by: Annotated[
        str | None,
        Option(help="agreement: the leading metrics by quartiles of human agreement."),
    ] = None,
    again: Annotated[
        bool, Option("--again", help="Score it again even if this version has scored it.")
    ] = False,
    beside: options.BesideOption = None,
    probe: options.AllowedProbeOption = None,
    interval: options.IntervalOption = DEFAULT_METHOD,
) -> None:
    """Show the results of a saved run; needs no model.

    A run that is not finished, or that another version of aleatoric scored, is scored again.

    Examples: `aleatoric score runs/gpt2 --export rows.parquet --analysis replacement`,
    `aleatoric score runs/gpt2 --by agreement`
    """
    check_method(interval)
    if beside and (by or analysis):
        raise UsageError("--beside shows all results; give it without --by and --analysis.")
    if by not in (None, "agreement"):
        raise UsageError(f"--by {by} is not known; use --by agreement.")
    with Store.open(run) as store:
        if beside:
            from aleatoric.studies.production_rows import check_run

            check_run(store)
        check_known_probes(probe or (), store.manifest.get("probes") or ())
        monitor = base.Monitor(track, allowed_probes=tuple(probe or ()))
        if again or analysis or by:
            base.score(store, monitor, again)
        else:
            base.check_scored(store, monitor)
        if names := base.refused_probes(store, probe or ()):
            say(f"note: not scored again; to call {', '.join(names)} add {probe_options(names)}")
        _export(store, (export, export_texts, export_pairs), tuple(probe or ()))
        if not by and not analysis:
            show_run(store, interval, output, beside)
            return
        studies = [] if by else analysis or []
        tables = [t for name in studies for t in base.run_study(store, name, system, track).tables]
        if by:
            from aleatoric.studies.by_agreement import by_agreement

            tables.append(by_agreement(store, system and [system]))
        with shown():
            show_tables(tables, output)
        for note in base.unfinished_notes(store):
            say(f"note: {note}")


def _export(
    store: Store, paths: tuple[list[Path] | None, ...], allowed_probes: tuple[str, ...]
) -> None:
    """Write rows, texts and pairs of texts to the paths given for each."""
    if not any(paths):
        return
    from aleatoric.studies import export

    of_pairs = partial(export.pair_rows, allowed_probes=allowed_probes)
    sources: tuple[Callable[[Store], export.Rows], ...]
    sources = export.item_rows, export.text_rows, of_pairs
    for rows_of, listed in zip(sources, paths, strict=True):
        for path in listed or ():
            export.write(rows_of(store), path)
            say(f"wrote {path}")


@prints_results
def compare(
    output: Output,
    runs: Annotated[list[Path], Argument(metavar="RUN [RUN]", help="Run directories.")],
    system: Annotated[
        list[str] | None, Option(help="Only these systems, controls too; repeatable.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        Option(
            help="Only these, or a pattern like 'w1_*'; repeatable. By default the leading ones."
        ),
    ] = None,
    alpha: Annotated[float, Option(help="Significance level of the letters.")] = 0.05,
    matched: Annotated[
        bool, Option("--matched", help="Subsample all systems to the same number of draws.")
    ] = False,
    interval: options.IntervalOption = DEFAULT_METHOD,
    seed: options.SeedOption = 0,
) -> None:
    """Do systems differ? Paired differences on common items, with tests.

    Text runs of several corpora are compared as tasks: people, and each system, between tasks.

    Example: `aleatoric compare runs/gpt2 runs/bloom --metric overlap`
    """
    from aleatoric.studies.tasks import compare_runs

    if not 0 < alpha < 1:
        problem = f"--alpha {alpha:g} is no significance level"
        raise UsageError(f"{problem}; use a number between 0 and 1, as 0.05.")
    options.check_named_once(runs)
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.open(run)) for run in runs]
        for store in stores:
            base.score(store, base.Monitor(track), again=False)
        compared = compare_runs(
            stores,
            system or (),
            metric or (),
            alpha,
            seed,
            interval,
            matched=matched,
            only_leading=not output.shows_all,
        )
    _show_compared(compared, output)
    for note in () if output.as_json else compared.notes:
        say(f"note: {note}")


def _show_compared(compared: Compared | ComparedTasks, output: Output) -> None:
    """Print the tables of a comparison of systems, or of tasks, and what they say."""
    from aleatoric.reporting import comparisons
    from aleatoric.studies.compare import Compared

    document = compared.to_dict()
    if isinstance(compared, Compared):
        data = [comparisons.comparison_data(compared)]
        show_tables(comparisons.comparison_tables(compared), output, document, data)
        show_lines(comparisons.summary(compared), output)
        return
    intervals = output.layout != "terminal"
    shown = comparisons.task_tables(compared, output.shows_all, intervals)
    show_tables(shown, output, document, comparisons.task_data(compared))
    show_lines(comparisons.task_summary(compared), output)


def report(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="Run directories, of any levels.")],
    html: Annotated[Path | None, Option(help="Write one self-contained page.")] = None,
    figures: Annotated[
        Path | None, Option(help="Draw figures (PDF, SVG, PNG) and tables into this folder.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        Option("--input", help="Text level: show this input on the page; repeatable."),
    ] = None,
) -> None:
    """Write pages, figures and tables of saved runs.

    Example: `aleatoric report runs/gpt2 runs/bloom --html report.html --figures figures`
    """
    from aleatoric.reporting.page import make_report

    if html is None and figures is None:
        raise UsageError("nothing to write: give --html FILE, --figures DIR or both.")
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.open(run)) for run in dict.fromkeys(runs)]
        for path in make_report(stores, html, figures, track, tuple(inputs or ())):
            say(f"wrote {path}")


def view(
    runs: Annotated[
        list[Path], Argument(metavar="RUN...", help="Run directories, or folders of runs.")
    ],
    port: Annotated[
        int, Option(min=0, max=65535, help="Listen on this port; 0 takes a free one.")
    ] = 0,
    no_browser: Annotated[bool, Option("--no-browser", help="Only print the address.")] = False,
    tagger: Annotated[
        str | None,
        Option(help="Tag contexts to filter them by part of speech: textblob, spacy:NAME."),
    ] = None,
) -> None:
    """Explore runs of any size in the browser, also while they are written.

    Example: `aleatoric view runs`, or `aleatoric view runs/gpt2 runs/bloom`
    """
    from aleatoric.reporting.explorer.library import Library, find_runs
    from aleatoric.reporting.explorer.server import Explorer

    options.check_named_once(runs)
    library = Library(list(dict.fromkeys(find_runs(runs, say))), tagger)
    with Explorer(library, port) as explorer:
        library.start()
        print(explorer.url, flush=True)
        say("open this address in a browser of this machine; Ctrl-C ends the explorer.")
        # A text browser would take over the terminal.
        has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if not no_browser and (has_display or sys.platform in ("darwin", "win32")):
            webbrowser.open(explorer.url)
        try:
            explorer.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            library.stop()
