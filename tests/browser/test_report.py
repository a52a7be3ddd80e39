"""The report in a real browser: one file, opened from disk, without network access."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from explored_runs import FOLDED, ITEMS, LONG, SCRIPT
from task_runs import task_run

from aleatoric.cli import main
from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob
from aleatoric.reporting.page import make_report
from aleatoric.runs.run import Store

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
    """The selectable contexts, in order."""
    return page.eval_on_selector_all(
        "#context-pick [data-context-id]", "all => all.map(e => e.dataset.contextId)"
    )


def test_systems_table_is_sortable(report: str, visit: Visit, keep: Visit) -> None:
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


def test_search_and_select_contexts(report: str, visit: Visit, keep: Visit) -> None:
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
def test_light_and_dark_theme(report: str, visit: Visit, keep: Visit) -> None:
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
def test_deep_link_opens_context(report: str, visit: Visit) -> None:
    page = visit(f"{report}#context={quote('news:2')}&system=odd")
    page.wait_for_selector("[data-word]")
    assert page.input_value("select#context-pick") == "news:2"
    assert "The government has" in page.text_content("#context-view")
    page.select_option("select#context-pick", "story:2")
    again = visit(page.url)
    assert again.input_value("select#context-pick") == "story:2"


def test_script_in_text_is_not_executed(report: str, visit: Visit, keep: Visit) -> None:
    page = visit(f"{report}#context={quote('hostile:1')}")
    page.wait_for_selector("[data-word]")
    assert SCRIPT in page.text_content("#context-view")
    assert page.locator('[data-word="<script>alert(1)</script>"]').count()
    assert page.title() not in ("stolen", "1")
    assert not page.locator("main img, main script").count()
    keep(page, "report-hostile")


@pytest.mark.long
def test_text_of_10000_characters_is_shown(report: str, visit: Visit, keep: Visit) -> None:
    narrow = {"width": 390, "height": 800}
    page = visit(f"{report}#context={quote('hostile:2')}", size=narrow)
    page.wait_for_selector("[data-word]")
    assert LONG.strip() in page.text_content("#context-view")
    box = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    width, shown = page.evaluate(box)
    assert width <= shown
    keep(page, "report-long-narrow")


def test_no_network_requests(report: str, visit: Visit) -> None:
    asked: list[str] = []
    page = visit("about:blank")
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report)
    page.wait_for_selector("#systems")
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)


CLIPPED = """() => [...document.querySelectorAll("svg.chart")].flatMap((chart) => {
  const frame = chart.getBoundingClientRect();
  return [...chart.querySelectorAll("text")].filter((text) => {
    const box = text.getBoundingClientRect();
    const isInside = box.left >= frame.left - 1 && box.right <= frame.right + 1;
    return !isInside || text.textContent.includes("…");
  }).map((text) => text.textContent);
})"""
"""Labels of figures that leave their figure or are shortened."""
DRAW_ALL = "for (const box of figureBoxes.values()) box.draw()"


@pytest.fixture(scope="module")
def provo_report(provo: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of Provo with its four recorded systems."""
    folder = tmp_path_factory.mktemp("provo")
    systems = ("gpt2", "gpt2_temp05", "bloom", "chatgpt_diverse")
    models = tuple(f"recorded:{provo / name}.jsonl.gz" for name in systems)
    with run_job(WordJob(str(provo / "provo_cloze.jsonl.gz"), models), folder / "run") as store:
        (page,) = make_report([store], folder / "report.html", None)
    return page.as_uri()


def test_verdict_and_agreement_come_first(report: str, visit: Visit) -> None:
    page = visit(report)
    order = page.eval_on_selector_all(
        ".verdict, figure[data-figure], #systems, #contexts-of, #appendix",
        "all => all.map(e => e.id || e.className)",
    )
    assert order[:3] == ["verdict finding", "figure-systems", "systems"]
    assert order[-2:] == ["contexts-of", "appendix"]
    bars = page.locator("#figure-systems rect.bar")
    assert bars.count() == 3 * 3  # H, M and C of three systems


