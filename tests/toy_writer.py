"""A toy text model without weights: words drawn from a random stream per input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from aleatoric.models.base import Writing
from aleatoric.rng import stream
from aleatoric.types import TextItem, Texts

WORDS = ("the", "a", "cat", "dog", "sat", "ran", "here", "there")


@dataclass
class ToyWriter:
    """Generate a few words; raise an error after `limit` inputs to simulate a killed run."""

    label: str = "toy"
    version: str = "1"
    limit: int | None = None
    wrote: list[str] = field(default_factory=list)

    @property
    def conventions(self) -> Mapping[str, str]:
        return {"words": "toy"}

    def notes(self) -> Sequence[str]:
        return [f"{self.label}: wrote to {len(self.wrote)} inputs"]

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        for item in items:
            if self.limit is not None and len(self.wrote) == self.limit:
                raise KeyboardInterrupt
            self.wrote.append(item.id)
            rng = stream(ask.seed, ask.decoder, item.id)
            texts = [" ".join(rng.choice(WORDS, 5)) for _ in range(ask.samples)]
            yield Texts(item.id, tuple(texts))
