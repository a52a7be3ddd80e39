"""Levels of comparison between people and models, and the stages that every run goes through.

The stages (open, ask, save, score, reduce; showing is in `aleatoric.reporting`) are the functions
here; a `Level` fills in what differs. A new level is one file and one line in the registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from aleatoric import registry
from aleatoric.data.opening import check_same, corpus_facts
from aleatoric.data.selection import select_items
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.models.gguf import check_contents, contents_of
from aleatoric.models.loading import check_hub
from aleatoric.probes import base as user_probes
from aleatoric.registry import Meter, Track, quietly, unmetered, versions
from aleatoric.result_types import Labels, Result, Results, Study
from aleatoric.runs import session
from aleatoric.runs.disk import on_failure, reporting_faults
from aleatoric.runs.engine import Engine, check_decoders, check_engine, check_specs, open_engine
from aleatoric.runs.job import LOCAL, Job, about
from aleatoric.runs.results_cache import cached_results
from aleatoric.runs.run import Store
from aleatoric.runs.session import Stopping, working
from aleatoric.runs.tables import COMPLETE, SCORED_BY, TRAINING
from aleatoric.types import Collected, Pair

if TYPE_CHECKING:
    from aleatoric.calibration.results import GroupedSums


Opening = Callable[[], Any]
"""Opens the corpus of a run, once and only if it is needed."""


@dataclass(frozen=True)
class Monitor:
    """Progress display and stop signal of a command, and the user-defined probes that it may run.

    Those of a saved run are called only if they are allowed here: a run may come from others.
    """

    track: Track[Any] = quietly
    meter: Meter = unmetered
    stopping: Stopping = field(default_factory=Stopping)
    allowed_probes: tuple[str, ...] = ()

    def checked(self, work: Iterable[Any], total: int, description: str) -> Iterable[Any]:
        """Show the progress of work that a stop ends between its steps."""
        return self.stopping.checked(self.track(work, total, description))


class Level(ABC):
    """One kind of comparison between answers of people and of models."""

    name: ClassVar[str]
    help: ClassVar[str]
    """Help text of the level's command."""
    job_type: ClassVar[type[Job]]
    model_kinds: ClassVar[tuple[str, ...]]
    """Registry kinds of the models of this level."""
    controls: ClassVar[tuple[str, ...]] = ()
    """Systems that are people, not models."""
    leading: ClassVar[str] = ""
    """Metric that orders the systems if not all of them can be shown in detail."""
    compared: ClassVar[tuple[str, ...]] = ("*",)
    """Patterns of the metrics that are compared by default, the leading ones first."""
    compared_first: ClassVar[tuple[str, ...]] = ("*",)
    """Patterns of those among them that a terminal shows, the leading one first."""
    across: ClassVar[tuple[str, ...]] = ()
    """Patterns of the metrics of systems that are compared between corpora, if any."""
    across_people: ClassVar[tuple[str, ...]] = ()
    """Patterns of the metrics of people among the results of the first control."""
    across_first: ClassVar[tuple[str, ...]] = ()
    """Patterns of those among both that a terminal shows."""
    task_fields: ClassVar[tuple[str, ...]] = ()
    """Entries of signatures that may differ between corpora, such as the tokenizer."""
    needs_out: ClassVar[bool] = False
    """Whether `--out` is required because the output files are the point of a run."""
    one_process: ClassVar[str] = ""
    """Why models cannot run on a cluster, as a message; empty if they can."""
    packages: ClassVar[tuple[str, ...]] = ("numpy", "scipy")
    """Packages whose versions are saved with a run."""

    # Open ----------------------------------------------------------------------------------

    def check(self, job: Any) -> None:
        """Refuse a job that cannot be done, before anything is opened or written."""
        check_specs(job.models, *self.model_kinds)
        check_decoders(job.models, getattr(job, "decoders", ()))
        self.check_engine(job)

    def check_engine(self, job: Any) -> None:
        """Refuse an engine that cannot run models of this level."""
        check_engine(job.engine_options)
        if self.one_process and job.engine != LOCAL:
            raise UsageError(self.one_process)

    @abstractmethod
    def open(self, job: Any) -> Collected[Any]:
        """Open the corpus."""

    def facts(self, job: Any, corpus: Any) -> dict[str, Any]:
        """Return entries of the manifest beyond the fields of the job."""
        return {}

    def prepare(self, manifest: Mapping[str, Any], allowed_probes: Collection[str]) -> None:  # noqa: B027
        """Refuse a run whose scoring would fail, before hours are spent on asking models."""

    # Ask and save --------------------------------------------------------------------------

    @abstractmethod
    def save_items(self, store: Store, job: Any, corpus: Any, monitor: Monitor) -> None:
        """Save the items of the corpus and notes on them."""

    @abstractmethod
    def ask(
        self, store: Store, job: Any, spec: str, engine: Engine, corpus: Opening, monitor: Monitor
    ) -> None:
        """Ask one model for all answers that the run lacks, and save them."""

    def pending_systems(
        self, store: Store, job: Any, spec: str, model: Any, about: dict[str, Any], monitor: Monitor
    ) -> Iterator[tuple[str, str]]:
        """Add the systems of a model, one per decoder; yield decoder and name of the incomplete."""
        session.check_version(store, spec, model.version)
        # Recorded answers were decoded already: --decoder does not apply.
        decoders = ("as recorded",) if about["estimator"] == "recorded" else job.decoders
        for decoder in decoders:
            monitor.stopping.check()
            facts = {"model": f"{spec}@{model.version}", "decoder": decoder, **about}
            several = len(decoders) > 1
            label = session.label_of(model.label, spec, job.models, self.controls)
            name = session.system_name(store, label, facts, several, self.controls)
            if not store.meta(f"done {name}"):
                store.add_system(name, facts)
                yield decoder, name

    def holds_work(self, store: Store) -> bool:
        """Return whether a failed new run is kept: it holds answers of live models, or weights."""
        facts = store.systems()
        live = [n for n in self.model_systems(store) if facts[n].get("estimator") != "recorded"]
        return any(map(store.n_items_with_draws, live)) or (store.path / TRAINING).exists()

    def intact(self, store: Store, n_items: int) -> Iterator[str]:
        """Yield what a run holds that was salvaged from a damaged one of `n_items`."""
        yield f"{store.n_items} of {max(n_items, store.n_items)} items are intact"
        for name in store.systems():
            yield f"{name}: the answers to {store.n_items_with_draws(name)} items are intact"

    # Score, reduce -------------------------------------------------------------------------

    @abstractmethod
    def score(self, store: Store, monitor: Monitor) -> None:
        """Compute and save the statistics of every item and system."""

    def has_statistics(self, store: Store) -> bool:
        """Whether the statistics of a run are saved."""
        return store.has_stats()

    @abstractmethod
    def system_results(self, store: Store, system: str, interval: str) -> Iterator[Result]:
        """Compute the metrics of one system with intervals from the saved statistics."""

    def results(
        self, store: Store, interval: str = DEFAULT_METHOD, systems: Collection[str] | None = None
    ) -> Results:
        """Compute the metrics of some or all systems with intervals, controls first."""
        check_method(interval)
        names = [*self.controls, *self.model_systems(store)]
        shown = [name for name in names if systems is None or name in systems]
        compute = partial(self.system_results, store, interval=interval)
        return Results(cached_results(store, shown, interval, self.code, compute))

    @cached_property
    def code(self) -> str:
        """What identifies the code that scores and reduces a run of this level."""
        return registry.code_id(self.packages)

    note_parts: ClassVar[tuple[Callable[[Store], Iterable[str]], ...]] = ()
    """What yields caveats about the numbers, the most important ones first."""

    def notes(self, store: Store) -> list[str]:
        """Return caveats about the numbers, and which systems are not finished."""
        return [note for part in self.note_parts for note in part(store)]

    def model_systems(self, store: Store) -> list[str]:
        """Return the systems that are models."""
        return [name for name in store.systems() if name not in self.controls]

    # Beyond results ------------------------------------------------------------------------

    studies: ClassVar[str] = ""
    """Registry kind of the studies of this level."""

    def study(self, store: Store, name: str, system: str, track: Track[Any]) -> Study:
        """Run the study `name` on one system."""
        raise UsageError(f"{store.path}: there are no studies of the {self.name} level.")

    def group_sums(self, store: Store, system: str) -> GroupedSums | None:
        """Return sums per group for comparing systems, or `None` to compare per item."""
        return None

    def pairs(
        self, store: Store, systems: Collection[str]
    ) -> Iterator[tuple[str, tuple[str, int], Pair]] | None:
        """Yield system, item id with row number, and distributions; `None` at other levels."""
        return None

    def task_facts(self, store: Store) -> dict[str, float | None]:
        """Return what differs between corpora besides their items: heading -> number."""
        return {"items": store.n_items}

    def labels(self, store: Store, system: str) -> Mapping[str, Labels]:
        """Return labels of a system's scored items, in the order of its rows; none by default."""
        return {}

    def row_files(self, store: Store) -> list[tuple[str, Path]] | None:
        """Return systems with their Parquet files of rows, or `None` to export the statistics."""
        return None


