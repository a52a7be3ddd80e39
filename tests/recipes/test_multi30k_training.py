"""Training: it learns, is deterministic, and uses the documented schedule and loss."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from multi30k.batches import make_batch, make_batches
from multi30k.data import TranslationData
from multi30k.model import Shape, TranslationModel
from multi30k.subwords import PAD
from multi30k.training import (
    Epoch,
    Recipe,
    Trained,
    learning_rate,
    load,
    restored,
    save,
    smoothed_loss,
    train,
    validate,
)
from multi30k.translate import bleu_of, corpus_bleu, translate

SHORT = Recipe(seed=3, epochs=3, max_tokens=256, warmup=30, peak_rate=5e-3)


@pytest.fixture(scope="module")
def trained(toy_data: TranslationData, small: Shape) -> Trained:
    return train(toy_data, SHORT, small)


def test_loss_falls_and_accuracy_rises_over_three_epochs(trained: Trained) -> None:
    losses = [epoch.train_loss for epoch in trained.history]
    assert losses[0] > losses[1] > losses[2]
    first, last = trained.history[0].validation, trained.history[-1].validation
    assert last.loss < first.loss
    assert last.nll < first.nll
    assert last.accuracy > first.accuracy


def test_weights_are_determined_by_seed(
    trained: Trained, toy_data: TranslationData, small: Shape
) -> None:
    torch.manual_seed(12345)  # what others drew before must not matter
    again = train(toy_data, SHORT, small)
    other = train(toy_data, replace(SHORT, seed=4, epochs=1), small)
    for name, value in trained.weights["last"].items():
        assert torch.equal(value, again.weights["last"][name])
    table = "target.table.weight"
    assert not torch.equal(trained.weights["last"][table], other.weights["last"][table])


def test_training_does_not_change_global_random_state(
    toy_data: TranslationData, small: Shape
) -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    train(toy_data, replace(SHORT, epochs=1), small)
    assert torch.equal(torch.rand(3), expected)


def test_time_limited_run_matches_run_with_same_epochs(
    trained: Trained, toy_data: TranslationData, small: Shape
) -> None:
    stopped = train(toy_data, replace(SHORT, limit_minutes=1e-9), small)
    assert len(stopped.history) == 1
    assert stopped.history[0].validation == trained.history[0].validation


def test_best_epochs_are_kept(toy_data: TranslationData, small: Shape) -> None:
    seen: list[Epoch] = []
    kept = train(toy_data, replace(SHORT, epochs=5, peak_rate=0.05), small, seen.append)
    assert tuple(seen) == kept.history
    assert kept.epochs["last"] == 5
    assert kept.epochs["loss"] == min(seen, key=lambda epoch: epoch.validation.loss).number
    assert kept.epochs["bleu"] == max(seen, key=lambda epoch: epoch.bleu).number
    model = restored(kept.weights["loss"], toy_data, small)
    batches = make_batches(toy_data.validation, 256, "cpu")
    best = seen[kept.epochs["loss"] - 1].validation
    assert validate(model, batches, 0.1).loss == pytest.approx(best.loss, abs=1e-6)


def test_weights_round_trip_through_file(
    trained: Trained, toy_data: TranslationData, small: Shape, tmp_path: Path
) -> None:
    save(trained.weights["last"], tmp_path / "a" / "model.safetensors")
    model = load(tmp_path / "a" / "model.safetensors", toy_data, small)
    for name, value in model.state_dict().items():
        assert torch.equal(value, trained.weights["last"][name])


@pytest.mark.parametrize("step", [1, 10, 3999, 4000, 4001, 16_000])
def test_schedule_matches_fairseq_formula(step: int) -> None:
    warm = 5e-4 * step / 4000
    declining = 5e-4 * math.sqrt(4000) * step**-0.5
    expected = warm if step < 4000 else declining
    assert learning_rate(step, 5e-4, 4000) == pytest.approx(expected, rel=1e-12)


def test_loss_is_mean_over_tokens_with_label_smoothing() -> None:
    logits = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(0))
    wanted = torch.tensor([[4, 5, PAD], [6, PAD, PAD]])
    terms = []
    for row, token in zip(logits.flatten(0, 1), wanted.flatten(), strict=True):
        if token != PAD:
            logp = row.log_softmax(-1)
            terms.append(-(0.9 * logp[token] + 0.1 * logp.mean()))
    expected = torch.stack(terms).mean()
    assert smoothed_loss(logits, wanted, 0.1).item() == pytest.approx(expected.item(), rel=1e-6)


def test_padding_does_not_change_logits(toy_data: TranslationData) -> None:
    torch.manual_seed(0)
    model = TranslationModel(len(toy_data.source), len(toy_data.target), Shape(2, 32, 4, 64)).eval()
    order = sorted(range(20), key=lambda n: len(toy_data.test[n].target))
    short, long = order[0], order[-1]
    alone = make_batch(toy_data.test, [short], "cpu")
    beside = make_batch(toy_data.test, [short, long], "cpu")
    wide = [torch.nn.functional.pad(t, (0, 16), value=PAD) for t in (beside.source, beside.given)]
    real = (alone.wanted != PAD)[0].sum()
    with torch.inference_mode():
        expected = model(alone.source[:, : len(toy_data.test[short].source)], alone.given)
        padded = model(*wide)
    torch.testing.assert_close(padded[0, :real], expected[0, :real], rtol=1e-5, atol=1e-5)


def test_later_tokens_do_not_change_earlier_logits(toy_data: TranslationData) -> None:
    torch.manual_seed(0)
    model = TranslationModel(len(toy_data.source), len(toy_data.target), Shape(2, 32, 4, 64)).eval()
    source, given = torch.tensor([[5, 6, 2]]), torch.tensor([[2, 5, 6, 7]])
    changed = torch.tensor([[2, 5, 6, 4]])
    with torch.inference_mode():
        a, b = model(source, given), model(source, changed)
    torch.testing.assert_close(a[:, :3], b[:, :3])
    assert not torch.allclose(a[:, 3], b[:, 3])


def test_default_model_has_size_of_iwslt_configuration() -> None:
    with torch.device("meta"):
        model = TranslationModel(7072, 5184)
    attention, ffn, norm = 4 * (512 * 512 + 512), 2 * 512 * 1024 + 1024 + 512, 2 * 512
    layers = 6 * (attention + ffn + 2 * norm) + 6 * (2 * attention + ffn + 3 * norm)
    expected = layers + (7072 + 5184) * 512
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.long
def test_trained_model_translates(toy_data: TranslationData, small: Shape) -> None:
    trained = train(toy_data, replace(SHORT, epochs=25), small)
    model = restored(trained.weights["loss"], toy_data, small)
    assert bleu_of(model, toy_data.test, toy_data.target, "cpu") > 90
    assert len(translate(model, toy_data.test, "cpu")) == 20


def test_bleu_of_a_known_example() -> None:
    found = ["the cat sat on the mat today", "a dog runs fast here now"]
    wanted = ["the cat sat on a mat today", "a dog runs very fast here now"]
    precisions = [12 / 13, 8 / 11, 4 / 9, 1 / 7]
    brevity = math.exp(1 - 14 / 13)
    expected = 100 * brevity * math.prod(precisions) ** 0.25
    cut = [[text.split() for text in texts] for texts in (found, wanted)]
    assert corpus_bleu(*cut) == pytest.approx(expected)
    assert corpus_bleu([[]], [["a"]]) == 0
