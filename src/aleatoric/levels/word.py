"""The only place where the stages meet: corpus -> draws -> statistics -> results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np

from aleatoric import registry
from aleatoric.data.opening import check_same, corpus_facts, open_corpus
from aleatoric.errors import UsageError
from aleatoric.inference.persons import PersonSums
from aleatoric.levels.word_results import (
    COLUMNS,
    PAIRWISE,
    person_facts,
    person_notes,
    tolerance_notes,
)
from aleatoric.levels.word_results import model_systems as model_systems
from aleatoric.levels.word_results import results as results
from aleatoric.levels.word_scoring import (
    CONTROLS,
    Answered,
    Settings,
    pair_of,
    person_changes,
    score_items,
)
from aleatoric.models.base import Ask, WordModel
from aleatoric.models.checkpoints import contents_of
from aleatoric.nextword.adaptive import until_note
from aleatoric.nextword.answers import Changes, Reading, ReadItems, read_draws
from aleatoric.nextword.rules import check_known, is_code
from aleatoric.probes.tools import fitting_tagger, language_caveat, language_code
from aleatoric.registry import Track, quietly, versions
from aleatoric.runs import COMPLETE, Joined, Store
from aleatoric.runs.disk import command as resume_command
from aleatoric.runs.engine import (
    Engine,
    EngineOptions,
    Loading,
    check_engine,
    check_specs,
    check_until,
    open_engine,
)
from aleatoric.runs.formats import StatRow
from aleatoric.runs.run import stat_columns
from aleatoric.runs.session import (
    Stopping,
    add_notes,
    check_version,
    lost_notes,
    saved_notes,
    system_name,
    waiting,
    working,
)
from aleatoric.types import Case, Choices, Corpus, Item

LIVE = ("exact", "mc", "list")
SCORED_AT_ONCE = 100
_PACKAGES = ("numpy", "scipy", "scikit-learn")
ABSTRACTIONS = ("tvd_syn", "tvd_sem")
ENGLISH_EMBEDDERS = ("minilm", "wordllama")
RANK = "rank_of_human_mode"


@dataclass(frozen=True)
class WordJob:
    """A word-level run: what `aleatoric word` was asked for."""

    corpus: str
    models: tuple[str, ...] = ()
    decoders: tuple[str, ...] = ("ancestral",)
    samples: int = 1000
    loading: Loading = field(default_factory=Loading)
    tolerance: float = 0.02
    choices: Choices = field(default_factory=Choices)
    abstractions: tuple[str, ...] = ()
    tagger: str | None = None
    """Of tvd_syn: where none is named, that of the language."""
    embedder: str = "minilm"
    n_splits: int = 20
    seed: int = 0
    encoding: str = "utf-8"
    until: float | None = None
    """The standard error of a context's TVD at which its sampling stops."""
    remarks: tuple[str, ...] = ()
    """What readers must know of the people or the run; shown with every result."""
    engine: EngineOptions = field(default_factory=EngineOptions)
    """Where models work: no part of the manifest, since it changes no result."""
    language: str | None = None
    """Of the corpus, as `de`; where none is named, what the corpus is known to be in."""


def choose(protocol: str, overrides: Iterable[str], word_rule: str | None = None) -> Choices:
    """The choices of a protocol, some replaced by `name=value`, and its word rule by another.

    A word rule may be a user's own `module:function`; as a choice it must be an installed one.

    >>> choose("paper", ["bins=closed"]).bins
    'closed'
    """
    bases = {"corrected": Choices.corrected, "paper": Choices.paper}
    if protocol not in bases:
        raise UsageError(f"there is no protocol {protocol!r}; use corrected or paper.")
    choices = bases[protocol]()
    for override in overrides:
        name, _, value = override.partition("=")
        choices = replace(choices, **{name: _allowed(name, value)})
    if word_rule is None:
        return choices
    if not is_code(word_rule):
        check_known(word_rule)
    return replace(choices, rule=word_rule)


def _allowed(name: str, value: str) -> Any:
    known = {key: get_args(kind) for key, kind in get_type_hints(Choices).items()}
    del known["protocol"]
    known["rule"] = tuple(registry.names("word_rules"))
    if name not in known:
        raise UsageError(f"there is no choice {name!r}; the choices are {', '.join(known)}.")
    if value not in known[name]:
        options = " or ".join(known[name])
        raise UsageError(f"{name}={value} is not known; use {name}={options}.")
    return value


