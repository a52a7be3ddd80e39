"""Commands that write a run: where it lies, how it is stopped, and what is said then."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from aleatoric.cli.printing import run_folder, say
from aleatoric.engine.stopping import Stopped, Stopping, listening
from aleatoric.errors import StorageError
from aleatoric.store import DATABASE
from aleatoric.store.faults import command


@contextmanager
def writing(out: Path | None) -> Iterator[tuple[Path, Stopping]]:
    """The folder of a run and whether it is asked to stop; a stopped one says how to go on."""
    try:
        with run_folder(out) as folder, listening() as stopping:
            yield folder, stopping
    except Stopped as stopped:
        say(how_to_go_on(out))
        raise typer.Exit(stopped.status) from None


@contextmanager
def shown() -> Iterator[None]:
    """Results are printed inside: where they cannot be, it is the output's fault, not the run's."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE or error.filename is not None:
            raise  # the reader has seen enough; a file that has a name is told of by its name
        sys.stdout = io.StringIO()  # what is left is not tried again at the end
        problem = f"the output cannot be written ({error.strerror})"
        raise StorageError(problem, "make room, or send it elsewhere") from None


def how_to_go_on(out: Path | None) -> str:
    """What there is of a stopped run.

    >>> how_to_go_on(None)
    'stopped; without --out nothing is kept'
    """
    if out is None:
        return "stopped; without --out nothing is kept"
    if not os.path.exists(out / DATABASE):
        return "stopped before the run began"
    return f"stopped; what was finished is saved: continue with {command(out)}"
