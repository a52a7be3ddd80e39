"""Models of a third-party package: toys that crash or stall their process on request.

`wayward:FOLDER` samples words and texts. A file `once-ID` or `always-ID` kills the process when it
reaches the item, `error-ID` raises a model error; `pid-N` records the process that worked. While a
file `wait` exists, the model keeps `loading`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aleatoric.data.simulated import sample, truth
from aleatoric.errors import ModelError
from aleatoric.models.base import Ask, TextTally, Writing
from aleatoric.rng import stream
from aleatoric.types import Draws, Item, TextItem, Texts

ENTRY_POINTS = """\
[aleatoric.models]
wayward = wayward:load

[aleatoric.text_models]
wayward = wayward:load_texts
"""
SECONDS = 0.002
"""An item takes so long: time enough to die in."""
PATIENCE = 60
"""Seconds after which a model is loaded whatever a file says."""


def install(folder: Path) -> None:
    """Make the package importable for Python processes that search this folder."""
    about = folder / "wayward-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: wayward\nVersion: 1\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)


@dataclass(frozen=True)
class Wayward:
    folder: Path
    label: str = "wayward"
    version: str = "1"
    estimator: str = "mc"
    conventions: Mapping[str, str] = field(default_factory=dict)
    tally: TextTally = field(default_factory=TextTally)

    def notes(self) -> Sequence[str]:
        return [f"{self.label}: is a toy", *self.tally.notes(self.label)]

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        for item in items:
            self._apply_faults(item.id)
            rng = stream(ask.seed, "wayward", item.id)
            yield Draws(item.id, sample(truth(item.context, 1.0), ask.samples, rng))

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        self.tally.start()
        for item in items:
            self._apply_faults(item.id)
            rng = stream(ask.seed, ask.decoder, item.id)
            texts = tuple(" ".join("ab"[i] for i in rng.integers(2, size=rng.integers(4)))
                          for _ in range(ask.samples))  # fmt: skip
            self.tally.count(texts, int(rng.integers(2)))
            yield Texts(item.id, texts)

    def _apply_faults(self, item_id: str) -> None:
        (self.folder / f"pid-{os.getpid()}").touch()
        time.sleep(SECONDS)
        if (self.folder / f"error-{item_id}").exists():
            raise ModelError(f"item {item_id!r}: this is too much; leave it out.")
        once, always = self.folder / f"once-{item_id}", self.folder / f"always-{item_id}"
        if once.exists() or always.exists():
            once.unlink(missing_ok=True)
            os.kill(os.getpid(), signal.SIGKILL)


def load(argument: str) -> Wayward:
    """Load the word model."""
    folder, limit = Path(argument), time.monotonic() + PATIENCE
    while (folder / "wait").exists() and time.monotonic() < limit:
        (folder / "loading").touch()
        time.sleep(SECONDS)
    return Wayward(folder)


def load_texts(argument: str, loading: object = None) -> Wayward:
    """Load the text model."""
    return Wayward(Path(argument))
