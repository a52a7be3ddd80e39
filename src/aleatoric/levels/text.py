"""The text level: do the texts sampled from a model vary as much as people's texts?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from aleatoric import registry
from aleatoric.data.opening import open_text_corpus
from aleatoric.data.references import limit_references
from aleatoric.data.selection import ReferenceLimits, options_of
from aleatoric.errors import UsageError, check_choice, quoted
from aleatoric.inference.estimate import bounded, estimate, value_of, walk
from aleatoric.inference.two_samples import N_PERMUTATIONS
from aleatoric.levels import text_inputs, text_scoring, text_variability
from aleatoric.levels.base import Level, Monitor, Opening
from aleatoric.levels.base import model_systems as model_systems
from aleatoric.levels.text_inputs import StudyOptions, TextCase
from aleatoric.levels.text_protocol import MAX_LENGTH, PROTOCOLS
from aleatoric.levels.text_scoring import (
    CONTROL,
    LENGTHS,
    SAME_LENGTH,
    Distances,
    Scorer,
    covering_persons,
)
from aleatoric.levels.text_variability import TOLERATED_RATIO, UNDEFINED, lengths_differ
from aleatoric.metrics.reduction import Mean
from aleatoric.models.base import Tallied, TextModel, TextTally, Writing
from aleatoric.models.decoding import TextDecoder
from aleatoric.models.trained import training_notes
from aleatoric.nextword.rules import is_latin, lacks_spaces, share_of_english
from aleatoric.probes.tools import check_tools, default_names, left_out, with_encoders
from aleatoric.registry import Track
from aleatoric.result_types import Labels, Result, Study
from aleatoric.runs import session
from aleatoric.runs.engine import Engine
from aleatoric.runs.formats import SavedDict
from aleatoric.runs.job import ClusterJob, option
from aleatoric.runs.run import Store, StoredRows, StoredTexts, signature
from aleatoric.types import Estimate, MultiRef, Signature, TextItem, Texts

RECORDED = "recorded"
TRANSFORMERS = ("smollm2", "hf", "gguf")
"""Kinds of models that run in transformers: they train, and give log-probabilities of texts."""
SAMPLES = 10
"""Default number of texts per input of a live model."""
ASKED = ("max_new_tokens", "template", "chat", "turns", "stop")
"""Generation options besides the decoder, the seed and the number of texts."""
SAMPLED, LEAST_ENGLISH = 200, 0.05
"""Inputs from which a language that is not stated is guessed, and English words if it is English.

Of English people's texts at least 14% are such words, of German ones at most .3%.
"""
GAPPY = "more than 20% of the pairs of texts have no distance by this probe"
"""Why there is no interval and no verdict."""
MAIN = ("lexical-1", "syntactic-2", "semantic")
"""The probes of the paper's figures; all others are in its appendix."""
_JUDGED = ("energy/", "dmu_M/", f"{SAME_LENGTH}/")
_OF_GENERATORS = (
    *("energy/", "mean_M/", "mean_C/", "length_M", f"{SAME_LENGTH}/"),
    *(f"w1_{side}{text_scoring.BESIDE_MATCHED}/" for side in ("M", "C")),
    *(f"{name}/" for name in text_variability.VALUES_OF_SYSTEMS),
)


