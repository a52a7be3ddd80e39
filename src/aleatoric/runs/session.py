"""A run while a command works on it: stopping on request, pending items, names, notes.

A first Ctrl-C or SIGTERM lets the items in progress finish; a second one stops at once. While a
model is loaded, a corpus is read or results are computed, the first one already stops at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import PurePath
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from aleatoric.data.files import stem
from aleatoric.errors import AleatoricError, UsageError
from aleatoric.models.base import WordModel, whole_passages
from aleatoric.models.decoding import canonical
from aleatoric.runs.disk import before_any_work, command, reporting_faults
from aleatoric.runs.formats import ITEMS_SAVED
from aleatoric.types import Item

if TYPE_CHECKING:
    from aleatoric.runs.run import Store

T = TypeVar("T")
STOPPING = b"\nstopping: the items in progress are finished and saved; once more to stop at once\n"


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """A run ended early on request; everything that it finished is saved."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__("stopped")
        self.status = 128 + number


class Stopping:
    """Whether a run has been requested to stop."""

    def __init__(self) -> None:
        self._signal: int | None = None
        self.is_finishing = False
        """Whether items are in progress that are to be finished and saved."""

    @property
    def is_requested(self) -> bool:
        """Whether a stop was requested: no further work is started."""
        return self._signal is not None

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Finish the items in progress inside: a stop takes effect when they are saved."""
        self.is_finishing = True
        try:
            yield
        finally:
            self.is_finishing = False
        self.check()

    def request(self, number: int = signal.SIGINT) -> None:
        """Request a stop, as a signal with this number does."""
        self._signal = number

    def handle(self, number: int, _: FrameType | None) -> None:
        """Handle a signal: stop at once, or when the items in progress are saved."""
        if self.is_requested:
            raise KeyboardInterrupt
        self.request(number)
        if not self.is_finishing:
            raise KeyboardInterrupt
        # A signal may interrupt a print, which is not reentrant: write to the descriptor.
        with suppress(OSError):
            os.write(2, STOPPING)

    def before_each(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items until a stop is requested."""
        for item in items:
            if self.is_requested:
                return
            yield item

    def check(self) -> None:
        """Raise `Stopped` if a stop is requested; to be called when everything is saved."""
        if self._signal is not None:
            raise Stopped(self._signal)

    def checked(self, rows: Iterable[T]) -> Iterator[T]:
        """Yield rows that are of no use unless complete; a stop takes effect at once."""
        for row in rows:
            self.check()
            yield row


@contextmanager
def listening() -> Iterator[Stopping]:
    """Handle Ctrl-C and SIGTERM during a run; signals only reach the main thread."""
    stopping = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    handled = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stopping.handle) for number in handled}
    try:
        yield stopping
    except KeyboardInterrupt:
        stopping.check()
        raise
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def pending_items(
    store: Store, system: str, model: WordModel
) -> tuple[int, Iterator[list[Item]], Collection[str]]:
    """Return the items to ask a model for, in parts that a stop does not cut.

    Their number comes first, and last the ids of those among them that are answered already.
    """
    size: int | None = getattr(model, "together", None)
    if size is None:
        n_pending = store.n_items - store.n_items_with_draws(system)
        return n_pending, ([item] for item in store.pending_items(system)), ()
    # Whole parts, as in a run that was never stopped, if any of their items is not answered.
    number, spans, already_answered = 0, [], set[str]()
    for part in whole_passages(store.item_states(system), size):
        answered = [state.id for state in part if state.is_answered]
        if len(answered) < len(part):
            number += len(part)
            spans.append((part[0].no, part[-1].no))
            already_answered.update(answered)
    return number, (store.items_between(*span) for span in spans), already_answered


@contextmanager
def working(store: Store, holds_work: Callable[[Store], bool]) -> Iterator[None]:
    """Work on a run that only this process writes; others may write it afterwards.

    If its input is bad, a new run is removed again unless it `holds_work` that took time.
    """
    try:
        with reporting_faults(store.path):
            yield
    except BaseException as error:
        if isinstance(error, AleatoricError) and store.is_created:
            is_kept = True  # a run that cannot be read might hold work
            with suppress(AleatoricError), reporting_faults(store.path):
                is_kept = holds_work(store)
            if not is_kept:
                store.discard()
                raise before_any_work(error) from error.__cause__
        store.close()
        raise
    store.release()


