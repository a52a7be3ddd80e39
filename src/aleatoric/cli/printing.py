"""What commands print: results on stdout, everything else on stderr."""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from aleatoric.errors import StorageError
from aleatoric.levels.base import Monitor, level_of
from aleatoric.registry import Advance
from aleatoric.report.tables import printable
from aleatoric.result_types import Result, Table
from aleatoric.runs.disk import command
from aleatoric.runs.formats import DATABASE
from aleatoric.runs.run import Store
from aleatoric.runs.session import Stopped, listening

WIDTH = 200
"""The width of tables in a file or a pipe."""
MIN_COLUMNS = 4
"""The fewest columns that a terminal shows of a table."""


def show_run(store: Store, interval: str, as_json: bool, layout: str) -> list[Result]:
    """Print and return a run's results: as one JSON document, or as tables, notes on stderr."""
    from aleatoric.report.views import view_of_run

    view, level = view_of_run(store), level_of(store)
    results, notes = level.results(store, interval), level.notes(store)
    if as_json:
        document = view.document(store, results, interval)
        with shown():
            print_json(document | {"notes": notes})
        return results
    tables, lines = view.printed(store, results, interval)
    with shown():
        show_tables(tables, False, layout)
        for line in lines if layout == "terminal" else ():
            print(printable(line))
    for note in notes:
        say(note if note.startswith("warning: ") else f"note: {note}")
    return results


def show_tables(
    tables: list[Table], as_json: bool, layout: str, document: dict[str, Any] | None = None
) -> None:
    """Print tables in a layout, or a JSON document, by default that of the tables."""
    from aleatoric.report import tables as render

    if as_json:
        print_json(document or {"tables": [table.__dict__ for table in tables]})
        return
    for table in tables:
        if layout == "terminal":
            console = Console(width=None if sys.stdout.isatty() else WIDTH)
            console.print(render.to_rich(_fitted(table, console)))
        else:
            print(render.FORMATS[layout](table))


def _fitted(table: Table, console: Console) -> Table:
    """Return the leading columns of a table that fit a terminal."""
    from aleatoric.report.tables import to_rich

    unbounded = Console(width=10_000)  # a table is measured as wide as its console at most

    def too_wide(candidate: Table) -> bool:
        return unbounded.measure(to_rich(replace(candidate, notes=()))).maximum > console.width

    columns, left_out, shown = len(table.columns), 0, table
    while columns - left_out > MIN_COLUMNS and too_wide(shown):
        left_out += 1
        keep = [*range(columns - 1 - left_out), columns - 1]
        note = f"{left_out} more columns: use a wider terminal, or --format markdown."
        shown = replace(
            table,
            columns=tuple(table.columns[i] for i in keep),
            rows=tuple(tuple(row[i] for i in keep) for row in table.rows),
            notes=(*table.notes, note),
        )
    return shown


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
    plain = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1)
    if plain.isascii():
        return plain  # json itself escapes control characters below 32
    return "".join(c if printable(c) == c else json.dumps(c)[1:-1] for c in plain)


def say(text: str) -> None:
    """Print a line on stderr."""
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
    from rich.progress import track

    console = Console(stderr=True)
    label, hidden = _label(description), not console.is_terminal
    return track(work, label, total, console=console, transient=True, disable=hidden)


def _label(description: str) -> str:
    """Escape a description for a bar, which reads brackets as markup."""
    return escape(printable(description).replace("\n", " "))


def _progress(*columns: Any) -> Any:
    """Return a progress bar with its description and further columns."""
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


STAND_INS = str.maketrans("↓↑→←‖−–—×²·…≤≥±’‘“”Σμ", "v^><|---x2..<>~''\"\"Su")
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
