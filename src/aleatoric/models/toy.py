"""A toy model of the simulated language: the true next-word distribution, or a tempered one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aleatoric.data.simulated import sample, truth
from aleatoric.errors import UsageError
from aleatoric.models.base import Ask, WithoutNotes
from aleatoric.rng import stream
from aleatoric.types import Draws, Item


@dataclass(frozen=True)
class ToyModel(WithoutNotes):
    """Draws from the true distribution of a context, at a temperature."""

    temperature: float = 1.0
    version: str = "1"
    estimator: str = "mc"

    @property
    def label(self) -> str:
        """`toy`, with its temperature if that is not 1."""
        return "toy" if self.temperature == 1 else f"toy:temperature={self.temperature:g}"

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Yield `ask.samples` words per item, from the item's own random stream."""
        if ask.decoder != "ancestral":
            raise UsageError(f"toy has no decoder {ask.decoder!r}; use toy:temperature=0.5.")
        for item in items:
            rng = stream(ask.seed, "toy", item.id, self.label, ask.decoder)
            yield Draws(item.id, sample(truth(item.context, self.temperature), ask.samples, rng))


def load(argument: str) -> ToyModel:
    """Return the model of `toy` or `toy:temperature=T`."""
    if not argument:
        return ToyModel()
    key, _, value = argument.partition("=")
    try:
        temperature = float(value)
    except ValueError:
        temperature = 0.0
    if key != "temperature" or not 0 < temperature < float("inf"):
        raise UsageError(f"toy:{argument} is not a toy model; use toy or toy:temperature=0.5.")
    return ToyModel(temperature)
