"""Actors that hold a model, and the parts of the work they have in hand.

A part goes to whichever actor has room; few parts are ahead of the work, so that items are read
from the run as they are needed. When an actor is lost, with its node or alone, its parts go to the
others and a new actor takes its place wherever there is room for one. A part that its actors do not
survive is given up after a few times, with its items named.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import aleatoric
from aleatoric import errors
from aleatoric.errors import AleatoricError, ModelError, UsageError
from aleatoric.models.base import Tallied
from aleatoric.registry import versions
from aleatoric.runs.engine import open_model, open_text_model
from aleatoric.types import Draws, Texts

Level = Literal["words", "texts"]
_PACKAGES = ("numpy", "torch", "transformers", "tokenizers")


@dataclass(frozen=True)
class Facts:
    """What a loaded model is, as far as who asks it must know."""

    label: str
    version: str
    estimator: str
    conventions: Mapping[str, str]
    is_tallied: bool
    at_once: int | None
    """Contexts, or samples of texts, that are worked on together; `None` where it does not say."""
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    """Of the packages that its numbers depend on."""

    def matches(self, other: Facts) -> bool:
        """Whether another worker's answers may stand beside these; devices may differ."""
        return replace(self, at_once=None, notes=()) == replace(other, at_once=None, notes=())


@dataclass(frozen=True)
class Failure:
    """An error that is meant for the user, as plain data: the name of its kind, and its words."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: AleatoricError) -> Failure:
        """The nearest kind that stands in `aleatoric.errors`.

        >>> Failure.of(errors.MissingExtraError("torch", "hf")).kind
        'MissingExtraError'
        """
        known = [kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__]
        return cls(known[0].__name__, str(error))

    def error(self) -> AleatoricError:
        """The error again, to be raised here.

        >>> str(Failure("UsageError", "use toy.").error())
        'use toy.'
        """
        kind: type[AleatoricError] = getattr(errors, self.kind)
        error = kind.__new__(kind)  # kinds that make their own words take other arguments
        Exception.__init__(error, self.message)
        return error


@dataclass(frozen=True)
class Given:
    """The answer to one item, and what it adds to the counts of a writer that counts."""

    answer: Draws | Texts
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Answers:
    """What came of a part: answers, and the error after which there are no more."""

    given: tuple[Given, ...]
    notes: tuple[str, ...]
    failure: Failure | None = None


class ModelWorker:
    """A model that is loaded where this object lives.

    >>> from aleatoric.runs.engine import Loading
    >>> worker = ModelWorker("words", "toy", Loading(), ".")
    >>> worker.load().label
    'toy'
    """

    def __init__(self, level: Level, spec: str, loading: Any, folder: str) -> None:
        self._level, self._spec, self._loading = level, spec, loading
        self._model: Any = None
        if Path(folder).is_dir():  # paths are meant as in the folder of who asks
            os.chdir(folder)

    def load(self) -> Facts | Failure:
        """Load the model; what it is, or why it cannot be loaded."""
        opened: Any = open_model if self._level == "words" else open_text_model
        try:
            self._model = opened(self._spec, self._loading)
        except AleatoricError as error:
            return Failure.of(error)
        return self._facts()

    def answer(self, items: Sequence[Any], ask: Any) -> Answers:
        """The answers to a part of the items, up to the first error."""
        given: list[Given] = []
        try:
            given.extend(self._given(items, ask))  # what comes before an error is kept
        except AleatoricError as error:
            return Answers(tuple(given), self._notes(), Failure.of(error))
        return Answers(tuple(given), self._notes())

    def _given(self, items: Sequence[Any], ask: Any) -> Iterator[Given]:
        work = self._model.draws if self._level == "words" else self._model.write
        before: dict[str, int] = {}
        for answer in work(items, ask):
            counts = self._counts()
            yield Given(answer, {name: n - before.get(name, 0) for name, n in counts.items()})
            before = counts

    def _counts(self) -> dict[str, int]:
        return asdict(self._model.tally) if isinstance(self._model, Tallied) else {}

    def _notes(self) -> tuple[str, ...]:
        """Without those of its counts: these are added up by who asks."""
        model = self._model
        counted = model.tally.notes(model.label) if isinstance(model, Tallied) else ()
        return tuple(note for note in model.notes() if note not in counted)

    def _facts(self) -> Facts:
        model = self._model
        return Facts(
            label=model.label,
            version=model.version,
            estimator=getattr(model, "estimator", ""),
            conventions=dict(getattr(model, "conventions", {})),
            is_tallied=isinstance(model, Tallied),
            at_once=getattr(model, "at_once", None),
            notes=self._notes(),
            versions=versions(_PACKAGES),
        )


MOST_TRIES = 3
"""So many actors may be lost over a part, or in a row while they load a model."""
AHEAD = 2
"""Parts given to an actor: one that it works on, and one that it need not wait for."""
PATIENCE = 120.0
"""Seconds without any actor after which the cluster is called too small."""
_LOOK = 5.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Size:
    """How many actors there are to be, and what each of them takes."""

    actors: int
    cpus: float
    gpus: float


@dataclass(frozen=True)
class Recipe:
    """What an actor loads."""

    level: Level
    spec: str
    loading: Any
    folder: str


@dataclass(eq=False)
class _Part:
    """Items asked together; parts are numbered as they come."""

    number: int
    items: Sequence[Any]
    tries: int = 0

    @property
    def named(self) -> str:
        first, last = self.items[0].id, self.items[-1].id
        return f"item {first!r}" if first == last else f"items {first!r} to {last!r}"


@dataclass(eq=False)
class _Actor:
    """A handle, the model's facts once it is loaded, and the parts that it has, oldest first."""

    handle: Any
    loading: Any
    facts: Facts | None = None
    parts: dict[Any, _Part] = field(default_factory=dict)


