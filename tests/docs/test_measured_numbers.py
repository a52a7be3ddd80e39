"""Numbers in the documentation match the current output of their commands.

If a number changed on purpose, copy the command's output into the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from doc_pages import ROOT, blocks

from aleatoric.models import gguf
from aleatoric.studies import token_studies
from aleatoric.studies.e_ece_paper import RECIPE_ROWS, Columns, errors, read_rows, to_table

TOKEN, METHODS = ROOT / "docs" / "token.md", ROOT / "docs" / "methods.md"
RECIPE = ROOT / "docs" / "recipes" / "multi30k.md"
ROUNDING = 0.02
"""Processors and versions of torch differ in the last digits of float32."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def numbers_by_row(table: str) -> dict[str, list[float]]:
    """The numbers of each line of a printed table, keyed by its first column."""
    lines = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in table.splitlines()]
    return {line[0]: [float(x) for x in _NUMBER.findall(line[1])] for line in lines if line[1:]}


@pytest.fixture(scope="module", params=["loss", "bleu", "last"])
def checkpoint(request: pytest.FixtureRequest) -> tuple[str, Columns]:
    return request.param, read_rows(RECIPE_ROWS / f"rows-{request.param}.npz")


@pytest.mark.skipif(not gguf.smollm2_is_cached(), reason="SmolLM2 is not in the cache")
def test_first_run_on_token_page(cli: Callable, tmp_path: Path) -> None:
    page = blocks(TOKEN)
    (story,) = (block.text for block in page if block.text.startswith("The ferry left"))
    (shown,) = (block.text for block in page if block.text.startswith("metric"))
    (tmp_path / "story.txt").write_text(story)
    ran = cli("token", "--corpus", tmp_path / "story.txt", "--model", "smollm2", "--wide")
    printed, found = numbers_by_row(shown), numbers_by_row(ran.out)
    assert set(printed) <= set(found)
    for name, values in printed.items():
        assert values == pytest.approx(found[name], abs=ROUNDING), name


def test_calibration_errors_of_every_checkpoint(checkpoint: tuple[str, Columns]) -> None:
    name, columns = checkpoint
    found = errors(columns, None, 15, 0)
    names = ("ece", "sce_predicted", "ace_predicted", "sce_weighted", "ace_weighted")
    ordered = [found[metric] for metric in (*names, "e_ece", "e_ece_p", "e_ece_k")]
    row = " | ".join(f"{100 * (own.value or 0):.2f}" for own in ordered)
    assert f"| `{name}` | {row} |" in RECIPE.read_text()


def test_stability_numbers_in_docs() -> None:
    columns = read_rows(RECIPE_ROWS / "rows-loss.npz")
    tables = token_studies.stability(to_table(columns), 0).tables
    for unit, table in zip(("tokens", "sentences"), tables, strict=True):
        cells = {row[0]: row for row in table.rows}
        shown = [f"{cells[n][i]} ± {cells[n][i + 1]}" for i in (1, 4) for n in ("10", "50")]
        assert f"| `loss`, {unit} | {' | '.join(shown)} |" in RECIPE.read_text()
        assert f"{cells['10'][1]} ± {cells['10'][2]}%" in METHODS.read_text()


def test_token_numbers_on_methods_page() -> None:
    text = METHODS.read_text()
    found = {
        name: errors(read_rows(RECIPE_ROWS / f"rows-{name}.npz"), None, 15, 0)
        for name in ("loss", "bleu", "last")
    }
    ece, e_ece = (
        [f"{100 * (found[name][metric].value or 0):.2f}" for name in found]
        for metric in ("ece", "e_ece")
    )
    assert f"ECE on Multi30K is {ece[0]}, {ece[1]} or {ece[2]}%" in text
    assert f"e-ECE {e_ece[0]}, {e_ece[1]} or {e_ece[2]}%" in text
    for form in ("predicted", "weighted"):
        pair = [100 * (found["loss"][f"{m}_{form}"].value or 0) for m in ("sce", "ace")]
        assert f"{pair[0]:.2f} and {pair[1]:.2f}%" in text
    columns = read_rows(RECIPE_ROWS / "rows-loss.npz")
    classes = len(read_rows(RECIPE_ROWS / "heads-loss.npz")["class_mass"])
    unseen = 100 * (1 - len(set(columns["token"].tolist())) / classes)
    unknown = int((columns["token"] == 3).sum())
    assert f"{unseen:.1f}% of Multi30K's subword pieces, while {unknown} of its" in text
