"""The explorer in a real browser, on a run with three systems."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from explored_runs import ITEMS, LONG, SCRIPT, until
from marks import sampled

from aleatoric.reporting.explorer.server import Explorer

NARROW = {"width": 390, "height": 800}
Visit = Callable[..., Any]


def ids(page: Any) -> list[str]:
    return page.eval_on_selector_all(
        "tr[data-context-id]", "all => all.map(e => e.dataset.contextId)"
    )


def column(page: Any, number: int) -> list[str]:
    return page.eval_on_selector_all(
        "#systems tbody tr", f"all => all.map(row => row.cells[{number}].textContent.trim())"
    )


def test_systems_table_is_sortable(explorer: Explorer, visit: Visit, keep: Visit) -> None:
    page = visit(f"{explorer.url}/run/0")
    page.wait_for_selector("#systems")
    assert {"close", "blunt", "odd"} <= set(column(page, 0))
    heading = page.locator("#systems th[data-sort]").nth(1)
    heading.click()
    assert heading.get_attribute("aria-sort") == "ascending"
    known = [float(cell.split()[0]) for cell in column(page, 1) if cell[0].isdigit()]
    assert known == sorted(known)
    heading.focus()
    page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    keep(page, "explorer-overview")


def test_search_filter_and_sort_contexts(explorer: Explorer, visit: Visit, keep: Visit) -> None:
    page = visit(f"{explorer.url}/run/0/contexts?system=odd")
    assert len(ids(page)) == len(ITEMS)
    keep(page, "explorer-contexts")
    page.fill("input#context-search", "GOVERNMENT")
    page.press("input#context-search", "Enter")
    page.wait_for_url("**q=GOVERNMENT**")
    assert sorted(ids(page)) == ["news:1", "news:2"]
    page.click("a[data-measure=entropy_human]")
    page.wait_for_url("**sort=entropy_human**")
    assert page.get_attribute("th[aria-sort]", "aria-sort") == "descending"
    page.click("a.clear")
    page.wait_for_selector('tr[data-context-id="story:1"]')
    assert len(ids(page)) == len(ITEMS)
    page.select_option("select[name=group]", "story")
    page.wait_for_url("**group=story**")
    assert all(one.startswith("story") for one in ids(page))


@pytest.mark.long
def test_range_and_histogram_bar_filter_the_list(explorer: Explorer, visit: Visit) -> None:
    page = visit(f"{explorer.url}/run/0/contexts?system=odd")
    page.select_option("select[name=of]", "tvd")
    page.fill("input[name=min]", "0.9")
    page.click("button.main")
    page.wait_for_selector(".chip")
    assert sorted(ids(page)) == ["news:1", "story:1"]
    page.click("a.clear")
    page.locator(".histogram a").last.click()
    page.wait_for_selector(".chip")
    assert 0 < len(ids(page)) < len(ITEMS)


def test_select_context_and_hover_bars(explorer: Explorer, visit: Visit, keep: Visit) -> None:
    page = visit(f"{explorer.url}/run/0/contexts?system=odd&sort=order")
    page.click('tr[data-context-id="story:1"] a')
    page.wait_for_selector("[data-word]")
    bar = page.locator('[data-word="many"][data-series="people"]')
    bar.hover()
    tooltip = page.locator("#tooltip")
    assert tooltip.is_visible()
    assert tooltip.text_content() == "many · people: 45.0%, 9 of 20"
    keep(page, "explorer-context")
    page.locator('[data-word="zebra"][data-series="odd"]').focus()
    assert tooltip.text_content() == "zebra · odd: 100.0%, 40 of 40"


@pytest.mark.long
def test_scatter_point_links_to_context(explorer: Explorer, visit: Visit) -> None:
    page = visit(f"{explorer.url}/compare?a=0:odd&b=0:blunt&measure=tvd")
    page.locator(".cloud circle.single").first.click()
    page.wait_for_selector("h1[data-context-id]")
    assert page.get_attribute("h1", "data-context-id") in {item[0] for item in ITEMS}
    legend = page.eval_on_selector_all(".legend li", "all => all.map(e => e.textContent)")
    assert legend[:3] == ["people", "odd", "blunt"]


@pytest.mark.long
def test_compare_two_systems(explorer: Explorer, visit: Visit, keep: Visit) -> None:
    page = visit(f"{explorer.url}/compare")
    page.select_option("select[name=a]", "0:odd")
    page.wait_for_url("**a=0%3Aodd**")
    page.click("a[data-measure=difference]")
    page.wait_for_url("**sort=difference**")
    cells = page.eval_on_selector_all("td.sorted", "all => all.map(e => Number(e.textContent))")
    assert cells == sorted(cells, reverse=True)
    keep(page, "explorer-compare")


@pytest.mark.parametrize("theme", sampled(["light", "dark"], ["dark"]))
def test_light_and_dark_theme(explorer: Explorer, visit: Visit, keep: Visit, theme: str) -> None:
    page = visit(f"{explorer.url}/run/0/context?id=story:1", theme)
    other = {"light": "dark", "dark": "light"}[theme]
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    assert page.get_attribute("html", "data-theme") == theme
    page.click("[data-theme-toggle]")
    assert page.get_attribute("html", "data-theme") == other
    assert page.evaluate(colour) != before
    page.reload()
    assert page.get_attribute("html", "data-theme") == other  # it is remembered
    keep(page, f"explorer-{other}")


def test_download_csv_of_filtered_contexts(
    explorer: Explorer, visit: Visit, tmp_path: Path
) -> None:
    page = visit(f"{explorer.url}/run/0/contexts?system=odd&group=news")
    with page.expect_download() as waiting:
        page.click("button[data-csv]")
    waiting.value.save_as(tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["id"] for row in rows) == ["news:1", "news:2"]


@pytest.mark.long
def test_save_figure(explorer: Explorer, visit: Visit, tmp_path: Path) -> None:
    page = visit(f"{explorer.url}/run/0/context?id=story:1")
    with page.expect_download() as waiting:
        page.click("button[data-svg]")
    waiting.value.save_as(tmp_path / "bars.svg")
    svg = (tmp_path / "bars.svg").read_text()
    assert svg.startswith("<svg")
    assert 'fill="rgb(' in svg  # it looks the same without the style sheet


@pytest.mark.long
def test_deep_link_restores_view(explorer: Explorer, visit: Visit) -> None:
    page = visit(f"{explorer.url}/run/0/contexts?system=odd&group=story&sort=tvd&dir=asc")
    page.click("a.open")
    page.wait_for_selector("h1[data-context-id]")
    again = visit(page.url)
    assert again.text_content("h1") == page.text_content("h1")
    assert "1 of 3" in again.text_content(".item-nav")
    again.click("a[rel=up]")
    again.wait_for_selector("table.list")
    assert ids(again) == ids(visit(again.url))


def test_script_in_text_is_not_executed(explorer: Explorer, visit: Visit, keep: Visit) -> None:
    page = visit(f"{explorer.url}/run/0/context?id=hostile:1")
    assert SCRIPT in page.text_content("#context-text")
    page.locator('[data-series="people"]').first.hover()
    assert page.text_content("#tooltip").startswith("<script>alert(1)</script> · people")
    assert page.title().startswith("Context hostile:1")
    keep(page, "explorer-hostile")
    listed = visit(f"{explorer.url}/run/0/contexts?q=%3Cscript%3E")
    assert ids(listed) == ["hostile:1"]
    assert listed.input_value("#context-search") == "<script>"


@pytest.mark.long
def test_text_of_10000_characters_is_shown(explorer: Explorer, visit: Visit, keep: Visit) -> None:
    page = visit(f"{explorer.url}/run/0/context?id=hostile:2", size=NARROW)
    assert LONG.strip() in page.text_content("#context-text")
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(wide)
    keep(page, "explorer-long-narrow", whole=True)


@pytest.mark.long
def test_narrow_pages_do_not_scroll_sideways(explorer: Explorer, visit: Visit, keep: Visit) -> None:
    for path in ("/run/0", "/run/0/contexts", "/compare", "/run/1/context?id=2", "/"):
        page = visit(f"{explorer.url}{path}", size=NARROW)
        box = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        width, shown = page.evaluate(box)
        assert width <= shown, path
        keep(page, f"explorer-narrow{path.replace('/', '-').partition('?')[0]}")


@pytest.mark.long
def test_keyboard_shortcuts(explorer: Explorer, visit: Visit) -> None:
    page = visit(f"{explorer.url}/run/0/contexts?system=odd&sort=order&dir=asc")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "context-search"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1[data-context-id]")
    assert page.get_attribute("h1", "data-context-id") == "story:2"
    page.keyboard.press("n")
    page.wait_for_selector('h1[data-context-id="story:3"]')
    page.keyboard.press("p")
    page.wait_for_selector('h1[data-context-id="story:2"]')
    page.keyboard.press("u")
    page.wait_for_selector("table.list")
    page.keyboard.press("?")
    assert page.is_visible("dialog#keys")


def test_texts_of_one_input_are_shown(explorer: Explorer, visit: Visit, keep: Visit) -> None:
    page = visit(f"{explorer.url}/run/1/context?id=2")
    shown = page.text_content("main")
    assert SCRIPT in shown
    assert "Good day to you." in shown
    assert f"{SCRIPT} 2" in shown
    page.locator('[data-word="lexical-1"]').first.hover()
    assert page.text_content("#tooltip").startswith("lexical-1 · H: people: mean distance")
    keep(page, "explorer-texts")


def test_no_external_requests(explorer: Explorer, visit: Visit) -> None:
    asked: list[str] = []
    page = visit("about:blank")
    page.on("request", lambda request: asked.append(request.url))
    for path in ("/", "/run/0", "/run/0/contexts", "/run/0/context?no=1", "/compare"):
        page.goto(f"{explorer.url}{path}")
    assert asked
    assert all(url.startswith(explorer.url) for url in asked)


def test_search_and_sort_select_the_first_hit(explorer: Explorer, visit: Visit) -> None:
    page = visit(f"{explorer.url}/run/0/contexts?system=odd&q=government")
    focused = "document.activeElement.closest('tr')?.dataset.contextId"
    assert page.evaluate(focused) == ids(page)[0]
    page.keyboard.press("Enter")
    page.wait_for_selector("h1[data-context-id]")
    assert page.get_attribute("h1", "data-context-id").startswith("news")


def test_runs_are_listed_with_their_facts(explorer: Explorer, visit: Visit, keep: Visit) -> None:
    page = visit(f"{explorer.url}/")
    rows = page.eval_on_selector_all("#runs tbody tr", "all => all.map(e => e.innerText)")
    word = next(row for row in rows if "word" in row.split())
    assert all(fact in word for fact in ("run", "people", "close, blunt, odd", "8"))
    assert re.search(r"20\d\d-\d\d-\d\d", word)
    keep(page, "explorer-runs")


def test_overview_draws_the_agreement_as_reports_do(explorer: Explorer, visit: Visit) -> None:
    until(lambda: explorer.library.runs[0].summary)
    page = visit(f"{explorer.url}/run/0")
    assert page.locator("svg.chart rect.bar").count() == 3 * 3
