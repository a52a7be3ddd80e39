"""The e-ECE tables from rows, and what is said where there are none."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aleatoric.calibration.sums import AllClasses
from aleatoric.data import parallel
from aleatoric.studies import e_ece_paper
from aleatoric.studies.e_ece_paper import SCHEMES, Columns, read_rows, sce_of_heads

SENTENCES, TOKENS, CLASSES = 12, 5, 16


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parallel text, and rows, heads and facts as the recipe writes them, of random numbers."""
    folder = tmp_path_factory.mktemp("e-ece")
    (folder / "data").mkdir()
    (folder / "out").mkdir()
    sides = [folder / "data" / f"multi30k_test2016.{side}.gz" for side in ("de", "en")]
    for side in sides:
        side.write_bytes(gzip.compress(b"a b c .\n" * SENTENCES))
    for kept in ("loss", "bleu", "last"):
        columns, heads = random_columns(["loss", "bleu", "last"].index(kept))
        np.savez_compressed(folder / "out" / f"rows-{kept}.npz", **columns)
        np.savez_compressed(folder / "out" / f"heads-{kept}.npz", **heads)
    epochs = {"epochs": {"loss": 1, "bleu": 2, "last": 2}}
    facts = {
        "data_sha256": {"test": parallel.load(*sides).sha256},
        "recipe": {"seed": 5, "label_smoothing": 0.1},
        "models": {"translation": epochs, "uncertainty": epochs},
        "test": {kept: {"bleu": 40.0} for kept in ("loss", "bleu", "last")},
        "environment": {"device": "cpu"},
    }
    (folder / "out" / "facts.json").write_text(json.dumps(facts))
    return folder


def random_columns(seed: int) -> tuple[Columns, Columns]:
    rng, n = np.random.default_rng(seed), SENTENCES * TOKENS
    probs = rng.dirichlet(np.ones(CLASSES), n)
    token = rng.integers(4, CLASSES, n)
    token[TOKENS - 1 :: TOKENS] = 2
    rows = np.arange(n)
    columns = {
        "sentence": rows // TOKENS,
        "position": rows % TOKENS,
        "token": token,
        "predicted": probs.argmax(1),
        "p_hat": probs.max(1),
        "a_hat": 1.0 * (probs.argmax(1) == token),
        "log_prob": np.log(probs[rows, token]),
        "entropy": -(probs * np.log(probs)).sum(1),
        "uncertainty": rng.random(n),
    }
    for scheme in SCHEMES:
        columns |= {f"p_{scheme}": (probs**2).sum(1), f"a_{scheme}": probs[rows, token]}
        columns |= {f"draw_{name}_{scheme}": rng.random(n) for name in ("p", "scheme_p", "a")}
    row, kind = np.nonzero(probs >= 1e-3)
    heads = {"head_sentence": row // TOKENS, "head_position": row % TOKENS, "head_token": kind}
    return columns, heads | {"head_p": probs[row, kind], "class_mass": probs.sum(0)}


def test_every_table_is_printed(cli: Callable, made: Path) -> None:
    rows = made / "out" / "rows-last.npz"
    ran = cli("reproduce", "e-ece", "--data", made / "data", "--rows", rows)
    assert ran.status == 0, ran.err
    for words in ("Table 1", "Table 2", "Table 3", "Table 4", "10.39", "8.21", "26.19", "seed 5"):
        assert words in ran.out
    for words in ("sce_weighted", "subsets of tokens", "subsets of sentences", "49.7%"):
        assert words in ran.out
    assert "What the paper leaves open" in ran.out


def test_json_has_printed_and_ours(cli: Callable, made: Path) -> None:
    rows = made / "out" / "rows-loss.npz"
    ran = cli("reproduce", "e-ece", "--data", made / "data", "--rows", rows, "--json")
    found = ran.results["translation", "e_ece"]
    assert found["printed"] == pytest.approx(0.0687)
    assert set(found["estimate"]["interval"]) == {"low", "high", "level", "method"}
    assert "eos=scored" in found["signature"]


def test_nixons_sce_from_heads_is_that_of_whole_rows() -> None:
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


def test_the_rows_of_the_checkout_are_found(
    cli: Callable, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e_ece_paper, "RECIPE_ROWS", made / "out")
    ran = cli("reproduce", "e-ece", "--data", made / "data")
    assert ran.status == 0, ran.err
    assert "rows-loss.npz: seed 5" in ran.out


def test_without_rows_their_place_is_named(
    cli: Callable, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e_ece_paper, "RECIPE_ROWS", tmp_path)
    ran = cli("reproduce", "e-ece", "--data", made / "data")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert "copy recipes/multi30k/rows/* from the aleatoric repository into it" in ran.err
    assert "--rows FILE" in ran.err


def test_rows_beside_the_data_are_found(
    cli: Callable, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e_ece_paper, "RECIPE_ROWS", tmp_path / "none")
    for path in (*(made / "data").iterdir(), *(made / "out").iterdir()):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    ran = cli("reproduce", "e-ece", "--data", tmp_path)
    assert ran.status == 0, ran.err
    assert "rows-loss.npz: seed 5" in ran.out


def test_the_repository_holds_the_rows_of_every_checkpoint() -> None:
    for kept in ("loss", "bleu", "last"):
        assert set(read_rows(e_ece_paper.RECIPE_ROWS / f"heads-{kept}.npz")) >= {"class_mass"}
        rows = read_rows(e_ece_paper.RECIPE_ROWS / f"rows-{kept}.npz")
        assert {f"p_{scheme}" for scheme in SCHEMES} <= set(rows)


def test_rows_of_other_sentences_are_refused(cli: Callable, made: Path, tmp_path: Path) -> None:
    for name in ("rows-loss.npz", "facts.json"):
        (tmp_path / name).write_bytes((made / "out" / name).read_bytes())
    facts = json.loads((tmp_path / "facts.json").read_text())
    facts["data_sha256"]["test"] = "0" * 64
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    argv = ("--data", made / "data", "--rows", tmp_path / "rows-loss.npz")
    ran = cli("reproduce", "e-ece", *argv)
    assert ran.status == 2
    assert "another test set" in ran.err


def test_what_the_paper_prints_is_written_once() -> None:
    assert e_ece_paper.PRINTED_ERRORS["ece"] == e_ece_paper.PRINTED_SCHEMES["greedy"] == 10.39
