"""Total variation distance, and the squared distance with its unbiased estimate."""

from __future__ import annotations

from aleatoric.types import Categorical, Pair


def tvd(pair: Pair) -> float:
    """Half the L1 distance between people and model; unassigned mass counts as disjoint.

    >>> human = Categorical(("a", "b"), (0.5, 0.5))
    >>> tvd(Pair("i", "g", human, Categorical(("a", "c"), (0.5, 0.25), rest=0.25)))
    0.5
    """
    model = pair.model.as_dict()
    shared = [(p, model.get(word, 0.0)) for word, p in pair.human.as_dict().items()]
    differing = sum(abs(p - q) for p, q in shared)
    model_only = sum(pair.model.probs) - sum(q for _, q in shared)
    return (differing + model_only + pair.human.rest + pair.model.rest) / 2


def sq_distance(pair: Pair) -> float | None:
    """The squared L2 distance, unbiased: 0 on average for a perfect model at any sample size.

    Undefined with fewer than two draws on a side, or where unassigned mass hides a term.

    >>> people = Categorical.from_counts({"a": 1, "b": 1})
    >>> sq_distance(Pair("i", "g", people, people))
    -1.0
    """
    own_human, own_model = _self_product(pair.human), _self_product(pair.model)
    if own_human is None or own_model is None:
        return None
    model = pair.model.as_dict()
    cross = sum(p * model.get(word, 0.0) for word, p in pair.human.as_dict().items())
    return own_human + own_model - 2 * cross


def _self_product(side: Categorical) -> float | None:
    """The chance that two draws agree, estimated without bias from a sample of n."""
    if side.rest > 0:
        return None
    plug_in = sum(times * share * share for share, times in side.outcomes_by_share.items())
    if side.n is None:
        return plug_in
    if side.n < 2:
        return None
    return (plug_in * side.n - 1) / (side.n - 1)
