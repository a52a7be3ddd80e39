"""Several states of one model as one system: each item is answered by its own fold's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
        """Words for items, fold by fold."""
        by_fold: dict[int, list[Item]] = {}
        for item in items:
            by_fold.setdefault(self.folds[item.group], []).append(item)
        for fold, own in by_fold.items():
            self.ready(fold)
            decoder = self.decoders.get(fold, ask.decoder)
            yield from self.live.draws(own, replace(ask, decoder=decoder))
