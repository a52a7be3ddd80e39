"""Calibration stream: chunks, groups, merging, validation, memory, recovery of known truth."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aleatoric.calibration import sums as resampling
from aleatoric.calibration.results import CalibrationResult
from aleatoric.calibration.statistics import EXPECTED, Scheme
from aleatoric.calibration.stream import CalibrationStream
from aleatoric.errors import DataError, UsageError
from aleatoric.metrics.calibration import ece, equal_width_edges

WIDTH = 30
ONE_SAMPLE = tuple(
    map(Scheme.parse, ("ancestral,samples=1", "top_k=100,samples=1", "top_p=0.8,samples=1"))
)
"""The ECE of pure, top-k and top-p sampling: the paper's Table 1, whose greedy column is `ece`."""
ALL = (*EXPECTED, *ONE_SAMPLE)


def simulated(n: int, seed: int = 0, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and targets drawn from the distribution they have at a temperature."""
    rng = np.random.default_rng(seed)
    logits = (rng.normal(size=(n, WIDTH)) * rng.gamma(2, 1.5, size=(n, 1))).astype(np.float32)
    noise = rng.gumbel(size=logits.shape)
    return logits, (logits / temperature + noise).argmax(axis=1)


def new(**settings: object) -> CalibrationStream:
    return CalibrationStream(**{"vocabulary_size": WIDTH, "units": "logits", **settings})  # type: ignore[arg-type]


def values(result: CalibrationResult) -> dict[str, float | None]:
    return {name: own.value for name, own in result.estimates.items()}


def names_of(n: int, groups: int) -> list[str]:
    return [f"g{i * groups // n}" for i in range(n)]


@settings(deadline=None, max_examples=12)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=6), st.integers(1, 60))
def test_result_does_not_depend_on_chunk_size(cuts: list[int], n_groups: int) -> None:
    logits, targets = simulated(400)
    groups = names_of(400, n_groups)
    whole, parts = new(schemes=ALL), new(schemes=ALL)
    whole.update(logits, targets, groups)
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 400], strict=True):
        parts.update(logits[start:end], targets[start:end], groups[start:end])
    wanted, found = whole.result(), parts.result()
    assert values(found) == pytest.approx(values(wanted), abs=1e-9)
    assert found.estimates["ece"].interval == wanted.estimates["ece"].interval


def test_numpy_and_torch_inputs_give_same_result() -> None:
    logits, targets = simulated(200)
    one, other = new(), new()
    one.update(logits, targets, "a")
    other.update(torch.tensor(logits), torch.tensor(targets), "a")
    assert values(one.result()) == values(other.result())


@pytest.mark.parametrize("n_groups", [7, 900, 2500])
def test_merged_streams_equal_single_stream(n_groups: int) -> None:
    logits, targets = simulated(3000, temperature=2.0)
    groups = names_of(3000, n_groups)
    whole, left, right = (new(classwise="all") for _ in range(3))
    whole.update(logits, targets, groups)
    left.update(logits[:1100], targets[:1100], groups[:1100])
    right.update(logits[1100:], targets[1100:], groups[1100:])
    left.merge(right)
    one, other = whole.result(), left.result()
    assert one.n_groups == other.n_groups == n_groups
    for name, own in one.estimates.items():
        assert other.estimates[name].value == pytest.approx(own.value, abs=1e-12), name
    for name in ("ece", "e_ece", "nll"):
        own_interval, merged = one.estimates[name].interval, other.estimates[name].interval
        assert own_interval is not None
        assert merged is not None
        if n_groups > resampling.MAX_UNITS:
            assert "pooled" in merged.method
            assert merged.low == pytest.approx(own_interval.low, abs=1e-12)


def test_merging_streams_with_different_settings_raises() -> None:
    with pytest.raises(UsageError, match="settings"):
        new(bins=10).merge(new(bins=15))


def test_kept_rows_match_metric_definitions() -> None:
    logits, targets = simulated(2000, temperature=2)
    stream = new(keep_rows=True, bins=10)
    stream.update(logits[:700], targets[:700], "a")
    stream.update(logits[700:], targets[700:], "b")
    found = stream.result()
    rows = found.rows
    assert rows is not None
    assert found.row_groups == ("a",) * 700 + ("b",) * 1300
    assert (rows.target == targets).all()
    edges = equal_width_edges(10)
    assert found.estimates["ece"].value == pytest.approx(ece(rows.confidence, rows.correct, edges))
    for scheme, name in (
        ("ancestral", "e_ece"),
        ("top_p=0.8", "e_ece_p"),
        ("top_k=100", "e_ece_k"),
    ):
        own = rows.expected[scheme]
        expected = ece(own.confidence, own.accuracy, edges)
        assert found.estimates[name].value == pytest.approx(expected, abs=1e-12)
    assert found.estimates["brier"].value == pytest.approx(rows.brier.mean())
    assert found.estimates["nll"].value == pytest.approx(rows.nll.mean())


def test_cell_based_bins_are_close_to_exact_bins() -> None:
    """Edges on cell borders move a bin's edge by less than a cell: 1/4096 of confidence."""
    logits, targets = simulated(4000, temperature=1.5)
    exact, cells = new(keep_rows=True), new()
    for stream in (exact, cells):
        stream.update(logits, targets, "a")
    one, other = values(exact.result()), values(cells.result())
    for name in ("ece_mass", "ece_smooth"):
        assert one[name] == pytest.approx(other[name], abs=2e-3)
    assert one["ece"] == other["ece"]


def test_calibrated_model_has_only_sampling_error() -> None:
    """Targets drawn from the model itself: e-ECE and ECE fall with the number of tokens."""
    found = {}
    for n in (500, 5000, 50000):
        stream = new(schemes=["ancestral", "ancestral,samples=4"])
        logits, targets = simulated(n, seed=n)
        stream.update(logits, targets, names_of(n, 100))
        found[n] = values(stream.result())
    for name in ("ece", "e_ece", "ece_mass", "ece_sweep", "e_ece[ancestral,samples=4]"):
        errors = [found[n][name] or 0.0 for n in found]
        assert errors[2] < errors[1] < errors[0], name
        assert errors[2] < 0.01, name
    assert found[50000]["ece_debiased"] < 0.01


@pytest.mark.long
def test_overconfident_model_is_detected() -> None:
    logits, targets = simulated(20000, temperature=3)
    stream = new()
    stream.update(logits, targets, names_of(20000, 50))
    for name in ("ece", "e_ece", "ece_mass", "ece_debiased", "ece_smooth", "sce_predicted"):
        estimate = stream.result().estimates[name]
        assert estimate.value is not None
        assert estimate.value > 0.1, name
    interval = stream.result().estimates["e_ece"].interval
    assert interval is not None
    assert 0.1 < interval.low < (stream.result().estimates["e_ece"].value or 0) < interval.high


def test_agreements_match_definition_and_brier_score() -> None:
    """M = Σ P² and C = P(y); the Brier score of a token is 1 + M − 2C."""
    logits, targets = simulated(2000)
    stream = new(schemes=["ancestral"])
    stream.update(logits, targets, names_of(2000, 50))
    probs = np.exp(logits.astype(np.float64))
    probs /= probs.sum(axis=1, keepdims=True)
    found = stream.result().estimates
    assert found["agreement_M"].value == pytest.approx((probs**2).sum(axis=1).mean(), abs=1e-6)
    assert found["agreement_C"].value == pytest.approx(probs[np.arange(2000), targets].mean())
    brier = 1 + found["agreement_M"].value - 2 * found["agreement_C"].value
    assert found["brier"].value == pytest.approx(brier, abs=1e-6)
    assert found["agreement_C"].interval is not None
    sums = stream.grouped().metrics["agreement_M"]
    assert sums.value(sums.table.sum(axis=0)) == pytest.approx(found["agreement_M"].value)
    without = new(schemes=["top_p=0.8"])
    without.update(logits, targets, names_of(2000, 50))
    assert "agreement_M" not in without.result().estimates


def test_confidence_of_one_falls_into_last_bin() -> None:
    stream = new(schemes=["ancestral"])
    sure = np.full((4, WIDTH), -np.inf, dtype=np.float32)
    sure[:, 3] = 0.0
    stream.update(sure, np.array([3, 3, 0, 0]), "a")
    found = stream.result()
    assert found.estimates["ece"].value == 0.5
    assert found.estimates["mce"].value == 0.5
    assert found.curves["ece"].counts[-1] == 4
    assert found.estimates["nll"].value is None
    assert found.estimates["nll"].n_undefined == 2


BAD = {
    "target above": (lambda x, y: (x, y + WIDTH), "target 3. *; targets go from 0 to 29|target"),
    "target below": (lambda x, y: (x, y - WIDTH), "targets go from 0 to 29"),
    "NaN": (lambda x, y: (np.where(x == x.max(), np.nan, x), y), "NaN or \\+inf"),
    "+inf": (lambda x, y: (np.where(x == x.max(), np.inf, x), y), "NaN or \\+inf"),
    "all excluded": (lambda x, y: (np.full_like(x, -np.inf), y), "none above -inf"),
    "integer values": (lambda x, y: (x.astype(int), y), "floating-point"),
    "float targets": (lambda x, y: (x, y.astype(float)), "whole numbers"),
    "width": (lambda x, y: (x[:, 1:], y), r"\(5, 29\); give \(tokens, 30\)"),
    "one row": (lambda x, y: (x[0], y), r"\(30,\); give \(tokens, 30\)"),
    "too few targets": (lambda x, y: (x, y[1:]), "each of the 5 rows"),
    "lists": (lambda x, y: (x.tolist(), y), "torch tensor or a numpy array, not list"),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_chunk_is_rejected_without_side_effects(name: str) -> None:
    spoil, message = BAD[name]
    clean, spoilt = new(schemes=ALL), new(schemes=ALL)
    logits, targets = simulated(60)
    for stream in (clean, spoilt):
        stream.update(logits[:30], targets[:30], "a")
    with pytest.raises(DataError, match=message) as refused:
        spoilt.update(*spoil(logits[30:35].copy(), targets[30:35].copy()), "b")
    assert "\n" not in str(refused.value)
    for stream in (clean, spoilt):
        stream.update(logits[30:], targets[30:], "b")
    assert values(clean.result()) == values(spoilt.result())
    assert clean.result().n_groups == spoilt.result().n_groups


def test_groups_are_names_or_numbers_one_per_token() -> None:
    logits, targets = simulated(3)
    with pytest.raises(DataError, match="2 groups for 3 tokens"):
        new().update(logits, targets, ["a", "b"])
    bad: list[Any] = [None, 1.5, "a\0b", ["a", None, "b"]]
    for group in bad:
        with pytest.raises(DataError, match="is no name; name the token's document"):
            new().update(logits, targets, group)
    groups: list[Any] = [3, np.int64(3), [3, "3", np.int64(3)], np.array([3, 3, 3])]
    for group in groups:
        stream = new(keep_rows=True)
        stream.update(logits, targets, group)
        assert (stream.take_rows() or ((), []))[1] == ["3"] * 3


@pytest.mark.parametrize("engine", ["naive", "torch"])
def test_logits_with_gradients_are_read_as_numbers(engine: Any) -> None:
    logits, targets = simulated(20)
    plain, tracked = (new(engine=engine, classwise="all") for _ in range(2))
    plain.update(torch.tensor(logits), torch.tensor(targets), "a")
    tracked.update(torch.tensor(logits, requires_grad=True), torch.tensor(targets), "a")
    assert values(tracked.result()) == values(plain.result())


def test_engines_are_checked_when_the_stream_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="engine 'foo' is unknown; use auto, naive, torch"):
        new(engine="foo")
    monkeypatch.setattr("aleatoric.calibration.stream.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs the package triton; install it, or use auto"):
        new(engine="triton")


def test_undeclared_or_wrong_units_are_rejected() -> None:
    with pytest.raises(UsageError, match="declare"):
        new(units="probabilities")
    logits, targets = simulated(10)
    probs = np.exp(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))
    stream = new(units="logprobs")
    for wrong in (logits, probs, np.log2(probs)):
        with pytest.raises(DataError, match="add up to"):
            stream.update(wrong, targets, "a")
    stream.update(np.log(probs), targets, "a")
    other = new()
    other.update(logits, targets, "a")
    assert stream.result().estimates["e_ece"].value == pytest.approx(
        other.result().estimates["e_ece"].value, abs=1e-6
    )


