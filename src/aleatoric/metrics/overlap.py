"""How much of the model's mass falls on what people said, and where their first choice ranks."""

from __future__ import annotations

from aleatoric.types import Categorical, Pair


def mode(distribution: Categorical) -> str:
    """The most probable outcome; of equals, the one that stands first.

    >>> mode(Categorical(("a", "b", "c"), (0.2, 0.4, 0.4)))
    'b'
    """
    return distribution.support[distribution.probs.index(max(distribution.probs))]


def mass_on_human(pair: Pair) -> float:
    """The model's probability of the set of words that people gave.

    >>> human = Categorical(("a", "b"), (0.5, 0.5))
    >>> mass_on_human(Pair("i", "g", human, Categorical(("a", "z"), (0.75, 0.25))))
    0.75
    """
    model = pair.model.as_dict()
    return sum(model.get(word, 0.0) for word in pair.human.support)


def rank_of_human_mode(pair: Pair) -> float | None:
    """The rank (1 = best) that the model gives to people's first choice; ties share the mean rank.

    Undefined where the model gives it no mass, as where it was never drawn: its rank is then worse
    than that of every drawn word, by how much is not known. A mean over contexts leaves these out
    and is too good; their number stands beside it.

    >>> human = Categorical(("a", "b"), (0.6, 0.4))
    >>> rank_of_human_mode(Pair("i", "g", human, Categorical(("b", "a"), (0.7, 0.3))))
    2.0
    """
    own = pair.model.as_dict().get(mode(pair.human), 0.0)
    if own == 0:
        return None
    outcomes = pair.model.outcomes_by_share
    above = sum(times for share, times in outcomes.items() if share > own)
    return above + (outcomes[own] + 1) / 2
