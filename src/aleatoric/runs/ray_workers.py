"""A pool of Ray actors that hold a model, and the parts of the work they have in progress.

Only few parts are sent ahead, so that items are read from the run as they are needed. The parts of
a lost actor go to others; a part that loses several actors ends in an error that names its items.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import aleatoric
from aleatoric import errors
from aleatoric.errors import AleatoricError, ModelError, UsageError
from aleatoric.models.base import Tallied
from aleatoric.registry import versions
from aleatoric.runs.engine import open_model, open_text_model
from aleatoric.types import Draws, Texts

_PACKAGES = ("numpy", "torch", "transformers", "tokenizers")
MOST_TRIES = 3
"""Number of actors that may be lost per part, or in a row while they load a model."""
PATIENCE = 120.0
"""Seconds without any actor after which the cluster counts as too small."""
_LOST = (
    *("RayActorError", "WorkerCrashedError", "NodeDiedError"),
    *("ObjectLostError", "OutOfMemoryError", "RaySystemError"),
)
"""Errors of Ray for an actor that is lost."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a loaded model that the driver needs."""

    label: str
    version: str
    estimator: str
    conventions: Mapping[str, str]
    is_tallied: bool
    at_once: int | None
    """Contexts, or samples of texts, per batch; `None` if the model has no batch size."""
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    """Versions of the packages that its numbers depend on."""


@dataclass(frozen=True)
class Failure:
    """An error for the user as plain data, which can be sent between processes."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: AleatoricError) -> Failure:
        """Return the failure with the nearest class in `aleatoric.errors`."""
        kinds = [kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__]
        return cls(kinds[0].__name__, str(error))

    def error(self) -> AleatoricError:
        """Return the error, to be raised here."""
        kind: type[AleatoricError] = getattr(errors, self.kind)
        error = kind.__new__(kind)  # constructors of some classes take other arguments
        Exception.__init__(error, self.message)
        return error


@dataclass(frozen=True)
class PartAnswers:
    """The answers to a part, each with its counts, and the error that ended it, if any."""

    given: tuple[tuple[Draws | Texts, Mapping[str, int]], ...]
    notes: tuple[str, ...]
    failure: Failure | None = None


@dataclass(frozen=True)
class ModelSource:
    """The model that an actor loads, and the task it is loaded for."""

    task: Literal["words", "texts"]
    spec: str
    loading: Any
    folder: str
    """The folder that paths are relative to."""


class ModelWorker:
    """A model in an actor."""

    def __init__(self, source: ModelSource) -> None:
        self._source = source
        self._model: Any = None
        if Path(source.folder).is_dir():
            os.chdir(source.folder)

    def load(self) -> ModelFacts | Failure:
        """Load the model; return facts about it, or why it cannot be loaded."""
        source = self._source
        open_source: Any = open_model if source.task == "words" else open_text_model
        try:
            self._model = model = open_source(source.spec, source.loading)
        except AleatoricError as error:
            return Failure.of(error)
        return ModelFacts(
            label=model.label,
            version=model.version,
            estimator=getattr(model, "estimator", ""),
            conventions=dict(getattr(model, "conventions", {})),
            is_tallied=isinstance(model, Tallied),
            at_once=getattr(model, "at_once", None),
            notes=self._notes(),
            versions=versions(_PACKAGES),
        )

    def answer(self, items: Sequence[Any], ask: Any) -> PartAnswers:
        """Return the answers to a part of the items, up to the first error."""
        answers: list[Any] = []
        failure = None
        try:
            answers.extend(self._answers(items, ask))  # what comes before an error is kept
        except AleatoricError as error:
            failure = Failure.of(error)
        return PartAnswers(tuple(answers), self._notes(), failure)

    def _answers(self, items: Sequence[Any], ask: Any) -> Iterator[tuple[Any, dict[str, int]]]:
        work = self._model.draws if self._source.task == "words" else self._model.write
        before: dict[str, int] = {}
        for answer in work(items, ask):
            counts = asdict(self._model.tally) if isinstance(self._model, Tallied) else {}
            yield answer, {name: n - before.get(name, 0) for name, n in counts.items()}
            before = counts

    def _notes(self) -> tuple[str, ...]:
        """Return the model's notes without those on its counts, which the driver adds up."""
        model = self._model
        counted = model.tally.notes(model.label) if isinstance(model, Tallied) else ()
        return tuple(note for note in model.notes() if note not in counted)