def run_word(
    job: WordJob, out: Path, track: Track[Any] = quietly, stopping: Stopping | None = None
) -> Store:
    """Draw (or read) every system's words, save them, score them; returns the open run.

    Items that have their draws are not drawn again. Where the input is bad, nothing of the run
    stays behind; where `stopping` is asked for, everything finished does.
    """
    _check_models(job)
    corpus = open_corpus(job.corpus, job.encoding)
    manifest = _manifest(job, corpus)
    # What scoring will need must be there before hours are spent on drawing.
    _abstractions(manifest)
    store = Store.continue_or_create(out, manifest)
    return _worked(store, job, lambda: corpus, track, stopping or Stopping())


def resume_word(store: Store, job: WordJob, track: Track[Any], stopping: Stopping) -> Store:
    """Go on with a run opened to be written; its corpus is needed where its items are not saved."""
    _check_models(job)
    _abstractions(store.manifest)
    return _worked(store, job, lambda: open_corpus(job.corpus, job.encoding), track, stopping)


def _check_models(job: WordJob) -> None:
    check_specs(job.models, "models", "language_models")
    check_until(job.until, job.models, job.loading.estimator)
    check_engine(job.engine)


def _worked(
    store: Store,
    job: WordJob,
    corpus: Callable[[], Corpus],
    track: Track[Any],
    stopping: Stopping,
) -> Store:
    with working(store, _holds_live_draws):
        if store.lacks_items:
            _read(store, job, corpus(), track)
        with open_engine(job.engine) as engine:
            _draw_all(store, job, engine, track, stopping)
        score_word(store, track, stopping)
        store.set_meta(COMPLETE, True)
    return store


def _read(store: Store, job: WordJob, corpus: Corpus, track: Track[Any]) -> None:
    check_same(corpus, store.manifest["corpus"])
    with store.transaction():
        read = track(corpus.items, len(corpus.items), f"read {corpus.name}")
        items = ReadItems(read, Reading.of(job.choices))
        store.add_items(items)
        add_notes(store, [*job.remarks, *corpus.notes, *items.notes()])


def score_word(store: Store, track: Track[Any] = quietly, stopping: Stopping | None = None) -> None:
    """Compute the per-item statistics of a saved run; needs no model."""
    settings = scoring_settings(store)
    columns = [*COLUMNS, *settings.abstractions]
    for name in CONTROLS:
        store.add_system(name, {"model": name, "decoder": "none", "estimator": "people"})
    persons = PersonSums()
    rows = track_rows(store, settings, track, persons)
    store.write_stats(
        columns, (stopping or Stopping()).checked(rows), lambda: person_facts(persons)
    )


def track_rows(
    store: Store, settings: Settings, track: Track[Any], persons: PersonSums
) -> Iterator[StatRow]:
    """Statistics of every item and system, in the order of the items.

    Where answers have persons, what each changes is added to `persons`.
    """
    walk = iter(track(store.walk(), store.n_items, "score"))
    while page := list(islice(walk, SCORED_AT_ONCE)):
        answered = [(item, systems) for _, item, systems in page]
        found = score_items(answered, _on_joint_supports(settings, answered))
        for (no, item, systems), rows in zip(page, found, strict=True):
            for one in rows:
                yield StatRow(no, one.system, one.row, one.values, one.splits)
            if item.persons is not None:
                for system, changes in person_changes((item, systems), settings.choices):
                    persons.add(system, item.group, item.persons, changes)


def _on_joint_supports(settings: Settings, answered: Sequence[Answered]) -> Settings:
    """Settings whose classes of words are the same for the oracle and all systems of an item."""
    if not settings.abstractions:
        return settings
    from aleatoric.levels.word_classes import on_joint_support

    joint = {
        name: on_joint_support(own, answered, settings.choices)
        for name, own in settings.abstractions.items()
    }
    return replace(settings, abstractions=joint)


