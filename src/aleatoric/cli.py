"""The command line: parse, call, print. No logic lives here."""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

import aleatoric
from aleatoric import registry
from aleatoric.errors import AleatoricError, UsageError
from aleatoric.report.tables import printable
from aleatoric.types import Table

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

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def _known_layout(layout: str) -> str:
    """Refuse a bad --format before the work, not after it."""
    from aleatoric.report.tables import FORMATS

    if layout not in ("terminal", *FORMATS):
        known = ", ".join(("terminal", *FORMATS))
        raise UsageError(f"there is no format {layout!r}; use {known}.")
    return layout


FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        help="terminal, markdown, latex or csv.",
        show_default=True,
        callback=_known_layout,
    ),
]
SeedOption = Annotated[int, typer.Option(help="The same seed gives the same bytes.")]


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit status 2."""
    # Scoring makes millions of small objects and no cycles: looking for some took a quarter of it.
    gc.set_threshold(200_000, 20, 100)
    try:
        app()
    except AleatoricError as error:
        one_line = printable(str(error)).replace("\n", " ")
        sys.stderr.write(f"error: {one_line}\n")
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.stderr.write("stopped.\n")
        sys.exit(1)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(aleatoric.__version__)
        raise typer.Exit


@app.command()
def word(
    corpus: Annotated[str, typer.Option(help="A corpus name, or a file of people's answers.")],
    model: Annotated[
        list[str] | None,
        typer.Option(help="smollm2, hf:NAME, gguf:FILE, recorded:FILE, toy; repeatable."),
    ] = None,
    decoder: Annotated[list[str] | None, typer.Option(help="How to decode; repeatable.")] = None,
    estimator: Annotated[
        str, typer.Option(help="Of live models: exact, or mc (sampled).")
    ] = "exact",
    samples: Annotated[int, typer.Option(min=1, max=10**7, help="Draws a context, for mc.")] = 1000,
    tolerance: Annotated[
        float, typer.Option(min=0, help="How far apart the bounds of an exact TVD may be.")
    ] = 0.02,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, ...; a GPU if there is.")] = None,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    bos: Annotated[str, typer.Option(help="Beginning-of-text token: none or add.")] = "none",
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the code of a model's repository.")
    ] = False,
    protocol: Annotated[str, typer.Option(help="corrected, or paper as published.")] = "corrected",
    choose: Annotated[
        list[str] | None, typer.Option(help="One choice of the protocol, as bins=half-open.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Also tvd_syn or tvd_sem; repeatable.")
    ] = None,
    tagger: Annotated[str, typer.Option(help="For tvd_syn: textblob, nltk, spacy:NAME.")] = (
        "textblob"
    ),
    embedder: Annotated[
        str, typer.Option(help="For tvd_sem: minilm, wordllama, vectors:FILE.")
    ] = "minilm",
    splits: Annotated[
        int, typer.Option(min=1, max=10_000, help="Random splits of the people.")
    ] = 20,
    seed: SeedOption = 0,
    encoding: Annotated[str, typer.Option(help="Of the corpus file.")] = "utf-8",
    out: Annotated[Path | None, typer.Option(help="Keep the run in this directory.")] = None,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Next words: does the model spread its probability as people do?

    Example: `aleatoric word --corpus answers.jsonl --model recorded:gpt2.jsonl --out runs/gpt2`
    """
    from aleatoric import pipeline
    from aleatoric.engine.opening import Loading

    job = pipeline.WordJob(
        corpus,
        tuple(model or ()),
        tuple(decoder or ("ancestral",)),
        samples,
        Loading(estimator, dtype, device, bos, trust_remote_code),
        tolerance,
        pipeline.choose(protocol, choose or ()),
        tuple(metric or ()),
        tagger,
        embedder,
        splits,
        seed,
        encoding,
    )
    with _run_folder(out) as folder, pipeline.run_word(job, folder, _track) as store:
        _show_results(pipeline.results(store), pipeline.notes(store), as_json, layout)
        if out is not None:
            _say(f"saved in {out}; see it again with: aleatoric score {out}")


