"""Statistics of tokens of which only the most likely alternatives are known.

Only what these determine exactly is computed: max P, P(y), its mean C, and the expectations of
schemes that keep fewer tokens than are known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.statistics import PLAIN, Expected, Scheme, TokenRows
from aleatoric.models.decoding import Decoder
from aleatoric.models.recorded_tokens import TopRow
from aleatoric.types import Floats

REASON = "not determined by the most likely tokens alone; record the whole vocabulary"
_WHOLE = ("brier", "entropy", "agreement_M", "sce", "ace", "vocabulary_unseen")


def known_schemes(schemes: Sequence[Scheme], rows: Sequence[TopRow]) -> list[Scheme]:
    """Return the schemes whose expectations the rows determine.

    The least likely token of a row is left out: others may be as likely.
    """
    size = min(len(row.ids) for row in rows) - 1
    mass = min(float(np.exp(row.logprobs[:-1]).sum()) for row in rows)
    return [scheme for scheme in schemes if _is_known(scheme, size, mass)]


def _is_known(scheme: Scheme, size: int, mass: float) -> bool:
    decoder = scheme.decoder
    if scheme.samples:
        return False
    by_number = decoder == Decoder(top_k=decoder.top_k) and 0 < decoder.top_k <= size
    by_mass = decoder == Decoder(top_p=decoder.top_p) and decoder.top_p < mass
    return decoder.greedy or by_number or (by_mass and decoder.top_p < 1)


def unknown_metrics(schemes: Sequence[Scheme], known: Sequence[Scheme], width: str) -> list[str]:
    """Return the metrics that are undefined, if `width` is the option --classwise."""
    classwise = ("sce", "ace", "vocabulary_unseen") if width != "all" else ()
    others = [metric for metric in _WHOLE if metric not in classwise]
    return [*(scheme.metric for scheme in schemes if scheme not in known), *others]


def partial_columns(
    rows: Sequence[TopRow], targets: Sequence[int], schemes: Sequence[Scheme]
) -> TokenRows:
    """Return the statistics of tokens; those that are not determined are NaN."""
    unknown = np.full(len(rows), np.nan)
    target = np.array(targets, dtype=np.int64)
    predicted = np.array([row.ids[0] for row in rows], dtype=np.int64)
    confidence = np.exp([row.logprobs[0] for row in rows])
    correct = (predicted == target).astype(np.float64)
    nll, expected = -np.array([row.target_logprob for row in rows]), {}
    for scheme in schemes:
        if str(scheme) == PLAIN:  # P(y) is known, Σ P² is not
            expected[PLAIN] = Expected(unknown, np.exp(-nll))
            continue
        pairs = [_expected(scheme.decoder, *pair) for pair in zip(rows, targets, strict=True)]
        expected[str(scheme)] = Expected(*np.array(pairs).T.astype(np.float64))
    return TokenRows(
        target=target,
        confidence=confidence,
        correct=correct,
        predicted=predicted,
        brier=unknown,
        nll=nll,
        entropy=unknown,
        log_normalizer=np.zeros(len(rows)),
        expected=expected,
    )


def _expected(decoder: Decoder, row: TopRow, target: int) -> tuple[float, float]:
    """Return the confidence and accuracy of one token under a decoder."""
    probs = np.exp(row.logprobs)
    kept = _kept(decoder, row, probs)
    weights = np.where(kept, probs, 0.0) / probs[kept].sum()
    return float(weights @ probs), float(weights[row.ids == target].sum())


def _kept(decoder: Decoder, row: TopRow, probs: Floats) -> NDArray[np.bool_]:
    """Return which tokens a decoder keeps, as `decoding` does on whole vectors."""
    if decoder.greedy:
        return np.asarray(np.arange(len(probs)) == 0)
    if decoder.top_k:
        return np.asarray(row.logprobs >= row.logprobs[decoder.top_k - 1])
    order = np.lexsort((-row.ids, -row.logprobs))  # equally likely: higher ids first
    kept = np.zeros(len(probs), dtype=bool)
    kept[order] = np.cumsum(probs[order]) - probs[order] < decoder.top_p
    return kept