def scoring_settings(store: Store) -> Settings:
    """The settings that a run's manifest asks for."""
    manifest = store.manifest
    metrics = {name: registry.find("metrics", name) for name in PAIRWISE}
    choices, seed = Choices.saved(manifest["choices"]), manifest["seed"]
    return Settings(choices, metrics, _abstractions(manifest), manifest["n_splits"], seed)


def notes(store: Store) -> list[str]:
    """What a reader of the numbers should know: joins, drops, simulated people."""
    return [
        *lost_notes(store),
        *saved_notes(store),
        *_failed_notes(store),
        *_until_notes(store),
        *_abstraction_notes(store),
        *_rank_notes(store),
        *tolerance_notes(store),
        *person_notes(store),
    ]


def _abstraction_notes(store: Store) -> Iterator[str]:
    """What TVD over classes of words depends on."""
    manifest = store.manifest
    if "tvd_syn" in manifest["abstractions"]:
        caveat = language_caveat(manifest["tagger"], manifest.get("language"))
        if caveat is not None:
            yield f"tvd_syn: {caveat}"
    if "tvd_sem" in manifest["abstractions"]:
        language = manifest.get("language") or "en"
        if language != "en" and manifest["embedder"] in ENGLISH_EMBEDDERS:
            yield (
                f"tvd_sem: {manifest['embedder']} has vectors of English words, and the corpus is "
                f"in {language!r}; give --embedder vectors:FILE"
            )
        names = ", ".join(model_systems(store)) or "no system"
        yield (
            "tvd_sem: the clusters of a context are those of the words of people and of all "
            f"systems of this run together ({names}); compare tvd_sem within one run only"
        )


def _rank_notes(store: Store) -> Iterator[str]:
    """On how many contexts people's first choice has no rank, because a model never drew it."""
    if not store.has_stats() or not {"tvd", RANK} <= set(store.stat_columns()):
        return
    parts = []
    for name in model_systems(store):
        found = stat_columns(store, name, ["tvd", RANK]).values
        scored = np.isfinite(found["tvd"])
        unranked = int((scored & ~np.isfinite(found[RANK])).sum())
        if unranked:
            parts.append(f"{unranked} of {int(scored.sum())} contexts of {name}")
    if parts:
        yield (
            f"{RANK}: people's first choice was never drawn in {', '.join(parts)}; the mean is "
            "over the other contexts, and the rank in these would be worse"
        )


def _failed_notes(store: Store) -> Iterator[str]:
    """How many draws of each model held no word."""
    if not store.has_stats():
        return
    kept = store.manifest["choices"]["failed"] == "outcome"
    for name in model_systems(store):
        failed, drawn = store.total(name, "failed"), store.total(name, "n_model")
        if failed:
            fate = "kept as an outcome" if kept else "rejected"
            total = drawn if kept else drawn + failed
            yield f"{name}: {failed} of {total} draws held no word and are {fate}"
        if not store.meta(f"done {name}"):
            yield f"{name}: is not finished; continue it with {resume_command(store.path)}"


def _until_notes(store: Store) -> Iterator[str]:
    """How many draws were taken where sampling stopped by itself, and where it could not."""
    error: float | None = store.manifest.get("until")
    if error is None:
        return
    for name in model_systems(store):
        pairs = [case.pair for case in cases(store, name)]
        yield until_note(name, pairs, error, store.manifest["samples"])


def cases(store: Store, system: str) -> Iterator[Case]:
    """Items with people's and a system's distribution, for the studies."""
    choices = Choices.saved(store.manifest["choices"])
    for item, draws in store.walk_system(system):
        for pair in pair_of(item, draws, choices):
            yield Case(item, pair, any(row.logprobs is not None for row in draws))


def _manifest(job: WordJob, corpus: Corpus) -> dict[str, Any]:
    language = language_code(job.language) if job.language is not None else corpus.language
    return {
        "level": "word",
        "corpus": corpus_facts(corpus, job.corpus, job.encoding),
        "models": list(job.models),
        "contents": contents_of(job.models),
        "decoders": list(job.decoders),
        "samples": job.samples,
        "until": job.until,
        "estimator": job.loading.estimator,
        "tolerance": job.tolerance,
        "dtype": job.loading.dtype,
        "bos": job.loading.bos,
        "device": job.loading.device,
        "remarks": list(job.remarks),
        "choices": job.choices.as_dict(),
        "abstractions": list(job.abstractions),
        "tagger": _tagger(job, language),
        "language": language,
        "embedder": job.embedder,
        "n_splits": job.n_splits,
        "seed": job.seed,
        "versions": versions(_PACKAGES),
    }


