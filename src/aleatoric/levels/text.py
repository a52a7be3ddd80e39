"""Where the stages of the text level meet: corpus -> texts -> statistics -> results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from aleatoric.data.opening import check_same, corpus_facts, open_text_corpus
from aleatoric.errors import UsageError, quoted
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.inference.estimate import bounded, estimates, value_of, walk
from aleatoric.levels.text_fit import TextCase
from aleatoric.levels.text_protocol import MAX_LENGTH, TOLERATED_RATIO, lengths_differ
from aleatoric.levels.text_scoring import (
    BESIDE_MATCHED,
    CONTROL,
    LENGTHS,
    SAME_LENGTH,
    UNDEFINED,
    Distances,
    Scorer,
    distances_of,
    metric_names,
    statistics,
    undefined_pairs,
)
from aleatoric.metrics.reduction import Mean
from aleatoric.models.base import Tallied, TextModel, TextTally, Writing
from aleatoric.models.checkpoints import contents_of
from aleatoric.nextword.rules import is_spaceless
from aleatoric.probes.base import check_said, is_code
from aleatoric.probes.opening import default_names, left_out
from aleatoric.registry import Track, quietly, versions
from aleatoric.runs import COMPLETE, Store
from aleatoric.runs.disk import command as resume_command
from aleatoric.runs.engine import (
    Engine,
    EngineOptions,
    Loading,
    check_engine,
    check_specs,
    open_engine,
)
from aleatoric.runs.formats import Facts
from aleatoric.runs.run import StoredRows, TextShelf
from aleatoric.runs.session import (
    Stopping,
    add_notes,
    check_version,
    lost_notes,
    saved_notes,
    system_name,
    working,
)
from aleatoric.types import Estimate, MultiRef, Result, Results, Signature, TextItem, Texts

PROTOCOLS = ("corrected", "paper")
RECORDED = "recorded"
_PACKAGES = (
    *("numpy", "scipy", "spacy", "textblob", "sentence-transformers"),
    *("torch", "transformers", "tokenizers"),
)


@dataclass(frozen=True)
class TextJob:
    """A text-level run: what `aleatoric text` was asked for."""

    corpus: str
    models: tuple[str, ...] = ()
    decoders: tuple[str, ...] = ("ancestral",)
    writing: Writing = field(default_factory=Writing)
    """How texts are asked for; its decoder and seed are replaced by those of the job."""
    loading: Loading = field(default_factory=Loading)
    protocol: str = "corrected"
    probes: tuple[str, ...] = ()
    """By default those that what is installed can work out for the corpus' language."""
    tokeniser: str | None = None
    tagger: str | None = None
    encoder: str | None = None
    """Where none is named: by the corpus' language, or the protocol's own."""
    max_length: int = MAX_LENGTH
    """Tokens to which the texts of people and of systems are cut; 0 leaves them whole."""
    n_splits: int = 20
    seed: int = 0
    encoding: str = "utf-8"
    limit: int | None = None
    """Read only so many inputs, the first ones."""
    engine: EngineOptions = field(default_factory=EngineOptions)
    """Where models work: no part of the manifest, since it changes no text."""


def run_text(
    job: TextJob, out: Path, track: Track[Any] = quietly, stopping: Stopping | None = None
) -> Store:
    """Write (or read) every system's texts, save them, score them; returns the open run.

    Inputs that have their texts are not written again. Where the input is bad, nothing of the run
    stays behind; where `stopping` is asked for, everything finished does.
    """
    check_specs(job.models, "text_models")
    check_engine(job.engine)
    corpus = open_text_corpus(job.corpus, job.encoding)
    manifest = _manifest(job, corpus)
    # What scoring will need must be there before hours are spent on writing.
    Scorer.of(manifest, job.probes)
    store = Store.continue_or_create(out, manifest)
    work = _Work(job, job.probes, track, stopping or Stopping())
    return _worked(store, work, lambda: corpus, _left_out_notes(job, corpus))


def resume_text(
    store: Store, job: TextJob, said: Collection[str], track: Track[Any], stopping: Stopping
) -> Store:
    """Go on with a run opened to be written; its corpus is needed where its items are not saved.

    Of its probes that are code, those in `said` may run.
    """
    check_specs(job.models, "text_models")
    check_engine(job.engine)
    check_said(job.probes, said, str(store.path), "resume")
    Scorer.of(store.manifest, said)
    work = _Work(job, said, track, stopping)
    return _worked(store, work, lambda: open_text_corpus(job.corpus, job.encoding))