@dataclass(frozen=True)
class TextJob(ClusterJob):
    """The options of `aleatoric text`."""

    command = "text"

    corpus: str = option(help="A corpus name, or a file of inputs with people's texts.")
    models: tuple[str, ...] = option(
        (),
        "smollm2, hf:NAME, vllm:NAME, openai:MODEL@URL, recorded:FILE; repeatable.",
        flag="--model",
    )
    decoders: tuple[str, ...] = option(
        ("ancestral",),
        "ancestral, top_p=0.9, beam=10, mbr=50, ...; repeatable.",
        flag="--decoder",
    )
    references: str | None = option(
        None,
        "Use MIN:MAX people's texts per input, such as 5:10, 5:, :10 or 10: inputs with fewer are "
        "left out, of more some are drawn by --seed.",
    )
    samples: int | None = option(
        None,
        f"Texts per input: by default {SAMPLES} of a live model, all that are recorded.",
        low=1,
        high=10**5,
    )
    max_new_tokens: int = option(
        100, "Maximum length of a text, in tokens.", low=1, high=10**6, live=True
    )
    template: str = option(
        "{input}", "What the model reads, such as 'Simplify: {input}'.", live=True
    )
    chat: bool = option(False, "Ask through the model's chat template.", live=True)
    system: str = option("", "With --chat: the system message.", live=True)
    source_language: str | None = option(
        None, "Source language of a translation model, such as eng_Latn (NLLB).", live=True
    )
    target_language: str | None = option(
        None, "Target language of a translation model, such as deu_Latn (NLLB).", live=True
    )
    turns: str = option(
        "eos", "What joins the turns of a dialogue: eos, newline or any text.", live=True
    )
    stop: tuple[str, ...] = option((), "A text ends before this string; repeatable.", live=True)
    entropy: bool = option(
        False, "Save log-probabilities of the texts, for score --analysis entropy.", live=True
    )
    probes: tuple[str, ...] = option(
        (),
        "lexical-1, syntactic-2, semantic, nli:MODEL, module:function, ...; repeatable. By default "
        "n-grams and semantic, as far as installed for the language.",
        flag="--probe",
    )
    tokeniser: str | None = option(
        None, "spacy-words:LANGUAGE, whitespace, ...; by default chosen by language."
    )
    tagger: str | None = option(
        None, "For syntactic probes: textblob, nltk, spacy:PIPELINE, spacy:LANGUAGE."
    )
    encoder: tuple[str, ...] = option(
        (),
        "For the semantic probe: minilm, multilingual, st:NAME_OR_DIR; repeatable. Probes of "
        "others are semantic@NAME.",
    )
    max_length: int = option(
        MAX_LENGTH,
        "Cut the texts of people and models to this many tokens; 0 does not cut.",
        low=0,
        high=10**6,
    )
    protocol: str = option("corrected", "corrected, or paper (as published).")
    n_splits: int = option(20, "Random splits of the people.", flag="--splits", low=1, high=10_000)
    permutations: int = option(
        N_PERMUTATIONS,
        "Random permutations per test of an input; 0: inputs are not tested.",
        low=0,
        high=10**6,
    )

    @property
    def first_encoder(self) -> str | None:
        """The encoder of the probe semantic; `None` for the default of the language."""
        return next(iter(self.encoder), None)

    def writing(self, decoder: str) -> Writing:
        """Return the generation options under a decoder."""
        samples = SAMPLES if self.samples is None else self.samples
        options = {"decoder": decoder, "samples": samples, "most_recorded": self.samples}
        return options_of(Writing, vars(self) | options | {"logprobs": self.entropy})

    @property
    def reference_limits(self) -> ReferenceLimits:
        """The numbers of people's texts per input to use."""
        return ReferenceLimits.parse(self.references, self.seed)


def cases(store: Store, system: str) -> Iterator[TextCase]:
    """Yield the inputs with a system's texts, their W1 from people and means, for studies."""
    values: dict[str, dict[str, float | None]] = {}
    for metric in text_scoring.metric_names(store):
        if metric.startswith(("w1_M/", "w1_C/", "mean_M/", "mean_H/")):
            for row in store.rows(system, metric):
                values.setdefault(row.item_id, {})[metric] = row.value
    for produced in StoredTexts(store).walk():
        if system in produced.systems:
            item, known = produced.item, produced.with_log_probs
            own, written = values.get(item.id, {}), known.get(system, Texts(item.id, ()))
            yield TextCase(item, produced.systems[system], own, written)


def distances(store: Store, item_ids: Iterable[str]) -> Iterator[tuple[str, dict[str, Distances]]]:
    """Recompute and yield the distances of these inputs, with their ids.

    Probes that are code, and those that need a model of their own, are left out.
    """
    built_in = [name for name in store.manifest["probes"] if ":" not in name]
    if not built_in:
        return
    scorer, shelf = Scorer.of({**store.manifest, "probes": built_in}, (), store), StoredTexts(store)
    for item_id in item_ids:
        yield item_id, text_scoring.distances_of(shelf.find(item_id), scorer)


def _check_spaces(item: TextItem, language: str) -> TextItem:
    if lacks_spaces(item.references, language):
        raise UsageError(
            f"item {quoted(item.id)}: is in a script that is written without spaces between words; "
            'state its language in the rows of the corpus ("language": "zh"), or name a tokeniser '
            "with --tokeniser."
        )
    return item


