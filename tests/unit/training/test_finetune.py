"""Fine-tuning a fold: what trains, what is masked, when it stops, and that it can go on."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tuned_lms import population, words_lm

from aleatoric.errors import DataError, UsageError
from aleatoric.training.finetune import CHECKPOINT, TRAINED, Trained, train_fold
from aleatoric.training.folds import Fold, assign, make_folds, passages_of
from aleatoric.training.recipe import Recipe
from aleatoric.training.soft_labels import WordTree, word_tree
from aleatoric.training.tensors import load_tensors, save_tensors
from aleatoric.training.texts import mean_nll, text_loss
from aleatoric.training.trainable import Tunable, make_tunable
from aleatoric.words.vocabulary import Vocabulary

QUICK = Recipe("mixed", train="all", rate=1e-2, batch=2, epochs=2)


@cache
def fold() -> Fold:
    passages = passages_of(population(passages=7, length=4))
    return make_folds(passages, assign([p.group for p in passages], "paper", 3, 1, 0))[0]


@cache
def trees() -> dict[str, WordTree]:
    lm = words_lm(dropout=0.1)
    vocabulary = Vocabulary(lm.pieces)
    sides = (*fold().train, *fold().validation)
    return {p.group: word_tree(lm, p.items, vocabulary) for p in sides}


def model(train: str = "all") -> Tunable:
    return make_tunable(words_lm(dropout=0.1), train)


def trained(folder: Path, recipe: Recipe = QUICK, **options: Any) -> Trained:
    return train_fold(model(recipe.train), fold(), recipe, trees(), folder, **options)


def test_padding_has_no_part_in_the_loss() -> None:
    lm = words_lm()
    rows = [(1, 2, 3, 4, 5, 6), (7, 8), (9, 1, 2)]
    with torch.no_grad():
        alone = [float(text_loss(lm.model, [row])) * (len(row) - 1) for row in rows]
        together = float(text_loss(lm.model, rows))
    assert together == pytest.approx(sum(alone) / 8, rel=1e-5)
    assert mean_nll(lm.model, rows, batch=1) == pytest.approx(together, rel=1e-5)


def test_only_the_last_blocks_train(tmp_path: Path) -> None:
    own = model("last-1-block")
    before = {name: value.clone() for name, value in own.lm.model.state_dict().items()}
    train_fold(own, fold(), replace(QUICK, train="last-1-block"), trees(), tmp_path)
    after = own.lm.model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(".h.1." in name for name in changed)
    own.reset()
    assert all(torch.equal(before[name], own.lm.model.state_dict()[name]) for name in before)


def test_lora_begins_as_the_model_itself_and_trains_only_its_additions(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    plain, own = words_lm(), make_tunable(words_lm(), "lora", rank=2)
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        assert torch.allclose(plain.model(ids).logits, own.lm.model(ids).logits, atol=1e-6)
    assert own.parameters
    assert all("lora" in name for name in own.parameters)
    found = train_fold(own, fold(), replace(QUICK, train="lora"), trees(), tmp_path)
    assert found.history[-1].validation_loss < found.history[0].validation_loss


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        trained(tmp_path / name, replace(QUICK, seed=seed))
    a, b, c = (load_tensors(tmp_path / name / TRAINED) for name in "abc")
    assert (tmp_path / "a" / TRAINED).read_bytes() == (tmp_path / "b" / TRAINED).read_bytes()
    assert any(not torch.equal(a.tensors[name], c.tensors[name]) for name in b.tensors)


class StopHereError(Exception):
    """Stands for anything that ends a process."""


@pytest.mark.parametrize("stop_at", [1, 2, 3])
def test_stopped_anywhere_and_resumed_the_weights_are_the_same(
    tmp_path: Path, stop_at: int
) -> None:
    def stopping(work: Any, total: int, description: str) -> Any:
        for number, step in enumerate(work):
            if number == stop_at:
                raise StopHereError
            yield step

    patient = replace(QUICK, patience=5)
    whole = trained(tmp_path / "whole", patient)
    with pytest.raises(StopHereError):
        trained(tmp_path / "parts", patient, save_every=1, track=stopping)
    assert (tmp_path / "parts" / CHECKPOINT).exists()
    resumed = trained(tmp_path / "parts", patient)
    assert resumed.history == whole.history
    names = [tmp_path / name / TRAINED for name in ("whole", "parts")]
    assert names[0].read_bytes() == names[1].read_bytes()
    assert not (tmp_path / "parts" / CHECKPOINT).exists()


def test_what_is_trained_is_not_trained_again(tmp_path: Path) -> None:
    first = trained(tmp_path)
    written = (tmp_path / TRAINED).stat().st_mtime_ns
    again = trained(tmp_path)
    assert (tmp_path / TRAINED).stat().st_mtime_ns == written
    assert again.history == first.history


def test_early_stopping_keeps_the_weights_of_the_least_validation_loss(tmp_path: Path) -> None:
    wild = replace(QUICK, rate=0.5, epochs=6, patience=1)
    found = trained(tmp_path, wild)
    losses = [epoch.validation_loss for epoch in found.history]
    assert len(losses) < 7
    assert found.kept == losses.index(min(losses))
    own = model()
    own.load(found.weights)
    again = train_fold(own, fold(), wild, trees(), tmp_path)
    assert again.kept == found.kept


def test_another_training_in_the_same_place_is_refused(tmp_path: Path) -> None:
    trained(tmp_path)
    with pytest.raises(UsageError, match="is of another training \\(its recipe differs\\)"):
        trained(tmp_path, replace(QUICK, rate=1e-3))


def test_a_damaged_checkpoint_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"\x80\x04pickle")
    with pytest.raises(DataError, match=r"checkpoint\.safetensors: is damaged"):
        trained(tmp_path)


def test_a_half_written_file_never_takes_the_place_of_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_tensors(path, {"a": torch.ones(2)}, {"n": 1})
    (tmp_path / ".w.safetensors.part").write_bytes(b"half")
    assert load_tensors(path).facts == {"n": 1}
    assert load_tensors(path).tensors["a"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"loss": "both"},
        {"schedule": "step"},
        {"mix": 1.5},
        {"rate": 0.0},
        {"rate": float("nan")},
        {"train": "last-0-blocks"},
        {"train": "head"},
        {"batch": 0},
    ],
)
def test_recipes_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Recipe(**wrong)


def test_more_blocks_than_there_are_is_refused() -> None:
    with pytest.raises(UsageError, match="the model has 2"):
        make_tunable(words_lm(), "last-3-blocks")
