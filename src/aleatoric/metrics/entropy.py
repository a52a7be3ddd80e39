"""Shannon entropy and log loss in nats."""

from __future__ import annotations

import math
from collections import Counter

from aleatoric.types import Categorical, Pair


def plug_in(distribution: Categorical) -> float:
    """The entropy of the given probabilities; biased downward for a sample."""
    return -sum(p * math.log(p) for p in distribution.probs if p > 0)


def chao_shen(distribution: Categorical) -> float:
    """Chao & Shen (2003): coverage-adjusted Horvitz-Thompson estimate, for small samples."""
    if distribution.n is None:
        return plug_in(distribution)
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
