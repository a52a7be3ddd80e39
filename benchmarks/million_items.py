"""Open, resume and score a run of a million items without loading all of it.

    python -m benchmarks.million_items [ITEMS] [SCORED]

The store writes the run without a model: ITEMS items with their answers, except for the last
thousand. Each step runs in its own process, whose peak memory is printed next to that of the same
step on a run of a hundredth of the size. SCORED limits the items of the run that is scored
(0: all). Items are in groups of a hundred; beyond a thousand groups, results keep one number per
group.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob
from aleatoric.runs.run import Store
from aleatoric.types import Draws, Item

MISSING = 1000
STEPS = {
    "open": "store = Store.open(run); print(store.n_items, store.n_items_with_draws('toy'))",
    "resume": "resume_draws(run)",
    "score": "store = Store.open(run); levels.score(store); print(len(levels.results(store)))",
}
PROGRAM = """
import resource, sys
from pathlib import Path
from aleatoric.levels import base as levels
from aleatoric.runs.run import Store
from benchmarks.million_items import resume_draws
run = Path(sys.argv[1])
{step}
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def build(path: Path, n_items: int) -> None:
    """A run as `aleatoric word` leaves it when it dies before its last items are drawn."""
    job = WordJob("simulated:contexts=2,people=2", ("toy",), samples=2, n_splits=1)
    run_job(job, path).close()
    with Store.resume(path) as store:
        for table in ("items", "draws", "stats"):
            store.db.execute(f"DELETE FROM {table}")
        keys = ("complete", "finished models", "done toy", "n_items", "stats", "stat_columns")
        store.db.executemany("DELETE FROM meta WHERE key = ?", [(key,) for key in keys])
        store.add_items(_items(n_items))
        store.add_draws("toy", (Draws(str(n), {"baba": 2}) for n in range(n_items - MISSING)))


def _items(n_items: int) -> Iterator[Item]:
    for number in range(n_items):
        yield Item(str(number), str(number // 100), "baba zouda lo", ("baba", "zouda"), "baba")


def resume_draws(path: Path) -> None:
    """Resume a run until its draws are complete, and stop before it is scored."""
    from aleatoric.levels.base import Monitor, resume_run
    from aleatoric.runs.session import Stopped, Stopping

    stopping = Stopping()

    def track(work, total, description):  # type: ignore[no-untyped-def]
        if description == "score":
            stopping.request()
        else:
            print(f"{total} left to draw", end=" ")
        return work

    try:
        resume_run(path, monitor=Monitor(track, stopping=stopping))
    except Stopped:
        print("stopped")


def measured(step: str, path: Path) -> tuple[float, int]:
    """Seconds and peak memory (MB) of a step, Python and its packages included."""
    begun = time.perf_counter()
    program = PROGRAM.format(step=STEPS[step])
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    return time.perf_counter() - begun, int(done.stdout.split()[-1])


def main(n_items: int = 1_000_000, scored: int = 0) -> None:
    """Print each step on a small run and on the large one."""
    small = max(MISSING + 1, n_items // 100)
    sizes = {"open": n_items, "resume": n_items, "score": scored or n_items}
    with tempfile.TemporaryDirectory() as folder:
        for size in sorted({small, *sizes.values()}):
            begun = time.perf_counter()
            build(Path(folder) / str(size), size)
            seconds = time.perf_counter() - begun
            print(f"{size} items with answers saved in {seconds:.1f} s", flush=True)
        for step, size in sizes.items():
            few, many = (measured(step, Path(folder) / str(n)) for n in (small, size))
            print(
                f"{step:>6}: {small} items {few[0]:.1f} s, {few[1]} MB; "
                f"{size} items {many[0]:.1f} s, {many[1]} MB; "
                f"memory x{many[1] / few[1]:.2f} for x{size / small:.0f} items",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
