"""Every line of the README and of the pages for beginners is typed, and prints what they show."""

from __future__ import annotations

import doctest
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import ROOT, Block, blocks
from marks import sampled

from aleatoric.errors import AleatoricError
from aleatoric.models.gguf import smollm2_directory

PAGES = (
    "README.md",
    "docs/quick-start.md",
    "docs/python.md",
    *(
        pytest.param(f"docs/tutorials/{level}.md", marks=pytest.mark.long)
        for level in ("word", "token", "text")
    ),
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
SET_UP = ("make ", "source ", "git ", "pip ", "cd ")
"""Lines that install the package; the tests of the Makefile and CI run them."""


def uses_smollm2(page: Path) -> bool:
    return "smollm2" in page.read_text(encoding="utf-8")


def type_python(block: Block, page: Path, names: dict[str, object]) -> list[str]:
    """Run one block of Python, plain or with prompts; return what differs from the page."""
    if ">>>" not in block.text:
        exec(compile(block.text, str(page), "exec"), names)
        return []
    problems: list[str] = []
    example = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(example, out=problems.append, clear_globs=False)
    names.update(example.globs)
    return problems


def type_shell(block: Block, folder: Path) -> str:
    """Run the lines of a block of shell commands; return what they print."""
    printed = []
    for line in block.text.replace("\\\n", " ").splitlines():
        typed = line.removeprefix("$ ").partition("  #")[0].strip()
        if not typed or typed.startswith((*SET_UP, "#")):
            continue
        words = shlex.split(typed)
        assert words[0] == "aleatoric", typed
        command = [sys.executable, "-m", "aleatoric", *words[1:]]
        environment = {**os.environ, "COLUMNS": "80"}
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, f"{typed}\n{ran.stderr}"
        printed.append(ran.stdout)
    return "".join(printed)


SLOW = ("README.md", "docs/quick-start.md", "docs/python.md")
"""Pages that load a model several times."""


@pytest.mark.parametrize("name", sampled(PAGES, [p for p in PAGES if p not in SLOW]))
def test_page_prints_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / name
    if uses_smollm2(page):
        try:
            smollm2_directory()
        except AleatoricError as error:
            pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    for block in blocks(page):
        if block.title:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            printed = type_shell(block, tmp_path)
        elif block.language == "python":
            assert type_python(block, page, names) == []
        elif block.language == "text":
            assert doctest.OutputChecker().check_output(block.text, printed, FLAGS), printed


def test_worked_example_of_methods_page() -> None:
    page = ROOT / "docs" / "methods.md"
    names: dict[str, object] = {}
    for block in blocks(page):
        if block.language == "python":
            assert type_python(block, page, names) == []
