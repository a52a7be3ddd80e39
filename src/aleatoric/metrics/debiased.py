"""Estimates without the bias of small samples: a split-based TVD, and the debiased ECE.

The plug-in TVD of two samples is too large: noise alone makes them differ. Half the L1 distance is
what the best set of words tells apart, so `tvd_debiased` learns that set from all answers but one
person's and one draw, and tests it on the two left out, for every such pair. What was learnt is
independent of what it is tested on: a perfect model scores 0 on average at any sample size, and no
model scores more than its true TVD on average. The plug-in value errs to the other side, so the
true TVD lies between the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aleatoric.metrics.calibration import N_COLUMNS, binned, ece_debiased_of, token_columns
from aleatoric.metrics.reduction import Chunk
from aleatoric.types import Categorical, Floats, Ints, Pair


def tvd_debiased(pair: Pair) -> float | None:
    """TVD with every pair of a person and a draw left out in turn (see the module's words).

    Undefined with fewer than two answers a side. Where the model is exact, only people are left
    out; mass it leaves unassigned counts as disjoint, as in `tvd`.

    >>> people = Categorical.from_counts({"a": 20, "b": 20})
    >>> round(tvd_debiased(Pair("i", "g", people, Categorical.from_counts({"c": 40}))), 6)
    1.0
    """
    human, model = pair.human, pair.model
    if human.n is None or human.n < 2 or (model.n is not None and model.n < 2):
        return None
    if model.n is None:
        return _against_exact(human, human.n, model)
    return _against_sample(human, human.n, model, model.n)


def leave_pair_out(left: Ints, right: Ints) -> Floats:
    """`tvd_debiased` of (splits, outcomes) counts of people and model, by split.

    NaN with fewer than two answers a side.

    The mean over pairs of sign(person's word) - sign(draw's word), halved. A pair of the same word
    cancels, so a person's word counts beside the draws of other words.

    >>> leave_pair_out(np.array([[3, 0]]), np.array([[0, 3]])).tolist()
    [1.0]
    """
    n, m = left.sum(axis=1, keepdims=True), right.sum(axis=1, keepdims=True)
    # In whole numbers, so that ties are ties.
    ahead = left * (m - 1) - right * (n - 1)
    by_person, by_draw = np.sign(ahead - (m - 1)), np.sign(ahead + (n - 1))
    gains = (left * (m - right) * by_person - right * (n - left) * by_draw).sum(axis=1)
    # A word that the others never gave is no evidence: it goes to the side with more such words.
    lone_left = ((left == 1) & (right == 0)).sum(axis=1)
    lone_right = ((left == 0) & (right == 1)).sum(axis=1)
    n, m = n[:, 0], m[:, 0]
    known, drawn = Rare.of(left, n), Rare.of(right, m)
    unseen = lone_left * m * _unseen_sign(known, drawn) + lone_right * n * _unseen_sign(
        drawn, known
    )
    halved = (gains + unseen) / (2 * n * m)
    return np.where((n < 2) | (m < 2), np.nan, halved)


@dataclass(frozen=True, eq=False)
class Rare:
    """How many answers there are, and how many words were given once and twice, by split."""

    n: Ints | int
    once: Ints | int
    twice: Ints | int

    @classmethod
    def of(cls, counts: Ints, n: Ints) -> Rare:
        """The rare words of (splits, outcomes) counts."""
        return cls(n, (counts == 1).sum(axis=1), (counts == 2).sum(axis=1))

    @classmethod
    def of_side(cls, side: Categorical, n: int) -> Rare:
        """The rare words of one sample of n."""
        times = [(round(share * n), k) for share, k in side.outcomes_by_share.items()]
        once, twice = (sum(k for count, k in times if count == rare) for rare in (1, 2))
        return cls(n, once, twice)


def _against_sample(human: Categorical, n: int, model: Categorical, m: int) -> float:
    """`leave_pair_out` of one item, in Python's own numbers: a model's other words are many."""
    shares = model.as_dict()
    both = [(round(p * n), round(shares.get(w, 0.0) * m)) for w, p in human.as_dict().items()]
    known, drawn = Rare.of_side(human, n), Rare.of_side(model, m)
    # A word that no person gave is the model's if it was drawn again, and no evidence if not.
    lone_left, lone_right = both.count((1, 0)), drawn.once - sum(y == 1 for _, y in both)
    again = m - drawn.once - sum(y for _, y in both if y > 1)
    gains = sum(_gain(x, y, n, m) for x, y in both) + n * again
    unseen = lone_left * m * _unseen_sign(known, drawn)
    unseen += lone_right * n * _unseen_sign(drawn, known)
    return float((gains + unseen) / (2 * n * m))


def _gain(x: int, y: int, n: int, m: int) -> int:
    """What one word adds: the signs that `leave_pair_out` has for arrays."""
    ahead = x * (m - 1) - y * (n - 1)
    return x * (m - y) * _sign(ahead - (m - 1)) - y * (n - x) * _sign(ahead + (n - 1))


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _counts(side: Categorical) -> Ints:
    counts: Ints = np.rint(np.array(side.probs) * (side.n or 0)).astype(np.int64)
    return counts


def _unseen_sign(own: Rare, other: Rare) -> Floats:
    """Whether words given once take more of our side, once one is left out; mean over the other's.

    The other side leaves out one of its answers too: a word given once (one fewer such word), one
    given twice (one more), or any other.
    """
    ahead = (own.once - 1) * (other.n - 1) - other.once * (own.n - 1)
    fewer, more = other.once / other.n, 2 * other.twice / other.n
    step = own.n - 1
    mean: Floats = (
        fewer * np.sign(ahead + step)
        + more * np.sign(ahead - step)
        + (1 - fewer - more) * np.sign(ahead)
    )
    return mean


def _against_exact(people: Categorical, n: int, model: Categorical) -> float:
    """Each person left out in turn, against probabilities that are known."""
    probs = model.as_dict()
    words = dict.fromkeys((*people.support, *probs))
    x = np.zeros(len(words), dtype=np.int64)
    x[: len(people.support)] = _counts(people)
    q = np.array([probs.get(word, 0.0) for word in words])
    # A word that nobody else gave and the model does not know can only be people's.
    without = np.where((x == 1) & (q == 0), 1.0, np.sign((x - 1) / (n - 1) - q))
    among = np.sign(x / (n - 1) - q)
    model_mean = q * (x / n * without + (n - x) / n * among)
    return float((x / n * without).sum() - model_mean.sum() + model.rest) / 2


@dataclass(frozen=True)
class DebiasedECE:
    """The debiased ECE (Bröcker 2012, Kumar et al. 2019) as a reduction.

    The root of the mean squared gap of the bins, less what noise adds to it: a root mean square,
    not to be compared with `ECE`, which averages absolute gaps. Items of a bin count as
    independent where the noise is taken away; the interval knows groups.

    >>> ece = DebiasedECE("correct", (0.5,))
    >>> confidence = np.array([[0.75], [0.75], [0.75], [0.75]])
    >>> chunk = {"confidence": confidence, "correct": np.array([[1.0], [0.0], [1.0], [1.0]])}
    >>> ece.values(ece.columns(chunk).sum(axis=0)).tolist()
    [0.0]
    """

    correct: str
    edges: tuple[float, ...]
    closed: bool = True

    def columns(self, chunk: Chunk) -> Floats:
        """Bin sums by bin, kind and split, flat."""
        items = binned(chunk, self.correct, self.edges, self.closed)
        member = items.index[:, :, None] == np.arange(self._n_bins)
        own = token_columns(items.confidence, items.correct)
        cube: Floats = member[..., None] * own[:, :, None, :]
        return cube.reshape(len(cube), -1)

    def values(self, sums: Floats) -> Floats:
        """The root of the debiased mean squared gap, by split."""
        return ece_debiased_of(self._cube(sums))

    def defined(self, sums: Floats) -> int:
        """Items in a bin."""
        return int(self._cube(sums)[..., 0].sum(axis=-1).max())

    @property
    def _n_bins(self) -> int:
        return len(self.edges) + 1

    def _cube(self, sums: Floats) -> Floats:
        return sums.reshape(*sums.shape[:-1], -1, self._n_bins, N_COLUMNS)


def tvd(left: Ints, right: Ints) -> Floats:
    """Total variation distance by split.

    >>> tvd(np.array([[1, 1]]), np.array([[2, 0]])).tolist()
    [0.5]
    """
    n, m = _sizes(left), _sizes(right)
    # In whole numbers: equal to the last bit, whatever order or table the outcomes stand in.
    apart: Floats = np.abs(left * m - right * n).sum(axis=1) / (2 * n * m)[:, 0]
    return apart


def js(left: Ints, right: Ints) -> Floats:
    """Jensen-Shannon divergence by split, in nats.

    >>> js(np.array([[1, 0]]), np.array([[1, 0]])).tolist()
    [0.0]
    """
    p, q = left / _sizes(left), right / _sizes(right)
    middle = (p + q) / 2
    return (_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2


def _relative_entropy(p: Floats, q: Floats) -> Floats:
    # By hand: importing scipy.special takes longer than scoring a hundred contexts.
    with np.errstate(invalid="ignore"):
        terms = p * np.log(np.where(p > 0, p / q, 1.0))
    # One after another: unlike a sum, the same however many empty outcomes a table is filled with.
    total: Floats = np.add.accumulate(terms, axis=1)[:, -1]
    return total


def _sizes(counts: Ints) -> Ints:
    sizes: Ints = counts.sum(axis=1, keepdims=True)
    return sizes