def model_systems(store: Store) -> list[str]:
    """Return the systems of a run that are models, not controls."""
    return level_of(store).model_systems(store)


def level_of(store: Store) -> Level:
    """Return the level of a saved run."""
    return find_level(store.manifest["command"])


@cache
def find_level(name: str) -> Level:
    """Return the level of a command, such as `word`."""
    level: Level = registry.find("levels", name)()
    return level


def manifest_of(job: Job, corpus: Collected[Any]) -> dict[str, Any]:
    """Return the manifest of a job: its fields, and facts about its corpus and models."""
    level = find_level(job.command)
    return {
        "level": level.name,
        "command": job.command,
        **job.saved(),
        **level.facts(job, corpus),
        "corpus": corpus_facts(corpus, job.corpus, job.encoding),
        "contents": contents_of(job.models),
        "versions": versions(level.packages),
    }


def run_job(job: Job, out: Path, monitor: Monitor | None = None) -> Store:
    """Run a job in the directory `out`, or what is left of it, and return the open run.

    A new run with bad input leaves no files; an interrupted run keeps what was finished.
    """
    level = find_level(job.command)
    job.check_values()
    monitor = monitor or Monitor()
    # Probes of a new job come from the caller; those of a saved run may come from others.
    monitor = replace(monitor, allowed_probes=(*monitor.allowed_probes, *job.named_probes))
    level.check(job)
    selection = job.selection  # before the corpus is opened, since it may be refused
    corpus = select_items(level.open(job), selection)
    manifest = manifest_of(job, corpus)
    if job.engine == "local":
        check_hub(job.models)  # before taggers and encoders are loaded, which takes seconds
    level.prepare(manifest, monitor.allowed_probes)
    return _work(Store.continue_or_create(out, manifest), job, lambda: corpus, monitor)


