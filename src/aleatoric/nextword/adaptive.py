"""Adaptive sampling: draw words until the distance to people has a given standard error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from aleatoric.errors import UsageError
from aleatoric.nextword.answers import model_distribution, pool
from aleatoric.types import Categorical, Draws, Pair


def parse_until(text: str) -> float:
    """Return the standard error of `se=0.01`."""
    name, _, value = text.partition("=")
    try:
        error = float(value)
    except ValueError:
        error = 0.0
    if name != "se" or not 0 < error < 1:
        raise UsageError(f"--until {text} is not a target; write --until se=0.01.")
    return error


def rounds(most: int, first: int = 50) -> Iterator[tuple[int, int]]:
    """Yield (draws so far, draws to add): the number of draws doubles, up to `most`.

    >>> list(rounds(1000, 100))
    [(0, 100), (100, 100), (200, 200), (400, 400), (800, 200)]
    """
    n_drawn = 0
    while n_drawn < most:
        n_new = min(max(n_drawn, first), most - n_drawn)
        yield n_drawn, n_new
        n_drawn += n_new


def sampling_error(people: Categorical, model: Categorical) -> float:
    """Standard error of a context's TVD due to sampling the model.

    TVD falls by 1/n with every draw that hits a word which people gave more often than the model
    does, and does not change otherwise, so its variance is that of this share of draws. A word that
    both give nearly equally often counts by the chance that it is such a word. One hit and one miss
    are added, so that a few identical draws do not claim certainty.
    """
    if (n := model.n) is None:
        return 0.0
    probs = model.as_dict()
    pairs = [(p, probs.get(word, 0.0)) for word, p in people.as_dict().items()]
    share = (n * sum(q * _chance_of_less(q, p, n) for p, q in pairs) + 1) / (n + 2)
    return math.sqrt(share * (1 - share) / n)


def _chance_of_less(share: float, limit: float, n: int) -> float:
    """Return the chance that a share found in n draws stays below a limit when drawn again."""
    spread = math.sqrt(share * (1 - share) / n)
    if spread == 0:
        return float(share < limit)
    return 0.5 * math.erfc((share - limit) / (spread * math.sqrt(2)))


def sample_until(
    people: Mapping[str, Categorical],
    draw: Callable[[Sequence[str], int, int], Sequence[Draws]],
    error: float,
    most: int,
    keep_failed: bool,
) -> dict[str, Draws]:
    """Draw per item until its distance to people has this standard error, or `most` draws.

    `draw(items, first, n)` returns samples first..first+n-1 of each item.
    """
    draws: dict[str, Draws] = {}
    pending_items = list(people)
    for first, n_new in rounds(most):
        for new in draw(pending_items, first, n_new):
            pooled = pool([draws[new.item_id], new]) if new.item_id in draws else new
            # Words in the order of a sample drawn at once.
            draws[new.item_id] = replace(pooled, counts=dict(sorted(pooled.counts.items())))
        models = {i: model_distribution(draws[i], keep_failed) for i in pending_items}
        # A context without any word so far is drawn from again.
        pending_items = [
            i for i, q in models.items() if q is None or sampling_error(people[i], q) > error
        ]
        if not pending_items:
            break
    return draws


def until_note(system: str, pairs: Sequence[Pair], error: float, most: int) -> str:
    """Note how many draws a system's contexts took, and how many missed the target."""
    sizes = [pair.model.n or 0 for pair in pairs]
    short = sum(sampling_error(pair.human, pair.model) > error for pair in pairs)
    return (
        f"{system}: {sum(sizes)} draws instead of {most * len(pairs)}, {min(sizes, default=0)} to "
        f"{max(sizes, default=0)} per context, until se={error:g}; {short} of {len(pairs)} "
        f"contexts did not reach it with --samples {most}"
    )
