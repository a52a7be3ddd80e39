"""Comparing two models on the same documents by sums per document, against naive code."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from forced_lms import saved

from aleatoric.calibration.stream import CalibrationStream
from aleatoric.inference.paired import IDENTICAL, NO_ITEMS, ONE_GROUP
from aleatoric.metrics.calibration import ece, equal_width_edges
from aleatoric.studies.compare_statistics import (
    NOT_BY_GROUP,
    compare_sums,
    compare_values,
    tokens_differ,
)
from aleatoric.types import Estimate

BINS = 5
Tokens = dict[str, tuple[np.ndarray, np.ndarray]]


def read(seed: int, n_documents: int = 6, n_tokens: int = 12) -> Tokens:
    """Log-probabilities and targets per document; the seed changes the model, not the text."""
    rng, found = np.random.default_rng(seed), {}
    for number in range(n_documents):
        logits = rng.normal(0, 1 + seed, (n_tokens + number, 4))
        logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        targets = np.random.default_rng(number).integers(0, 4, n_tokens + number)
        found[f"document {number}"] = (logprobs, targets)
    return found


def streamed(tokens: Tokens) -> CalibrationStream:
    stream = CalibrationStream(vocabulary_size=4, units="logprobs", bins=BINS)
    for name, (logprobs, targets) in tokens.items():
        stream.update(logprobs, targets, group=name)
    return stream


def naive_ece(parts: list[tuple[np.ndarray, np.ndarray]]) -> float:
    logprobs, targets = (np.concatenate(own) for own in zip(*parts, strict=True))
    correct = (logprobs.argmax(axis=1) == targets).astype(float)
    return ece(np.exp(logprobs.max(axis=1)), correct, equal_width_edges(BINS)) or 0.0


def test_difference_and_p_value_match_naive_permutation() -> None:
    one, other = read(0), read(1)
    found = compare_sums("ece", streamed(one).grouped(), streamed(other).grouped(), seed=0)
    names = list(one)
    gaps = []
    for swaps in product((False, True), repeat=len(names)):
        sides = [
            (other[n], one[n]) if s else (one[n], other[n])
            for n, s in zip(names, swaps, strict=True)
        ]
        gaps.append(naive_ece([a for a, _ in sides]) - naive_ece([b for _, b in sides]))
    assert found.difference.value == pytest.approx(gaps[0])
    assert found.test.p == pytest.approx(np.mean(np.abs(gaps) >= abs(gaps[0]) - 1e-12))
    assert found.difference.n_groups == len(names)
    assert found.difference.interval.low < gaps[0] < found.difference.interval.high


def test_metrics_from_document_sums_match_results() -> None:
    streams = [streamed(read(seed)) for seed in (0, 1)]
    values = [stream.result().estimates for stream in streams]
    one, other = (stream.grouped() for stream in streams)
    assert {"ece", "e_ece", "e_ece_p", "e_ece_k", "nll", "accuracy"} <= set(one.metrics)
    for metric in one.metrics:
        found = compare_sums(metric, one, other, seed=0).difference.value
        assert found == pytest.approx(values[0][metric].value - values[1][metric].value), metric


def test_only_common_documents_are_compared_in_any_order() -> None:
    one, other = read(0), read(1)
    turned = dict(reversed([*other.items()][:4]))
    found = compare_sums("ece", streamed(one).grouped(), streamed(turned).grouped(), seed=0)
    kept = {name: one[name] for name in turned}
    expected = naive_ece([*kept.values()]) - naive_ece([*turned.values()])
    assert found.difference.value == pytest.approx(expected)
    assert (found.difference.n_groups, found.difference.n_items) == (4, 12 + 13 + 14 + 15)


def test_untestable_metrics_have_a_reason() -> None:
    one = streamed(read(0)).grouped()
    assert compare_sums("ece", one, one, seed=0).reason == IDENTICAL
    single = [streamed(read(seed, n_documents=1)).grouped() for seed in (0, 1)]
    assert compare_sums("ece", *single, seed=0).reason == ONE_GROUP
    apart = {f"x {name}": own for name, own in read(1).items()}
    assert compare_sums("ece", one, streamed(apart).grouped(), seed=0).reason == NO_ITEMS
    assert compare_sums("sce", one, one, seed=0) is None
    found = compare_values(Estimate(0.2, None, 9, 2), Estimate(0.1, None, 9, 2))
    assert found.difference.value == pytest.approx(0.1)
    assert (found.test, found.reason) == (None, NOT_BY_GROUP)
    assert tokens_differ(one, streamed(read(1, n_tokens=13)).grouped())


def test_compare_command_on_token_runs(cli: Callable, tmp_path: Path) -> None:
    saved("gpt2", tmp_path)
    text = tmp_path / "story.txt"
    sentence = "The ferry left at seven and nobody waved. Bread is made of flour. "
    text.write_text("\n\n".join(sentence * n for n in (1, 2, 1, 3, 2, 1)))
    model = f"hf:{tmp_path / 'gpt2'}"
    for bos in ("none", "add"):
        asked = ("--corpus", text, "--model", model, "--bos", bos, "--out", tmp_path / bos)
        ran = cli("token", *asked, "--json")
        assert ran.status == 0, ran.err
    ran = cli("compare", tmp_path / "none", tmp_path / "add", "--json")
    assert ran.status == 0, ran.err
    found = {one["metric"]: one for one in json.loads(ran.out)["comparisons"]}
    assert found["e_ece"]["difference"]["interval"] is not None
    assert 0 < found["ece"]["p"] <= 1
    assert found["sce"]["difference"]["value"] is not None
    assert found["sce"]["reason"] == NOT_BY_GROUP
    assert any("different tokens" in note for note in json.loads(ran.out)["notes"])
