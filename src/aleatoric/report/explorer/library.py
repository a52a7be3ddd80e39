"""The runs that are shown: what is known of each, kept up to date beside the pages.

Pages read what lies here and never wait: a watcher looks for news every second, and what takes
long (intervals, tags) is worked out by a second thread.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric import registry
from aleatoric.data import files
from aleatoric.data.files import cache_dir
from aleatoric.errors import AleatoricError
from aleatoric.levels import base, token
from aleatoric.probes.taggers import TAGS
from aleatoric.report import data
from aleatoric.report.explorer.snapshot import Snapshot, model_names, take
from aleatoric.report.views import results_tables
from aleatoric.runs import Store
from aleatoric.runs.run import item_heads, scored_until
from aleatoric.studies.ard import last_tag
from aleatoric.types import Table

Flags = NDArray[np.bool_]
Codes = NDArray[np.int8]


def tag_contexts(contexts: Iterable[str], tagger: str) -> Codes:
    """The place among `TAGS` of the tag of each context's last token."""
    kind, _, argument = tagger.partition(":")
    own = registry.find("taggers", kind)(argument)
    known = {name: code for code, name in enumerate(TAGS)}
    return np.array([known.get(last_tag(one, own), known["X"]) for one in contexts], dtype=np.int8)


def by_tag(codes: Codes) -> dict[str, Flags]:
    """Tag -> the items that have it, for the tags that occur.

    >>> {tag: own.tolist() for tag, own in by_tag(np.array([5, 0, 5], dtype=np.int8)).items()}
    {'ADJ': [False, True, False], 'NOUN': [True, False, True]}
    """
    present = np.unique(codes)
    return {TAGS[code]: codes == code for code in present if 0 <= code < len(TAGS)}


def cache_file(folder: Path, facts: Mapping[str, object]) -> Path:
    """Where the tags of these contexts by this tagger are kept."""
    named = "\n".join(f"{key}={facts[key]}" for key in sorted(facts))
    return folder / "view" / f"tags-{hashlib.sha256(named.encode()).hexdigest()[:24]}.npy"


def load(file: Path, n_items: int) -> Codes | None:
    """Kept tags, where they are of as many items."""
    try:
        found = np.load(file, allow_pickle=False)
    except (OSError, ValueError):
        return None
    return found if found.shape == (n_items,) and found.dtype == np.int8 else None


