"""The e-ECE tables from saved rows, and errors if rows are missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from e_ece_rows import save_rows

from aleatoric.calibration.sums import AllClasses
from aleatoric.studies import e_ece_paper
from aleatoric.studies.e_ece_paper import SCHEMES, read_rows, sce_of_heads


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parallel text, and rows, heads and facts as the recipe writes them, of random numbers."""
    return save_rows(tmp_path_factory.mktemp("e-ece"))


def test_every_table_is_printed(cli: Callable, made: Path) -> None:
    rows = made / "out" / "rows-last.npz"
    ran = cli("reproduce", "e-ece", "--data", made / "data", "--rows", rows)
    assert ran.status == 0, ran.err
    for words in ("Table 1", "Table 2", "Table 3", "Table 4", "10.39", "8.21", "26.19", "seed 5"):
        assert words in ran.out
    for words in ("sce_weighted", "subsets of tokens", "subsets of sentences", "49.7%"):
        assert words in ran.out
    assert "What the paper leaves open" in ran.out


def test_json_has_published_and_computed_values(cli: Callable, made: Path) -> None:
    rows = made / "out" / "rows-loss.npz"
    ran = cli("reproduce", "e-ece", "--data", made / "data", "--rows", rows, "--json")
    found = ran.results["translation", "e_ece"]
    assert found["printed"] == pytest.approx(0.0687)
    assert set(found["estimate"]["interval"]) == {"low", "high", "level", "method"}
    assert "eos=scored" in found["signature"]


def test_sce_from_heads_matches_full_distributions() -> None:
    rng = np.random.default_rng(0)
    logits, targets = rng.normal(size=(40, 6)) * 2, rng.integers(0, 6, 40)
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    row, token = np.nonzero(probs >= 1e-3)
    heads = {"head_sentence": row // 8, "head_position": row % 8, "head_token": token}
    heads |= {"head_p": probs[row, token], "class_mass": probs.sum(axis=0)}
    columns = {"sentence": np.arange(40) // 8, "position": np.arange(40) % 8, "token": targets}
    own = AllClasses(6, 15)
    own.add(logits, targets)
    found = sce_of_heads(columns, heads, 15)
    assert found == pytest.approx(own.errors()["sce"], abs=1e-12)


def test_rows_in_repository_are_found(
    cli: Callable, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e_ece_paper, "RECIPE_ROWS", made / "out")
    ran = cli("reproduce", "e-ece", "--data", made / "data")
    assert ran.status == 0, ran.err
    assert "rows-loss.npz: seed 5" in ran.out


def test_missing_rows_error_names_expected_location(
    cli: Callable, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e_ece_paper, "RECIPE_ROWS", tmp_path)
    ran = cli("reproduce", "e-ece", "--data", made / "data")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert "copy recipes/multi30k/rows/* from the aleatoric repository into it" in ran.err
    assert "--rows FILE" in ran.err


def test_rows_next_to_data_are_found(
    cli: Callable, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e_ece_paper, "RECIPE_ROWS", tmp_path / "none")
    for path in (*(made / "data").iterdir(), *(made / "out").iterdir()):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    ran = cli("reproduce", "e-ece", "--data", tmp_path)
    assert ran.status == 0, ran.err
    assert "rows-loss.npz: seed 5" in ran.out


def test_repository_contains_rows_of_every_checkpoint() -> None:
    for kept in ("loss", "bleu", "last"):
        assert set(read_rows(e_ece_paper.RECIPE_ROWS / f"heads-{kept}.npz")) >= {"class_mass"}
        rows = read_rows(e_ece_paper.RECIPE_ROWS / f"rows-{kept}.npz")
        assert {f"p_{scheme}" for scheme in SCHEMES} <= set(rows)


def test_rows_of_other_sentences_are_rejected(cli: Callable, made: Path, tmp_path: Path) -> None:
    for name in ("rows-loss.npz", "facts.json"):
        (tmp_path / name).write_bytes((made / "out" / name).read_bytes())
    facts = json.loads((tmp_path / "facts.json").read_text())
    facts["data_sha256"]["test"] = "0" * 64
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    argv = ("--data", made / "data", "--rows", tmp_path / "rows-loss.npz")
    ran = cli("reproduce", "e-ece", *argv)
    assert ran.status == 2
    assert "another test set" in ran.err


def test_published_values_are_consistent_between_tables() -> None:
    assert e_ece_paper.PRINTED_ERRORS["ece"] == e_ece_paper.PRINTED_SCHEMES["greedy"] == 10.39