class Pool:
    """The actors of one model; `ray` is the module, connected to a cluster."""

    def __init__(self, ray: Any, recipe: Recipe, size: Size) -> None:
        self._ray, self._recipe, self._size = ray, recipe, size
        self._actors: list[_Actor] = []
        self._n_lost_loading = 0
        self._alone_since: float | None = None
        self._grow()

    @property
    def n_actors(self) -> int:
        """How many actors there are, loaded or begun."""
        return len(self._actors)

    def facts(self) -> Facts:
        """What the model is, as soon as one actor has loaded it."""
        while not (loaded := [actor.facts for actor in self._actors if actor.facts]):
            for _ in self._wait():
                pass
        return loaded[0]

    def answers(self, parts: Iterable[Sequence[Any]], ask: Any) -> Iterator[Answers]:
        """The answers to parts as they come, in any order.

        After an error no new part is begun, those in hand are finished, and the error of the first
        of them is raised: the one that would have come first in one process.
        """
        work = _Work(parts)
        self._grow()
        self.facts()  # nothing is given out before somebody is there to take it
        try:
            while self._give_out(work, ask):
                for answers, part in self._wait(work):
                    work.note(part, answers)
                    yield answers
            work.check()
        finally:
            self._forget_unfinished()

    def close(self) -> None:
        """End all actors."""
        for actor in self._actors:
            self._ray.kill(actor.handle)
        self._actors.clear()

    def _give_out(self, work: _Work, ask: Any) -> bool:
        """Fill up all actors that have room; whether anything is in hand or waits."""
        for depth in range(AHEAD):  # everybody's first part before anybody's second
            for actor in self._actors:
                if actor.facts is None or len(actor.parts) > depth:
                    continue
                if (part := work.next_part()) is None:
                    break
                actor.parts[actor.handle.answer.remote(part.items, ask)] = part
        return work.has_waiting() or any(actor.parts for actor in self._actors)

    def _wait(self, work: _Work | None = None) -> Iterator[tuple[Answers, _Part]]:
        """What the next actors to finish anything have found."""
        calls = {call: actor for actor in self._actors for call in self._calls(actor)}
        done, _ = self._ray.wait([*calls], num_returns=1, timeout=_LOOK)
        more, _ = self._ray.wait([*calls], num_returns=len(calls), timeout=0)
        errors: list[Exception] = []
        for call in dict.fromkeys([*done, *more]):
            try:
                found = self._take(calls[call], call, work)
            except Exception as error:  # told when what others found is saved
                errors.append(error)
                continue
            if found is not None:
                yield found
        if errors:
            raise errors[0]
        self._check_room()

    def _calls(self, actor: _Actor) -> list[Any]:
        return [*actor.parts] if actor.facts else [actor.loading]

    def _take(self, actor: _Actor, call: Any, work: _Work | None) -> tuple[Answers, _Part] | None:
        if actor not in self._actors:
            return None  # lost with another call of its own
        try:
            found = self._ray.get(call)
        except self._losses() as error:
            self._lose(actor, error, work)
            return None
        if actor.facts is None:
            actor.facts = self._checked(found)
            return None
        return found, actor.parts.pop(call)

    def _losses(self) -> tuple[type[Exception], ...]:
        """What Ray raises where an actor, its node or its answer is gone."""
        known = self._ray.exceptions
        return (
            known.RayActorError,
            known.WorkerCrashedError,
            known.NodeDiedError,
            known.ObjectLostError,
            known.OutOfMemoryError,
            known.RaySystemError,
        )

    def _lose(self, actor: _Actor, error: Exception, work: _Work | None) -> None:
        """Put another in the place of a lost actor, and its parts back."""
        self._drop(actor)
        parts = list(actor.parts.values())
        about = f"{self._recipe.spec}: a worker was lost ({type(error).__name__})"
        if actor.facts is None:
            self._n_lost_loading += 1
            if self._n_lost_loading >= MOST_TRIES:
                raise ModelError(
                    f"{about} while it loaded the model, {MOST_TRIES} times in a row; look for "
                    "memory, and for aleatoric in the Python of every node: " + _last_line(error)
                )
        _log.warning("%s; %d parts are asked again elsewhere", about, len(parts))
        if work is not None:
            work.put_back(parts)
        self._grow()

    def _drop(self, actor: _Actor) -> None:
        self._actors.remove(actor)
        self._ray.kill(actor.handle)  # it may live on where only the way to it was lost

    def _checked(self, found: Facts | Failure) -> Facts:
        if isinstance(found, Failure):
            raise found.error()
        self._n_lost_loading = 0
        if (theirs := found.versions["aleatoric"]) != aleatoric.__version__:
            raise UsageError(
                f"{self._recipe.spec}: a node has aleatoric {theirs}, and this is "
                f"{aleatoric.__version__}; install the same on every node."
            )
        others = [actor.facts for actor in self._actors if actor.facts]
        if others and not found.matches(others[0]):
            raise UsageError(_difference(self._recipe.spec, others[0], found))
        return found

    def _grow(self) -> None:
        """As many actors as there are to be; Ray starts them where and when there is room."""
        recipe, size = self._recipe, self._size
        kind = self._ray.remote(ModelWorker).options(
            num_cpus=size.cpus, num_gpus=size.gpus, scheduling_strategy="SPREAD", max_restarts=0
        )
        while len(self._actors) < size.actors:
            handle = kind.remote(recipe.level, recipe.spec, recipe.loading, recipe.folder)
            self._actors.append(_Actor(handle, handle.load.remote()))

    def _check_room(self) -> None:
        """Nodes may come back, but not for ever waited for."""
        if any(actor.facts for actor in self._actors) or has_room(self._ray, self._size):
            self._alone_since = None
            return
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > PATIENCE:
            raise ModelError(
                f"{self._recipe.spec}: {no_room(self._size)}; what was answered is saved: start "
                "nodes and repeat the command."
            )

    def _forget_unfinished(self) -> None:
        """End actors that still work when nobody waits for them.

        Others take their place only where something more is asked: most often this is the end.
        """
        for actor in [actor for actor in self._actors if actor.parts]:
            self._drop(actor)


