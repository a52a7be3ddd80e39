"""Write docs/cli.md from the command line's own help; with --check, fail where it is stale."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from aleatoric.cli import app

PAGE = Path(__file__).parent / "cli.md"
HEAD = (
    "# The command line\n\nThis page is generated from the command line's own help by "
    "`make docs`.\nResults go to standard output, progress and notes to standard error.\n"
    "Exit status: 0 done, 2 bad input or usage, 130 stopped by Ctrl-C, 143 by SIGTERM, 1 anything "
    "else.\n"
)


def main() -> None:
    """Write the page, or compare it."""
    page = "\n".join([HEAD, *_sections(typer.main.get_command(app), "aleatoric")])
    if "--check" not in sys.argv:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        sys.exit("docs/cli.md is stale: run make docs.")


def _sections(command: Any, name: str) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is None:
        yield _section(command, name)
        return
    for key, child in children.items():
        yield from _sections(child, f"{name} {key}")


def _section(command: Any, name: str) -> str:
    rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
    table = "\n".join(["| option | meaning | default |", "|---|---|---|", *rows])
    return f"## `{name}`\n\n{(command.help or '').strip()}\n\n{table}\n"


def _row(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    shown = ", ".join(parameter.opts) if is_option else parameter.name.upper()
    silent = parameter.default is None or parameter.default is False
    default = "" if silent else f"`{parameter.default}`"
    if parameter.required:
        default = "required"
    help_text = (parameter.help or "").replace("|", "\\|")
    return f"| `{shown}` | {help_text} | {default} |"


if __name__ == "__main__":
    main()