def resume_run(
    path: Path,
    monitor: Monitor | None = None,
    overrides: Mapping[str, Any] | None = None,
    key_for: tuple[str, ...] = (),
    word_rule: str | None = None,
) -> Store:
    """Resume the run in `path` until it is complete; return the open run.

    `overrides` are of fields of the job; `key_for` are servers that may receive a key, `word_rule`
    is user code that may run.
    """
    store = Store.resume(path)
    with on_failure(store.close), reporting_faults(path):
        return _resume(store, monitor or Monitor(), overrides or {}, key_for, word_rule)


def _resume(
    store: Store,
    monitor: Monitor,
    overrides: Mapping[str, Any],
    key_for: tuple[str, ...],
    word_rule: str | None,
) -> Store:
    from aleatoric.models.openai import check_receivers  # a slow import

    level, manifest, path = level_of(store), store.manifest, str(store.path)
    rule, probes = manifest.get("choices", {}).get("rule"), manifest.get("probes") or ()
    _check_options(level, overrides)
    user_probes.check_known_probes(monitor.allowed_probes, probes)
    if word_rule not in (None, rule):
        raise UsageError(f"--word-rule {word_rule} is not the run's; leave it out.")
    job = level.job_type.from_manifest(manifest, overrides)
    level.check_engine(job)
    if store.meta(COMPLETE):
        store.release()
        return store
    user_probes.check_allowed_rule(rule, word_rule, path)
    user_probes.check_allowed_probes(probes, monitor.allowed_probes, path, "resume")
    pending = store.unfinished_models(job.models)
    check_receivers(pending, key_for, path)
    check_contents(manifest.get("contents") or {}, pending)
    level.check(job)
    level.prepare(manifest, monitor.allowed_probes)
    return _work(store, job, lambda: select_items(level.open(job), job.selection), monitor)


