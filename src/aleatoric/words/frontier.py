"""A continuation that a search has seen but not yet run."""

from __future__ import annotations

from dataclasses import dataclass

from aleatoric.words.machine import LEAD, fold
from aleatoric.words.vocabulary import Key, Table

ROOT: Key = (LEAD, b"")


@dataclass(slots=True)
class Entry:
    """A token sequence with its mass, where it hangs, and how its word stands.

    `word` is the folded word so far, `joiner` an apostrophe or hyphen not yet decided, `number`
    the node's number once it is run (-1 before, and for the context itself).
    """

    mass: float
    parent: int
    token: int
    key: Key
    word: str = ""
    joiner: str = ""
    number: int = -1
    depth: int = 0

    @property
    def base(self) -> str:
        """The letters to which further letters are added."""
        return self.word + self.joiner


def root() -> Entry:
    """The context itself, with all the mass."""
    return Entry(1.0, -1, -1, ROOT)


def follow(entry: Entry, table: Table, token: int, mass: float) -> Entry:
    """The entry after one more token; its key's mode may be a settled one."""
    letters = table.added[token]
    key = (int(table.modes[token]), table.pending[token])
    if letters:
        word, joiner = fold(entry.base + letters), table.joiners[token]
    else:  # an incomplete character leaves an undecided joiner undecided
        word, joiner = entry.word, table.joiners[token] or entry.joiner
    return Entry(mass, entry.number, token, key, word, joiner, depth=entry.depth + 1)
