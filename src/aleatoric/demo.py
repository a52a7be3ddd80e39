"""The demo: people simulated by SmolLM2 at a planted temperature, which must come out closest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from aleatoric.data import files
from aleatoric.levels.base import Monitor, run_job
from aleatoric.levels.word import WordJob
from aleatoric.levels.word_scoring import ORACLE
from aleatoric.models.base import Ask
from aleatoric.result_types import Result
from aleatoric.runs.disk import check_place
from aleatoric.runs.engine import open_model
from aleatoric.runs.job import Loading
from aleatoric.runs.run import Store
from aleatoric.types import Item

PEOPLE = 40
PLANTED = "temperature=0.8"
DECODERS = ("ancestral", "temperature=0.5", PLANTED, "temperature=1.2", "top_p=0.9", "greedy")
PASSAGES = (
    "The old lighthouse keeper climbed the stairs every evening to light the lamp before the "
    "fishing boats came home",
    "When the train stopped in the middle of the bridge the passengers looked at each other and "
    "nobody said a word",
    "My grandmother kept her recipes in a wooden box and she never let anyone read them until "
    "the winter she turned ninety",
)


def run_smollm2(out: Path, seed: int = 0, monitor: Monitor | None = None) -> Store:
    """Compare decoders of SmolLM2 with people who are SmolLM2 at a planted temperature."""
    people = out / "people.jsonl"
    check_place(out)
    if not people.exists():
        _write_people(people, seed, monitor or Monitor())
    remarks = (f"these people are simulated: SmolLM2 itself at {PLANTED}",)
    job = WordJob(str(people), ("smollm2",), DECODERS, seed=seed, remarks=remarks)
    return run_job(job, out / "run", monitor)


def run_toy(out: Path, seed: int = 0, monitor: Monitor | None = None) -> Store:
    """Compare the perfect model of a made-up language, and tempered ones, with its people."""
    models = ("toy", *(f"toy:temperature={t:g}" for t in (0.25, 0.5, 2.0, 4.0)))
    job = WordJob("simulated:contexts=400,people=40", models, samples=PEOPLE, seed=seed)
    return run_job(job, out / "run", monitor)


def _by_system(results: Sequence[Result], metric: str) -> dict[str, float]:
    known = ((r.system, r.estimate.value) for r in results if r.metric == metric)
    return {system: value for system, value in known if value is not None}


def conclusion(results: Sequence[Result], planted: str, people: str) -> str:
    """Say whether the system that the simulated people were drawn from is closest to them."""
    overlaps, distances = (_by_system(results, metric) for metric in ("overlap", "sq_distance"))
    systems = [s for s in overlaps if s != ORACLE]
    most = max(systems, key=lambda s: overlaps[s])
    least = min(systems, key=lambda s: distances[s])
    about_people = f"These people are simulated: they are {people}."
    if most == least == planted:
        return (
            f"{about_people} As it should, {planted} has the highest overlap "
            f"({overlaps[planted]:.3f}) and the lowest squared distance "
            f"({distances[planted]:.4f}) of all {len(systems)} systems."
        )
    return (
        f"{about_people} {planted} should have the highest overlap and the lowest squared "
        f"distance; by chance {most} has the highest overlap here, and {least} the lowest "
        "squared distance."
    )


def contexts() -> Iterator[Item]:
    """Yield every beginning of every passage, from four words on, with the word that follows."""
    for number, words in enumerate(map(str.split, PASSAGES), start=1):
        for position in range(4, len(words)):
            item_id, context = f"{number}:{position + 1}", " ".join(words[:position])
            yield Item(item_id, str(number), context, (), words[position])


def _write_people(path: Path, seed: int, monitor: Monitor) -> None:
    model = open_model("smollm2", Loading(estimator="mc"))
    items = {item.id: item for item in contexts()}
    # Not the seed of the systems: people and models must not share random numbers.
    ask = Ask(PLANTED, PEOPLE, seed + 1)
    pending = monitor.stopping.before_each(items.values())
    asked = monitor.track(pending, len(items), "ask simulated people")
    lines = []
    for draws in model.draws(asked, ask):
        row = asdict(items[draws.item_id]) | {"responses": dict(draws.counts)}
        names = ("id", "group", "context", "original", "responses")
        lines.append(json.dumps({name: row[name] for name in names}, ensure_ascii=False) + "\n")
    monitor.stopping.check()
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.written_whole(path) as unfinished:
        unfinished.write_text("".join(lines), encoding="utf-8")