@dataclass(frozen=True)
class _Work:
    """What is to be done, who is told of it and who may end it."""

    job: TextJob
    said: Collection[str]
    track: Track[Any]
    stopping: Stopping


def _worked(
    store: Store, work: _Work, corpus: Callable[[], MultiRef], found: Iterable[str] = ()
) -> Store:
    """Do what is left of a run; `found` are notes made before it began."""
    with working(store, _holds_live_texts):
        # Statistics are replaced in two steps: a run that dies between them is not complete.
        store.set_meta(COMPLETE, False)
        if store.lacks_items:
            _read(store, corpus(), work.job, work.track)
            add_notes(store, found)
        with open_engine(work.job.engine) as engine:
            _write_all(store, work.job, engine, work.track, work.stopping)
        score_text(store, work.track, work.stopping, work.said)
        store.set_meta(COMPLETE, True)
    return store


def score_text(
    store: Store,
    track: Track[Any] = quietly,
    stopping: Stopping | None = None,
    said: Collection[str] = (),
) -> None:
    """Compute the per-input statistics of a saved run; needs no model that writes.

    Probes that are code run where they are `said`, not because the run names them.
    """
    scorer = Scorer.of(store.manifest, said, store)
    facts = {"model": CONTROL, "decoder": "none", "estimator": "people", "conventions": {}}
    store.add_system(CONTROL, facts)
    store.set_meta("probe_facts", scorer.facts())
    store.set_meta("probe_bounds", {probe.name: probe.bounds for probe in scorer.probes})
    store.set_meta("has_control", scorer.has_control)
    stopping = stopping or Stopping()
    columns, rows = statistics(store, scorer, track)
    store.write_stats(columns, stopping.checked(rows))
    if differing := [name for name in model_systems(store) if _lengths_differ(store, name)]:
        columns, rows = statistics(store, scorer, track, differing)
        store.write_stats(columns, stopping.checked(rows))


def results(
    store: Store, interval: str = DEFAULT_METHOD, asked: Collection[str] | None = None
) -> Results:
    """The metrics of all systems, or of those asked for, with intervals, from saved statistics."""
    known = [CONTROL, *model_systems(store)]
    shown = [name for name in known if asked is None or name in asked]
    return Results(r for name in shown for r in _system_results(store, name, interval))


def notes(store: Store) -> list[str]:
    """What a reader of the numbers should know, what changes their reading first."""
    parts = (
        *(lost_notes, _length_notes, _control_notes, saved_notes, _cut_notes),
        *(_tally_notes, _empty_notes, _undefined_notes, _unfinished_notes),
    )
    return [note for part in parts for note in part(store)]


def model_systems(store: Store) -> list[str]:
    """The systems of a run that are models, not the control."""
    return [name for name in store.systems() if name != CONTROL]


def metrics_of(store: Store) -> list[str]:
    """The metrics of a run, in the order in which they are given."""
    return metric_names(store.stat_columns())


def cases(store: Store, system: str) -> Iterator[TextCase]:
    """Inputs with what a system wrote to them and its W1 from people, for studies."""
    values: dict[str, dict[str, float | None]] = {}
    for metric in metrics_of(store):
        if not metric.startswith(("w1_M/", "w1_C/")):
            continue
        for row in store.rows(system, metric):
            values.setdefault(row.item_id, {})[metric] = row.value
    for found in TextShelf(store).walk():
        if system in found.systems:
            item, texts = found.item, found.systems[system]
            yield TextCase(item, texts, values.get(item.id, {}))


def distances(store: Store, item_ids: Iterable[str]) -> Iterator[tuple[str, dict[str, Distances]]]:
    """Of each of these inputs its id and the distances by every probe of ours, computed again."""
    ours = [name for name in store.manifest["probes"] if not is_code(name)]
    if not ours:
        return
    scorer, shelf = Scorer.of({**store.manifest, "probes": ours}, (), store), TextShelf(store)
    for item_id in item_ids:
        yield item_id, distances_of(shelf.find(item_id), scorer)


_SPACELESS = ("zh", "ja", "th", "lo", "my", "km")
"""Languages whose tokenisers need no spaces between words."""


def _read(store: Store, corpus: MultiRef, job: TextJob, track: Track[Any]) -> None:
    check_same(corpus, store.manifest["corpus"])
    total = len(corpus.items) if job.limit is None else min(job.limit, len(corpus.items))
    with store.transaction():
        items: Iterable[TextItem] = islice(corpus.items, total)
        if job.tokeniser is None and _language(job, corpus) not in _SPACELESS:
            items = map(_check_spaces, items)
        TextShelf(store).add_items(track(items, total, f"read {corpus.name}"))
        add_notes(store, corpus.notes)


