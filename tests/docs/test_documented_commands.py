"""Every documented command is accepted by the command line."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from doc_pages import ROOT, Block, blocks, inline_code, our_pages

from aleatoric.cli import app

PAGES = pytest.mark.parametrize("page", our_pages(), ids=lambda page: str(page.relative_to(ROOT)))
ELSEWHERE = {"--jobs", "--limit-minutes", "--label-smoothing", "--precision", "--port", "--help"}
"""Options of programs of ours and others that are run by their own names."""


@cache
def whole() -> Any:
    """The complete argument parser, built once."""
    return typer.main.get_command(app)


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words name, and the remaining words."""
    command = whole()
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        raise ValueError(f"there is no command {words[0]}")
    return command, words


def problem_of(words: list[str]) -> str | None:
    """The reason why the command line rejects a command, or None."""
    try:
        command, rest = command_of(words)
        if rest != ["--help"]:
            command.make_context("aleatoric", list(rest))
    except Exception as error:
        return f"aleatoric {' '.join(words)}: {getattr(error, 'message', error)}"
    return None


def options(command: Any) -> Iterator[str]:
    """Every option of a command and its subcommands."""
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for child in getattr(command, "commands", {}).values():
        yield from options(child)


@PAGES
def test_commands_in_code_blocks_are_accepted(page: Path) -> None:
    shell = [block for block in blocks(page) if block.language in ("sh", "")]
    assert [p for block in shell for words in block.commands() if (p := problem_of(words))] == []


@PAGES
def test_commands_in_text_exist(page: Path) -> None:
    for code in inline_code(page):
        if code.startswith("aleatoric "):
            command, rest = command_of(code.split()[1:])
            named = [word.partition("=")[0] for word in rest if word.startswith("--")]
            assert set(named) <= {*options(command), "--help"}, code


@PAGES
def test_options_in_text_exist(page: Path) -> None:
    known = {*options(whole()), *ELSEWHERE}
    named = {code.split()[0] for code in inline_code(page) if code.startswith("--")}
    assert {name.partition("=")[0] for name in named} - known == set()


def test_invalid_command_is_detected() -> None:
    text = "aleatoric word --corpus a.csv \\\n  --modle x\naleatoric wrod\naleatoric list # all\n"
    found = [problem_of(words) for words in Block("sh", None, text).commands()]
    assert [bool(problem) for problem in found] == [True, True, False]