@app.command()
def score(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    export: Annotated[
        list[Path] | None, typer.Option(help="Write per-item rows to FILE.parquet or FILE.csv.")
    ] = None,
    analysis: Annotated[
        list[str] | None, typer.Option(help="Run a study: see aleatoric list analyses.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="The system a study looks at.")] = None,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Score a saved run again; needs no model.

    Example: `aleatoric score runs/gpt2 --export rows.parquet --analysis replacement`
    """
    from aleatoric import pipeline, studies
    from aleatoric.export import export_rows
    from aleatoric.store import Store

    with Store.open(run) as store:
        # A study reads draws: statistics that are there need not be computed again for it.
        if not analysis or not store.has_stats():
            pipeline.score_word(store, _track)
        for path in export or ():
            export_rows(store, path)
            _say(f"wrote {path}")
        if analysis:
            found = [studies.run_study(store, name, system, _track) for name in analysis]
            _show_tables([table for study in found for table in study.tables], as_json, layout)
        else:
            _show_results(pipeline.results(store), pipeline.notes(store), as_json, layout)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Draw figures into this folder.")] = None,
) -> None:
    """Pages and figures of a saved run.

    Example: `aleatoric report runs/gpt2 --html report.html --figures figures`
    """
    from aleatoric.report.make import make_report
    from aleatoric.store import Store

    if html is None and figures is None:
        raise UsageError("nothing to write: give --html FILE, --figures DIR or both.")
    with Store.open(run) as store:
        for path in make_report(store, html, figures, _track):
            _say(f"wrote {path}")


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
    from aleatoric import pipeline
    from aleatoric.report.make import make_report

    run = made.run_toy if toy else made.run_smollm2
    with run(out, seed, _track) as store:
        _show_results(pipeline.results(store), pipeline.notes(store), as_json, layout)
        for path in make_report(store, out / "report.html", None, _track):
            _say(f"wrote {path}")
    _say(made.ABOUT_TOY if toy else made.ABOUT_SMOLLM2)
    _say(made.NEXT_STEP)


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
        print(f"{one}: {', '.join(registry.names(one))}")


@app.command()
def fetch(
    corpus: Annotated[str, typer.Argument(help="What to download: provo.")],
    url: Annotated[str | None, typer.Option(help="Another address of the same file.")] = None,
    sha256: Annotated[str | None, typer.Option(help="The checksum it must have.")] = None,
    to: Annotated[Path | None, typer.Option(help="A folder; else the cache.")] = None,
) -> None:
    """Download a published corpus; a broken download goes on where it stopped.

    Example: `aleatoric fetch provo`
    """
    from aleatoric import fetch as downloads
    from aleatoric.cache import cache_dir

    download = downloads.named(corpus, url, sha256)
    with _byte_bar(download.filename) as progress:
        path = downloads.fetch(download, to or cache_dir(), progress)
    _say(f"{path} is here and verified ({download.licence}, {download.page})")


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
    from aleatoric.reproduce import next_word

    lines = next_word.reproduce(data, seed, _track)
    if as_json:
        _print_json({"results": [line.as_dict() for line in lines]})
    else:
        _show_tables([next_word.to_table(lines)], False, layout)


@contextmanager
def _run_folder(out: Path | None) -> Iterator[Path]:
    """The asked-for directory, or one that is gone afterwards."""
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "run"


def _show_results(results: list[Any], notes: list[str], as_json: bool, layout: str) -> None:
    from aleatoric.report.view import word_table

    if as_json:
        _print_json({"results": [result.as_dict() for result in results], "notes": notes})
        return
    _show_tables([word_table(results)], False, layout)
    for note in notes:
        _say(f"note: {note}")


def _show_tables(tables: list[Table], as_json: bool, layout: str) -> None:
    from aleatoric.report import tables as render

    if as_json:
        _print_json({"tables": [table.__dict__ for table in tables]})
        return
    for table in tables:
        if layout == "terminal":
            Console(width=None if sys.stdout.isatty() else 160).print(render.to_rich(table))
        else:
            print(render.FORMATS[layout](table))


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1))


def _say(text: str) -> None:
    Console(stderr=True, highlight=False).print(escape(printable(text)), soft_wrap=True)


@contextmanager
def _byte_bar(description: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar of bytes on stderr where somebody is looking."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    shown = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with shown as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _track(work: Iterable[Any], total: int, description: str) -> Iterable[Any]:
    """A progress bar on stderr where somebody is looking."""
    from rich.progress import track

    console = Console(stderr=True)
    return track(
        work, description, total, console=console, transient=True, disable=not console.is_terminal
    )


if __name__ == "__main__":
    main()
