"""The report as a colleague reads it: one file, opened from the disk, without a network."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from explored_runs import ITEMS, LONG, SCRIPT

from aleatoric.cli import main

Visit = Callable[..., Any]


@pytest.fixture(scope="module")
def report(words: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the run with three systems."""
    page = tmp_path_factory.mktemp("report") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["aleatoric", "report", str(words), "--html", str(page)])
        with suppress(SystemExit):
            main()
    assert page.exists()
    return page.as_uri()


def picked(page: Any) -> list[str]:
    """The contexts that can be picked, in their order."""
    return page.eval_on_selector_all(
        "#context-pick [data-context-id]", "all => all.map(e => e.dataset.contextId)"
    )


def test_the_table_of_systems_sorts(report: str, visit: Visit, keep: Visit) -> None:
    page = visit(report)
    names = "#systems tbody tr"
    read = "all => all.map(row => row.cells[0].textContent.trim())"
    assert {"close", "blunt", "odd"} <= set(page.eval_on_selector_all(names, read))
    heading = page.locator("#systems th[data-sort]", has_text="TVD").first
    heading.click()
    assert heading.get_attribute("aria-sort") == "ascending"
    up = page.eval_on_selector_all(names, read)
    heading.click()
    assert heading.get_attribute("aria-sort") == "descending"
    down = page.eval_on_selector_all(names, read)
    ours = [name for name in up if name in ("close", "blunt", "odd")]
    assert ours == [name for name in reversed(down) if name in ours]
    assert ours[0] == "close"
    keep(page, "report-top")


def test_contexts_are_searched_and_picked(report: str, visit: Visit, keep: Visit) -> None:
    page = visit(report)
    assert len(picked(page)) == len(ITEMS)
    page.fill("input#context-search", "GOVERNMENT")
    page.wait_for_selector('#context-pick [data-context-id="story:1"]', state="detached")
    assert sorted(picked(page)) == ["news:1", "news:2"]
    page.fill("input#context-search", "story:1")
    page.select_option("select#context-pick", "story:1")
    bar = page.locator('[data-word="many"]').first
    bar.scroll_into_view_if_needed()
    bar.hover()
    tooltip = page.locator("#tooltip")
    assert tooltip.is_visible()
    assert "many" in tooltip.text_content()
    assert "45" in tooltip.text_content()  # nine people of twenty
    keep(page, "report-context")


@pytest.mark.long
def test_light_and_dark(report: str, visit: Visit, keep: Visit) -> None:
    page = visit(report)
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.click("[data-theme-toggle]")
    assert page.evaluate(colour) != before
    keep(page, "report-dark", whole=True)


def test_figures_are_downloaded_as_csv_and_svg(report: str, visit: Visit, tmp_path: Path) -> None:
    page = visit(report)
    for what in ("csv", "svg"):
        button = page.locator(f"button[data-{what}]").first
        button.scroll_into_view_if_needed()
        with page.expect_download() as waiting:
            button.click()
        waiting.value.save_as(tmp_path / f"figure.{what}")
    with (tmp_path / "figure.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) > 2
    assert len({len(row) for row in rows}) == 1
    assert (tmp_path / "figure.svg").read_text().startswith("<svg")


@pytest.mark.long
def test_a_deep_link_opens_its_context(report: str, visit: Visit) -> None:
    page = visit(f"{report}#context={quote('news:2')}&system=odd")
    page.wait_for_selector("[data-word]")
    assert page.input_value("select#context-pick") == "news:2"
    assert "The government has" in page.text_content("#context-view")
    page.select_option("select#context-pick", "story:2")
    again = visit(page.url)
    assert again.input_value("select#context-pick") == "story:2"


def test_a_script_is_shown_and_not_run(report: str, visit: Visit, keep: Visit) -> None:
    page = visit(f"{report}#context={quote('hostile:1')}")
    page.wait_for_selector("[data-word]")
    assert SCRIPT in page.text_content("#context-view")
    assert page.locator('[data-word="<script>alert(1)</script>"]').count()
    assert page.title() not in ("stolen", "1")
    assert not page.locator("main img, main script").count()
    keep(page, "report-hostile")


@pytest.mark.long
def test_a_text_of_ten_thousand_characters(report: str, visit: Visit, keep: Visit) -> None:
    narrow = {"width": 390, "height": 800}
    page = visit(f"{report}#context={quote('hostile:2')}", size=narrow)
    page.wait_for_selector("[data-word]")
    assert LONG.strip() in page.text_content("#context-view")
    box = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    width, shown = page.evaluate(box)
    assert width <= shown
    keep(page, "report-long-narrow")


def test_nothing_is_asked_of_a_network(report: str, visit: Visit) -> None:
    asked: list[str] = []
    page = visit("about:blank")
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report)
    page.wait_for_selector("#systems")
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)