def _tagger(job: WordJob, language: str | None) -> str:
    """The tagger of the run, checked against the language where tvd_syn needs one."""
    if "tvd_syn" in job.abstractions:
        return fitting_tagger(job.tagger, language)
    return job.tagger or "textblob"


def _holds_live_draws(store: Store) -> bool:
    """Whether a live model has answered anything: that cost time, and is kept whatever happens."""
    live = (name for name, facts in store.systems().items() if facts["estimator"] in LIVE)
    return any(store.n_items_with_draws(name) for name in live)


def _draw_all(
    store: Store, job: WordJob, engine: Engine, track: Track[Any], stopping: Stopping
) -> None:
    """Draw with every model under every decoder, but for what the run holds already."""
    for spec in store.unfinished(job.models):
        model = engine.word_model(spec, job.loading)
        check_version(store, spec, model.version)
        # What was recorded was decoded already: one system, whatever decoders are asked for.
        decoders = ("as recorded",) if model.estimator == "recorded" else job.decoders
        for decoder in decoders:
            stopping.check()
            facts = {"model": f"{spec}@{model.version}", "decoder": decoder}
            facts |= {"estimator": model.estimator, "label": model.label}
            name = system_name(store, model.label, facts, len(decoders) > 1, CONTROLS)
            _draw(store, name, facts, model, _ask(job, decoder), track, stopping)
        store.set_finished(spec)


def _draw(
    store: Store,
    name: str,
    facts: Mapping[str, Any],
    model: WordModel,
    ask: Ask,
    track: Track[Any],
    stopping: Stopping,
) -> None:
    """Save a system's draws as they come, with notes on what did not join."""
    if store.meta(f"done {name}"):
        return
    store.add_system(name, facts)
    left = waiting(store, name, model)
    items: Iterable[Item] = track(left.items(stopping), left.number, name)
    changes = Changes()
    with stopping.finishing():
        draws = read_draws(left.new(model.draws(items, ask)), Reading.of(ask.choices), changes)
        joined = store.add_draws(name, draws, model.estimator == "recorded")
    with store.transaction():
        add_notes(store, [*_join_notes(store, name, joined, ask.choices), *model.notes()])
        if changes.changed:
            add_notes(store, [f"{name}: {changes.note('words')}"])
        store.set_meta(f"done {name}", True)


def _ask(job: WordJob, decoder: str) -> Ask:
    return Ask(decoder, job.samples, job.seed, job.tolerance, job.choices, job.until)


def _join_notes(store: Store, name: str, joined: Joined, choices: Choices) -> Iterator[str]:
    n_items = store.n_items
    missing = n_items - store.n_items_with_draws(name)
    if missing == n_items:
        model = store.systems()[name]["model"].rpartition("@")[0]
        raise UsageError(
            f"{model}: none of its {joined.unmatched} rows names an item of the corpus; "
            "check id, or passage and position."
        )
    if missing:
        yield f"{name}: {missing} of {n_items} items have no row and are left out"
    if joined.unmatched:
        yield f"{name}: {joined.unmatched} rows name no item of the corpus and are left out"
    if joined.repeated:
        meaning = "further samples" if choices.repeats == "pool" else "items of their own"
        yield f"{name}: {joined.repeated} rows repeat an item and count as {meaning}"


def _abstractions(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _abstraction(name, manifest) for name in manifest["abstractions"]}


def _abstraction(name: str, manifest: Mapping[str, Any]) -> Any:
    if name not in ABSTRACTIONS:
        raise UsageError(f"there is no metric {name!r}; use {' or '.join(ABSTRACTIONS)}.")
    from aleatoric.levels import word_classes

    if name == "tvd_syn":
        kind, _, argument = manifest["tagger"].partition(":")
        return word_classes.by_tag(registry.find("taggers", kind)(argument))
    kind, _, argument = manifest["embedder"].partition(":")
    return word_classes.by_cluster(registry.find("embedders", kind)(argument), manifest["seed"])
