"""How a run is asked to stop: once to finish what is in hand, twice to stop at once.

Only while items are in hand is there anything to finish. While a model is loaded, a corpus read or
results are worked out, the first signal already stops at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

from aleatoric.errors import AleatoricError, UsageError
from aleatoric.models.base import ComputedTogether, WordModel, whole_passages
from aleatoric.runs import Store
from aleatoric.runs.disk import before_any_work, command, told
from aleatoric.runs.formats import ITEMS_SAVED
from aleatoric.types import Draws, Item

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
HEARD = b"\nstopping: the items in hand are finished and saved; once more to stop at once\n"


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """A run ended early because somebody asked for it; all that it finished is saved.

    >>> Stopped(signal.SIGINT).status, Stopped(signal.SIGTERM).status
    (130, 143)
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__("stopped")
        self.status = 128 + number


class Stopping:
    """Whether a run has been asked to stop. Nobody asks one that is made and not shared.

    >>> stopping = Stopping()
    >>> taken = stopping.before_each([1, 2, 3])
    >>> next(taken)
    1
    >>> stopping.ask()
    >>> list(taken)
    []
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._is_finishing = False

    @property
    def is_asked(self) -> bool:
        """Whether to take up nothing more."""
        return self._number is not None

    @property
    def is_finishing(self) -> bool:
        """Whether items are in hand that are to be finished and saved."""
        return self._is_finishing

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Items are in hand inside: a stop waits for them, and is heeded when they are saved."""
        self._is_finishing = True
        try:
            yield
        finally:
            self._is_finishing = False
        self.check()

    def ask(self, number: int = signal.SIGINT) -> None:
        """Ask, as a signal of this number does."""
        self._number = number

    def before_each(self, items: Iterable[T]) -> Iterator[T]:
        """Items until the stop is asked for: what was taken before is finished by its taker."""
        for item in items:
            if self.is_asked:
                return
            yield item

    def check(self) -> None:
        """Raise `Stopped` where the stop has been asked for; to be called when all is saved."""
        if self._number is not None:
            raise Stopped(self._number)

    def checked(self, rows: Iterable[T]) -> Iterator[T]:
        """Rows of work that is worthless unfinished: it is given up as soon as a stop is asked."""
        for row in rows:
            self.check()
            yield row


@contextmanager
def listening() -> Iterator[Stopping]:
    """Ctrl-C and SIGTERM, once and twice, while a run goes on.

    Signals reach the main thread alone: in another, nobody listens.
    """
    stopping = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    handler = _handler(stopping)
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield stopping
    except KeyboardInterrupt:
        stopping.check()
        raise
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _handler(stopping: Stopping) -> Callable[[int, FrameType | None], None]:
    def heard(number: int, _: FrameType | None) -> None:
        if stopping.is_asked:
            raise KeyboardInterrupt
        stopping.ask(number)
        if not stopping.is_finishing:
            raise KeyboardInterrupt
        # A signal may come while something is printed, and printing is not to be interrupted by
        # itself: the bytes go past it.
        with suppress(OSError):
            os.write(2, HEARD)

    return heard


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
    >>> from aleatoric.runs.engine import Loading, open_model
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


@contextmanager
def working(store: Store, holds_work: Callable[[Store], bool]) -> Iterator[None]:
    """Work on a run that this process alone writes; others may write it afterwards.

    A new run goes again where its input is bad, unless it `holds_work` that cost time. Anything
    else that ends the work leaves what was saved.
    """
    try:
        with told(store.path):
            yield
    except AleatoricError as error:
        if store.is_created and not _safely(holds_work, store):
            store.discard()
            raise before_any_work(error) from error.__cause__
        store.close()
        raise
    except BaseException:
        store.close()
        raise
    store.release()


def _safely(holds_work: Callable[[Store], bool], store: Store) -> bool:
    """Whether a run holds work; one that cannot be read might."""
    try:
        with told(store.path):
            return holds_work(store)
    except AleatoricError:
        return True


PLAIN = ("ancestral", "as recorded", "none")
"""Decoders that change nothing: every other one is part of a system's name."""


def system_name(
    store: Store, label: str, facts: Mapping[str, Any], several: bool, controls: Collection[str]
) -> str:
    """The name a system has in the run, or a new one that no other has.

    A decoder is part of it unless it is the only one and plain.
    """
    for name, known in store.systems().items():
        if known == facts:
            return name
    decoded = several or facts["decoder"] not in PLAIN
    short = f"{label} {facts['decoder']}" if decoded else label
    taken = (*store.systems(), *controls)
    return short if short not in taken else f"{facts['model']} {facts['decoder']}"


def check_version(store: Store, spec: str, version: str) -> None:
    """Refuse a model that is not the one whose answers the run holds."""
    content = (store.manifest.get("contents") or {}).get(spec, version)[:12]
    models = [facts["model"].rpartition("@") for facts in store.systems().values()]
    others = [held for known, _, held in models if known == spec and held != version]
    if others or not version.startswith(content):
        raise UsageError(
            f"{spec}: is not the model that the run began with ({[*others, content][0]} then, "
            f"{version} now); restore it, or start a new run."
        )


def saved_notes(store: Store) -> list[str]:
    """What was noted while items were read and answered."""
    found: list[str] = store.meta("notes") or []
    return found


def lost_notes(store: Store) -> Iterator[str]:
    """What a salvaged run lacks of its corpus, until it is resumed."""
    n_saved = store.meta(ITEMS_SAVED) or 0
    if n_saved > store.n_items:
        yield (
            f"warning: {n_saved - store.n_items} of {n_saved} items were lost when this run was "
            "damaged, and every number is about the others; resume it to ask for them again"
        )


def add_notes(store: Store, found: Iterable[str]) -> None:
    """Save notes that the run has not."""
    saved = saved_notes(store)
    store.set_meta("notes", [*saved, *(note for note in found if note not in saved)])


def unfinished_notes(store: Store, systems: Iterable[str]) -> Iterator[str]:
    """Name the systems that have not answered all items, and how to continue."""
    for name in systems:
        if not store.meta(f"done {name}"):
            yield f"{name}: is not finished; continue it with {command(store.path)}"