@dataclass(frozen=True, slots=True)
class PoolSize:
    """Number of actors to start, and the CPUs and GPUs of each."""

    actors: int
    cpus: float
    gpus: float

    def has_room(self, ray: Any) -> bool:
        """Whether any node is large enough for an actor."""
        return any(
            node.get("CPU", 0) >= self.cpus and node.get("GPU", 0) >= self.gpus
            for node in resources(ray)
        )

    @property
    def no_room(self) -> str:
        """Message that no node can hold an actor."""
        return f"no node of the cluster has {self.cpus:g} CPUs and {self.gpus:g} GPUs for an actor"


def resources(ray: Any) -> list[dict[str, float]]:
    """Return the resources of each living node."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


@dataclass(eq=False)
class _WorkPart:
    """Items that are sent together; parts are numbered in order."""

    number: int
    items: Sequence[Any]
    tries: int = 0

    @property
    def name(self) -> str:
        first, last = self.items[0].id, self.items[-1].id
        return f"item {first!r}" if first == last else f"items {first!r} to {last!r}"


@dataclass(eq=False)
class _Actor:
    """A handle, the facts of its model once loaded, and its parts in progress, oldest first."""

    handle: Any
    loading: Any
    facts: ModelFacts | None = None
    parts: dict[Any, _WorkPart] = field(default_factory=dict)

    @property
    def calls(self) -> list[Any]:
        return [*self.parts] if self.facts else [self.loading]


class Pool:
    """The actors of one model; `ray` is the module, connected to a cluster."""

    def __init__(self, ray: Any, source: ModelSource, size: PoolSize) -> None:
        self._ray, self._source, self._size = ray, source, size
        self._actors: list[_Actor] = []
        self._work = _Work(())
        self._n_lost_loading = 0
        self._alone_since: float | None = None
        self._grow()

    def facts(self) -> ModelFacts:
        """Return facts about the model, as soon as one actor has loaded it."""
        while not (loaded := [actor.facts for actor in self._actors if actor.facts]):
            for _ in self._wait():
                pass
        return loaded[0]

    def answers(self, parts: Iterable[Sequence[Any]], ask: Any) -> Iterator[PartAnswers]:
        """Yield the answers to parts as they come, in any order.

        After an error no new part is started, those in progress are finished, and the error of the
        first of them is raised: the one that would have come first in one process.
        """
        self._work = work = _Work(parts)
        self._grow()
        self.facts()  # nothing is sent before an actor can take it
        try:
            while self._send(ask):
                for answers, part in self._wait():
                    if answers.failure is not None:
                        work.failures[part.number] = answers.failure
                    yield answers
            work.check()
        finally:
            # New actors replace them only if there are further requests.
            for actor in [actor for actor in self._actors if actor.parts]:
                self._drop(actor)

    def close(self) -> None:
        """Stop all actors."""
        for actor in self._actors:
            self._ray.kill(actor.handle)
        self._actors.clear()

    def _send(self, ask: Any) -> bool:
        """Send parts to all actors with room; return whether any answer is pending."""
        # Every actor gets a first part before any gets a second, to follow without a pause.
        for depth in range(2):
            for actor in self._actors:
                if actor.facts is None or len(actor.parts) > depth:
                    continue
                if (part := self._work.next_part()) is None:
                    break
                actor.parts[actor.handle.answer.remote(part.items, ask)] = part
        return bool(self._work.repeated) or any(actor.parts for actor in self._actors)

    def _wait(self) -> Iterator[tuple[PartAnswers, _WorkPart]]:
        """Yield the answers of the next actors that finish anything."""
        calls = {call: actor for actor in self._actors for call in actor.calls}
        done, _ = self._ray.wait([*calls], num_returns=1, timeout=5.0)
        also_done, _ = self._ray.wait([*calls], num_returns=len(calls), timeout=0)
        faults: list[Exception] = []
        for call in dict.fromkeys([*done, *also_done]):
            try:
                answered = self._take(calls[call], call)
            except Exception as error:  # raised after the answers of the others are saved
                faults.append(error)
                continue
            if answered is not None:
                yield answered
        if faults:
            raise faults[0]
        self._check_room()

    def _take(self, actor: _Actor, call: Any) -> tuple[PartAnswers, _WorkPart] | None:
        if actor not in self._actors:
            return None  # lost with another of its calls
        try:
            result = self._ray.get(call)
        except tuple(getattr(self._ray.exceptions, name) for name in _LOST) as error:
            self._replace(actor, error)
            return None
        if actor.facts is None:
            actor.facts = self._checked(result)
            return None
        return result, actor.parts.pop(call)

    def _replace(self, actor: _Actor, error: Exception) -> None:
        """Start another actor in the place of a lost one, and put its parts back."""
        self._drop(actor)
        problem = f"{self._source.spec}: a worker was lost ({type(error).__name__})"
        if actor.facts is None:
            self._n_lost_loading += 1
            if self._n_lost_loading >= MOST_TRIES:
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                raise ModelError(
                    f"{problem} while it loaded the model, {MOST_TRIES} times in a row; look for "
                    "memory, and for aleatoric in the Python of every node: "
                    + (lines[-1][:200] if lines else type(error).__name__)
                )
        _log.warning("%s; %d parts are asked again elsewhere", problem, len(actor.parts))
        self._work.put_back(list(actor.parts.values()))
        self._grow()

    def _drop(self, actor: _Actor) -> None:
        self._actors.remove(actor)
        self._ray.kill(actor.handle)  # it may be alive if only the connection was lost

    def _checked(self, facts: ModelFacts | Failure) -> ModelFacts:
        """Refuse a worker whose versions or model differ from the others'."""
        if isinstance(facts, Failure):
            raise facts.error()
        self._n_lost_loading = 0
        spec = self._source.spec
        if (version := facts.versions["aleatoric"]) != aleatoric.__version__:
            problem = f"a node has aleatoric {version}, and this is {aleatoric.__version__}"
            raise UsageError(f"{spec}: {problem}; install the same on every node.")
        first = next((actor.facts for actor in self._actors if actor.facts), facts)
        for name in ("label", "version", "estimator", "conventions", "is_tallied", "versions"):
            one, other = getattr(first, name), getattr(facts, name)
            if one != other:  # devices may differ, and with them the batch size and the notes
                problem = f"two nodes have different {name} ({one} and {other})"
                raise UsageError(f"{spec}: {problem}; install the same on every node.")
        return facts

    def _grow(self) -> None:
        size = self._size
        kind = self._ray.remote(ModelWorker).options(
            num_cpus=size.cpus, num_gpus=size.gpus, scheduling_strategy="SPREAD", max_restarts=0
        )
        while len(self._actors) < size.actors:
            handle = kind.remote(self._source)
            self._actors.append(_Actor(handle, handle.load.remote()))

    def _check_room(self) -> None:
        """Give up after waiting long enough for nodes to come back."""
        if any(actor.facts for actor in self._actors) or self._size.has_room(self._ray):
            self._alone_since = None
            return
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > PATIENCE:
            raise ModelError(
                f"{self._source.spec}: {self._size.no_room}; what was answered is saved: start "
                "nodes and repeat the command."
            )


class _Work:
    """The parts of one request: still to come, to be repeated, and failed."""

    def __init__(self, parts: Iterable[Sequence[Any]]) -> None:
        self._coming = (_WorkPart(number, items) for number, items in enumerate(parts))
        self.repeated: deque[_WorkPart] = deque()
        self.failures: dict[int, Failure] = {}

    def next_part(self) -> _WorkPart | None:
        if self.repeated:
            return self.repeated.popleft()
        return None if self.failures else next(self._coming, None)

    def put_back(self, parts: Sequence[_WorkPart]) -> None:
        """Repeat the parts of a lost actor; only the first of them had been started."""
        for place, part in enumerate(parts):
            part.tries += place == 0
            if part.tries >= MOST_TRIES:
                message = (
                    f"{part.name}: {MOST_TRIES} workers were lost over them, most often for lack "
                    "of memory; use fewer --actors per node, and repeat the command to continue."
                )
                self.failures[part.number] = Failure("ModelError", message)
            else:
                self.repeated.append(part)

    def check(self) -> None:
        """Raise the error of the first part that has one."""
        if self.failures:
            raise self.failures[min(self.failures)].error()