PLAIN = ("ancestral", "as recorded", "none")
"""Decoders that change nothing: any other decoder is part of a system's name."""


def label_of(label: str, spec: str, specs: Iterable[str], controls: Iterable[str]) -> str:
    """Return the label of a model; recordings with equal names have more of their paths."""
    own = _forms(spec)
    if not spec.startswith("recorded:") or label != own[0]:
        return label
    others = [*map(_forms, {*specs} - {spec}), *([name] * len(own) for name in controls)]
    return next(
        (form for form, *taken in zip(own, *others, strict=True) if form not in taken), label
    )


def _forms(spec: str) -> list[str]:
    """Return the labels that a model may have, from short to long.

    >>> _forms("recorded:runs/a/gpt2.v1.jsonl.gz")
    ['gpt2.v1', 'a/gpt2.v1', 'gpt2.v1.jsonl.gz', 'runs/a/gpt2.v1.jsonl.gz']
    """
    kind, _, argument = spec.partition(":")
    if kind != "recorded":
        return [PurePath(argument or kind).name.partition("@")[0]] * 4
    file, _, system = argument.partition("?system=")
    path, name = PurePath(file), stem(PurePath(file))
    in_folder = f"{path.parent.name}/{name}" if path.parent.name else name
    if system:
        return [system, f"{name}/{system}", f"{in_folder}/{system}", argument]
    return [name, in_folder, path.name, argument]


def system_name(
    store: Store, label: str, facts: Mapping[str, Any], several: bool, controls: Collection[str]
) -> str:
    """Return a system's name, old or new; a plain decoder is no part of it if not `several`."""
    saved = {name: facts_of | _canonical(facts_of) for name, facts_of in store.systems().items()}
    if same := [name for name, saved_facts in saved.items() if saved_facts == facts]:
        return same[0]
    decoded = several or facts["decoder"] not in PLAIN
    short_name = f"{label} {facts['decoder']}" if decoded else label
    taken = (*store.systems(), *controls)
    return short_name if short_name not in taken else f"{facts['model']} {facts['decoder']}"


def _canonical(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the decoder of a system as jobs name it; earlier runs hold it as it was typed."""
    return {"decoder": canonical([facts["decoder"]])[0]} if "decoder" in facts else {}


def check_version(store: Store, spec: str, version: str) -> None:
    """Refuse a model that is not the one whose answers the run holds."""
    content = (store.manifest.get("contents") or {}).get(spec, version)[:12]
    models = [facts["model"].rpartition("@") for facts in store.systems().values()]
    others = [saved for name, _, saved in models if name == spec and saved != version]
    if others or not version.startswith(content):
        raise UsageError(
            f"{spec}: is not the model that the run began with ({[*others, content][0]} then, "
            f"{version} now); restore it, or start a new run."
        )


def saved_notes(store: Store) -> list[str]:
    """Return the notes on items and answers."""
    return list(store.meta("notes") or ())


def add_notes(store: Store, notes: Iterable[str]) -> None:
    """Save notes that the run does not have yet."""
    saved = saved_notes(store)
    store.set_meta("notes", [*saved, *(note for note in notes if note not in saved)])


def lost_notes(store: Store) -> Iterator[str]:
    """Yield a warning if a salvaged run lacks items and has not been resumed."""
    n_saved = store.meta(ITEMS_SAVED) or 0
    if n_saved > store.n_items:
        lost = f"{n_saved - store.n_items} of {n_saved} items were lost when this run was damaged"
        yield f"warning: {lost}; every number is about the others; resume it to ask for them again"


def unfinished_notes(store: Store, systems: Iterable[str]) -> Iterator[str]:
    """Yield a note for each system that is not finished, and for each model not started."""
    started = [name for name in systems if not store.meta(f"done {name}")]
    unfinished = store.unfinished_models(store.manifest.get("models") or ())
    # Models run in order: the systems that have started belong to the first one.
    for name in (*started, *(unfinished[1:] if started else unfinished)):
        yield f"{name}: is not finished; continue it with {command(store.path)}"