class _Work:
    """The parts of one question: still to come, to be asked again, and what went wrong."""

    def __init__(self, parts: Iterable[Sequence[Any]]) -> None:
        self._coming = (_Part(number, items) for number, items in enumerate(parts))
        self._again: deque[_Part] = deque()
        self._failures: dict[int, Failure] = {}

    def next_part(self) -> _Part | None:
        if self._again:
            return self._again.popleft()
        return None if self._failures else next(self._coming, None)

    def has_waiting(self) -> bool:
        return bool(self._again)

    def put_back(self, parts: Sequence[_Part]) -> None:
        """The parts of a lost actor; only the first of them was begun."""
        for place, part in enumerate(parts):
            part.tries += place == 0
            if part.tries >= MOST_TRIES:
                message = (
                    f"{part.named}: {MOST_TRIES} workers were lost over them, most often for lack "
                    "of memory; use fewer --actors a node, and repeat the command to go on."
                )
                self._failures[part.number] = Failure("ModelError", message)
            else:
                self._again.append(part)

    def note(self, part: _Part, answers: Answers) -> None:
        if answers.failure is not None:
            self._failures[part.number] = answers.failure

    def check(self) -> None:
        """Raise the error of the first part that has one."""
        if self._failures:
            raise self._failures[min(self._failures)].error()


def has_room(ray: Any, size: Size) -> bool:
    """Whether any node is large enough for an actor."""
    return any(
        node.get("CPU", 0) >= size.cpus and node.get("GPU", 0) >= size.gpus
        for node in resources(ray)
    )


def resources(ray: Any) -> list[dict[str, float]]:
    """What each living node has."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def no_room(size: Size) -> str:
    """That no node can hold an actor.

    >>> no_room(Size(2, 4, 1))
    'no node of the cluster has 4 CPUs and 1 GPUs for an actor'
    """
    return f"no node of the cluster has {size.cpus:g} CPUs and {size.gpus:g} GPUs for an actor"


def _difference(spec: str, one: Facts, other: Facts) -> str:
    names = ("label", "version", "estimator", "conventions", "is_tallied", "versions")
    what = next(name for name in names if getattr(one, name) != getattr(other, name))
    found = f"{getattr(one, what)} and {getattr(other, what)}"
    return f"{spec}: two nodes have different {what} ({found}); install the same on every node."


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200] if lines else type(error).__name__
