"""A simulated population: people who draw from a distribution that is known exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import astuple, dataclass

from aleatoric.simulation import VOCABULARY, sample, truth, vocabulary
from aleatoric.streams import stream
from aleatoric.types import Corpus, Item


@dataclass(frozen=True)
class Population(Collection[Item]):
    """The items of a simulated corpus, made when they are walked."""

    contexts: int
    people: int
    passage: int
    seed: int

    def __len__(self) -> int:
        return self.contexts

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, self.contexts, self.passage):
            yield from self._passage(start // self.passage, start)

    def __contains__(self, item: object) -> bool:
        return any(item == own for own in self)

    def _passage(self, number: int, start: int) -> Iterator[Item]:
        """Each context is the one before and a next word drawn from its true distribution."""
        rng = stream(self.seed, "simulated", number)
        # The passage's number keeps the first word, and with it the passage, unique.
        context = f"{vocabulary()[rng.integers(VOCABULARY)]}{number}"
        for position in range(2, min(self.passage, self.contexts - start) + 2):
            known = truth(context)
            counts = sample(known, self.people, rng)
            answers = tuple(w for w, count in counts.items() for _ in range(count))
            (original,) = sample(known, 1, rng)
            yield Item(f"{number + 1}:{position}", str(number + 1), context, answers, original)
            context = f"{context} {original}"


def load(contexts: int = 500, people: int = 40, passage: int = 50, seed: int = 0) -> Corpus:
    """A population of `people` for each of `contexts`, in passages of `passage` contexts.

    >>> corpus = load(contexts=3, people=5)
    >>> [len(item.responses) for item in corpus.items]
    [5, 5, 5]
    """
    items = Population(contexts, people, passage, seed)
    sha256 = hashlib.sha256(repr(astuple(items)).encode()).hexdigest()
    return Corpus(
        "simulated", f"seed {seed}", sha256, "CC0", items, ("these people are simulated",)
    )