def _check_options(level: Level, overrides: Mapping[str, Any]) -> None:
    """Refuse overrides of options that the run does not have, or that change its results."""
    options_of_job = {job_field.name: about(job_field) for job_field in fields(level.job_type)}
    for name in overrides:
        option = f"--{name.replace('_', '-')}"
        if name not in options_of_job:
            problem = f"is no option of aleatoric {level.job_type.command}"
            raise UsageError(f"{option} {problem}; leave it out.")
        if options_of_job[name].fixed and options_of_job[name].saved:
            raise UsageError(f"{option} cannot change when a run is resumed; start another run.")


def _work(store: Store, job: Job, opened: Callable[[], Collected[Any]], monitor: Monitor) -> Store:
    """Ask, save and score what a run still lacks; only this process writes to it."""
    level, corpus = find_level(job.command), cache(opened)
    with working(store, level.holds_work):
        # Statistics may be replaced in steps: a run that dies between them is not complete.
        store.set_meta(COMPLETE, False)
        if store.lacks_items:
            check_same(corpus(), store.manifest["corpus"])
            with store.transaction():
                level.save_items(store, job, corpus(), monitor)
        with open_engine(job.engine_options) as engine:
            for spec in store.unfinished_models(job.models):
                monitor.stopping.check()
                level.ask(store, job, spec, engine, corpus, monitor)
                store.set_finished(spec)
        _score(store, monitor)
        store.set_meta(COMPLETE, True)
    return store


def _score(store: Store, monitor: Monitor) -> None:
    """Score a run that only this process writes; if it dies meanwhile, nothing has scored it."""
    level = level_of(store)
    store.set_meta(SCORED_BY, None)
    level.score(store, monitor)
    store.set_meta(SCORED_BY, level.code)


def score(store: Store, monitor: Monitor | None = None, again: bool = True) -> None:
    """Compute the statistics of a saved run; without `again` only if it has none.

    A run with probes that this command does not allow is not scored again.
    """
    monitor, level = monitor or Monitor(), level_of(store)
    again = again and not refused_probes(store, monitor.allowed_probes)
    if again or not level.has_statistics(store):
        with store.exclusive():
            _score(store, monitor)


def check_scored(store: Store, monitor: Monitor) -> None:
    """Check a run, and score it unless this version has scored it completely.

    The code of probes that this command allows may have changed: with them it is scored again.
    """
    with store.exclusive():
        is_scored = store.meta(COMPLETE) and store.meta(SCORED_BY) == level_of(store).code
        if not is_scored or monitor.allowed_probes:
            score(store, monitor)


def refused_probes(store: Store, allowed_probes: Collection[str]) -> list[str]:
    """Return the user-defined probes of a run that this command does not allow."""
    return user_probes.disallowed_probes(store.manifest.get("probes") or (), allowed_probes)


def results(
    store: Store, interval: str = DEFAULT_METHOD, systems: Collection[str] | None = None
) -> Results:
    """Compute the metrics of a run with intervals; by default of all systems, controls first."""
    return level_of(store).results(store, interval, systems)


def notes(store: Store) -> list[str]:
    """Return caveats about the numbers of a run."""
    return level_of(store).notes(store)


def unfinished_notes(store: Store) -> list[str]:
    """Return a note for each system of a run that is not finished."""
    return list(session.unfinished_notes(store, model_systems(store)))


def run_study(
    store: Store, name: str, system: str | None = None, track: Track[Any] = quietly
) -> Study:
    """Run the study `name` on one system of a run; by default on its only model."""
    return level_of(store).study(store, name, one_system(store, system), track)


NAMED = "--system (in Python, system=...)"
"""How one of several systems is named."""


def one_system(store: Store, system: str | None = None) -> str:
    """Return the model of this name, by default the only one; anything else is an error."""
    level = level_of(store)
    models = level.model_systems(store)
    path, listed = store.path, ", ".join(models)
    if not models:
        raise UsageError(f"{path}: has no model to study; give --model to aleatoric {level.name}.")
    if system is None and len(models) > 1:
        raise UsageError(f"{path}: name one system with {NAMED}: {listed}.")
    system = system or models[0]
    if system not in models:
        raise UsageError(f"{path}: has no model {system!r} to study; its models: {listed}.")
    return system