def _check_spaces(item: TextItem) -> TextItem:
    """Refuse texts that a tokeniser which needs spaces would leave in one piece."""
    if 2 * sum(map(is_spaceless, item.references)) > len(item.references):
        raise UsageError(
            f"item {quoted(item.id)}: is in a script that is written without spaces between words; "
            'state its language in the rows of the corpus ("language": "zh"), or name a tokeniser '
            "with --tokeniser."
        )
    return item


def _write_all(
    store: Store, job: TextJob, engine: Engine, track: Track[Any], stopping: Stopping
) -> None:
    """Write with every model under every decoder, but for what the run holds already."""
    for spec in store.unfinished(job.models):
        model = engine.text_model(spec, job.loading)
        check_version(store, spec, model.version)
        # What was recorded was decoded already: one system, whatever decoders are asked for.
        recorded = spec.partition(":")[0] == RECORDED
        decoders = ("as recorded",) if recorded else job.decoders
        for decoder in decoders:
            stopping.check()
            facts = _system_facts(spec, model, decoder, recorded, job.writing.chat)
            name = system_name(store, model.label, facts, len(decoders) > 1, (CONTROL,))
            ask = replace(job.writing, decoder=decoder, seed=job.seed)
            _write(store, name, facts, model, ask, track, stopping)
        store.set_finished(spec)


def _write(
    store: Store,
    name: str,
    facts: Mapping[str, Any],
    model: TextModel,
    ask: Writing,
    track: Track[Any],
    stopping: Stopping,
) -> None:
    """Save a system's texts as they come, with notes on what did not join."""
    if store.meta(f"done {name}"):
        return
    store.add_system(name, facts)
    left = store.n_items - store.n_items_with_draws(name)
    shelf = TextShelf(store)
    written = model.write(stopping.before_each(shelf.waiting(name)), ask)
    # A recorded file is read whole or not at all: a bad last line must not leave half of it.
    is_whole = facts["estimator"] == RECORDED
    with stopping.finishing(), store.transaction() if is_whole else nullcontext():
        if is_whole:
            shelf.clear(name)  # of a damaged run that lost a part of it
        _save(shelf, name, model, track(written, left, name))
    _check_any(store, name)
    with store.transaction():
        add_notes(store, _own_notes(model, name))
        store.set_meta(f"done {name}", True)


def _own_notes(model: TextModel, name: str) -> list[str]:
    """What a model says of its texts, under the system's name: one model may be several systems.

    Its counts of texts are about the latest session alone; those of the run are saved with inputs.
    """
    before = f"{model.label}: "
    counted = model.tally.notes(model.label) if isinstance(model, Tallied) else []
    return [
        f"{name}: {note.removeprefix(before)}" if note.startswith(before) else note
        for note in model.notes()
        if note not in counted
    ]


def _save(shelf: TextShelf, name: str, model: TextModel, written: Iterable[Texts]) -> None:
    """Keep what was written and its counts; an input without a text stays without."""
    store, key = shelf.store, f"tally {name}"
    earlier = store.meta(key) or {}
    for texts in written:
        with store.transaction():
            if texts.texts:
                shelf.add(name, texts)
            if isinstance(model, Tallied):
                store.set_meta(key, model.tally.with_earlier(earlier))


def _system_facts(
    spec: str, model: TextModel, decoder: str, recorded: bool, chat: bool
) -> dict[str, Any]:
    conventions = dict(model.conventions)
    if chat and "bos" in conventions:
        conventions["bos"] = "template"  # a chat template writes the beginning of text itself
    return {
        "model": f"{spec}@{model.version}",
        "decoder": decoder,
        "estimator": RECORDED if recorded else "sampled",
        "label": model.label,
        "conventions": conventions,
    }


def _check_any(store: Store, name: str) -> None:
    if not store.n_items_with_draws(name):
        model = store.systems()[name]["model"].rpartition("@")[0]
        raise UsageError(f"{model}: has no text to any input of the corpus; check its rows.")


def _holds_live_texts(store: Store) -> bool:
    """Whether a live model has written anything: that cost time, and is kept whatever happens."""
    live = (name for name, facts in store.systems().items() if facts["estimator"] == "sampled")
    return any(store.n_items_with_draws(name) for name in live)


