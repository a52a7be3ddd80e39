"""The engine of one process: models are loaded and asked here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aleatoric.engine.base import EngineOptions
from aleatoric.engine.opening import Loading, open_model, open_text_model
from aleatoric.models.base import LoadOptions, TextModel, WordModel


class LocalEngine:
    """Gives the models themselves.

    >>> LocalEngine().word_model("toy", Loading()).estimator
    'mc'
    """

    def word_model(self, spec: str, loading: Loading) -> WordModel:
        """A source of next words, loaded now."""
        return open_model(spec, loading)

    def text_model(self, spec: str, loading: LoadOptions) -> TextModel:
        """A writer of whole texts, loaded now."""
        return open_text_model(spec, loading)


@contextmanager
def open_local(options: EngineOptions) -> Iterator[LocalEngine]:
    """Nothing to start and nothing to stop."""
    yield LocalEngine()
