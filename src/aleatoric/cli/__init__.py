"""The command line: parse, call, print. No logic lives here."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

import aleatoric
from aleatoric import registry
from aleatoric.cli import printing
from aleatoric.cli.jobs import level_command, resume_command
from aleatoric.cli.options import FormatOption, JsonOption, SeedOption
from aleatoric.cli.plan import plan_command
from aleatoric.cli.printing import byte_bar, monitored, say, show_run, show_tables, shown, track
from aleatoric.cli.saved import compare, report, score, view
from aleatoric.errors import AleatoricError, UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.levels.base import find_level
from aleatoric.report.tables import printable

app = typer.Typer(
    name="aleatoric",
    help="Does a language model's uncertainty match the variability of people?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
reproduce_app = typer.Typer(no_args_is_help=True, help="Reproduce the papers' tables.")
app.add_typer(reproduce_app, name="reproduce")


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit status 2."""
    # Scoring makes millions of small objects and no cycles: collecting took a quarter of it.
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
    """Let SIGTERM end a command like an error: half-written files are removed."""
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
def demo(
    out: Annotated[Path, typer.Option(help="Where the run and its report go.")] = Path("demo"),
    toy: Annotated[
        bool, typer.Option("--toy", help="A made-up language instead of SmolLM2; seconds.")
    ] = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Compare models with simulated people whose truth is known, and write a report.

    Example: `aleatoric demo`
    """
    from aleatoric import demo as simulation
    from aleatoric.report.page import make_report

    run = simulation.run_toy if toy else simulation.run_smollm2
    with monitored(out / "run") as (_, monitor), run(out, seed, monitor) as store:
        results = show_run(store, DEFAULT_METHOD, as_json, layout)
        for path in make_report([store], out / "report.html", None, track):
            say(f"wrote {path}")
    smollm2 = (simulation.PLANTED_SYSTEM, f"SmolLM2 itself at {simulation.PLANTED}")
    planted = (simulation.TOY_SYSTEM, "the model named toy") if toy else smollm2
    say(simulation.conclusion(results, *planted))
    say(simulation.NEXT_STEP)


@app.command(name="list")
def list_(
    kind: Annotated[str | None, typer.Argument(help="corpora, models, metrics, ...")] = None,
) -> None:
    """List corpora, models, metrics and other plugins.

    Example: `aleatoric list corpora`
    """
    if kind is not None and kind not in registry.PLUGINS:
        kinds = ", ".join(registry.PLUGINS)
        raise UsageError(f"there is no kind {kind!r}; the kinds are {kinds}.")
    for name in [kind] if kind else registry.PLUGINS:
        print(printable(f"{name}: {', '.join(registry.names(name))}"))


@app.command()
def fetch(
    corpus: Annotated[str, typer.Argument(help="What to download: provo, asset, wmt14-10ref, ...")],
    url: Annotated[str | None, typer.Option(help="Another address of the same file.")] = None,
    sha256: Annotated[str | None, typer.Option(help="The checksum it must have.")] = None,
    to: Annotated[Path | None, typer.Option(help="A folder; by default the cache.")] = None,
) -> None:
    """Download a published corpus; an interrupted download is resumed.

    Example: `aleatoric fetch provo`
    """
    from aleatoric.data import fetch as downloads
    from aleatoric.data.files import cache_dir

    for download in downloads.files_of(corpus, url, sha256):
        with byte_bar(download.filename) as progress:
            path = downloads.fetch(download, to or cache_dir(), progress)
        downloads.unpack(path, download.members)
        state = "is here and verified" if download.sha256 else "is here, its checksum beside it"
        say(f"{path} {state} ({download.licence}, {download.page})")


@reproduce_app.command(name="next-word")
def reproduce_next_word(
    data: Annotated[Path, typer.Option(help="A folder with Provo and recorded systems.")],
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Reproduce Table 1 of "Predict the Next Word": printed, as published, and corrected.

    Example: `aleatoric reproduce next-word --data recordings/`
    """
    from aleatoric.studies import next_word_paper

    lines = next_word_paper.reproduce(data, seed, track)
    document = {"results": [line.as_dict() for line in lines]}
    show_tables([next_word_paper.to_table(lines)], as_json, layout, document)


@reproduce_app.command(name="e-ece")
def reproduce_e_ece(
    data: Annotated[Path, typer.Option(help="The folder of Multi30K's parallel text.")],
    rows: Annotated[
        Path | None,
        typer.Option(
            help="rows-*.npz of the recipe; by default those in DATA or recipes/multi30k."
        ),
    ] = None,
    bins: Annotated[int, typer.Option(min=1, max=1000, help="Bins of confidence.")] = 15,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Reproduce Tables 1 to 4 of the e-ECE paper for Multi30K DE→EN: printed, and ours.

    Example: `aleatoric reproduce e-ece --data parallel/ --rows multi30k/rows-loss.npz`
    """
    from aleatoric.studies import e_ece_paper

    reproduction = e_ece_paper.reproduce(data, rows, bins, seed)
    document = {"results": [line.as_dict() for line in reproduction.lines]}
    show_tables(list(reproduction.tables), as_json, layout, document)


@reproduce_app.command(name="production")
def reproduce_production(
    data: Annotated[Path, typer.Option(help="A folder with ASSET, WMT'14 or other texts.")],
    protocol: Annotated[str, typer.Option(help="paper, corrected or both.")] = "both",
    probe: Annotated[
        list[str] | None, typer.Option(help="lexical-1, syntactic-2, semantic, ...; repeatable.")
    ] = None,
    splits: Annotated[int, typer.Option(min=1, max=10_000, help="Splits of the people.")] = 20,
    recorded: Annotated[
        Path | None, typer.Option(help="Recorded pair distances; by default those near the data.")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Print every pair distance too.")] = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Reproduce the human control of "What Comes Next?" (Tables 2 to 5).

    Example: `aleatoric reproduce production --data texts/ --protocol paper`
    """
    from aleatoric.levels.text_variability import Splitting
    from aleatoric.studies import production_paper

    protocols = production_paper.chosen_protocols(protocol)
    probes, splitting = tuple(probe or production_paper.PROBES), Splitting(seed, splits)
    reproduction = production_paper.reproduce(data, protocols, probes, splitting, recorded, track)
    listed = production_paper.pair_tables(reproduction.pairs) if pairs else []
    tables = [*production_paper.to_tables(reproduction), *listed]
    show_tables(tables, as_json, layout, reproduction.as_dict())


for _level in registry.names("levels"):
    if _level != "finetune":
        app.command(name=_level)(level_command(find_level(_level)))
app.command()(resume_command())
for _command in (
    score,
    compare,
    report,
    view,
    plan_command(),
    level_command(find_level("finetune")),
):
    app.command()(_command)


if __name__ == "__main__":
    main()