def _write(store: Store, name: str, model: TextModel, ask: Writing, monitor: Monitor) -> None:
    """Save the texts of a system as they arrive, and the model's notes."""
    n_pending = store.n_items - store.n_items_with_draws(name)
    shelf, facts = StoredTexts(store), store.systems()[name]
    written = model.write(monitor.stopping.before_each(shelf.pending_items(name)), ask)
    # A recorded file is saved in one transaction: a bad last line must not leave half of it.
    recorded = facts["estimator"] == RECORDED
    with monitor.stopping.finishing(), store.transaction() if recorded else nullcontext():
        if recorded:
            shelf.clear(name)  # a salvaged run may hold a part of it
        _save(shelf, name, model, monitor.track(written, n_pending, name))
    if not store.n_items_with_draws(name):
        spec = facts["model"].rpartition("@")[0]
        raise UsageError(f"{spec}: has no text to any input of the corpus; check its rows.")
    with store.transaction():
        session.add_notes(store, _model_notes(model, name))
        store.set_meta(f"done {name}", True)


def _model_notes(model: TextModel, name: str) -> list[str]:
    """Return a model's notes under the name of the system; one model may be several systems.

    Counts of texts are left out: they cover the latest session only, and the run keeps totals.
    """
    prefix = f"{model.label}: "
    counted = model.tally.notes(model.label) if isinstance(model, Tallied) else []
    return [
        f"{name}: {note.removeprefix(prefix)}" if note.startswith(prefix) else note
        for note in model.notes()
        if note not in counted
    ]


def _save(shelf: StoredTexts, name: str, model: TextModel, written: Iterable[Texts]) -> None:
    """Save texts and their counts; inputs without a text are skipped."""
    store, key = shelf.store, f"tally {name}"
    earlier = store.meta(key) or {}
    for texts in written:
        with store.transaction():
            if texts.texts:
                shelf.add(name, texts)
            if isinstance(model, Tallied):
                store.set_meta(key, model.tally.with_earlier(earlier))


def _tally_notes(store: Store) -> Iterator[str]:
    """Note truncated and empty texts of systems that count them, over all sessions."""
    for name in model_systems(store):
        yield from TextTally(**(store.meta(f"tally {name}") or {})).notes(name)


def _empty_notes(store: Store) -> Iterator[str]:
    """Note empty texts of systems that do not count them."""
    for name in model_systems(store) if store.has_stats() else ():
        if store.meta(f"tally {name}") is None and (empty := store.total(name, "n_empty")):
            yield f"{empty} of {name}'s texts are empty"


def _mean_lengths(store: Store, system: str) -> list[float | None]:
    """Return mean lengths of people's and a system's texts, on the inputs of the system."""
    pages = ((page.groups, page.values) for page in store.stat_pages(system))
    reductions = {name: Mean(name) for name in LENGTHS}
    sums = walk(pages, reductions)
    return [value_of(sums[name], reductions[name]) for name in LENGTHS]


def _length_notes(store: Store) -> Iterator[str]:
    if not set(LENGTHS) <= set(store.stat_columns()):
        return
    for name in model_systems(store):
        people, model = _mean_lengths(store, name)
        if lengths_differ(people, model):
            yield (
                f"warning: lengths differ by more than {TOLERATED_RATIO - 1:.0%}: {name}'s texts "
                f"have {model:.1f} tokens on average, people's {people:.1f}. Distances of n-grams "
                "depend on length, so mean M, mean C and energy compare length too; the verdict "
                f"on variability uses texts cut to the same lengths ({SAME_LENGTH})"
            )


def _control_notes(store: Store) -> Iterator[str]:
    if store.meta("has_control") is False:
        yield "dialogue has no human control under --protocol paper, as published"


def _cut_notes(store: Store) -> Iterator[str]:
    if "n_cut" not in store.stat_columns():
        return
    for name in (CONTROL, *model_systems(store)):
        if n_cut := store.total(name, "n_cut"):
            whose = "people" if name == CONTROL else name
            n_texts, limit = store.total(name, "n_texts"), store.manifest["max_length"]
            yield f"{whose}: {n_cut} of {n_texts} texts were cut to {limit} tokens"


def _decoder_notes(store: Store) -> Iterator[str]:
    """Note systems whose texts are no independent draws from the model's distribution."""
    for name in model_systems(store):
        kind, _, number = store.systems()[name]["decoder"].partition("=")
        if kind == "beam":
            yield (
                f"warning: {name}: its texts are the {number} best of a beam search, which are no "
                "samples: they are different by construction, so that mean M, energy and the "
                "verdict on variability are biased"
            )
        elif kind == "mbr":
            yield (
                f"{name}: each text is the one of {number} ancestral samples that is nearest to "
                "the others by shared words (minimum Bayes risk), from samples of its own"
            )


