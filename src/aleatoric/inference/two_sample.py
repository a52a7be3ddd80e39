"""Could people and a model be one population? A permutation test on the answers to one item.

The statistic is the total variation distance, written as the sum over words of what people have
more than the model: only words that people gave add to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, gcd

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
N_PERMUTATIONS = 4999
EXACT_CELLS = 200_000
"""The exact distribution is worked out where it takes no more than so many cells."""
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class ItemTest:
    """The p-value of one item, and the distance that it is of."""

    p: float
    tvd: float
    exact: bool


def one_population(
    people: Counts,
    model: Counts,
    rng: np.random.Generator,
    n_permutations: int = N_PERMUTATIONS,
) -> ItemTest | None:
    """Whether two lists of counts over the same words could come from one distribution.

    Exact where that is cheap, else random permutations. `None` where a side is empty.

    >>> test = one_population(np.array([3, 0]), np.array([0, 3]), np.random.default_rng(0))
    >>> test.exact, round(test.p, 3), test.tvd
    (True, 0.1, 1.0)
    """
    if not people.sum() or not model.sum():
        return None
    # The smaller side is the one that is drawn: it takes fewer steps, and the distance is the same.
    small, large = (people, model) if people.sum() <= model.sum() else (model, people)
    used = small + large > 0
    small, pooled = small[used], (small + large)[used]
    tvd = float(np.maximum(small / small.sum() - (pooled - small) / large.sum(), 0).sum())
    if _exact_cells(small, pooled) <= EXACT_CELLS:
        return ItemTest(_exact_p(small, pooled), tvd, True)
    drawn = _permuted_excess(pooled, int(small.sum()), n_permutations, rng)
    reached = int((drawn >= _excess(small, pooled, int(small.sum()))).sum())
    return ItemTest((reached + 1) / (n_permutations + 1), tvd, False)


def fits(
    people: Counts,
    probs: Floats,
    rest: float,
    rng: np.random.Generator,
    n_draws: int = N_PERMUTATIONS,
) -> ItemTest | None:
    """Whether people's counts could be draws from known probabilities of the same words.

    `rest` is the probability of all other words. Each of their draws counts as a word of its own
    without probability: that makes draws look no nearer to the model than they are, so the test
    never finds more than it should. `None` without people.

    >>> fits(np.array([5, 0]), np.array([0.0, 1.0]), 0.0, np.random.default_rng(0), 99).p
    0.01
    """
    n = int(people.sum())
    if not n:
        return None
    observed = float(np.maximum(people / n - probs, 0).sum())
    steps = np.cumsum(np.append(probs, max(rest, 0.0)))
    codes = np.searchsorted(steps, rng.random((n_draws, n)) * steps[-1], side="right")
    drawn = np.maximum(_counted(codes, len(steps)) / n - np.append(probs, 0.0), 0).sum(axis=1)
    reached = int((drawn >= observed * (1 - _TOLERANCE)).sum())
    return ItemTest((reached + 1) / (n_draws + 1), observed, False)


def _excess(small: Counts, pooled: Counts, n_small: int) -> Counts:
    """The distance times `n_small * n_large`, in whole numbers; rows of `small` are samples."""
    # small/n_small - (pooled - small)/n_large, over the common denominator.
    total = int(pooled.sum())
    found: Counts = np.maximum(small * total - pooled * n_small, 0).sum(axis=-1)
    return found


def _permuted_excess(
    pooled: Counts, n_small: int, n_permutations: int, rng: np.random.Generator
) -> Counts:
    """The distances of random samples of `n_small` answers of all, drawn without replacement."""
    codes = np.repeat(np.arange(len(pooled)), pooled)
    drawn = codes[_samples(len(codes), n_small, n_permutations, rng)]
    return _excess(_counted(drawn, len(pooled)), pooled, n_small)


def _samples(total: int, n: int, n_samples: int, rng: np.random.Generator) -> Counts:
    """Rows of `n` different numbers below `total`: the first steps of many shuffles at once."""
    order = np.tile(np.arange(total, dtype=np.int32)[:, None], (1, n_samples))
    steps = rng.integers(np.arange(n)[:, None], total, size=(n, n_samples))
    columns = np.arange(n_samples)
    for i, chosen in enumerate(steps):
        order[chosen, columns], order[i] = order[i], order[chosen, columns]
    return order[:n].T.astype(np.int64)


def _counted(codes: Counts, k: int) -> Counts:
    """How often each of `k` codes stands in each row."""
    flat = codes + k * np.arange(len(codes))[:, None]
    return np.bincount(flat.ravel(), minlength=len(codes) * k).reshape(len(codes), k)


def _exact_cells(small: Counts, pooled: Counts) -> int:
    """Additions that the exact distribution takes."""
    n, total = int(small.sum()), int(pooled.sum())
    states = (n + 1) * (n * (total - n) // gcd(n, total) + 1)
    return int(np.minimum(pooled, n).sum() + len(pooled)) * states


def _exact_p(small: Counts, pooled: Counts) -> float:
    """The share of all samples whose distance is no smaller, word by word.

    `table[s, e]` is the weight of samples with `s` answers and an excess of `e` among the words so
    far: independent binomials, which given their sum are the sample.
    """
    n, total = int(small.sum()), int(pooled.sum())
    unit = gcd(n, total)
    observed = int(_excess(small, pooled, n)) // unit
    table = np.zeros((n + 1, n * (total - n) // unit + 1))
    table[0, 0] = 1.0
    for count in pooled.tolist():
        table = _with_word(table, count, n, total, unit)
    last = table[n]
    return float(last[observed:].sum() / last.sum())


def _with_word(table: Floats, count: int, n: int, total: int, unit: int) -> Floats:
    """The table after one more word, of which 0 to `count` answers are drawn."""
    height, width = table.shape
    grown, share = np.zeros_like(table), n / total
    for taken in range(min(count, n) + 1):
        gain = max(taken * total - count * n, 0) // unit
        weight = comb(count, taken) * share**taken * (1 - share) ** (count - taken)
        grown[taken:, gain:] += weight * table[: height - taken, : width - gain]
    return grown
