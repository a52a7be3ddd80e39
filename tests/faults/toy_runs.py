"""Small runs of every level for the fault tests, in separate processes.

`python toy_runs.py ACTION FOLDER ...` runs one action; the tests kill and interrupt it or limit its
disk space. Toy models without weights, registered like those of a third-party package, replace
live ones.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from canonical_run import canonical_bytes

from aleatoric import registry
from aleatoric.cli import main as command_line
from aleatoric.levels.base import resume_run, run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.word import WordJob
from aleatoric.models.base import Ask, LoadOptions, TextTally, Writing
from aleatoric.models.toy import ToyModel
from aleatoric.rng import stream
from aleatoric.runs.formats import DATABASE
from aleatoric.runs.run import Store
from aleatoric.types import Draws, Item, TextItem, Texts

SECONDS = 0.002
"""What an item takes: most kills must come while items are worked on."""
HITS, MORE_KILLS = 3, 60
"""Kills that must come while items are drawn, and kills beyond those asked for to reach them."""
WORDS = ("the", "a", "cat", "dog", "sat", "ran", "here", "there")


@dataclass(frozen=True)
class CountingWriter:
    """Generate a few words from the random stream of each input, and count them."""

    label: str = "toy"
    version: str = "1"
    seconds: float = SECONDS
    tally: TextTally = field(default_factory=TextTally)

    @property
    def conventions(self) -> Mapping[str, str]:
        return {"words": "toy"}

    def notes(self) -> Sequence[str]:
        return self.tally.notes(self.label)

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        self.tally.start()
        for item in items:
            time.sleep(self.seconds)
            rng = stream(ask.seed, ask.decoder, item.id)
            texts = [" ".join(rng.choice(WORDS, 3)) for _ in range(ask.samples - 1)]
            self.tally.count(["", *texts], n_cut=1)
            yield Texts(item.id, ("", *texts))


@dataclass(frozen=True)
class SlowToy(ToyModel):
    """The toy model, slowed down to the speed of a fast live model."""

    seconds: float = SECONDS

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        for draws in super().draws(items, ask):
            time.sleep(self.seconds)
            yield draws


def load_words(argument: str) -> SlowToy:
    """Plugin factory: a temperature, and the seconds per item."""
    temperature, _, seconds = argument.partition(",")
    return SlowToy(float(temperature), seconds=float(seconds or SECONDS))


def load_signalling(argument: str) -> SlowToy:
    """A model that loads slowly and sends this process a signal while loading."""
    signal.raise_signal(int(argument))
    raise RuntimeError("it was loaded all the same")


def load(argument: str, loading: LoadOptions | None = None) -> CountingWriter:
    """Plugin factory: the seconds per input."""
    return CountingWriter(seconds=float(argument))


def people_of_texts(folder: Path, n_items: int) -> Path:
    """A corpus of inputs with human texts."""
    path = folder / f"people-{n_items}.jsonl"
    if not path.exists():
        rows = []
        for i in range(n_items):
            texts = [" ".join(stream(7, i, person).choice(WORDS, 4)) for person in range(4)]
            rows.append(
                {"id": f"i{i}", "group": f"g{i // 5}", "input": f"{i}", "references": texts}
            )
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def register() -> None:
    """Register the models of this file, as the entry points of a package would."""
    registry.PLUGINS["models"]["slow"] = "toy_runs:load_words"
    registry.PLUGINS["text_models"]["toy"] = "toy_runs:load"


def run(level: str, folder: Path, name: str, n_items: int) -> Store:
    """Start a run, or resume it by repeating the same job."""
    register()
    if level == "word":
        corpus = f"simulated:contexts={n_items},people=6"
        models = ("slow:1", "slow:2")
        return run_job(WordJob(corpus, models, samples=8, n_splits=3), folder / name)
    job = TextJob(
        str(people_of_texts(folder, n_items)),
        (f"toy:{SECONDS}",),
        ("ancestral", "top_p=0.9"),
        samples=3,
        probes=("lexical-1",),
        tokeniser="whitespace",
        n_splits=3,
    )
    return run_job(job, folder / name)


def saved(path: Path) -> dict[str, str]:
    """The items with complete draws that a reader currently sees in a run."""
    if not (path / DATABASE).exists():
        return {}
    try:
        store = Store.open(path)
    except Exception as error:
        if "before it began" in str(error):
            return {}
        raise
    query = "SELECT id || ' ' || name, payload FROM draws JOIN items ON items.no = item "
    with store:
        return dict(store.db.execute(query + "JOIN systems ON systems.no = system"))


def kill_many(level: str, folder: Path, kills: int, n_items: int) -> dict[str, Any]:
    """Kill a run at random moments, `kills` times; each run must give the uninterrupted result.

    On a busy machine few kills come while items are drawn: it goes on until `HITS` of them do.
    """
    started = time.monotonic()
    # Looking for the plugins of other packages takes longer than a whole run here.
    registry._entry_points = cache(registry._entry_points)  # type: ignore[assignment]
    # In this process, so that its children have everything loaded.
    with run(level, folder, "unhurt", n_items) as store:
        expected = canonical_bytes(store)
    begun = time.monotonic()
    _in_child(lambda: run(level, folder, "timed", n_items), None)
    seconds = time.monotonic() - begun
    rng = stream(0, "kills", level)
    done = {"kills": 0, "runs": 0, "alike": 0, "in the middle": 0, "lost": 0}
    while _must_go_on(done, kills):
        name = f"run-{done['runs']}"
        _kill_repeatedly(level, folder / name, n_items, kills, seconds, rng, done)
        with Store.open(folder / name) as store:
            done["alike"] += canonical_bytes(store) == expected
        done["runs"] += 1
    return done | {
        "one": round(seconds, 2),
        "seconds": round(time.monotonic() - started, 1),
        "bytes": len(expected),
    }


def _kill_repeatedly(
    level: str, path: Path, n_items: int, kills: int, seconds: float, rng: Any, done: dict[str, int]
) -> None:
    """Kill one run repeatedly; saved items must never be lost or changed."""
    before: dict[str, str] = {}
    while _must_go_on(done, kills):
        go_on = _resumed if rng.random() < 0.5 else run
        wait = float(rng.uniform(0, 0.6 * seconds))
        if _in_child(partial(go_on, level, path.parent, path.name, n_items), wait):
            return
        done["kills"] += 1
        after = saved(path)
        done["lost"] += sum(after.get(key) != payload for key, payload in before.items())
        done["in the middle"] += len(before) < len(after)
        before = after
    _in_child(lambda: run(level, path.parent, path.name, n_items), None)


def _must_go_on(done: Mapping[str, int], kills: int) -> bool:
    has_hits = done["in the middle"] >= HITS or done["kills"] >= kills + MORE_KILLS
    return done["kills"] < kills or not has_hits


def _resumed(level: str, folder: Path, name: str, n_items: int) -> Store:
    """Resume from the manifest; it does not exist before the first transaction."""
    register()
    path = folder / name
    if not (path / DATABASE).exists() or not saved(path):
        return run(level, folder, name, n_items)
    return resume_run(path)


def _in_child(work: Callable[[], Store], wait: float | None) -> bool:
    """Run work in a child process; kill it after `wait` seconds and return False."""
    child = os.fork()
    if not child:
        try:
            work().close()
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    if wait is not None:
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("the run failed by itself")
    return True


def main(action: str, folder: str, *arguments: str) -> None:
    """Kill runs of a level, or run the command line with the models of this file."""
    register()
    if action == "aleatoric":
        sys.argv = ["aleatoric", folder, *arguments]
        command_line()
    else:
        level = action.removeprefix("kill-")
        print(json.dumps(kill_many(level, Path(folder), *map(int, arguments))))


if __name__ == "__main__":
    main(*sys.argv[1:])
