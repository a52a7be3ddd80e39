"""What commands print: results on stdout, everything else on stderr."""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from aleatoric.cli.options import Output
from aleatoric.errors import StorageError

if TYPE_CHECKING:
    from rich.console import Console

    from aleatoric.levels.base import Monitor
    from aleatoric.registry import Advance
    from aleatoric.result_types import Result, Table
    from aleatoric.runs.run import Store


def show_run(
    store: Store, interval: str, output: Output, beside: str | None = None
) -> Sequence[Result]:
    """Print and return a run's results: as one JSON document, or as tables, notes on stderr.

    With `beside="paper"`, tables of the paper with the systems of the run follow.
    """
    from aleatoric.levels.base import level_of
    from aleatoric.reporting.tables import as_data, results_data
    from aleatoric.reporting.views import view_of_run

    view, level = view_of_run(store), level_of(store)
    results, notes = level.results(store, interval), level.notes(store)
    printed, rows = _beside_paper(store, results) if beside else ([], [])
    if output.as_json:
        further = {"beside": rows} if beside else {}
        with shown():
            print_json(view.document(store, results, interval) | {"notes": notes} | further)
        return results
    tables, lines = view.printed(store, results, interval, output.shows_all)
    with shown():
        data = [results_data(results), *map(as_data, printed)]
        show_tables([*tables, *printed], output, data=data)
        show_lines(lines, output)
    for note in notes:
        say(note if note.startswith("warning: ") else f"note: {note}")
    return results


def _beside_paper(
    store: Store, results: Sequence[Result]
) -> tuple[list[Table], list[dict[str, Any]]]:
    """Return the tables of the paper with the systems of a run, and their rows as JSON."""
    from aleatoric.studies.production_rows import beside_paper, rows_beside

    return beside_paper(store, results), [row.to_dict() for row in rows_beside(store, results)]


def show_tables(
    tables: Sequence[Table],
    output: Output,
    document: dict[str, Any] | None = None,
    data: Sequence[Table] = (),
) -> None:
    """Print tables, their `data` with one number per cell, or a JSON `document`."""
    from aleatoric.reporting import tables as render

    if output.as_json:
        names = ("title", "columns", "rows", "notes")
        listed = [{name: getattr(table, name) for name in names} for table in tables]
        print_json(document or {"tables": listed})
    elif output.layout == "terminal":
        _print_tables(tables, output.wide)
    elif output.layout in ("csv", "json"):
        rows = data or [render.as_data(table) for table in tables]
        print(getattr(render, f"tables_to_{output.layout}")(rows))
    else:
        print("\n\n".join(map(getattr(render, f"to_{output.layout}"), tables)))


def _print_tables(tables: Sequence[Table], wide: bool) -> None:
    from aleatoric.reporting.tables import to_rich

    console = _console()
    for table in tables:
        console.print(to_rich(table, console.width, wide), crop=False)
        console.print()


def show_lines(lines: Iterable[str], output: Output) -> None:
    """Print sentences below tables in a terminal, wrapped to its width."""
    from rich.text import Text

    from aleatoric.reporting.tables import printable

    if output.layout == "terminal" and not output.as_json:
        for line in filter(None, lines):
            _console().print(Text(printable(line)))