@pytest.mark.long
def test_figures_of_a_phone_clip_no_label(provo_report: str, visit: Visit, keep: Visit) -> None:
    page = visit(provo_report, size={"width": 360, "height": 740})
    page.evaluate(DRAW_ALL)
    assert page.evaluate(CLIPPED) == []
    box = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    width, shown = page.evaluate(box)
    assert width <= shown
    keep(page, "report-phone", whole=True)


@pytest.mark.long
def test_report_prints_on_at_most_ten_pages(provo_report: str, visit: Visit) -> None:
    pdf = visit(provo_report).pdf(format="A4")
    pages = re.findall(rb"/Type\s*/Page[^s]", pdf)
    assert 1 < len(pages) <= 10


def test_single_system_is_named_in_headings(words: Path, tmp_path: Path, visit: Visit) -> None:
    people, model = words.parent / "people.jsonl", words.parent / "close.jsonl"
    job = WordJob(str(people), (f"recorded:{model}",), n_splits=4, choose=FOLDED)
    with run_job(job, tmp_path / "run") as store:
        (written,) = make_report([store], tmp_path / "report.html", None)
    page = visit(written.as_uri())
    titles = page.eval_on_selector_all(".figures h4", "all => all.map(e => e.textContent)")
    assert titles
    assert all(title.endswith(": close") for title in titles)
    page.evaluate(DRAW_ALL)
    assert "close" in page.text_content("#figure-systems svg")


def test_few_contexts_are_points_not_densities(report: str, visit: Visit) -> None:
    page = visit(report)  # eight contexts
    page.evaluate(DRAW_ALL)
    assert page.locator("#figure-fig2_tvd_kde path.line").count() == 0
    assert page.locator("#figure-fig2_tvd_kde circle.faint").count() == 4 * len(ITEMS)


def test_search_and_sort_choose_the_first_hit(report: str, visit: Visit) -> None:
    page = visit(report)
    page.fill("input#context-search", "GOVERNMENT")
    assert page.input_value("select#context-pick") == "news:1"
    assert "The government" in page.text_content("#context-view blockquote")
    page.fill("input#context-search", "")
    page.select_option("select#context-system", label="odd")
    page.select_option("select#context-sort", "tvd")
    assert page.input_value("select#context-pick") == picked(page)[0] == "story:1"


def test_dark_charts_use_dark_colors(report: str, visit: Visit) -> None:
    bar, colors = "#figure-systems rect.bar", []
    for theme in ("light", "dark"):
        page = visit(report, theme=theme)
        page.wait_for_selector(bar)  # charts are drawn when they come into view
        colors.append(page.evaluate(f"getComputedStyle(document.querySelector('{bar}')).fill"))
    assert colors[0] != colors[1]
    words = visit(report).text_content("main").lower()
    assert not re.search(r"\b(blue|orange|gray|grey|black|dark bars|darker)\b", words)


def test_rows_of_panels_are_named_once_and_other_figures_open_by_address(
    visit: Visit, tmp_path: Path
) -> None:
    systems = {f"a-model-with-a-long-name decoder{i}": 12 for i in range(8)}
    probes = ("lexical-2", "lexical-3")
    paths = [task_run(tmp_path, name, 6, systems, probes=probes) for name in "ab"]
    html = tmp_path / "tasks.html"
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.open(path)) for path in paths]
        assert list(make_report(stores, html, None)) == [html]
    page = visit(f"{html.as_uri()}#figure=fig9_w1_M-tasks")
    page.wait_for_selector("#figure-fig9_w1_M-tasks svg.chart")
    page.locator("#figure-energy-tasks").scroll_into_view_if_needed()
    page.wait_for_selector("#figure-energy-tasks svg.chart")
    names = page.locator("#figure-energy-tasks text", has_text="decoder3")
    assert names.count() == 2  # one per task, not per probe
    for place in names.all():
        right = page.evaluate("n => n.getBBox().x + n.getBBox().width", place.element_handle())
        zero = page.locator("#figure-energy-tasks .zero").first
        assert right < float(zero.get_attribute("x1"))
    assert not page.locator("#figure-fig9_w1_M-2 svg.chart").is_visible()
