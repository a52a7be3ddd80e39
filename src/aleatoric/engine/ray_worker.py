"""What runs in an actor: a model, loaded once, that answers a part of the items at a time.

The class knows nothing of Ray, and this module imports none of it: an actor is made of the class
elsewhere. Keys and tokens are read from the environment of the node that it runs on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from aleatoric import errors
from aleatoric.engine.opening import open_model, open_text_model
from aleatoric.errors import AleatoricError
from aleatoric.models.texts_live import Tallied
from aleatoric.types import Draws, Texts
from aleatoric.versions import versions

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

    >>> from aleatoric.engine.opening import Loading
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
