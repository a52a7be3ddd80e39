"""The e-ECE tables from rows of a toy recipe."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aleatoric.calibration.sums import AllClasses
from aleatoric.studies import e_ece_paper
from aleatoric.studies.e_ece_paper import errors, sce_of_heads
from aleatoric.training import multi30k
from aleatoric.training.token_rows import read_rows
from aleatoric.training.translation_model import Shape
from aleatoric.training.translation_training import Recipe

SIZES = {"train": 60, "val": 10, "test2016": 12}
WORDS = {"Hund": "dog", "Mann": "man", "Ball": "ball"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parallel text and the rows, weights and facts of the recipe."""
    folder = tmp_path_factory.mktemp("e-ece")
    for split, count in SIZES.items():
        chosen = [list(WORDS.items())[n % 3] for n in range(count)]
        for side in (0, 1):
            text = "".join(f"{('Ein', 'A')[side]} {pair[side]} .\n" for pair in chosen)
            path = folder / "data" / f"multi30k_{split}.{('de', 'en')[side]}.gz"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(gzip.compress(text.encode()))
    recipe = Recipe(seed=5, epochs=2, max_tokens=128, warmup=10)
    shape = Shape(layers=1, width=16, heads=2, ffn=16)
    out, weights = folder / "out", folder / "weights"
    multi30k.run(multi30k.Settings(folder / "data", out, weights, recipe, shape=shape, merges=20))
    return folder


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


def test_the_checkpoint_reads_pairs_as_the_recipe_does(cli: Callable, made: Path) -> None:
    """The token command on the recipe's weights gives the numbers of the recipe's own rows."""
    sides = ",".join(str(made / "data" / f"multi30k_test2016.{s}.gz") for s in ("de", "en"))
    ran = cli(
        *("token", "--corpus", f"parallel:{sides}", "--json", "--classwise", "all"),
        *("--model", f"translation:{made / 'weights'}@last"),
    )
    assert ran.status == 0, ran.err
    columns = read_rows(made / "out" / "rows-last.npz")
    heads = read_rows(made / "out" / "heads-last.npz")
    ours = errors(columns, heads, 15, seed=0)
    for metric in ("ece", "sce", "e_ece", "e_ece_p", "e_ece_k", "sce_predicted", "sce_weighted"):
        value = ran.results["translation-last", metric]["estimate"]["value"]
        assert value == pytest.approx(ours[metric].value, abs=2e-6), metric
    unseen = 1 - len(np.unique(columns["token"])) / len(heads["class_mass"])
    for metric, value in {
        "agreement_M": columns["p_plain"].mean(),
        "agreement_C": np.exp(columns["log_prob"]).mean(),
        "vocabulary_unseen": unseen,
    }.items():
        found = ran.results["translation-last", metric]["estimate"]["value"]
        assert found == pytest.approx(value, abs=1e-5), metric
    assert ran.results["translation-last", "nll"]["estimate"]["value"] == pytest.approx(
        -columns["log_prob"].mean(), abs=1e-5
    )


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


def test_rows_that_ship_are_found(
    cli: Callable, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e_ece_paper, "SHIPPED", made / "out")
    ran = cli("reproduce", "e-ece", "--data", made / "data")
    assert ran.status == 0, ran.err
    assert "rows-loss.npz: seed 5" in ran.out


def test_without_rows_the_training_command_is_named(
    cli: Callable, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(e_ece_paper, "SHIPPED", tmp_path)
    ran = cli("reproduce", "e-ece", "--data", made / "data")
    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert "python -m aleatoric.training.multi30k" in ran.err
    assert "minutes" in ran.err


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
