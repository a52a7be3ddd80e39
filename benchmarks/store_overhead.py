"""Overhead of the store in a live run: the time spent in it over the wall time of the run.

    python -m benchmarks.store_overhead [SAMPLES]

SmolLM2 samples next words for the demo's contexts, and every item is saved in its own transaction
as it arrives. All database operations count: items, pending items, samples, facts and statistics.
Time that the store spends waiting for the model or the scores does not count.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

from aleatoric.demo import contexts
from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob
from aleatoric.runs.run import Store

FUNCTIONS = (
    *("add_items", "add_draws", "write_stats", "set_meta", "meta", "systems", "add_system"),
    *("n_items_with_draws", "close"),
)
WALKS = ("pending_rows", "walk")


class Clock:
    """Seconds inside the store: not those of what it is given to walk, nor counted twice."""

    def __init__(self) -> None:
        self.seconds, self._since, self._depth = 0.0, 0.0, 0

    def enter(self) -> None:
        """The store begins to work."""
        if not self._depth:
            self._since = time.perf_counter()
        self._depth += 1

    def leave(self) -> None:
        """The store is done, or waits."""
        self._depth -= 1
        if not self._depth:
            self.seconds += time.perf_counter() - self._since

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the store; what it walks is others' time."""

        @wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            given = [self._outside(a) if isinstance(a, Iterator) else a for a in arguments]
            self.enter()
            try:
                return function(*given, **named)
            finally:
                self.leave()

        return run

    def walked(self, function: Callable[..., Iterable[Any]]) -> Callable[..., Iterator[Any]]:
        """A walk over what the store holds."""

        @wraps(function)
        def run(*arguments: Any, **named: Any) -> Iterator[Any]:
            found = iter(function(*arguments, **named))
            while True:
                self.enter()
                try:
                    one = next(found)
                except StopIteration:
                    return
                finally:
                    self.leave()
                yield one

        return run

    def _outside(self, given: Iterator[Any]) -> Iterator[Any]:
        while True:
            depth, self._depth = self._depth, 1
            self.leave()
            try:
                one = next(given)
            except StopIteration:
                return
            finally:
                self._depth, self._since = depth, time.perf_counter()
            yield one


def people(folder: Path) -> Path:
    """The demo's contexts with the word that follows as the only answer."""
    path = folder / "people.jsonl"
    rows = (
        {"id": i.id, "group": i.group, "context": i.context, "responses": [i.original] * 2}
        for i in contexts()
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def main(samples: int = 100) -> None:
    """Print the share of the store in a run by Monte Carlo and in an exact one."""
    clock = Clock()
    for names, wrap in ((FUNCTIONS, clock.timed), (WALKS, clock.walked)):
        for name in names:
            setattr(Store, name, wrap(getattr(Store, name)))
    with tempfile.TemporaryDirectory() as folder:
        corpus = str(people(Path(folder)))
        for estimator in ("mc", "exact"):
            clock.seconds = 0.0
            begun = time.perf_counter()
            job = WordJob(corpus, ("smollm2",), samples=samples, estimator=estimator)
            run_job(job, Path(folder) / estimator).close()
            wall = time.perf_counter() - begun
            print(
                f"{estimator}: {wall:.1f} s, of which {1000 * clock.seconds:.0f} ms in the store: "
                f"{100 * clock.seconds / wall:.2f}%"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