def _gives_log_probs(spec: str) -> bool:
    return spec.partition(":")[0] in TRANSFORMERS


def _log_prob_notes(name: str, spec: str, decoder: str) -> Iterator[str]:
    """Say which systems have no entropy, and whose entropy is not that of the model itself."""
    if not _gives_log_probs(spec):
        yield f"{name}: gives no log-probabilities of texts, so that it has no entropy"
    elif not TextDecoder.parse(decoder).has_log_probs:
        yield (
            f"{name}: has no entropy, because the probability of a text under {decoder} is not "
            "known; use ancestral or temperature=T"
        )
    elif str(TextDecoder.parse(decoder)) != "ancestral":
        yield f"{name}: its entropy is that of the model under {decoder}, not of the model itself"


def _left_out_notes(job: TextJob, corpus: MultiRef) -> list[str]:
    if job.probes:
        return []
    by_reason: dict[str, list[str]] = {}
    for probe, reason in left_out(*_tools(job, corpus)).items():
        by_reason.setdefault(reason.rstrip("."), []).append(probe)
    return [f"left out {', '.join(probes)}: {reason}" for reason, probes in by_reason.items()]


def _undefined_notes(store: Store) -> Iterator[str]:
    models = ((name, name, part) for name in model_systems(store) for part in ("M", "C"))
    for name, whose, part in ((CONTROL, "people", "H"), *models):
        if counts := text_scoring.undefined_counts(store, name, part):
            n_pairs = store.total(name, f"n_pairs_{part}")
            listed = ", ".join(f"{count} of {n_pairs} by {p}" for p, count in counts.items())
            yield f"{whose}: pairs of texts without a distance ({part}), left out: {listed}"


def _language(job: TextJob, corpus: MultiRef) -> str:
    # The authors used English tools for German too.
    return "en" if job.protocol == "paper" else corpus.language


def _tools(job: TextJob, corpus: MultiRef) -> tuple[str | None, str | None, str | None]:
    """Return the language of the default tools, and the tagger and encoder that are named.

    The language is `None` if it is not stated and its script is not that of English.
    """
    is_known = job.protocol == "paper" or corpus.is_language_stated or is_latin(_sample(corpus))
    return _language(job, corpus) if is_known else None, job.tagger, job.first_encoder


def _sample(corpus: MultiRef) -> list[str]:
    """Return people's texts to the first inputs, from which their language can be guessed."""
    return [text for item in islice(corpus.items, SAMPLED) for text in item.references]


def _language_notes(job: TextJob, corpus: MultiRef) -> Iterator[str]:
    """Note texts that are read as English because nothing is stated, but seem not to be."""
    are_named = job.tokeniser and job.tagger and job.encoder
    if job.protocol == "paper" or corpus.is_language_stated or are_named:
        return
    share, is_read = share_of_english(texts := _sample(corpus)), is_latin(texts)
    if is_read and share is not None and share < LEAST_ENGLISH:
        yield (
            "language not stated: people's texts are read as English, but only "
            f"{share:.1%} of their words are among the most frequent ones of English; state the "
            'language in the rows of the corpus ("language": "de", or "en" if they are English)'
        )


def _gappy_probes(store: Store, system: str) -> set[str]:
    """Return the probes by which too many pairs of a system's texts have no distance.

    The remaining pairs are a biased sample: only those with the longer texts have bigrams.
    """
    n_pairs = store.total(system, "n_pairs_M")
    counts = text_scoring.undefined_counts(store, system, "M")
    return {probe for probe, count in counts.items() if count > 0.2 * n_pairs}


def _is_of_people(store: Store, metric: str) -> bool:
    """Return whether people have a metric: H, lengths, and the control if there is one."""
    if store.meta("has_control") is False and not metric.startswith(
        ("mean_H/", "length_H", text_variability.VALUE_H)
    ):
        return False
    return not metric.startswith(_OF_GENERATORS)


