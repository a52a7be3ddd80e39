"""The reference implementation in double precision, which tests compare the fast kernels with."""

from __future__ import annotations

import numpy as np

from aleatoric.calibration.statistics import Asked, Expected, Scheme, TokenRows
from aleatoric.models.decoding import Decoder
from aleatoric.types import Floats, Ints


def columns(logits: Floats, targets: Ints, asked: Asked) -> TokenRows:
    """All columns of a chunk."""
    logits = logits.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        highest = logits.max(axis=1)
        logz = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
        probs = np.exp(logits - logz[:, None])
        surprise = np.where(probs > 0, logz[:, None] - logits, 0.0)
    best, rows = probs.argmax(axis=1), np.arange(len(logits))
    hit = probs[rows, targets]
    return TokenRows(
        target=targets,
        confidence=probs[rows, best],
        correct=(best == targets).astype(np.float64),
        predicted=best.astype(np.int64),
        brier=(probs**2).sum(axis=1) - 2 * hit + 1,
        nll=logz - logits[rows, targets],
        entropy=(probs * surprise).sum(axis=1),
        log_normalizer=logz,
        expected={str(s): expected(logits, probs, targets, s, u) for s, u in asked},
    )


def expected(
    logits: Floats, probs: Floats, targets: Ints, scheme: Scheme, uniforms: Floats | None
) -> Expected:
    """p̃ and ã per row: over the whole space, or over draws if uniform numbers are given."""
    changed = decoded(logits, scheme.decoder)
    if uniforms is None:
        return Expected((changed * probs).sum(axis=1), changed[np.arange(len(targets)), targets])
    draws = drawn(changed, uniforms)
    hits = draws == targets[:, None]
    return Expected(np.take_along_axis(probs, draws, axis=1).mean(axis=1), hits.mean(axis=1))


def drawn(probs: Floats, uniforms: Floats) -> Ints:
    """A token for each uniform number in [0, 1), by the cumulative distribution of its row."""
    draws = np.zeros(uniforms.shape, dtype=np.int64)
    for row, (mass, numbers) in enumerate(zip(probs.cumsum(axis=1), uniforms, strict=True)):
        # Rounding may lift a number to the total: stop at the last token with mass.
        last = min(np.searchsorted(mass, mass[-1]), len(mass) - 1)
        draws[row] = np.minimum(np.searchsorted(mass, numbers * mass[-1], side="right"), last)
    return draws


def decoded(logits: Floats, decoder: Decoder) -> Floats:
    """P̃: the probabilities of logits under `decoder`, with its steps in order."""
    if decoder.greedy:
        best = np.argmax(logits, axis=1, keepdims=True)
        return np.asarray(np.arange(logits.shape[1]) == best, dtype=np.float64)
    logits = logits / decoder.temperature
    if decoder.top_k:
        least = np.sort(logits, axis=1)[:, -min(decoder.top_k, logits.shape[1])]
        logits = np.where(logits < least[:, None], -np.inf, logits)
    if decoder.top_p < 1:
        logits = _top_p(logits, decoder.top_p)
    if decoder.min_p > 0:
        logits = _at_least(logits, decoder.min_p * softmax(logits).max(axis=1, keepdims=True))
    if decoder.typical < 1:
        logits = _typical(logits, decoder.typical)
    if decoder.epsilon > 0:
        logits = _at_least(logits, decoder.epsilon)
    if decoder.eta > 0:
        probs = softmax(logits)
        entropy = -(probs * np.log(np.where(probs > 0, probs, 1.0))).sum(axis=1, keepdims=True)
        logits = _at_least(logits, np.minimum(decoder.eta, decoder.eta**0.5 * np.exp(-entropy)))
    return softmax(logits)


def _at_least(logits: Floats, least: Floats | float) -> Floats:
    """Keep tokens with a least probability, and the likeliest ones."""
    probs = softmax(logits)
    return np.where(probs < np.minimum(least, probs.max(axis=1, keepdims=True)), -np.inf, logits)


def softmax(logits: Floats) -> Floats:
    """Probabilities per row."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs: Floats = raised / raised.sum(axis=1, keepdims=True)
    return probs


def _top_p(logits: Floats, p: float) -> Floats:
    order = logits.argsort(axis=1, kind="stable")
    dropped = np.take_along_axis(softmax(logits), order, axis=1).cumsum(axis=1) <= 1 - p
    dropped[:, -1] = False
    out, kept = logits.copy(), np.take_along_axis(logits, order, axis=1)
    np.put_along_axis(out, order, np.where(dropped, -np.inf, kept), axis=1)
    return out


def _typical(logits: Floats, mass: float) -> Floats:
    probs = softmax(logits)
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(probs)
        entropy = np.where(probs > 0, probs * surprise, 0.0).sum(axis=1, keepdims=True)
    order = np.abs(surprise - entropy).argsort(axis=1, kind="stable")
    before = np.take_along_axis(probs, order, axis=1).cumsum(axis=1)
    last = (before < mass).sum(axis=1, keepdims=True).clip(max=logits.shape[1] - 1)
    return np.where(order.argsort(axis=1) > last, -np.inf, logits)