def save(file: Path, codes: Codes) -> None:
    """Keep tags; a cache that cannot be written is no error, they are worked out again."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with files.written_whole(file) as unfinished, unfinished.open("wb") as opened:
            np.save(opened, codes)
    except OSError:
        return


LOOK_S = 1.0
"""Seconds between two looks at a run."""
STOP_S = 5.0
"""How long the end waits for a look that is going on."""
IDLE = 10
"""A look may take a tenth of the time: after a longer one the watcher waits longer."""


@dataclass(frozen=True)
class SystemProgress:
    """How far one system has come."""

    name: str
    done: int
    finished: bool
    tokens: int = 0


@dataclass(frozen=True)
class Progress:
    """How far a run has come; `total` is 0 where nobody knows how much there is."""

    total: int = 0
    systems: tuple[SystemProgress, ...] = ()
    scored: bool = False
    scoring: int = 0
    """Items that a scoring still going on has done."""

    @property
    def finished(self) -> bool:
        """Whether nothing more is to come."""
        return self.scored and not self.scoring and all(one.finished for one in self.systems)


@dataclass(frozen=True)
class Summary:
    """What takes long to work out: results with their intervals, and curves."""

    version: tuple[int, ...]
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    curves: Mapping[str, Any] = field(default_factory=dict)
    """System -> its reliability diagrams, at the token level."""
    problem: str = ""


class OpenRun:
    """One run: a snapshot, how far it has come, its results once they are there."""

    def __init__(self, key: str, path: Path, tagger: str | None = None) -> None:
        self.key = key
        self.path = path
        self.name = path.resolve().name
        self.progress = Progress()
        self.summary: Summary | None = None
        self.tags: Mapping[str, Flags] = {}
        self._asked_tagger = tagger
        self._tagged = False
        with self.reading() as store:
            self.snapshot: Snapshot = take(store, _version(store))
            self.manifest: dict[str, Any] = store.manifest
            self.progress = _progress(store, self.snapshot)

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """The run for a moment, on a connection that cannot write."""
        with Store.open(self.path) as store:
            yield store

    @property
    def tagger(self) -> str | None:
        """What tags contexts, if anything does."""
        return self._asked_tagger or self.snapshot.tagger

    def look(self) -> None:
        """See whether anything is new."""
        with self.reading() as store:
            version = _version(store)
            if version != self.snapshot.version:
                self.snapshot = take(store, version, self.snapshot)
            elif self.progress.finished:
                return
            self.progress = _progress(store, self.snapshot)

    def work(self) -> bool:
        """Do one long thing that is due; whether there was one."""
        if self._is_summary_due():
            self.summary = self._summarise()
            return True
        if not self._tagged and self.tagger is not None and self.snapshot.level == "word":
            self._tagged = True
            self._tag()
            return True
        return False

    def _is_summary_due(self) -> bool:
        has_numbers = self.progress.scored or any(one.tokens for one in self.progress.systems)
        known = self.summary.version if self.summary else None
        return has_numbers and known != self.snapshot.version

    def _summarise(self) -> Summary:
        version = self.snapshot.version
        try:
            with self.reading() as store:
                return _summary(store, version)
        except (AleatoricError, sqlite3.Error) as error:
            return Summary(version, problem=str(error))

    def _tag(self) -> None:
        snapshot, tagger = self.snapshot, str(self.tagger)
        n_items = len(snapshot.items)
        facts = {"corpus": snapshot.corpus_sha256, "tagger": tagger, "items": n_items}
        file = cache_file(cache_dir(), facts)
        codes = load(file, n_items)
        if codes is None:
            with self.reading() as store:
                contexts = (context for *_, context in item_heads(store))
                try:
                    codes = tag_contexts(contexts, tagger)
                except AleatoricError:
                    return  # without the tagger there is nothing to filter by
            save(file, codes)
        if len(codes) == n_items:
            self.tags = by_tag(codes)


class Library:
    """All runs that a server shows."""

    def __init__(self, paths: Sequence[Path], tagger: str | None = None) -> None:
        self.runs = tuple(OpenRun(str(i), path, tagger) for i, path in enumerate(paths))
        self._stopping = threading.Event()
        self._threads = (
            threading.Thread(target=self._watch, name="watcher", daemon=True),
            threading.Thread(target=self._work, name="worker", daemon=True),
        )

    def find(self, key: str) -> OpenRun | None:
        """A run by its key in addresses."""
        return next((run for run in self.runs if run.key == key), None)

    def beside(self, run: OpenRun) -> list[OpenRun]:
        """The run, and after it those of the same corpus and level."""
        own = _kind(run)
        return [run, *(one for one in self.runs if one is not run and _kind(one) == own)]

    def start(self) -> None:
        """Keep everything up to date from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads; a long calculation ends with the process."""
        self._stopping.set()
        watcher = self._threads[0]
        if watcher.is_alive():
            watcher.join(STOP_S)

    def _watch(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            for run in self.runs:
                # A run may be locked for a moment, or moved away: it is looked at again.
                _quietly(run.look)
            took = time.monotonic() - started
            self._stopping.wait(max(LOOK_S, IDLE * took))

    def _work(self) -> None:
        while not self._stopping.is_set():
            worked = [_quietly(run.work) for run in self.runs if not self._stopping.is_set()]
            if not any(worked):
                self._stopping.wait(LOOK_S)


def _quietly(step: Any) -> Any:
    try:
        return step()
    except (AleatoricError, sqlite3.Error, OSError):
        return None


def _kind(run: OpenRun) -> tuple[str, str, int]:
    seen = run.snapshot
    return seen.level, seen.corpus_sha256, len(seen.items)


def _version(store: Store) -> tuple[int, ...]:
    """Changes with the statistics, the items, and the tokens that were read."""
    tokens = [store.tokens_read(name) for name in store.systems()]
    return (store.stats_generation, store.n_items, *tokens)


def _progress(store: Store, snapshot: Snapshot) -> Progress:
    names = model_names(store)
    if snapshot.level == "token":
        systems = tuple(_token_progress(store, name) for name in names)
        return Progress(0, systems, bool(systems))
    systems = tuple(_item_progress(store, name, snapshot) for name in names)
    return Progress(store.n_items, systems, store.has_stats(), scored_until(store, names[:1]))


def _item_progress(store: Store, name: str, snapshot: Snapshot) -> SystemProgress:
    finished, scored = bool(store.meta(f"done {name}")), snapshot.systems.get(name)
    if finished and scored is not None:
        # Counting reads every draw: what is over was counted when it was scored.
        return SystemProgress(name, len(np.unique(scored.places)), True)
    return SystemProgress(name, store.n_items_with_draws(name), finished)


def _token_progress(store: Store, name: str) -> SystemProgress:
    sums = store.token_sums(name)
    done, tokens = (sums.items, sums.tokens) if sums else (0, 0)
    return SystemProgress(name, done, bool(store.meta(f"done {name}")), tokens)


def _summary(store: Store, version: tuple[int, ...]) -> Summary:
    level = base.level_of(store).name
    results = base.results(store)
    curves = {}
    if level == "token":
        names = token.systems(store)
        curves = {name: data.reliability(store, name) for name in names}
    signatures = dict.fromkeys(str(result.signature) for result in results)
    tables = tuple(results_tables(results, level))
    return Summary(version, tables, tuple(base.notes(store)), tuple(signatures), curves)
