"""Small real runs for the explorer: three systems, and hostile texts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

from aleatoric.levels.base import run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.word import WordJob
from aleatoric.reporting.explorer.library import Library
from aleatoric.reporting.explorer.server import Explorer

SCRIPT = (
    '<script>document.title = "stolen"</script><img src=x onerror="document.title=1"> & "q" \'s'
)
LONG = "word " * 2000
FOLDED = ("answers=folded",)
"""The word rule would leave nothing hostile in an answer."""
"""A text of 10,000 characters."""
TURNED = "left \u202eto right\u202c \x07"
ITEMS = (
    ("story:1", "story", "There are", {"many": 9, "some": 6, "two": 3, "no": 2}),
    ("story:2", "story", "There are many", {"people": 12, "ways": 5, "things": 3}),
    ("story:3", "story", "There are many people who", {"are": 8, "think": 7, "like": 5}),
    ("news:1", "news", "The government", {"has": 11, "is": 6, "said": 3}),
    ("news:2", "news", "The government has", {"been": 9, "announced": 8, "a": 3}),
    ("hostile:1", "<b>hostile</b>", SCRIPT, {"<script>alert(1)</script>": 8, "x": 7, "=1+1": 5}),
    ("hostile:2", "<b>hostile</b>", LONG.strip() + "s now.", {"then": 10, "now": 10}),
    ('hostile:"3"&<i>', "<b>hostile</b>", TURNED, {"one": 19, "a" * 300: 1}),
)
SYSTEMS: dict[str, dict[str, dict[str, int]]] = {
    "close": {},
    "blunt": {},
    "odd": {"story:1": {"zebra": 40}, "news:1": {"has": 1, "zebra": 39}},
}


def lines(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def word_run(folder: Path) -> Path:
    """Human answers to eight contexts, and three recorded systems."""
    people = lines(
        folder / "people.jsonl",
        (
            {"id": i, "group": g, "context": c, "original": next(iter(r)), "responses": r}
            for i, g, c, r in ITEMS
        ),
    )
    models = tuple(f"recorded:{_recorded(folder, name)}" for name in SYSTEMS)
    run_job(WordJob(str(people), models, n_splits=4, choose=FOLDED), folder / "run").db.close()
    return folder / "run"


def _recorded(folder: Path, name: str) -> Path:
    rows = []
    for item_id, _, _, responses in ITEMS:
        first = next(iter(responses))
        counts = {"close": responses, "blunt": {first: 40}, "odd": {**responses, "zebra": 12}}
        rows.append({"id": item_id, "samples": SYSTEMS[name].get(item_id, counts[name])})
    return lines(folder / f"{name}.jsonl", rows)


def text_run(folder: Path) -> Path:
    """Three inputs with human texts, and one recorded generator."""
    references = ["Hello there.", "Hi!", "Good day to you.", SCRIPT]
    inputs = [["Say hello.", "Go on."], "How are you?", SCRIPT]
    people = lines(
        folder / "texts.jsonl",
        ({"id": i, "input": t, "references": references} for i, t in enumerate(inputs)),
    )
    written = lines(
        folder / "bot.jsonl",
        ({"id": i, "texts": ["Hello.", "Hello you.", f"{SCRIPT} {i}"]} for i in range(3)),
    )
    job = TextJob(
        str(people), (f"recorded:{written}",), probes=("lexical-1",), tokeniser="whitespace"
    )
    run_job(job, folder / "texts").db.close()
    return folder / "texts"


@contextmanager
def explored(*runs: Path, watched: bool = True) -> Iterator[Explorer]:
    """Serve an explorer of the runs within the block."""
    library = Library(runs)
    if watched:
        library.start()
    with Explorer(library) as explorer:
        thread = Thread(target=explorer.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield explorer
        finally:
            library.stop()
            explorer.shutdown()
            thread.join(10)


def get(explorer: Explorer, path: str) -> str:
    """Return a page as text."""
    with urlopen(f"{explorer.url}{path}", timeout=20) as answer:
        return answer.read().decode()


def until(what: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition holds; fail after a timeout."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
