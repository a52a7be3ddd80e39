"""A simulated population: people who draw from a distribution that is known exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import astuple, dataclass

from aleatoric.simulation import VOCABULARY, sample, truth, word
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
        rng = stream(self.seed, "simulated", number)
        length = min(self.passage, self.contexts - start)
        words = [word(int(n)) for n in rng.integers(VOCABULARY, size=length + 2)]
        # The passage's number keeps the first word, and with it the passage, unique.
        words[0] = f"{words[0]}{number}"
        for position in range(1, length + 1):
            context = " ".join(words[: position + 1])
            counts = sample(truth(context), self.people, rng)
            answers = tuple(w for w, count in counts.items() for _ in range(count))
            item_id = f"{number + 1}:{position + 2}"
            yield Item(item_id, str(number + 1), context, answers, words[position + 1])


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
