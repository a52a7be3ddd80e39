"""`aleatoric view`: runs in the browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from aleatoric.cli.printing import say
from aleatoric.errors import UsageError


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
    """Explore runs of any size in the browser; a run may still be going.

    Example: `aleatoric view runs/gpt2 runs/bloom`
    """
    from aleatoric.report.explorer.library import Library
    from aleatoric.report.explorer.server import Explorer

    if len({run.resolve() for run in runs}) < len(runs):
        raise UsageError(f"{runs[-1]}: is named twice; name each run once.")
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
    """Whether a browser window can be opened: in a terminal alone, one would take the terminal."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
