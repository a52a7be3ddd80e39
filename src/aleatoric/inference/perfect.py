"""The expected TVD of a perfect model at given sample sizes: a diagnostic, not a correction.

A perfect model and people are two samples of one distribution, and noise alone makes them differ.
The distribution is not known, so the expectation is given under two estimates of it: people's own
shares (plug-in), which leave nothing unseen and make it too small, and the Good-Turing estimate,
which leaves room for words that nobody happened to give. Expectations are linear, so both follow
from binomial probabilities of single words, without simulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from aleatoric.types import Floats, Ints, Perfect

METHOD = "binomial, plug-in to Good-Turing estimate of the truth"
ONE_ANSWER = "one answer says nothing about the truth: at least two people are needed"
_MOST_DRAWS = 10**6
_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True, eq=False)
class Truth:
    """An estimated distribution: `times[i]` words of probability `shares[i]` each."""

    shares: Floats
    times: Floats


def plug_in(counts: Ints) -> Truth:
    """People's own shares.

    >>> plug_in(np.array([3, 1, 1])).shares.tolist()
    [0.2, 0.6]
    """
    distinct, times = np.unique(counts, return_counts=True)
    return Truth(distinct / counts.sum(), times.astype(np.float64))


def good_turing(counts: Ints) -> Truth:
    """Room for unseen words: the Good-Turing mass, spread evenly over as many words as Chao1 gives.

    >>> found = good_turing(np.array([2, 1, 1]))
    >>> found.shares.tolist(), found.times.tolist()
    ([0.125, 0.25, 0.5], [2.0, 1.0, 1.0])
    """
    seen, n = plug_in(counts), int(counts.sum())
    once, twice = (int((counts == k).sum()) for k in (1, 2))
    if once == 0:
        return seen
    mass = min(once, n - 1) / n  # where all answers differ, one of them counts as known
    unseen = max(1, round(once * (once - 1) / (2 * (twice + 1))))
    shares = np.append((1 - mass) * seen.shares, mass / unseen)
    return Truth(shares, np.append(seen.times, float(unseen)))


def expected_tvd(truth: Truth, n_human: int, n_model: int | None) -> float:
    """Expected TVD between samples of `n_human` and `n_model` of one distribution.

    `n_model=None` stands for exact probabilities. More than a million draws count as exact: their
    noise adds less than `n_human / (2 * n_model)` of the expectation.

    >>> fair = Truth(np.array([0.5]), np.array([2.0]))
    >>> expected_tvd(fair, 1, 1), expected_tvd(fair, 2, None)
    (0.5, 0.25)
    """
    n_model = n_model if n_model is None or n_model <= _MOST_DRAWS else None
    at_once = max(1, _CELLS_AT_ONCE // (1 + max(n_human, n_model or 0)))
    parts = range(0, len(truth.shares), at_once)
    gaps = [_mean_gaps(truth.shares[i : i + at_once], n_human, n_model) for i in parts]
    return min(1.0, float((np.concatenate(gaps) * truth.times).sum() / 2))


def perfect_tvd(counts: Ints, n_human: int, n_model: int | None) -> tuple[float, float] | None:
    """The expected TVD of a perfect model on one item, under both estimates of the truth.

    `None` for a single answer.

    >>> perfect_tvd(np.array([40]), 40, 40)
    (0.0, 0.0)
    """
    if counts.sum() < 2:
        return None
    low, high = (expected_tvd(own(counts), n_human, n_model) for own in (plug_in, good_turing))
    return min(low, high), max(low, high)


def perfect_of(low: float | None, high: float | None) -> Perfect:
    """The means over items of `perfect_tvd` as part of a result.

    >>> perfect_of(None, None).reason == ONE_ANSWER
    True
    """
    return Perfect(low, high, METHOD, ONE_ANSWER if low is None else None)


def _mean_gaps(shares: Floats, n: int, m: int | None) -> Floats:
    """E|X/n - Y/m| for X ~ Bin(n, p) and Y ~ Bin(m, p), per share p; Y/m is p where m is None.

    Both means are p, so that the expectation is twice that of the positive part of X/n - Y/m.
    """
    of_x, x = _binomial(shares, n), np.arange(n + 1) / n
    if m is None:
        above = np.maximum(x - shares[:, None], 0.0)
        of_exact: Floats = 2 * (of_x * above).sum(axis=1)
        return of_exact
    of_y, y = _binomial(shares, m), np.arange(m + 1) / m
    below = (np.arange(n + 1) * m) // n  # the largest Y with Y/m <= X/n
    chance, mass = np.cumsum(of_y, axis=1)[:, below], np.cumsum(of_y * y, axis=1)[:, below]
    gaps: Floats = 2 * (of_x * np.maximum(x * chance - mass, 0.0)).sum(axis=1)
    return gaps


def _binomial(shares: Floats, n: int) -> Floats:
    """(shares, n + 1) binomial probabilities."""
    with np.errstate(divide="ignore"):
        yes, no = np.log(shares)[:, None], np.log1p(-shares)[:, None]
    k = np.arange(n + 1)
    # 0 · log 0 is 0: a word that everybody or nobody gives.
    terms = np.where(k == 0, 0.0, k * np.where(k == 0, 0.0, yes))
    terms = terms + np.where(k == n, 0.0, (n - k) * np.where(k == n, 0.0, no))
    probs: Floats = np.exp(_log_choose(n) + terms)
    return probs


@lru_cache(maxsize=64)
def _log_choose(n: int) -> Floats:
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    logs: Floats = factorials[-1] - factorials - factorials[::-1]
    logs.flags.writeable = False
    return logs
