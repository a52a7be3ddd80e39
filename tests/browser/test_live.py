"""A run in progress is updated in the browser without a manual reload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from explored_runs import explored

from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob, score_word
from aleatoric.runs.run import Store
from aleatoric.types import Draws, Item


def test_progress_is_updated_and_results_appear(
    tmp_path: Path, visit: Callable[..., Any], keep: Callable[..., None]
) -> None:
    with run_job(WordJob("simulated:contexts=3,people=4", n_splits=2), tmp_path / "other") as other:
        manifest = other.manifest
    with Store.create(tmp_path / "run", manifest) as store:
        store.add_items([Item(f"{i}", f"g{i % 3}", f"text {i}", ("a", "a", "b")) for i in range(6)])
        facts = {"model": "m@1", "decoder": "ancestral", "estimator": "mc", "label": "m"}
        store.add_system("m", facts)
        with explored(tmp_path / "run") as explorer:
            page = visit(f"{explorer.url}/run/0")
            assert page.text_content("[data-done]") == "0"
            store.add_draws("m", [Draws(f"{i}", {"a": 2, "b": 1}) for i in range(4)], whole=False)
            page.wait_for_selector("[data-done]:text-is('4')")
            assert page.evaluate("document.querySelector('progress').value") == 4
            keep(page, "explorer-live")
            store.add_draws("m", [Draws(f"{i}", {"a": 3}) for i in (4, 5)], whole=False)
            store.set_meta("done m", True)
            score_word(store)
            page.wait_for_selector("#systems")
            page.wait_for_selector("#progress", state="detached")
            page.wait_for_selector("text=Signatures")
