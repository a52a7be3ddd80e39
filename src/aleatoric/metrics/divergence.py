"""The Jensen-Shannon divergence."""

from __future__ import annotations

import math

from aleatoric.types import Pair


def js(pair: Pair) -> float:
    """Jensen-Shannon divergence in nats, between 0 and log 2; unassigned mass is disjoint.

    >>> from aleatoric.types import Categorical
    >>> js(Pair("i", "g", Categorical(("a",), (1.0,)), Categorical(("b",), (1.0,)))) == math.log(2)
    True
    """
    model = pair.model.as_dict()
    shared = [(p, model.get(word, 0.0)) for word, p in pair.human.as_dict().items()]
    model_only = sum(pair.model.probs) - sum(q for _, q in shared)
    apart = (model_only + pair.human.rest + pair.model.rest) * math.log(2) / 2
    return sum(_term(p, q) for p, q in shared) + apart


def _term(p: float, q: float) -> float:
    if p == 0 or q == 0:
        return (p + q) * math.log(2) / 2
    middle = (p + q) / 2
    return (p * math.log(p / middle) + q * math.log(q / middle)) / 2
