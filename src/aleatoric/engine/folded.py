"""Several states of one model as one system: each item is answered by its own fold's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from aleatoric.engine.live import LiveModel
from aleatoric.types import Draws, Item

if TYPE_CHECKING:
    from aleatoric.models.base import Ask


@dataclass(frozen=True)
class FoldedModel:
    """A live model that is made ready for a fold before it answers the fold's items.

    `decoders` names, where given, the decoder of each fold; `ready` puts its weights in place.
    """

    live: LiveModel
    label: str
    version: str
    folds: Mapping[str, int]
    """Group -> the fold that it is held out of."""
    ready: Callable[[int], None] = field(default=lambda fold: None, repr=False)
    decoders: Mapping[int, str] = field(default_factory=dict)

    @property
    def estimator(self) -> str:
        """That of the live model."""
        return self.live.estimator

    def notes(self) -> Sequence[str]:
        """Nothing beyond its numbers."""
        return ()

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Words for items, which are taken as they are needed; best fold by fold."""
        for fold, own in groupby(items, key=lambda item: self.folds[item.group]):
            self.ready(fold)
            decoder = self.decoders.get(fold, ask.decoder)
            yield from self.live.draws(own, replace(ask, decoder=decoder))


def by_fold(items: Iterable[Item], folds: Mapping[str, int]) -> list[Item]:
    """Items sorted by their groups' folds, which come as they first appear.

    >>> items = [Item(f"{n}", group, "There", ()) for n, group in enumerate("abab")]
    >>> [item.id for item in by_fold(items, {"a": 2, "b": 1})]
    ['0', '2', '1', '3']
    """
    found: dict[int, list[Item]] = {}
    for item in items:
        found.setdefault(folds[item.group], []).append(item)
    return [item for own in found.values() for item in own]
