"""Write the printed tables of our pages from their own commands; with --check, fail where stale.

On a page, a block of code with a title is a file, and a block marked `text` shows one table that
the commands of the shell block before it print: the table with the same title.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from aleatoric.cli import main as aleatoric

PAGES = ("text.md",)
HERE = Path(__file__).parent
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Write the pages, or compare them."""
    stale = []
    for name in PAGES:
        page = HERE / name
        before = page.read_text(encoding="utf-8")
        after = with_outputs(before)
        if after != before and "--check" in sys.argv:
            stale.append(name)
        elif after != before:
            page.write_text(after, encoding="utf-8")
    if stale:
        sys.exit(f"docs/{', docs/'.join(stale)}: stale; run python docs/outputs.py.")


def with_outputs(page: str) -> str:
    """Return a page with every `text` block as its commands print it now."""
    matches = list(FENCE.finditer(page))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for match in matches:
            if title := re.search(r'title="([^"]+)"', match[2]):
                Path(title[1]).write_text(match[3], encoding="utf-8")
        blocks = list(_blocks(matches))
    for match, text in reversed(blocks):
        page = page[: match.start(3)] + text + page[match.end(3) :]
    return page


def _blocks(matches: list[re.Match[str]]) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the `text` blocks with their new contents."""
    commands, printed = "", ""
    for match, following in zip(matches, [*matches[1:], None], strict=True):
        if match[1] == "sh":
            commands, printed = match[3], ""
            if following is not None and following[1] == "text":
                printed = _output(commands)
        elif match[1] == "text":
            title = match[3].strip("\n").splitlines()[0].strip()
            yield match, _tables(printed)[title]


def _output(commands: str) -> str:
    """Run the `aleatoric` commands of a shell block and return what they print."""
    out = io.StringIO()
    for line in commands.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["aleatoric"]:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                _run(words)
    return out.getvalue()


def _run(words: list[str]) -> None:
    sys.argv, before = words, sys.argv
    try:
        aleatoric()
    except SystemExit as stop:
        if stop.code:
            raise RuntimeError(f"{shlex.join(words)} ended with status {stop.code}") from None
    finally:
        sys.argv = before


def _tables(printed: str) -> dict[str, str]:
    """Title -> the table with its notes: a title stands three lines above a rule."""
    lines = [line.rstrip() for line in printed.splitlines()]
    starts = [i for i in range(len(lines) - 3) if lines[i + 3].lstrip().startswith("───")]
    found = {}
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        text = "\n".join(lines[start:stop]).strip("\n")
        found[lines[start].strip()] = f"{text}\n"
    return found


if __name__ == "__main__":
    os.environ.setdefault("PYTHONIOENCODING", "utf-8")
    main()
