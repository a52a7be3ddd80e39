"""The command line: parse, call, print. No logic lives here."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

import aleatoric
from aleatoric import registry
from aleatoric.cli import printing
from aleatoric.cli.compare import compare
from aleatoric.cli.finetune import finetune
from aleatoric.cli.jobs import level_command
from aleatoric.cli.options import (
    FormatOption,
    IntervalOption,
    JsonOption,
    OwnProbeOption,
    SeedOption,
)
from aleatoric.cli.plan import plan
from aleatoric.cli.printing import (
    byte_bar,
    monitored,
    print_json,
    say,
    show_results,
    show_run,
    show_tables,
    shown,
    track,
)
from aleatoric.cli.reproduce import reproduce_e_ece, reproduce_production
from aleatoric.cli.resume import resume
from aleatoric.cli.view import view
from aleatoric.errors import AleatoricError, UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.levels.base import find_level
from aleatoric.probes.base import check_known_probes, probe_options
from aleatoric.report.tables import printable

if TYPE_CHECKING:
    from aleatoric.runs import Store

app = typer.Typer(
    name="aleatoric",
    help="Does a language model's uncertainty match the variability of people?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
reproduce_app = typer.Typer(no_args_is_help=True, help="The papers' tables beside ours.")
app.add_typer(reproduce_app, name="reproduce")


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit status 2."""
    # Scoring makes millions of small objects and no cycles: looking for some took a quarter of it.
    gc.set_threshold(200_000, 20, 100)
    printing.prepare()
    try:
        with _ended_by_sigterm(), shown():
            app()
    except AleatoricError as error:
        one_line = printable(str(error)).replace("\n", " ")
        sys.stderr.write(f"error: {one_line}\n")
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.stderr.write("stopped.\n")
        sys.exit(130)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end a command as an error does: files that are half written are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(aleatoric.__version__)
        raise typer.Exit


@app.command()
def score(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
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
    probe: OwnProbeOption = None,
    interval: IntervalOption = DEFAULT_METHOD,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Score a saved run again; needs no model.

    Examples: `aleatoric score runs/gpt2 --export rows.parquet --analysis replacement`,
    `aleatoric score runs/gpt2 --by agreement`
    """
    from aleatoric.levels import base
    from aleatoric.runs import Store

    check_method(interval)
    if by not in (None, "agreement"):
        raise UsageError(f"--by {by} is not known; use --by agreement.")
    with Store.open(run) as store:
        check_known_probes(probe or (), store.manifest.get("probes") or ())
        monitor = base.Monitor(track, allowed_probes=tuple(probe or ()))
        base.score(store, monitor, again=not analysis and not by)
        if names := base.refused_probes(store, probe or ()):
            say(f"note: not scored again; to call {', '.join(names)} add {probe_options(names)}")
        if export:
            _export(store, export)
        if by:
            from aleatoric.studies.by_agreement import by_agreement

            with shown():
                show_tables([by_agreement(store, system and [system])], as_json, layout)
        elif analysis:
            from aleatoric.levels.base import run_study

            found = [run_study(store, name, system, track) for name in analysis]
            with shown():
                show_tables([table for study in found for table in study.tables], as_json, layout)
        else:
            show_run(store, interval, as_json, layout)


def _export(store: Store, paths: list[Path]) -> None:
    from aleatoric.studies.export import export_rows

    for path in paths:
        export_rows(store, path)
        say(f"wrote {path}")


@app.command()
def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run directories, of any levels.")
    ],
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page.")] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Draw figures (PDF, SVG, PNG) and tables into this folder.")
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="Of texts: the page shows this input; repeatable."),
    ] = None,
) -> None:
    """Pages, figures and tables of saved runs.

    Example: `aleatoric report runs/gpt2 runs/bloom --html report.html --figures figures`
    """
    from contextlib import ExitStack

    from aleatoric.report.page import make_report
    from aleatoric.runs import Store

    if html is None and figures is None:
        raise UsageError("nothing to write: give --html FILE, --figures DIR or both.")
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.open(run)) for run in dict.fromkeys(runs)]
        for path in make_report(stores, html, figures, track, tuple(inputs or ())):
            say(f"wrote {path}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the run and its report go.")] = Path("demo"),
    toy: Annotated[
        bool, typer.Option("--toy", help="A made-up language instead of SmolLM2; seconds.")
    ] = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Simulated people with a known truth, models around it, and a report.

    Example: `aleatoric demo`
    """
    from aleatoric import demo as made
    from aleatoric.levels import base
    from aleatoric.report.page import make_report

    run = made.run_toy if toy else made.run_smollm2
    with monitored(out / "run") as (_, monitor), run(out, seed, monitor) as store:
        results = base.results(store)
        with shown():
            show_results(results, base.notes(store), as_json, layout)
        for path in make_report([store], out / "report.html", None, track):
            say(f"wrote {path}")
    planted = (
        (made.TOY_SYSTEM, "the model named toy")
        if toy
        else (made.PLANTED_SYSTEM, f"SmolLM2 itself at {made.PLANTED}")
    )
    say(made.conclusion(results, *planted))
    say(made.NEXT_STEP)


@app.command(name="list")
def list_(
    kind: Annotated[str | None, typer.Argument(help="corpora, models, metrics, ...")] = None,
) -> None:
    """What there is to choose from.

    Example: `aleatoric list corpora`
    """
    if kind is not None and kind not in registry.PLUGINS:
        known = ", ".join(registry.PLUGINS)
        raise UsageError(f"there is no kind {kind!r}; the kinds are {known}.")
    for one in [kind] if kind else registry.PLUGINS:
        print(printable(f"{one}: {', '.join(registry.names(one))}"))


@app.command()
def fetch(
    corpus: Annotated[str, typer.Argument(help="What to download: provo, asset, wmt14-10ref, ...")],
    url: Annotated[str | None, typer.Option(help="Another address of the same file.")] = None,
    sha256: Annotated[str | None, typer.Option(help="The checksum it must have.")] = None,
    to: Annotated[Path | None, typer.Option(help="A folder; else the cache.")] = None,
) -> None:
    """Download a published corpus; a broken download goes on where it stopped.

    Example: `aleatoric fetch provo`
    """
    from aleatoric.data import fetch
    from aleatoric.data import fetch as downloads
    from aleatoric.data.files import cache_dir

    for download in downloads.files_of(corpus, url, sha256):
        with byte_bar(download.filename) as progress:
            path = fetch.fetch(download, to or cache_dir(), progress)
        fetch.unpack(path, download.members)
        known = "is here and verified" if download.sha256 else "is here, its checksum beside it"
        say(f"{path} {known} ({download.licence}, {download.page})")


@reproduce_app.command(name="next-word")
def reproduce_next_word(
    data: Annotated[Path, typer.Option(help="A folder with Provo and recorded systems.")],
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Table 1 of "Predict the Next Word": printed, as published, and corrected.

    Example: `aleatoric reproduce next-word --data recordings/`
    """
    from aleatoric.studies import next_word_paper

    lines = next_word_paper.reproduce(data, seed, track)
    if as_json:
        print_json({"results": [line.as_dict() for line in lines]})
    else:
        show_tables([next_word_paper.to_table(lines)], False, layout)


for _level in registry.names("levels"):
    if _level != "finetune":
        app.command(name=_level)(level_command(find_level(_level)))
app.command()(resume)
app.command()(compare)
app.command()(plan)
app.command()(view)
app.command()(finetune)
reproduce_app.command(name="e-ece")(reproduce_e_ece)
reproduce_app.command(name="production")(reproduce_production)


if __name__ == "__main__":
    main()
