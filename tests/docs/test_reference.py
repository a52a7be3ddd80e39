"""The Python reference pages generated from the source."""

from __future__ import annotations

import ast
import doctest
import re

import api_pages
import pytest
from doc_pages import ROOT

SOURCE = ROOT / "src"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return api_pages.api_pages(SOURCE)


def test_doctests_of_page_generator() -> None:
    assert doctest.testmod(api_pages).failed == 0


def test_every_public_name_is_listed_once(pages: dict[str, str]) -> None:
    named = re.findall(r"^### `.+?` \{ #(.+?) \}$", "\n".join(pages.values()), re.MULTILINE)
    assert len(named) == len(set(named)) > 500
    for name in (
        "metrics.distances.tvd",
        "result_types.Result",
        "calibration.stream.CalibrationStream",
    ):
        assert f"aleatoric.{name}" in named


def test_overview_lists_the_public_names_first(pages: dict[str, str]) -> None:
    names = [name for name in api_pages.public_names(SOURCE) if name.islower()]
    overview = pages["api/index.md"].partition("| page | modules |")[0]
    assert names
    assert [name for name in names if f"| [`{name}`](" not in overview] == []


def test_every_public_name_is_documented(pages: dict[str, str]) -> None:
    parts = re.split(r"^### ", "\n".join(pages.values()), flags=re.MULTILINE)[1:]
    bare = [part.split("`")[1] for part in parts if not part.split("```")[2].strip()]
    assert bare == []


def test_long_signatures_have_one_argument_per_line() -> None:
    head = "def work(first: dict[str, int], second: tuple[str, ...] = (), third: float = 0.5,"
    node = ast.parse(f"{head} fourth: str = 'some words'): ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    assert api_pages.signature(node).splitlines() == [
        "work(",
        "    first: dict[str, int],",
        "    second: tuple[str, ...] = (),",
        "    third: float = 0.5,",
        "    fourth: str = 'some words',",
        ")",
    ]


def test_examples_are_code_blocks_and_markup_is_escaped() -> None:
    shown = api_pages.as_markdown("Of *p* and `a_b` in [0, 2].\n\n>>> 1 + 1\n2")
    assert shown == "Of \\*p\\* and `a_b` in \\[0, 2\\].\n\n```python\n>>> 1 + 1\n2\n```"
