"""The command line: parse, call, print. Commands are imported when they are called."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer
from typer import Typer
from typer.core import TyperCommand, TyperGroup

import aleatoric
from aleatoric import registry
from aleatoric.cli import printing
from aleatoric.cli.options import Output, SeedOption, check_named_once, prints_results
from aleatoric.cli.printing import byte_bar, monitored, say, show_run, show_tables, shown, track
from aleatoric.errors import AleatoricError, UsageError

SUMMARIES = {
    "text": "Whole texts: does a generator vary as people do?",
    "token": "Reference tokens: is the model's distribution calibrated?",
    "word": "Next words: does the model spread its probability as people do?",
    "resume": "Resume an interrupted run; finished work is not repeated.",
    "score": "Show the results of a saved run; needs no model.",
    "compare": "Do systems differ? Paired differences on common items, with tests.",
    "report": "Write pages, figures and tables of saved runs.",
    "view": "Explore runs of any size in the browser, also while they are written.",
    "plan": "Plan how many people, samples and contexts a target needs, or what a run costs.",
    "finetune": "Fine-tune a model on people's answers and test it on passages it never saw.",
    "finetune-text": "Fine-tune a text generator on people's texts, and test it on other inputs.",
}
"""Command -> the first line of its help; a test compares it with the help itself."""
_SAVED = ("score", "compare", "report", "view", "plan")


class LazyCommand(TyperCommand):
    """A command that is known by its name and summary until it is called."""

    def __init__(self, name: str, summary: str, function: Callable[[], Callable[..., None]]):
        super().__init__(name, short_help=summary)
        self._function = function
        del self.help, self.params  # those of the command itself are meant

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loaded, name)

    @cached_property
    def loaded(self) -> Any:
        """The command itself."""
        from typer.main import get_command

        app = Typer(add_completion=False, rich_markup_mode="markdown")
        app.command(name=self.name)(self._function())
        return get_command(app)

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        """Parse the arguments of the command itself."""
        return self.loaded.make_context(*arguments, **named)


class LazyGroup(TyperGroup):
    """The commands of the command line: those given, and those that are imported when called."""

    def __init__(self, *, commands: Any = None, **attributes: Any) -> None:
        given: dict[str, Any] = commands or {}
        groups = {name: c for name, c in given.items() if isinstance(c, TyperGroup)}
        ours = {name: c for name, c in given.items() if name not in groups}
        super().__init__(commands=ours | lazy_commands() | groups, **attributes)

    def invoke(self, ctx: Any) -> Any:
        """Call the command; typer ends one that is interrupted without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.stderr.write("stopped.\n")
            gc.freeze()  # otherwise the end looks for cycles in all that was computed
            raise


def lazy_commands() -> dict[str, LazyCommand]:
    """Return the commands of levels, then those of saved runs."""
    names = registry.names("levels")
    tuning = [name for name in names if name.startswith("finetune")]
    names = [*(name for name in names if name not in tuning), "resume", *_SAVED, *tuning]
    return {name: LazyCommand(name, _summary(name), partial(_function, name)) for name in names}


def _summary(name: str) -> str:
    """Return the first line of a command's help; a level of another package is imported for it."""
    return SUMMARIES.get(name) or str(_function(name).__doc__).strip().partition("\n")[0]


def _function(name: str) -> Callable[..., None]:
    """Import the function of a command."""
    if name in _SAVED:
        module = import_module("aleatoric.cli.jobs" if name == "plan" else "aleatoric.cli.saved")
        return cast(Callable[..., None], getattr(module, name))
    from aleatoric.cli import jobs
    from aleatoric.levels.base import find_level

    return jobs.resume_command() if name == "resume" else jobs.level_command(find_level(name))


