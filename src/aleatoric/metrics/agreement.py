"""Agreement between two people (H), two draws of the model (M), and a draw and a person (C).

All three have unbiased estimates from samples of at least two, over pairs of different answers. The
squared distance H + M - 2C has expectation 0 only for a perfect model, at any sample size; the
overlap 2 ΣC / Σ(H + M) over items is Morisita's index: 1 for a perfect model, 0 if none is shared.
Besides these: the other statistics of one pair of distributions; entropy and log loss are in nats.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from aleatoric.metrics.reduction import Chunk, Mean, divide
from aleatoric.types import Categorical, Floats, Ints, Pair

COLUMNS = ("agreement_H", "agreement_M", "agreement_C")


@dataclass(frozen=True, slots=True)
class Agreement:
    """H, M and C of one item."""

    human: float
    model: float
    cross: float

    @classmethod
    def of(cls, pair: Pair) -> Agreement | None:
        """The agreements of a pair; `None` with fewer than two answers or draws on a side."""
        human, model = self_agreement(pair.human), self_agreement(pair.model)
        if human is None or model is None:
            return None
        return cls(human, model, cross_agreement(pair.human, pair.model))

    @property
    def sq_distance(self) -> float:
        """The unbiased squared distance between people and model."""
        return self.human + self.model - 2 * self.cross

    def columns(self) -> dict[str, float | None]:
        """The statistics that are saved per item."""
        values = (self.human, self.model, self.cross)
        return {**dict(zip(COLUMNS, values, strict=True)), "sq_distance": self.sq_distance}


def sq_distance(pair: Pair) -> float | None:
    """The unbiased squared distance between people and model; `None` for samples of one."""
    agreement = Agreement.of(pair)
    return agreement.sq_distance if agreement else None


def self_agreement(side: Categorical) -> float | None:
    """The unbiased probability that two draws agree; `None` for a sample of one.

    Unassigned mass counts as outcomes that are never drawn twice, unless `agreement` says more.
    """
    if side.agreement is not None:
        return side.agreement
    plug_in = sum(times * share * share for share, times in side.outcomes_by_share.items())
    if side.n is None:
        return plug_in
    return None if side.n < 2 else (plug_in * side.n - 1) / (side.n - 1)


def cross_agreement(human: Categorical, model: Categorical) -> float:
    """The probability that a draw of the model agrees with a person."""
    probs = model.as_dict()
    return sum(p * probs.get(word, 0.0) for word, p in human.as_dict().items())


def agreements_of_counts(left: Ints, right: Ints) -> dict[str, Floats]:
    """H, M, C and squared distance of (splits, outcomes) counts; NaN for fewer than two answers."""
    human, model = _self_agreements(left), _self_agreements(right)
    cross = (left * right).sum(axis=1) / (left.sum(axis=1) * right.sum(axis=1))
    values = np.where(np.isnan(human + model), np.nan, (human, model, cross))
    return {**dict(zip(COLUMNS, values, strict=True)), "sq_distance": human + model - 2 * cross}


def _self_agreements(counts: Ints) -> Floats:
    n = counts.sum(axis=1)
    agreeing = (counts * counts).sum(axis=1) - n
    shares: Floats = agreeing / np.where(n > 1, n * (n - 1), np.nan)
    return shares


@dataclass(frozen=True)
class Overlap:
    """2 ΣC / Σ(H + M) over items and splits; undefined if no two people or draws ever agree.

    A mean over splits of their ratios would be too large, because a ratio of small sums is skewed.
    """

    def columns(self, chunk: Chunk) -> Floats:
        """H + M and C, with 0 for undefined, and indicators of the defined items."""
        human, model, cross = np.broadcast_arrays(*(chunk[name] for name in COLUMNS))
        is_defined = np.isfinite(human + model + cross)
        both, shared = (np.where(is_defined, v, 0.0) for v in (human + model, cross))
        return np.concatenate([both, shared, is_defined], axis=1)

    def values(self, sums: Floats) -> Floats:
        """The ratio of the sums over all splits, as one value."""
        both, shared, _ = (part.sum(axis=-1, keepdims=True) for part in np.split(sums, 3, axis=-1))
        return divide(2 * shared, both)

    def defined(self, sums: Floats) -> int:
        """Items with all three agreements in at least one split."""
        return int(np.split(sums, 3, axis=-1)[2].max())


@dataclass(frozen=True)
class AgreementGap(Mean):
    """The mean of M - H over items, per split; positive if the model varies less than people."""

    statistic: str = "gap"

    def columns(self, chunk: Chunk) -> Floats:
        """The differences, with 0 for undefined, and indicators of the defined ones."""
        return super().columns({"gap": chunk["agreement_M"] - chunk["agreement_H"]})


def mode(distribution: Categorical) -> str:
    """The most probable outcome; the first one in case of ties."""
    return distribution.support[distribution.probs.index(max(distribution.probs))]


def mass_on_human(pair: Pair) -> float:
    """The model's total probability of the words that people gave."""
    model = pair.model.as_dict()
    return sum(model.get(word, 0.0) for word in pair.human.support)


def rank_of_human_mode(pair: Pair) -> float | None:
    """The rank (1 = best) that the model gives to people's first choice; ties share the mean rank.

    Undefined if the model gives it no mass: it is then worse than that of every drawn word by an
    unknown amount. A mean over contexts leaves these out and is too good.
    """
    prob = pair.model.as_dict().get(mode(pair.human), 0.0)
    if prob == 0:
        return None
    outcomes = pair.model.outcomes_by_share
    above = sum(times for share, times in outcomes.items() if share > prob)
    return above + (outcomes[prob] + 1) / 2


def plug_in_entropy(distribution: Categorical) -> float:
    """The entropy of the given probabilities; biased downward for a sample."""
    return -sum(p * math.log(p) for p in distribution.probs if p > 0)


def chao_shen(distribution: Categorical) -> float:
    """Chao & Shen (2003): coverage-adjusted Horvitz-Thompson estimate, for small samples."""
    if distribution.n is None:
        return plug_in_entropy(distribution)
    n = distribution.n
    # A sample has few distinct shares: each is computed once.
    shares = distribution.outcomes_by_share
    occurring = Counter({round(p * n): times for p, times in shares.items() if p > 0})
    # All singletons would give coverage 0 and an infinite estimate; Chao & Shen drop one of them.
    coverage = 1 - min(occurring[1], n - 1) / n
    return sum(
        times * _chao_shen_term(coverage * count / n, n) for count, times in occurring.items()
    )


def _chao_shen_term(p: float, n: int) -> float:
    """-p log p, divided by the chance that an outcome of probability p occurs in n draws."""
    if p >= 1:
        return 0.0
    return p * math.log(p) / math.expm1(n * math.log1p(-p))


def log_loss(human: Categorical, model: Categorical) -> float | None:
    """People's mean negative log-probability under the model; `None` if it is infinite."""
    pairs = [(p, model.as_dict().get(word, 0.0)) for word, p in human.as_dict().items() if p > 0]
    if any(q <= 0 for _, q in pairs):
        return None
    return -sum(p * math.log(q) for p, q in pairs)


def entropy_human(pair: Pair) -> float:
    """Entropy of people's answers, Chao-Shen corrected, in nats."""
    return chao_shen(pair.human)


def entropy_model(pair: Pair) -> float | None:
    """Entropy of the model, Chao-Shen corrected, in nats; `None` if some mass is unassigned."""
    return None if pair.model.rest > 0 else chao_shen(pair.model)
