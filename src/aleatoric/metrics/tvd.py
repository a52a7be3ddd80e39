"""Total variation distance."""

from __future__ import annotations

from aleatoric.types import Pair


def tvd(pair: Pair) -> float:
    """Half the L1 distance between people and model; unassigned mass counts as disjoint.

    >>> from aleatoric.types import Categorical
    >>> human = Categorical(("a", "b"), (0.5, 0.5))
    >>> tvd(Pair("i", "g", human, Categorical(("a", "c"), (0.5, 0.25), rest=0.25)))
    0.5
    """
    model = pair.model.as_dict()
    shared = [(p, model.get(word, 0.0)) for word, p in pair.human.as_dict().items()]
    differing = sum(abs(p - q) for p, q in shared)
    model_only = sum(pair.model.probs) - sum(q for _, q in shared)
    return (differing + model_only + pair.human.rest + pair.model.rest) / 2
