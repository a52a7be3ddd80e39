"""A toy level in one file: people and models toss coins.

Items are coins, answers are heads or tails, and a model is a probability of heads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aleatoric.data import files
from aleatoric.errors import UsageError
from aleatoric.inference.estimate import bounded, estimates
from aleatoric.levels.base import Level, Monitor
from aleatoric.metrics.agreement import COLUMNS, Agreement, Overlap
from aleatoric.metrics.distances import tvd
from aleatoric.metrics.reduction import Mean
from aleatoric.result_types import Result
from aleatoric.rng import stream
from aleatoric.runs.formats import StatRow
from aleatoric.runs.job import Job, option
from aleatoric.runs.run import Store
from aleatoric.types import Categorical, Corpus, Draws, Item, Pair, Signature

SIDES = ("heads", "tails")


@dataclass(frozen=True)
class CoinJob(Job):
    """The options of `aleatoric coin`."""

    command = "coin"

    corpus: str = option(help="A file of JSON lines: id, group, coin, tosses (a list).")
    models: tuple[str, ...] = option((), "A probability of heads; repeatable.", flag="--model")
    tosses: int = option(20, "Tosses of each model per coin.", low=2, high=1000)


class Coin(Level):
    """Coin tosses: human calls compared with the tosses of a model."""

    name = "coin"
    help = "Coin tosses: does a model toss as people do?"
    job_type = CoinJob
    model_kinds = ()
    leading = "overlap"

    def check(self, job: CoinJob) -> None:
        """Reject models that are not a probability."""
        for spec in job.models:
            if not 0 <= float(spec) <= 1:
                raise UsageError(f"{spec} is no probability; give one from 0 to 1.")

    def open(self, job: CoinJob) -> Corpus:
        """Read the tosses of people."""
        path = Path(job.corpus)
        rows = (row for _, row in files.read_json_lines(path, job.encoding))
        items = tuple(Item(r["id"], r["group"], r["coin"], tuple(r["tosses"])) for r in rows)
        return Corpus(path.stem, "own", files.sha256_of(path), "none", items)

    def save_items(self, store: Store, job: CoinJob, corpus: Corpus, monitor: Monitor) -> None:
        """Save the coins."""
        store.add_items(corpus.items)

    def ask(
        self,
        store: Store,
        job: CoinJob,
        spec: str,
        engine: Any,
        corpus: Callable[[], Corpus],
        monitor: Monitor,
    ) -> None:
        """Toss every coin."""
        facts = {"model": f"{spec}@1", "spec": spec, "decoder": "none", "estimator": "mc"}
        store.add_system(f"coin-{spec}", facts)
        store.add_draws(f"coin-{spec}", self._tosses(store, job, spec))
        store.set_meta(f"done coin-{spec}", True)

    def _tosses(self, store: Store, job: CoinJob, spec: str) -> Iterator[Draws]:
        for item in list(store.pending_items(f"coin-{spec}")):
            heads = int(stream(job.seed, spec, item.id).binomial(job.tosses, float(spec)))
            counts = dict(zip(SIDES, (heads, job.tosses - heads), strict=True))
            yield Draws(item.id, {side: n for side, n in counts.items() if n})

    def score(self, store: Store, monitor: Monitor) -> None:
        """Compute agreements and distances per coin."""
        store.write_stats([*COLUMNS, "sq_distance", "tvd"], list(self._statistics(store)))

    def _statistics(self, store: Store) -> Iterator[StatRow]:
        for no, item, systems in store.walk():
            people = Categorical.from_counts(Counter(item.responses))
            for system, (draws, *_) in systems.items():
                pair = Pair(item.id, item.group, people, Categorical.from_counts(draws.counts))
                found = Agreement.of(pair)
                values = found.columns() if found else {}
                yield StatRow(no, system, 0, {**values, "tvd": tvd(pair)}, {})

    def system_results(self, store: Store, system: str, interval: str) -> Iterator[Result]:
        """Compute overlap, squared distance and TVD."""
        manifest, reductions = store.manifest, {"overlap": Overlap()}
        means = {name: Mean(name) for name in ("sq_distance", "tvd")}
        pages = ((page.groups, page.values) for page in store.stat_pages(system))
        found = estimates(pages, {**reductions, **means}, manifest["seed"], interval)
        for metric, own in found.items():
            facts, corpus = store.systems()[system], manifest["corpus"]
            version = manifest["versions"]["aleatoric"]
            signature = Signature(
                *(corpus["name"], corpus["sha256"], facts["model"], "none", "mc", {}),
                *(str(manifest["tosses"]), manifest["seed"], metric, version),
            )
            yield Result(system, metric, signature, bounded(own, metric))

    def notes(self, store: Store) -> list[str]:
        """Say what a coin is."""
        return ["coins have two sides"]
