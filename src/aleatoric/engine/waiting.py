"""Which items a system is still to be asked for.

Those without an answer; and where a model's numbers depend, in their last digits, on which contexts
it computes together, the others of their part as well: their answers are thrown away, and the new
ones are those of a run that was never stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from aleatoric.engine.parts import whole_passages
from aleatoric.engine.stopping import Stopping
from aleatoric.models.base import ComputedTogether, WordModel
from aleatoric.store import Store
from aleatoric.types import Draws, Item


@dataclass(frozen=True)
class Waiting:
    """Items to be asked for, in parts that a stop does not cut."""

    number: int
    parts: Iterator[list[Item]]
    _known: set[str] = field(default_factory=set)

    def items(self, stopping: Stopping) -> Iterator[Item]:
        """All of them, up to the part in hand when a stop is asked for."""
        for part in stopping.before_each(self.parts):
            yield from part

    def new(self, draws: Iterable[Draws]) -> Iterator[Draws]:
        """The answers that the run does not hold yet."""
        return (one for one in draws if one.item_id not in self._known)


def waiting(store: Store, system: str, model: WordModel) -> Waiting:
    """What is left to be asked of a model.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from aleatoric.engine.opening import Loading, open_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder) / "run", {"level": "word"}) as store:
    ...         _ = store.add_items([Item("1:2", "1", "There", ("are", "is"))])
    ...         _ = store.add_system("toy", {"model": "toy"})
    ...         waiting(store, "toy", open_model("toy", Loading())).number
    1
    """
    size = model.together if isinstance(model, ComputedTogether) else None
    if size is None:
        left = store.n_items - store.n_items_with_draws(system)
        return Waiting(left, ([item] for item in store.waiting(system)))
    return _in_company(store, system, size)


def _in_company(store: Store, system: str, size: int) -> Waiting:
    """Whole parts, as a run that was never stopped has them, of which any item is not answered."""
    number, spans, known = 0, [], set[str]()
    for part in whole_passages(store.marks(system), size):
        answered = [mark.id for mark in part if mark.is_answered]
        if len(answered) < len(part):
            number += len(part)
            spans.append((part[0].no, part[-1].no))
            known.update(answered)
    return Waiting(number, (store.items_between(*span) for span in spans), known)
