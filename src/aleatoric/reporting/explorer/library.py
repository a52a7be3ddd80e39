"""The runs that the explorer shows, kept up to date in the background.

Pages read what is here and never wait: one thread looks for changes every second, a second one
computes what takes long (intervals, tags).
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric import registry
from aleatoric.data import files
from aleatoric.data.files import cache_dir
from aleatoric.errors import AleatoricError
from aleatoric.probes.taggers import TAGS
from aleatoric.reporting.explorer.snapshot import Flags, Snapshot, take
from aleatoric.reporting.views import view_of_run
from aleatoric.result_types import Table
from aleatoric.runs.formats import DATABASE
from aleatoric.runs.run import Store, item_heads, scored_until
from aleatoric.studies.ard import last_tag
from aleatoric.studies.figure_data import Picture

Codes = NDArray[np.int8]
"""The place of a tag among `TAGS`, per item."""


LOOK_S = 1.0
"""Seconds between two checks of a run."""
STOP_S = 5.0
"""Seconds to wait at the end for a check in progress."""
IDLE = 10
"""Checks take at most a tenth of the time: after a long one the watcher waits longer."""


@dataclass(frozen=True)
class Summary:
    """The slow computations: results with their intervals, and curves."""

    version: tuple[int, ...]
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    curves: Mapping[str, Any] = field(default_factory=dict)
    """System -> its reliability diagrams, if the level has them."""
    problem: str = ""
    finding: str = ""
    agreement: Picture | None = None
    """H, M and C of each system."""


class OpenRun:
    """One run: a snapshot, its progress, and its results once they are computed."""

    def __init__(self, key: str, path: Path, tagger: str | None = None) -> None:
        self.key = key
        self.path = path
        self.name = path.resolve().name
        self.summary: Summary | None = None
        self.tags: Mapping[str, Flags] = {}
        self._requested_tagger = tagger
        self._tagged = False
        with self.reading() as store:
            self.snapshot: Snapshot = take(store, view_of_run(store), _version(store))
            self.manifest: dict[str, Any] = store.manifest
            self.progress: dict[str, Any] = _progress(store, self.snapshot)

    def reading(self) -> Store:
        """Open the run for a moment, on a connection that cannot write."""
        return Store.open(self.path)

    @property
    def changed(self) -> datetime:
        """When the run was last written."""
        return datetime.fromtimestamp((self.path / DATABASE).stat().st_mtime)

    def progress_data(self) -> dict[str, Any]:
        """Return the progress of the run, for pages and for those that poll it."""
        version = self.snapshot.version
        facts = {**self.progress}
        systems = facts.pop("systems")
        is_summarised = self.summary is not None and self.summary.version == version
        now = {"version": ".".join(map(str, version)), "summary": is_summarised}
        return {**facts, **now, "systems": systems}

    def look(self) -> None:
        """Read what has changed."""
        with self.reading() as store:
            version = _version(store)
            if version != self.snapshot.version:
                self.snapshot = take(store, view_of_run(store), version, self.snapshot)
            elif self.progress["finished"]:
                return
            self.progress = _progress(store, self.snapshot)

    def work(self) -> bool:
        """Do one long computation that is due; return whether there was one."""
        has_tokens = any(system["tokens"] for system in self.progress["systems"])
        summarised = self.summary.version if self.summary else None
        if (self.progress["scored"] or has_tokens) and summarised != self.snapshot.version:
            self.summary = self._summarise()
            return True
        tagger = self._requested_tagger or self.snapshot.tagger
        if not self._tagged and tagger is not None and self.snapshot.view.has_gap:
            self._tagged = True
            self._tag(tagger)
            return True
        return False

    def _summarise(self) -> Summary:
        version, view = self.snapshot.version, self.snapshot.view
        try:
            with self.reading() as store:
                results = view.level.results(store)
                signatures = tuple(dict.fromkeys(str(result.signature) for result in results))
                tables, notes = tuple(view.tables(results)), tuple(view.level.notes(store))
                drawn = view.curves(store), "", view.finding(results), view.agreement(results)
                return Summary(version, tables, notes, signatures, *drawn)
        except (AleatoricError, sqlite3.Error) as error:
            return Summary(version, problem=str(error))

    def _tag(self, tagger: str) -> None:
        n_items = len(self.snapshot.items)
        facts = f"corpus={self.snapshot.corpus_sha256}\nitems={n_items}\ntagger={tagger}"
        digest = hashlib.sha256(facts.encode()).hexdigest()[:24]
        file = cache_dir() / "view" / f"tags-{digest}.npy"
        codes = _load(file, n_items)
        if codes is None:
            with self.reading() as store:
                contexts = (context for *_, context in item_heads(store))
                try:
                    codes = _tag_contexts(contexts, tagger)
                except AleatoricError:
                    return  # without the tagger there is nothing to filter by
            _save(file, codes)
        if len(codes) == n_items:
            present = [code for code in np.unique(codes) if 0 <= code < len(TAGS)]
            self.tags = {TAGS[code]: codes == code for code in present}


def find_runs(paths: Iterable[Path], tell: Callable[[str], None]) -> Iterator[Path]:
    """Yield the given runs, and those in folders that are no run themselves.

    A run in a folder that cannot be read is left out, and `tell` is told why.
    """
    for path in paths:
        inside = _runs_below(path)
        yield from [run for run in inside if _is_readable(run, tell)] if inside else [path]


def _runs_below(path: Path) -> list[Path]:
    """Return the runs in a folder that is no run itself; none if it cannot be looked at."""
    try:
        if (path / DATABASE).exists():
            return []
        files = [file for depth in ("*", "*/*") for file in path.glob(f"{depth}/{DATABASE}")]
    except OSError:  # such as a name that is too long; opening it says so
        return []
    return sorted(file.parent for file in files)


def _is_readable(path: Path, tell: Callable[[str], None]) -> bool:
    try:
        Store.open(path).db.close()
    except AleatoricError as error:
        tell(f"left out: {error}")
        return False
    return True


class Library:
    """All runs that a server shows."""

    def __init__(self, paths: Sequence[Path], tagger: str | None = None) -> None:
        self.runs = tuple(OpenRun(str(i), path, tagger) for i, path in enumerate(paths))
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._worker = threading.Thread(target=self._work, name="worker", daemon=True)

    def beside(self, run: OpenRun) -> list[OpenRun]:
        """Return the run, and after it those of the same items and level."""

        def kind(open_run: OpenRun) -> tuple[Any, ...]:
            snapshot, manifest = open_run.snapshot, open_run.manifest
            part = [manifest.get(name) for name in ("limit", "groups", "sample")]
            seed = manifest.get("seed") if manifest.get("sample") else None
            corpus = snapshot.corpus_sha256, len(snapshot.items), str(part), seed
            return snapshot.view.level.name, *corpus

        return [run, *(r for r in self.runs if r is not run and kind(r) == kind(run))]

    def start(self) -> None:
        """Start the background threads."""
        self._watcher.start()
        self._worker.start()

    def stop(self) -> None:
        """Stop both threads; a long computation ends with the process."""
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join(STOP_S)

    def _watch(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            for run in self.runs:
                # A run may be locked for a moment, or moved away: it is checked again later.
                _quietly(run.look)
            self._stopping.wait(max(LOOK_S, IDLE * (time.monotonic() - started)))

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


def _version(store: Store) -> tuple[int, ...]:
    """Return numbers that change with the statistics, the items and the tokens read."""
    tokens = [store.tokens_read(name) for name in store.systems()]
    return (store.stats_generation, store.n_items, *tokens)


def _progress(store: Store, snapshot: Snapshot) -> dict[str, Any]:
    """Return how far a run is; `total` is 0 if the number of items is not known."""
    names = [name for name in store.systems() if not snapshot.is_control(name)]
    systems = [_system_progress(store, name, snapshot) for name in names]
    total, scored, scoring = 0, bool(systems), 0
    if snapshot.view.has_items:
        # `scoring` are the items done by a scoring in progress.
        total, scored, scoring = store.n_items, store.has_stats(), scored_until(store, names[:1])
    finished = scored and not scoring and all(system["finished"] for system in systems)
    facts = {"total": total, "scored": scored, "scoring": scoring, "finished": finished}
    return facts | {"systems": systems}


def _system_progress(store: Store, name: str, snapshot: Snapshot) -> dict[str, Any]:
    finished, scored, tokens = bool(store.meta(f"done {name}")), snapshot.systems.get(name), 0
    if not snapshot.view.has_items:
        sums = store.token_sums(name)
        done, tokens = (sums.items, sums.tokens) if sums else (0, 0)
    elif finished and scored is not None:
        # Counting reads every draw: finished systems were counted when they were scored.
        done = len(np.unique(scored.places))
    else:
        done = store.n_items_with_draws(name)
    return {"name": name, "done": done, "finished": finished, "tokens": tokens}


def _tag_contexts(contexts: Iterable[str], tagger: str) -> Codes:
    kind, _, argument = tagger.partition(":")
    tag = registry.find("taggers", kind)(argument)
    codes = {name: code for code, name in enumerate(TAGS)}
    return np.array([codes.get(last_tag(text, tag), codes["X"]) for text in contexts], np.int8)


def _load(file: Path, n_items: int) -> Codes | None:
    """Load cached tags; `None` if they are not of as many items."""
    with suppress(OSError, ValueError):
        codes = np.load(file, allow_pickle=False)
        return codes if codes.shape == (n_items,) and codes.dtype == np.int8 else None
    return None


def _save(file: Path, codes: Codes) -> None:
    with suppress(OSError):  # a cache that cannot be written is no error
        file.parent.mkdir(parents=True, exist_ok=True)
        with files.written_whole(file) as unfinished, unfinished.open("wb") as opened:
            np.save(opened, codes)
