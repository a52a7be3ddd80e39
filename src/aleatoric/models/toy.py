"""A tiny language model of the simulated language: it knows the truth, or a tempered truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from aleatoric.data.simulated import sample, truth
from aleatoric.errors import UsageError
from aleatoric.models.base import Ask
from aleatoric.rng import stream
from aleatoric.types import Draws, Item


@dataclass(frozen=True)
class ToyModel:
    """Draws from the true distribution of a context, at a temperature.

    >>> item = Item("1:2", "1", "baba zouda", ("x",))
    >>> [sum(d.counts.values()) for d in ToyModel().draws([item], Ask("ancestral", 7, 0))]
    [7]
    """

    temperature: float = 1.0

    @property
    def label(self) -> str:
        """`toy`, with its temperature where that is not 1."""
        return "toy" if self.temperature == 1 else f"toy:temperature={self.temperature:g}"

    @property
    def version(self) -> str:
        """The toy never changes."""
        return "1"

    @property
    def estimator(self) -> str:
        """Always sampled."""
        return "mc"

    def notes(self) -> Sequence[str]:
        """Nothing beyond its numbers."""
        return ()

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """`ask.samples` words for each item, from the item's own stream."""
        if ask.decoder != "ancestral":
            raise UsageError(f"toy knows no decoder {ask.decoder!r}; use toy:temperature=0.5.")
        for item in items:
            rng = stream(ask.seed, "toy", item.id, self.label, ask.decoder)
            yield Draws(item.id, sample(truth(item.context, self.temperature), ask.samples, rng))


def load(argument: str) -> ToyModel:
    """`toy` or `toy:temperature=T`.

    >>> load("temperature=0.5").label
    'toy:temperature=0.5'
    """
    if not argument:
        return ToyModel()
    key, _, value = argument.partition("=")
    try:
        temperature = float(value)
    except ValueError:
        temperature = 0.0
    if key != "temperature" or not 0 < temperature < float("inf"):
        raise UsageError(f"toy:{argument} is no toy model; use toy or toy:temperature=0.5.")
    return ToyModel(temperature)
