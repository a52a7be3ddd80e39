"""Lengths of texts in tokens: cutting texts, and comparing the lengths of two sides.

Distances of n-grams depend on length: two long texts share more words than two short ones. Where
people's and a system's texts differ in length, their variability is compared on texts cut to the
same lengths.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MAX_LENGTH = 100
"""Texts are cut to this number of tokens by default; 0 leaves them whole."""
TOLERATED_RATIO = 1.1
"""Mean lengths differ where the longer is more than 10% above the shorter."""


def cut_to(text: str, tokens: Sequence[str], most: int) -> str:
    """Return a text up to the end of its first `most` tokens.

    >>> cut_to("It's late, he said.", ["It", "'s", "late", ",", "he", "said", "."], 4)
    "It's late,"
    """
    if len(tokens) <= most:
        return text
    end = 0
    for token in tokens[:most]:
        start = text.find(token, end)
        if start < 0:  # a tokeniser that rewrites what it reads
            return " ".join(tokens[:most])
        end = start + len(token)
    return text[:end]


def lengths_differ(people: float | None, system: float | None) -> bool:
    """Return whether the mean lengths of people's and a system's texts are more than 10% apart.

    >>> lengths_differ(20.0, 21.5), lengths_differ(20.0, 17.0), lengths_differ(None, 3.0)
    (False, True, False)
    """
    if people is None or system is None:
        return False
    shorter, longer = sorted((people, system))
    return longer > TOLERATED_RATIO * shorter


def common_lengths(people: Sequence[int], system: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the lengths to which the texts of both sides are cut, text by text, to be alike.

    A text is cut to the length that the other side has at the same quantile, where that is shorter:
    afterwards both sides have the same distribution of lengths, and no text was cut further than
    needed. At least one token is left.

    >>> common_lengths([30, 10, 20], [12, 11, 13])
    ([13, 10, 12], [12, 10, 13])
    """
    return _limits(people, system), _limits(system, people)


def _limits(own: Sequence[int], other: Sequence[int]) -> list[int]:
    if not own or not other:
        return list(own)
    ranked = sorted(other)
    ranks = np.empty(len(own), np.int64)
    ranks[np.argsort(own, kind="stable")] = np.arange(len(own))
    # The middle of each rank, as a place among the other side's ranks; whole numbers throughout.
    places = (2 * ranks + 1) * len(other) // (2 * len(own))
    return [
        max(1, min(length, ranked[place]))
        for length, place in zip(own, places.tolist(), strict=True)
    ]
