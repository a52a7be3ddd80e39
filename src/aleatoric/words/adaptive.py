"""Sampling until a context's distance is known well enough: how well, and how many draws more."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from aleatoric.errors import UsageError
from aleatoric.types import Categorical, Draws, Pair
from aleatoric.words.distributions import model_distribution, pool

FIRST = 50
"""Draws before a context is judged for the first time."""


def parse_until(text: str) -> float:
    """The standard error of `se=0.01`.

    >>> parse_until("se=0.01")
    0.01
    """
    name, _, value = text.partition("=")
    try:
        error = float(value)
    except ValueError:
        error = 0.0
    if name != "se" or not 0 < error < 1:
        raise UsageError(f"--until {text} is no target; write --until se=0.01.")
    return error


def rounds(most: int, first: int = FIRST) -> Iterator[tuple[int, int]]:
    """Numbers of draws so far, and to add: what there is doubles, and ends at `most`.

    >>> list(rounds(1000, 100))
    [(0, 100), (100, 100), (200, 200), (400, 400), (800, 200)]
    """
    done = 0
    while done < most:
        more = min(max(done, first), most - done)
        yield done, more
        done += more


def sampling_error(people: Categorical, model: Categorical) -> float:
    """The standard error of a context's TVD that the sampling of the model leaves.

    TVD falls by 1/n with every draw that hits a word which people gave more often than the model
    does, and changes with no other draw: the variance is that of this share of draws. Two draws
    are added, one that hits and one that misses, so that a few draws all alike promise nothing.

    >>> people = Categorical.from_counts({"a": 3, "b": 1})
    >>> round(sampling_error(people, Categorical.from_counts({"a": 49, "z": 49})), 4)
    0.0505
    """
    if model.n is None:
        return 0.0
    own = model.as_dict()
    hits = sum(own.get(w, 0.0) for w, p in people.as_dict().items() if own.get(w, 0.0) < p)
    share = (hits * model.n + 1) / (model.n + 2)
    return math.sqrt(share * (1 - share) / model.n)


def sample_until(
    people: Mapping[str, Categorical],
    draw: Callable[[Sequence[str], int, int], Sequence[Draws]],
    error: float,
    most: int,
    keep_failed: bool,
) -> dict[str, Draws]:
    """Draws of each item until its distance to people has this standard error, or `most` draws.

    `draw(items, first, n)` gives samples first..first+n-1 of each item.
    """
    found: dict[str, Draws] = {}
    waiting = list(people)
    for first, more in rounds(most):
        for one in draw(waiting, first, more):
            before = [found[one.item_id]] if one.item_id in found else []
            found[one.item_id] = _added([*before, one])
        waiting = [i for i in waiting if not reaches(people[i], found[i], error, keep_failed)]
        if not waiting:
            break
    return found


def reaches(people: Categorical, draws: Draws, error: float, keep_failed: bool) -> bool:
    """Whether a context's draws give its distance with at most this standard error."""
    model = model_distribution(draws, keep_failed)
    return model is not None and sampling_error(people, model) <= error


def until_note(system: str, pairs: Sequence[Pair], error: float, most: int) -> str:
    """How many draws a system's contexts took, and how many had to stop short of the target."""
    taken = [pair.model.n or 0 for pair in pairs]
    short = sum(sampling_error(pair.human, pair.model) > error for pair in pairs)
    return (
        f"{system}: {sum(taken)} draws in place of {most * len(pairs)}, {min(taken, default=0)} to "
        f"{max(taken, default=0)} a context, until se={error:g}; {short} of {len(pairs)} contexts "
        f"did not reach it with --samples {most}"
    )


def _added(parts: Sequence[Draws]) -> Draws:
    """Further draws of an item added up, words in order as in a sample drawn at once."""
    whole = pool(parts)
    return replace(whole, counts=dict(sorted(whole.counts.items())))
