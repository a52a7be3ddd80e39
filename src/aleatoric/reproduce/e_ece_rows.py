"""From the recipe's per-token rows to calibration errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aleatoric.analyses.stability import sums_by_unit
from aleatoric.inference.bootstrap import group_bootstrap
from aleatoric.metrics.bins import N_COLUMNS, bin_sums, ece_of
from aleatoric.metrics.calibration import bin_index, equal_width_edges
from aleatoric.metrics.cells import exact_cells
from aleatoric.metrics.classwise import predicted_class_errors, sce_of
from aleatoric.tokens.statistics import Expected
from aleatoric.tokens.table import PLAIN, TokenTable
from aleatoric.training.token_rows import SCHEMES, Columns
from aleatoric.types import Estimate, Floats

EXPECTED = {"e_ece": "plain", "e_ece_p": "top_p", "e_ece_k": "top_k"}
"""Metric -> scheme in the columns."""


class PairNames(NamedTuple):
    """The columns of a confidence and an accuracy."""

    confidence: str
    accuracy: str


def errors(columns: Columns, heads: Columns | None, bins: int, seed: int) -> dict[str, Estimate]:
    """Table 2's errors with intervals over sentences; `sce` over all classes needs the heads."""
    names = {"ece": PairNames("p_hat", "a_hat")}
    names |= {metric: PairNames(f"p_{s}", f"a_{s}") for metric, s in EXPECTED.items()}
    plain = {metric: _with_interval(columns, own, bins, seed) for metric, own in names.items()}
    found = {"ece": plain.pop("ece")}
    if heads is not None:
        found["sce"] = _estimate(columns, sce_of_heads(columns, heads, bins))
    for metric, value in predicted_errors(columns, bins).items():
        found[metric] = _estimate(columns, value)
    return found | plain


def pair_errors(columns: Columns, names: PairNames, bins: int) -> float:
    """ECE of any pair of columns."""
    confidence, accuracy = (columns[name].astype(np.float64) for name in names)
    index = bin_index(confidence, equal_width_edges(bins))
    return float(ece_of(bin_sums(confidence, accuracy, index, bins)))


def predicted_errors(columns: Columns, bins: int) -> dict[str, float]:
    """SCE and ACE as means over predicted classes, exactly.

    >>> rows = {"predicted": np.array([3, 3]), "p_hat": np.ones(2), "a_hat": np.array([1.0, 0.0])}
    >>> predicted_errors(rows, 2)
    {'sce_predicted': 0.5, 'ace_predicted': 0.5, 'sce_weighted': 0.5, 'ace_weighted': 0.5}
    """
    confidence, correct = (columns[name].astype(np.float64) for name in ("p_hat", "a_hat"))
    classes = [np.flatnonzero(columns["predicted"] == k) for k in np.unique(columns["predicted"])]
    edges = equal_width_edges(bins)
    sums = [
        bin_sums(confidence[own], correct[own], bin_index(confidence[own], edges), bins)
        for own in classes
    ]
    cells = [exact_cells(confidence[own], correct[own]) for own in classes]
    return predicted_class_errors(np.stack(sums), cells, bins)


def sce_of_heads(columns: Columns, heads: Columns, bins: int) -> float:
    """Nixon's SCE: probabilities above the lowest bin one by one, the rest by the class's mass."""
    n_classes, n_tokens = len(heads["class_mass"]), len(columns["token"])
    probs = heads["head_p"].astype(np.float64)
    index = bin_index(probs, equal_width_edges(bins))
    reference = _reference_of(columns, heads)
    correct = (reference == heads["head_token"]).astype(np.float64)
    place = heads["head_token"].astype(np.int64) * bins + index
    sums = bin_sums(probs, correct, place, n_classes * bins).reshape(n_classes, bins, N_COLUMNS)
    total = np.zeros((n_classes, N_COLUMNS))
    total[:, 0], total[:, 1] = n_tokens, heads["class_mass"]
    total[:, 2] = np.bincount(columns["token"], minlength=n_classes)
    sums[:, 0] = total - sums[:, 1:].sum(axis=1)
    return sce_of(sums, n_classes, n_tokens)


def to_table(columns: Columns) -> TokenTable:
    """The rows as studies read them, with the second model's entropy as uncertainty."""
    doubles = {name: own.astype(np.float64) for name, own in columns.items()}
    return TokenTable(
        unit=columns["sentence"].astype(np.int64),
        target=columns["token"].astype(np.int64),
        predicted=columns["predicted"].astype(np.int64),
        confidence=doubles["p_hat"],
        correct=doubles["a_hat"],
        expected={
            PLAIN if SCHEMES[name] == PLAIN else SCHEMES[name]: Expected(
                doubles[f"p_{name}"], doubles[f"a_{name}"]
            )
            for name in SCHEMES
        },
        uncertainty=doubles["uncertainty"],
        uncertainty_of="the second model",
    )


def _reference_of(columns: Columns, heads: Columns) -> Floats:
    """The reference token at each head's place."""
    width = int(columns["position"].max()) + 1
    places = columns["sentence"].astype(np.int64) * width + columns["position"]
    asked = heads["head_sentence"].astype(np.int64) * width + heads["head_position"]
    found: Floats = columns["token"][np.searchsorted(places, asked)].astype(np.float64)
    return found


def _with_interval(columns: Columns, names: PairNames, bins: int, seed: int) -> Estimate:
    confidence, accuracy = (columns[name].astype(np.float64) for name in names)
    sums = sums_by_unit(columns["sentence"].astype(np.int64), confidence, accuracy, bins)
    used = sums[sums[:, :, 0].sum(axis=1) > 0]
    shape = (-1, bins, N_COLUMNS)
    interval = group_bootstrap(
        used.reshape(len(used), -1), lambda rows: ece_of(rows.reshape(shape)), seed
    )
    return Estimate(float(ece_of(sums.sum(axis=0))), interval, len(confidence), len(used))


def _estimate(columns: Columns, value: float) -> Estimate:
    sentences = len(np.unique(columns["sentence"]))
    return Estimate(value, None, len(columns["token"]), sentences)