def _signature(store: Store, system: str, metric: str, means: Mapping[str, Estimate]) -> Signature:
    manifest, facts = store.manifest, store.systems()[system]
    people, texts = means["n_people"].value or 0, means["n_texts"].value or 0
    choices = {"protocol": manifest["protocol"]}
    if manifest["protocol"] != "paper":
        choices["n_splits"] = str(manifest["n_splits"])
    choices |= store.fact("probe_facts").get(metric.partition("/")[2], {}) | facts["conventions"]
    if facts["estimator"] == "sampled":
        choices |= {name: str(manifest[name]) for name in ASKED}
        choices |= {"system": manifest["system"]} if manifest["system"] else {}
    return signature(store, system, metric, choices, f"{people:g}x{texts:g}")


class Text(Level):
    """Whole texts: distances among people's texts, among a model's texts, and between both."""

    name = "text"
    help = """Whole texts: does a generator vary as people do?

    Without a model: how people vary among themselves.

    Example: `aleatoric text --corpus asset.jsonl --model smollm2 --decoder top_p=0.9 --chat
    --template 'Simplify: {input}' --out runs/asset`
    """
    job_type = TextJob
    model_kinds = ("text_models",)
    controls = (CONTROL,)
    leading = "energy/lexical-1"
    compared = ("energy/*", "dmu_M/*", "w1_?/*")
    compared_first = ("energy/*",)
    across = ("energy/*", "dmu_M/*")
    across_people = ("mean_H/*",)
    across_first = tuple(f"{name}/{probe}" for name in ("mean_H", "energy") for probe in MAIN)
    task_fields = ("tokeniser", "tagger", "tags", "n_splits", "system", *ASKED)
    note_parts = (
        *(session.lost_notes, _decoder_notes, text_scoring.spaceless_notes, _length_notes),
        *(_control_notes, session.saved_notes),
        *(text_scoring.person_notes, _cut_notes, text_scoring.window_notes),
        *(_tally_notes, _empty_notes, _undefined_notes),
        lambda store: session.unfinished_notes(store, model_systems(store)),
    )
    packages = (
        *("numpy", "scipy", "spacy", "textblob", "sentence-transformers"),
        *("torch", "transformers", "tokenizers"),
    )

    def check(self, job: TextJob) -> None:
        """Refuse unknown models and protocols."""
        super().check(job)
        if job.entropy and not any(_gives_log_probs(spec) for spec in job.models):
            raise UsageError(
                "--entropy needs a model that gives log-probabilities of its texts; use "
                f"{', '.join(TRANSFORMERS)}, or leave it out."
            )
        ReferenceLimits.parse(job.references)
        check_choice("protocol", job.protocol, PROTOCOLS)
        if job.protocol == "paper" and job.max_length != MAX_LENGTH:
            raise UsageError(
                "--protocol paper cuts texts to 100 GPT-2 tokens; leave out --max-length, or use "
                "--protocol corrected."
            )

    def open(self, job: TextJob) -> MultiRef:
        """Open the corpus of inputs with several people's texts."""
        corpus = open_text_corpus(job.corpus, job.encoding, job.table_options)
        return limit_references(corpus, job.reference_limits)

    def facts(self, job: TextJob, corpus: MultiRef) -> dict[str, Any]:
        """Return the language of the corpus, and the probes that are installed for it."""
        tools = _tools(job, corpus)
        check_tools(job.probes, *tools)
        probes = with_encoders(job.probes or default_names(*tools), job.encoder)
        return {"language": corpus.language, "probes": list(probes)}

    def prepare(self, manifest: Mapping[str, Any], allowed_probes: Collection[str]) -> None:
        """Load taggers and encoders."""
        Scorer.of(manifest, allowed_probes)

    def save_items(self, store: Store, job: TextJob, corpus: MultiRef, monitor: Monitor) -> None:
        """Save the inputs and people's texts."""
        about_tools = [*_language_notes(job, corpus), *_left_out_notes(job, corpus)]
        total, items = len(corpus.items), iter(corpus.items)
        if job.tokeniser is None:
            items = (_check_spaces(item, _language(job, corpus)) for item in items)
        store.add_items(monitor.track(items, total, f"read {corpus.name}"))
        session.add_notes(store, [*corpus.notes, *about_tools])

    def ask(
        self, store: Store, job: Any, spec: str, engine: Engine, corpus: Opening, monitor: Monitor
    ) -> None:
        """Save the texts of one model under every decoder."""
        self.save_texts(store, job, spec, engine.text_model(spec, job.loading), monitor)

    def save_texts(
        self, store: Store, job: TextJob, spec: str, model: TextModel, monitor: Monitor
    ) -> None:
        """Save the texts of a loaded model under every decoder."""
        items = (produced.item for produced in StoredTexts(store).walk())
        session.add_notes(store, training_notes(spec, job.writing("ancestral"), items))
        conventions = dict(model.conventions)
        if job.chat and "bos" in conventions:
            conventions["bos"] = "template"  # a chat template adds the BOS token itself
        estimator = RECORDED if spec.partition(":")[0] == RECORDED else "sampled"
        about = {"estimator": estimator, "label": model.label, "conventions": conventions}
        for decoder, name in self.pending_systems(store, job, spec, model, about, monitor):
            _write(store, name, model, job.writing(decoder), monitor)
            if job.entropy:
                session.add_notes(store, _log_prob_notes(name, spec, decoder))

    studies = "text_analyses"

    def study(self, store: Store, name: str, system: str, track: Track[Any]) -> Study:
        """Run the study `name` on the inputs of one system; `acts=module:function` calls code."""
        name, _, argument = name.partition("=")
        run: Callable[..., Study] = registry.find(self.studies, name)
        tracked_cases = track(cases(store, system), store.n_items, f"{name} of {system}")
        options = StudyOptions(text_scoring.tools_of(store.manifest), argument)
        return run(list(tracked_cases), store.manifest["seed"], options)

    def score(self, store: Store, monitor: Monitor) -> None:
        """Compute the statistics of every input and system."""
        scorer = Scorer.of(store.manifest, monitor.allowed_probes, store)
        facts = {"model": CONTROL, "decoder": "none", "estimator": "people", "conventions": {}}
        store.add_system(CONTROL, facts)
        store.set_meta("probe_facts", scorer.facts())
        store.set_meta("probe_bounds", {probe.name: probe.bounds for probe in scorer.probes})
        store.set_meta("has_control", scorer.has_control)
        store.write_stats(*text_scoring.statistics(store, scorer, monitor))
        models = model_systems(store)
        if differing := [m for m in models if lengths_differ(*_mean_lengths(store, m))]:
            store.write_stats(*text_scoring.statistics(store, scorer, monitor, differing))

    def system_results(self, store: Store, system: str, interval: str) -> Iterator[Result]:
        """Compute the means of all statistics with intervals."""
        # Counts of pairs are totals, not means, and p-values are of single inputs: no interval.
        totals = (UNDEFINED, "n_pairs_", text_scoring.P_VALUES)
        means = {name: Mean(name) for name in store.stat_columns() if not name.startswith(totals)}
        pages = ((page.groups, page.values) for page in store.stat_pages(system))
        sums, seed = walk(pages, means), store.manifest["seed"]
        by_metric = SavedDict((n, estimate(sums[n], means[n], seed, interval)) for n in means)
        persons = text_scoring.saved_changes(store, interval)
        missing = 0 if system == CONTROL else store.n_items - store.n_items_with_draws(system)
        gappy: set[str] = set() if system == CONTROL else _gappy_probes(store, system)
        for metric in text_scoring.metric_names(store):
            if system == CONTROL and not _is_of_people(store, metric):
                continue
            if metric.startswith(f"{SAME_LENGTH}/") and not by_metric[metric].n_items:
                continue  # a system whose texts are as long as people's
            found = covering_persons(by_metric[metric], system, metric, sums[metric], persons)
            shown = bounded(replace(found, n_missing=missing), metric)
            if metric.startswith(_JUDGED) and metric.partition("/")[2] in gappy:
                shown = replace(shown, interval=None, reason=GAPPY)
            signed = _signature(store, system, metric, by_metric)
            rows = StoredRows(store, system, metric)
            yield Result(system, metric, signed, shown, rows=rows)

    def task_facts(self, store: Store) -> dict[str, float | None]:
        """Return the number of inputs, of people's texts per input, and their mean length."""
        pages = ((page.groups, page.values) for page in store.stat_pages(CONTROL))
        means = {"texts": Mean("n_people"), "tokens": Mean("length_H")}
        sums = walk(pages, means)
        facts = {heading: value_of(sums[heading], mean) for heading, mean in means.items()}
        return {"inputs": store.n_items, **facts}

    def labels(self, store: Store, system: str) -> Mapping[str, Labels]:
        """Return the labels of variability, closeness and length of every input."""
        return {} if system == CONTROL else text_inputs.labels_of(store, system)