def test_bfloat16_log_probabilities_are_accepted() -> None:
    logits, targets = simulated(100)
    stream = new(units="logprobs")
    stream.update(torch.tensor(logits).log_softmax(-1).bfloat16(), torch.tensor(targets), "a")
    assert stream.result().n_tokens == 100


def test_result_of_empty_stream_raises() -> None:
    stream = new()
    stream.update(np.zeros((0, WIDTH), dtype=np.float32), np.zeros(0, dtype=np.int64), "a")
    with pytest.raises(DataError, match="no tokens"):
        stream.result()


@pytest.mark.long
def test_memory_does_not_grow_with_the_stream() -> None:
    """A stream's size is unchanged after ten times as many tokens."""
    stream = new(schemes=ALL)
    held = []
    tracemalloc.start()
    try:
        for step in range(40):
            logits, targets = simulated(2000, seed=step)
            stream.update(logits, targets, [f"g{i % 500}" for i in range(2000)])
            del logits, targets
            if step in (3, 39):
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[1] < held[0] + 1_500_000


def test_draws_per_group_do_not_depend_on_other_groups() -> None:
    logits, targets = simulated(40)
    alone, among = new(schemes=ONE_SAMPLE, keep_rows=True), new(schemes=ONE_SAMPLE, keep_rows=True)
    alone.update(logits[20:], targets[20:], "b")
    among.update(logits, targets, ["a"] * 20 + ["b"] * 20)
    one, other = alone.result().rows, among.result().rows
    assert one is not None
    assert other is not None
    name = str(ONE_SAMPLE[0])
    assert (one.expected[name].confidence == other.expected[name].confidence[20:]).all()


def test_intervals_of_results_end_at_the_bounds_of_metrics() -> None:
    stream = CalibrationStream(vocabulary_size=3, units="logprobs")
    rows = np.log(np.tile([0.9, 0.05, 0.05], (4, 1)))
    for name, targets in (("a", [0, 0, 1, 1]), ("b", [0, 0, 0, 0]), ("c", [1, 2, 1, 0])):
        stream.update(rows, np.array(targets), group=name)
    ends = [e.interval for e in stream.result().estimates.values() if e.interval]
    assert ends
    assert min(end.low for end in ends) >= 0