app = typer.Typer(
    name="aleatoric",
    cls=LazyGroup,
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
        from aleatoric.reporting.tables import printable

        one_line = printable(str(error)).replace("\n", " ")
        sys.stderr.write(f"error: {one_line}\n")
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.stderr.write("stopped.\n")
        sys.exit(130)


class _Ended(BaseException):
    """SIGTERM; unlike SystemExit, it is no error of a user's function."""


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end a command like an error: half-written files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> NoReturn:
        raise _Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _Ended:
        sys.exit(128 + signal.SIGTERM)
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
@prints_results
def demo(
    output: Output,
    out: Annotated[Path, typer.Option(help="Where the run and its report go.")] = Path("demo"),
    toy: Annotated[
        bool, typer.Option("--toy", help="A made-up language instead of SmolLM2; seconds.")
    ] = False,
    seed: SeedOption = 0,
) -> None:
    """Compare models with simulated people whose truth is known, and write a report.

    Example: `aleatoric demo`
    """
    from aleatoric import demo as simulation
    from aleatoric.inference.bootstrap import DEFAULT_METHOD
    from aleatoric.reporting.page import make_report

    run = simulation.run_toy if toy else simulation.run_smollm2
    with monitored(out / "run") as (_, monitor), run(out, seed, monitor) as store:
        results = show_run(store, DEFAULT_METHOD, output)
        for path in make_report([store], out / "report.html", None, track):
            say(f"wrote {path}")
    temperature = simulation.PLANTED
    smollm2 = (f"smollm2 {temperature}", f"SmolLM2 itself at {temperature}")
    planted = ("toy", "the model named toy") if toy else smollm2
    say(simulation.conclusion(results, *planted))
    say("With real people: aleatoric word --corpus answers.jsonl --model smollm2 --out runs/first")


@app.command(name="list")
@prints_results
def list_(
    output: Output,
    kind: Annotated[
        str | None, typer.Argument(help="metrics, corpora, models, probes, analyses, decoders, ...")
    ] = None,
) -> None:
    """List metrics, corpora, models and other things to choose from, and how to use them.

    Example: `aleatoric list metrics`
    """
    from aleatoric.reporting.catalog import KINDS, listing

    if kind is not None and kind not in KINDS:
        raise UsageError(f"there is no kind {kind!r}; the kinds are {', '.join(KINDS)}.")
    tables = [listing(name) for name in ([kind] if kind else KINDS)]
    show_tables(tables, output)


@app.command()
def fetch(
    corpus: Annotated[str, typer.Argument(help="What to download: provo, asset, gemma3-270m, ...")],
    url: Annotated[str | None, typer.Option(help="Another address of the same file.")] = None,
    sha256: Annotated[str | None, typer.Option(help="The checksum it must have.")] = None,
    to: Annotated[Path | None, typer.Option(help="A folder; by default the cache.")] = None,
) -> None:
    """Download a published corpus, or Gemma 3 270M; an interrupted download is resumed.

    Example: `aleatoric fetch provo`
    """
    from aleatoric.data import fetch as downloads
    from aleatoric.data.files import cache_dir

    if corpus == downloads.GEMMA3:
        from aleatoric.models.gguf import fetch_gemma3

        downloads.check_no_address(corpus, 4, url, sha256)
        path = fetch_gemma3(to or cache_dir())
        say(f"{path} is here and verified (Gemma Terms of Use); use --model gguf:{path}")
        return
    for download in downloads.files_of(corpus, url, sha256):
        with byte_bar(download.filename) as progress:
            path = downloads.fetch(download, to or cache_dir(), progress)
        downloads.unpack(path, download.members)
        state = "is here and verified" if download.sha256 else "is here, its checksum beside it"
        say(f"{path} {state} ({download.licence}, {download.page})")


@reproduce_app.command(name="next-word")
@prints_results
def reproduce_next_word(
    output: Output,
    data: Annotated[Path, typer.Option(help="A folder with Provo and recorded systems.")],
    seed: SeedOption = 0,
) -> None:
    """Reproduce Table 1 of "Predict the Next Word": printed, as published, and corrected.

    Example: `aleatoric reproduce next-word --data recordings/`
    """
    from aleatoric.studies import next_word_paper

    lines = next_word_paper.reproduce(data, seed, track)
    document = {"results": [line.to_dict() for line in lines]}
    show_tables([next_word_paper.to_table(lines)], output, document)


@reproduce_app.command(name="e-ece")
@prints_results
def reproduce_e_ece(
    output: Output,
    data: Annotated[Path, typer.Option(help="The folder of Multi30K's parallel text.")],
    rows: Annotated[
        Path | None,
        typer.Option(
            help="rows-*.npz of the recipe; by default those in DATA or recipes/multi30k."
        ),
    ] = None,
    bins: Annotated[int, typer.Option(min=1, max=1000, help="Bins of confidence.")] = 15,
    seed: SeedOption = 0,
) -> None:
    """Reproduce Tables 1 to 4 of the e-ECE paper for Multi30K DE→EN: printed, and ours.

    Example: `aleatoric reproduce e-ece --data parallel/ --rows multi30k/rows-loss.npz`
    """
    from aleatoric.studies import e_ece_paper

    tables, document = e_ece_paper.reproduce(data, rows, bins, seed)
    show_tables(tables, output, document)


@reproduce_app.command(name="production")
@prints_results
def reproduce_production(
    output: Output,
    data: Annotated[Path, typer.Option(help="A folder with ASSET, WMT'14 or other texts.")],
    protocol: Annotated[str, typer.Option(help="paper, corrected or both.")] = "both",
    probe: Annotated[
        list[str] | None,
        typer.Option(
            help="lexical-1, syntactic-2, semantic, ...; repeatable. By default those of the "
            "tables that can run."
        ),
    ] = None,
    splits: Annotated[int, typer.Option(min=1, max=10_000, help="Splits of the people.")] = 20,
    scores: Annotated[
        Path | None, typer.Option(help="A folder with the authors' score files, unpacked.")
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(help="A text run on one of these corpora, as further rows; repeatable."),
    ] = None,
    recorded: Annotated[
        Path | None, typer.Option(help="Recorded pair distances; by default those near the data.")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Print every pair distance too.")] = False,
    seed: SeedOption = 0,
) -> None:
    """Reproduce Tables 1 to 5 of "What Comes Next?": printed, and ours where the data is here.

    Example: `aleatoric reproduce production --data texts/ --protocol paper`
    """
    from aleatoric.levels import base
    from aleatoric.levels.text_variability import Splitting
    from aleatoric.runs.run import Store
    from aleatoric.studies import production_paper

    protocols, splitting = production_paper.chosen_protocols(protocol), Splitting(seed, splits)
    check_named_once(run or [])
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.open(path)) for path in run or ()]
        sources = production_paper.Sources.find(data, scores, stores)
        recorded = recorded or production_paper.find_recorded(data)
        for store in stores:
            base.check_scored(store, base.Monitor(track))
        reproduction = production_paper.reproduce(
            sources, protocols, probe or None, splitting, recorded, track
        )
    listed = production_paper.pair_tables(reproduction.pairs) if pairs else []
    tables = [*production_paper.to_tables(reproduction), *listed]
    show_tables(tables, output, production_paper.to_document(reproduction))


if __name__ == "__main__":
    main()