def _tally_notes(store: Store) -> Iterator[str]:
    """Cut and empty texts, of all that a system wrote in however many sessions."""
    for name in model_systems(store):
        yield from TextTally(**(store.meta(f"tally {name}") or {})).notes(name)


def _empty_notes(store: Store) -> Iterator[str]:
    """Empty texts of systems that do not count their own; a corpus counts its empty references."""
    if not store.has_stats():
        return
    for name in model_systems(store):
        if store.meta(f"tally {name}") is None and (empty := store.total(name, "n_empty")):
            yield f"{empty} of {name}'s texts are empty"


def _mean_lengths(store: Store, system: str) -> tuple[float | None, float | None]:
    """Mean lengths of people's and a system's texts to the inputs that the system wrote to."""
    pages = ((page.groups, page.values) for page in store.stat_pages(system))
    reductions = {name: Mean(name) for name in LENGTHS}
    sums = walk(pages, reductions)
    people, own = (value_of(sums[name], reductions[name]) for name in LENGTHS)
    return people, own


def _lengths_differ(store: Store, system: str) -> bool:
    return lengths_differ(*_mean_lengths(store, system))


def _length_notes(store: Store) -> Iterator[str]:
    """Warn of systems whose texts are longer or shorter than people's."""
    if not set(LENGTHS) <= set(store.stat_columns()):
        return
    for name in model_systems(store):
        people, own = _mean_lengths(store, name)
        if lengths_differ(people, own):
            yield (
                f"warning: lengths differ by more than {TOLERATED_RATIO - 1:.0%}: {name}'s texts "
                f"have {own:.1f} tokens on average, people's {people:.1f}. Distances of n-grams "
                "depend on length, so mean M, mean C and energy compare length too; the verdict "
                f"on variability uses texts cut to the same lengths ({SAME_LENGTH})"
            )


def _control_notes(store: Store) -> Iterator[str]:
    if store.meta("has_control") is False:
        yield "dialogue has no human control under --protocol paper, as published"


def _cut_notes(store: Store) -> Iterator[str]:
    """How many texts were cut."""
    if "n_cut" not in (store.stat_columns()):
        return
    for name in (CONTROL, *model_systems(store)):
        if n_cut := store.total(name, "n_cut"):
            whose = "people" if name == CONTROL else name
            of, most = store.total(name, "n_texts"), store.manifest["max_length"]
            yield f"{whose}: {n_cut} of {of} texts were cut to {most} tokens"


def _left_out_notes(job: TextJob, corpus: MultiRef) -> list[str]:
    """Name the probes that run by default but cannot for this language, with how to get them."""
    if job.probes:
        return []
    by_reason: dict[str, list[str]] = {}
    for probe, reason in left_out(_language(job, corpus), job.tagger, job.encoder).items():
        by_reason.setdefault(reason.rstrip("."), []).append(probe)
    return [f"left out {', '.join(probes)}: {reason}" for reason, probes in by_reason.items()]


def _undefined_notes(store: Store) -> Iterator[str]:
    """How many pairs of texts have no distance: by system and part, each probe that has such."""
    for name in (CONTROL, *model_systems(store)):
        for part in ("H",) if name == CONTROL else ("M", "C"):
            if found := ", ".join(undefined_pairs(store, name, part)):
                whose = "people" if name == CONTROL else name
                yield f"{whose}: pairs of texts without a distance ({part}), left out: {found}"


def _unfinished_notes(store: Store) -> Iterator[str]:
    for name in model_systems(store):
        if not store.meta(f"done {name}"):
            yield f"{name}: is not finished; continue it with {resume_command(store.path)}"


def _manifest(job: TextJob, corpus: MultiRef) -> dict[str, Any]:
    if job.protocol not in PROTOCOLS:
        raise UsageError(f"there is no protocol {job.protocol!r}; use {' or '.join(PROTOCOLS)}.")
    if job.protocol == "paper" and job.max_length != MAX_LENGTH:
        raise UsageError(
            "--protocol paper cuts texts to 100 GPT-2 tokens; leave out --max-length, or use "
            "--protocol corrected."
        )
    asked = {key: value for key, value in asdict(job.writing).items() if key not in _OF_SYSTEM}
    probes = job.probes or default_names(_language(job, corpus), job.tagger, job.encoder)
    return {
        "level": "text",
        "corpus": corpus_facts(corpus, job.corpus, job.encoding),
        "language": corpus.language,
        "limit": job.limit,
        "models": list(job.models),
        "contents": contents_of(job.models),
        "decoders": list(job.decoders),
        "writing": asked | {"stop": list(job.writing.stop)},
        "dtype": job.loading.dtype,
        "bos": job.loading.bos,
        "device": job.loading.device,
        "protocol": job.protocol,
        "probes": list(probes),
        "tokeniser": job.tokeniser,
        "tagger": job.tagger,
        "encoder": job.encoder,
        "max_length": job.max_length,
        "n_splits": job.n_splits,
        "seed": job.seed,
        "versions": versions(_PACKAGES),
    }


