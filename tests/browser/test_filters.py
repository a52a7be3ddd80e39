"""Filters that combine probes, in a real browser: typed, kept in links, wrong ones explained."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explored_runs import explored

from aleatoric.levels.base import run_job
from aleatoric.levels.text import TextJob
from aleatoric.reporting.explorer.server import Explorer

Visit = Callable[..., Any]
WORDS = np.array([f"w{i}" for i in range(40)])
N_INPUTS = 70


def texts(seed: int, n: int, n_words: int) -> list[str]:
    """Texts of six words out of the first `n_words`."""
    drawn = np.random.default_rng(seed).choice(n_words, (n, 6))
    return [" ".join(own) for own in WORDS[drawn]]


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explorer]:
    """An explorer of a run whose generator repeats itself on every other input."""
    folder = tmp_path_factory.mktemp("filters")
    people, model = folder / "people.jsonl", folder / "bot.jsonl"
    rows = [{"id": i, "input": "Say.", "references": texts(i, 8, 40)} for i in range(N_INPUTS)]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [
        {"id": i, "texts": texts(500 + i, 8, 5 + i % 7) if i % 2 else texts(500 + i, 1, 40) * 8}
        for i in range(N_INPUTS)
    ]
    model.write_text("".join(json.dumps(row) + "\n" for row in rows))
    probes = ("lexical-1", "lexical-2")
    job = TextJob(str(people), (f"recorded:{model}",), probes=probes, tokeniser="whitespace")
    run_job(job, folder / "run").close()
    with explored(folder / "run") as found:
        yield found


def rows_of(page: Any) -> list[str]:
    return page.eval_on_selector_all(
        "tr[data-context-id]", "all => all.map(e => e.dataset.contextId)"
    )


def search(page: Any, expression: str) -> None:
    page.fill("#where", expression)
    with page.expect_navigation():
        page.press("#where", "Enter")


def test_filters_combine_probes(
    filtered: Explorer, visit: Visit, keep: Visit, tmp_path: Path
) -> None:
    page = visit(f"{filtered.url}/run/0/contexts")
    search(page, "mean_M/lexical-1 < 0.4 and mean_M/lexical-1 > 0 and mean_M/lexical-2 > 0.5")
    chosen = rows_of(page)
    assert 0 < len(chosen) < N_INPUTS // 2
    assert all(int(item) % 2 for item in chosen)
    keep(page, "explorer-filter")
    # The filter stays while the list is sorted, an item is opened, and on the way back.
    page.click('a[data-measure="mean_M/lexical-1"]')
    assert sorted(rows_of(page)) == sorted(chosen)
    page.click("tr[data-context-id] a")
    page.wait_for_selector("h1[data-context-id]")
    page.click("a[rel=up]")
    page.wait_for_selector("#where")
    assert page.input_value("#where").startswith("mean_M/lexical-1 < 0.4 and")
    assert sorted(rows_of(page)) == sorted(chosen)
    with page.expect_download() as waiting:
        page.click("[data-csv]")
    waiting.value.save_as(tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open() as file:
        saved = list(csv.DictReader(file))
    assert [row["id"] for row in saved] == rows_of(page)
    assert {row["variability/lexical-1"] for row in saved} <= {"varies less", "varies as people"}


def test_labels_are_shown_and_filtered(filtered: Explorer, visit: Visit, keep: Visit) -> None:
    page = visit(f"{filtered.url}/run/0/contexts")
    search(page, 'variability/lexical-1 == "varies less" and mean_M/lexical-1 == 0')
    assert all(int(item) % 2 == 0 for item in rows_of(page))
    assert len(rows_of(page)) == N_INPUTS // 2
    headings = page.eval_on_selector_all("#contexts th", "all => all.map(e => e.textContent)")
    place = [heading.strip() for heading in headings].index("variability")
    cells = page.eval_on_selector_all(
        "#contexts tbody tr", f"all => all.map(row => row.cells[{place}].textContent.trim())"
    )
    assert set(cells) == {"varies less"}
    keep(page, "explorer-labels")


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("mean_M/lexical-9 < 1", "known are"),
        ("<script>document.title=1</script>", "the filter"),
        ("mean_M/lexical-1 <", "ends where a measure or a number is expected"),
    ],
)
def test_wrong_filters_are_explained(
    filtered: Explorer, visit: Visit, expression: str, problem: str
) -> None:
    page = visit(f"{filtered.url}/run/0/contexts")
    search(page, expression)
    assert problem in page.text_content("#where-problem")
    assert page.input_value("#where") == expression
    assert page.get_attribute("#where", "aria-invalid") == "true"
    assert len(rows_of(page)) == 50  # the first page of the whole list
    assert "Inputs" in page.title()