def _console() -> Console:
    """Return a console on stdout; without a terminal, it is 80 columns wide, or as COLUMNS says."""
    from rich.console import Console

    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS")
    return Console(width=shutil.get_terminal_size().columns if is_known else 80, highlight=False)


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document, in ASCII if the encoding of stdout lacks a character."""
    text = json_text(document)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document, allow_nan=False, indent=1)
    print(text)


def json_text(document: Any) -> str:
    """Return a document as JSON; characters that could control a terminal are escaped."""
    from aleatoric.reporting.tables import printable

    plain = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1)
    if plain.isascii():
        return plain  # json itself escapes control characters below 32
    return "".join(c if printable(c) == c else json.dumps(c)[1:-1] for c in plain)


def say(text: str) -> None:
    """Print a line on stderr."""
    from rich.console import Console
    from rich.text import Text

    from aleatoric.reporting.tables import printable

    Console(stderr=True, highlight=False).print(Text(printable(text)), soft_wrap=True)


@contextmanager
def byte_bar(description: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar of bytes on stderr if it is a terminal."""
    from rich.progress import DownloadColumn

    with _progress(DownloadColumn()) as bar:
        task = bar.add_task(_label(description), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def track(work: Iterable[Any], total: int, description: str) -> Iterable[Any]:
    """Show a progress bar on stderr if it is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    label, hidden = _label(description), not console.is_terminal
    return track(work, label, total, console=console, transient=True, disable=hidden)


def _label(description: str) -> str:
    """Escape a description for a bar, which reads brackets as markup."""
    from rich.markup import escape

    from aleatoric.reporting.tables import printable

    return escape(printable(description).replace("\n", " "))


def _progress(*columns: Any) -> Any:
    """Return a progress bar with its description and further columns."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), *columns)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def meter(description: str, total: int) -> Iterator[Advance]:
    """Show items and tokens per second on stderr: a bar in a terminal, and a last line."""
    from rich.progress import MofNCompleteColumn, TextColumn, TimeRemainingColumn

    speed = TextColumn("{task.fields[speed]} tokens/s")
    started, read = time.monotonic(), 0

    def advance(items: int, tokens: int) -> None:
        nonlocal read
        read += tokens
        rate = f"{read / max(time.monotonic() - started, 1e-9):,.0f}"
        bar.update(task, advance=items, speed=rate)

    with _progress(MofNCompleteColumn(), speed, TimeRemainingColumn()) as bar:
        task = bar.add_task(_label(description), total=total, speed="–")
        yield advance
    seconds = time.monotonic() - started
    if read:
        say(f"{description}: {read} tokens in {seconds:.1f} s, {read / seconds:,.0f} tokens/s")


STAND_INS = str.maketrans("↓↑→←‖−–—×²·…≤≥±’‘“”Σμ†", "v^><|---x2..<>~''\"\"Su+")
"""ASCII for the characters in our own tables, one for one, so that columns stay aligned."""
_HANDLER = "aleatoric.plain"


def plain(error: UnicodeError) -> tuple[str, int]:
    """Return a replacement for characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(STAND_INS)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def prepare() -> None:
    """Replace closed output streams, and characters that their encoding lacks."""
    codecs.register_error(_HANDLER, plain)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_HANDLER)


@contextmanager
def monitored(
    out: Path | None, allowed_probes: Iterable[str] = ()
) -> Iterator[tuple[Path, Monitor]]:
    """Open the folder of a run, show its progress, and say how to continue if it is stopped."""
    from aleatoric.levels.base import Monitor
    from aleatoric.runs.disk import command
    from aleatoric.runs.formats import DATABASE
    from aleatoric.runs.session import Stopped, listening

    temporary = tempfile.TemporaryDirectory() if out is None else nullcontext("")
    try:
        with temporary as folder, listening() as stopping:
            monitor = Monitor(track, meter, stopping, tuple(allowed_probes))
            yield out or Path(folder) / "run", monitor
    except Stopped as stopped:
        if out is None:
            say("stopped; without --out nothing is kept")
        elif os.path.exists(out / DATABASE):
            say(f"stopped; what was finished is saved: continue with {command(out)}")
        else:
            say("stopped before the run began")
        raise typer.Exit(stopped.status) from None


@contextmanager
def shown() -> Iterator[None]:
    """Print results inside: errors of the output are not errors of the run."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE or error.filename is not None:
            raise  # the reader closed the pipe, or the error names a file
        sys.stdout = io.StringIO()  # otherwise the rest is flushed again at exit
        problem = f"the output cannot be written ({error.strerror})"
        raise StorageError(problem, "make room, or send it elsewhere") from None