MOST_UNDEFINED = 0.2
"""The share of pairs without a distance above which there is no interval and no verdict."""
GAPPY = "more than 20% of the pairs of texts have no distance by this probe"
_JUDGED = ("energy/", "dmu_M/", f"{SAME_LENGTH}/")
_OF_SYSTEM = ("decoder", "seed")
_OF_GENERATORS = (
    *("energy/", "mean_M/", "mean_C/", "length_M", f"{SAME_LENGTH}/"),
    *(f"w1_{side}{BESIDE_MATCHED}/" for side in ("M", "C")),
)


def _language(job: TextJob, corpus: MultiRef) -> str:
    # The authors read German with English tools too.
    return "en" if job.protocol == "paper" else corpus.language


def _system_results(store: Store, system: str, interval: str) -> Iterator[Result]:
    # Counts of pairs are added up, not averaged: no interval is worked out for them.
    names = [c for c in store.stat_columns() if not c.startswith((UNDEFINED, "n_pairs_"))]
    pages = ((page.groups, page.values) for page in store.stat_pages(system))
    means = {name: Mean(name) for name in names}
    found = Facts(estimates(pages, means, store.manifest["seed"], interval))
    missing = 0 if system == CONTROL else store.n_items - store.n_items_with_draws(system)
    gappy: set[str] = set() if system == CONTROL else _gappy_probes(store, system)
    for metric in metrics_of(store):
        if system == CONTROL and not _is_of_people(store, metric):
            continue
        if metric.startswith(f"{SAME_LENGTH}/") and not found[metric].n_items:
            continue  # a system whose texts are as long as people's
        estimate = bounded(replace(found[metric], n_missing=missing), metric)
        if metric.startswith(_JUDGED) and metric.partition("/")[2] in gappy:
            estimate = replace(estimate, interval=None, reason=GAPPY)
        signature = _signature(store, system, metric, found)
        rows = StoredRows(store, system, metric)
        yield Result(system, metric, signature, estimate, rows=rows)


def _gappy_probes(store: Store, system: str) -> set[str]:
    """The probes by which too many pairs of a system's texts have no distance.

    The pairs that are left are not a fair choice: of nine equal words and one text of two words,
    only the pairs with the latter have bigrams.
    """
    before, pairs = f"{UNDEFINED}M/", store.total(system, "n_pairs_M")
    columns = [c for c in store.stat_columns() if c.startswith(before)]
    return {
        column.removeprefix(before)
        for column in columns
        if store.total(system, column) > MOST_UNDEFINED * pairs
    }


def _is_of_people(store: Store, metric: str) -> bool:
    """Whether people have a metric: H, its lengths, and the control where there is one."""
    if store.meta("has_control") is False and not metric.startswith(("mean_H/", "length_H")):
        return False
    return not metric.startswith(_OF_GENERATORS)


def _signature(store: Store, system: str, metric: str, found: Mapping[str, Estimate]) -> Signature:
    manifest, facts = store.manifest, store.systems()[system]
    people, texts = found["n_people"].value, found["n_texts"].value
    choices = {"protocol": manifest["protocol"]}
    if manifest["protocol"] != "paper":
        choices["n_splits"] = str(manifest["n_splits"])
    choices |= store.fact("probe_facts").get(metric.partition("/")[2], {})
    return Signature(
        manifest["corpus"]["name"],
        manifest["corpus"]["sha256"],
        facts["model"],
        facts["decoder"],
        facts["estimator"],
        choices | facts["conventions"] | _asked(manifest, facts),
        f"{people or 0:g}x{texts or 0:g}",
        manifest["seed"],
        metric,
        manifest["versions"]["aleatoric"],
    )


def _asked(manifest: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, str]:
    """How a live system was asked for its texts; what was recorded was not asked."""
    if facts["estimator"] != "sampled":
        return {}
    return {key: str(value) for key, value in manifest["writing"].items() if key != "samples"}
