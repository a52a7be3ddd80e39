"""The words asked about, and the beginnings through which a text can reach them."""

from __future__ import annotations

import itertools
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from aleatoric.errors import UsageError
from aleatoric.words.machine import fold
from aleatoric.words.rules import normalise


class Targets:
    """A set of words, indexed by every folded beginning of them.

    `words[i]` is the i-th word as asked, `folded[word]` its index, and `through[beginning]` the
    indices of the words that a text standing at `beginning` can still become.

    >>> targets = Targets(["Many", "man"])
    >>> targets.through["man"], targets.through["many"]
    ((0, 1), (0,))
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self.letters = [fold(normalise(word)) for word in words]
        self.folded = {letters: i for i, letters in enumerate(self.letters)}
        if len(self.folded) < len(words):
            raise UsageError("two of the words asked about differ only in case or form.")
        self._beginnings = [list(beginnings(letters)) for letters in self.letters]
        through: dict[str, list[int]] = defaultdict(list)
        for index, found in enumerate(self._beginnings):
            for beginning in found:
                through[beginning].append(index)
        self.through = {beginning: tuple(found) for beginning, found in through.items()}

    def after(self, beginning: str) -> Iterator[str]:
        """The rests of letters that lead from `beginning` on towards some word, each once."""
        if beginning == "":
            return iter(self.through)
        cut = len(beginning)
        found = (b for i in self.through.get(beginning, ()) for b in self._beginnings[i])
        return iter(dict.fromkeys(b[cut:] for b in found if b.startswith(beginning)))

    def closing(self, beginning: str) -> Iterator[tuple[str, int]]:
        """The rests of letters that complete a word, with the word's index."""
        cut = len(beginning)
        for index in self.through.get(beginning, ()):
            if self.letters[index].startswith(beginning):
                yield self.letters[index][cut:], index


def beginnings(folded: str) -> Iterator[str]:
    """Every string that a beginning of the word may fold to, the empty one and itself included.

    Marks on one letter are kept in a fixed order, so a text that has written only some of them
    stands at the letter with any of its marks.

    >>> list(beginnings("ab"))
    ['', 'a', 'ab']
    """
    if folded.isascii():
        yield from (folded[:stop] for stop in range(len(folded) + 1))
        return
    yield ""
    for start, stop in _clusters(folded):
        base, marks = folded[: start + 1], folded[start + 1 : stop]
        for size in range(len(marks) + 1):
            for chosen in itertools.combinations(marks, size):
                yield base + "".join(chosen)


def _clusters(folded: str) -> Iterable[tuple[int, int]]:
    """(start, stop) of each character with the combining marks after it."""
    starts = [i for i, c in enumerate(folded) if i == 0 or not unicodedata.combining(c)]
    return zip(starts, [*starts[1:], len(folded)], strict=True)
