"""The word level: does a model spread its next-word probability as people do?"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, get_args, get_type_hints

import numpy as np

from aleatoric import registry
from aleatoric.data.opening import open_corpus
from aleatoric.data.selection import Selection, options_of
from aleatoric.errors import UsageError, check_choice
from aleatoric.inference.persons import PersonSums
from aleatoric.levels import word_results, word_scoring
from aleatoric.levels.base import Level, Monitor, Opening
from aleatoric.levels.base import model_systems as model_systems
from aleatoric.levels.base import results as results
from aleatoric.levels.word_scoring import CONTROLS, Answered, Settings, pair_of
from aleatoric.models.base import CONTEXT, Ask, Prompting, WordModel, pages
from aleatoric.nextword.adaptive import parse_until, until_note
from aleatoric.nextword.answers import (
    AnswerChanges,
    Reading,
    ReadItems,
    read_draws,
    whole_answers_note,
)
from aleatoric.nextword.rules import (
    OTHER_TOKENS,
    PAPER_TOKENS,
    check_known,
    check_rule_of,
    is_code,
    rule_named,
)
from aleatoric.probes.tools import fitting_tagger, language_caveat, language_code
from aleatoric.registry import Track
from aleatoric.result_types import Result, Study
from aleatoric.runs import session
from aleatoric.runs.engine import Engine, check_live, check_runtime, check_until, is_live
from aleatoric.runs.formats import StatRow
from aleatoric.runs.job import ClusterJob, Loading, option
from aleatoric.runs.run import Store, stat_columns
from aleatoric.runs.tables import Joined
from aleatoric.types import Case, Choices, Corpus, Draws, Item, Pair

SCORED_AT_ONCE = 100
ABSTRACTIONS = ("tvd_syn", "tvd_sem")
ENGLISH_EMBEDDERS = ("minilm", "wordllama")
RANK = "rank_of_human_mode"
WHOLE = 0.99
"""Recorded probabilities that sum to at least this count as complete."""
NOTICEABLE, NOTICEABLE_ONCE = 0.01, 0.1
"""Exact probabilities of texts without a word are noted above this mean, or this maximum."""


@dataclass(frozen=True)
class WordJob(ClusterJob):
    """The options of `aleatoric word`."""

    command = "word"
    hidden = ("remarks",)

    corpus: str = option(help="A corpus name, or a file of people's answers.")
    models: tuple[str, ...] = option(
        (),
        "smollm2, hf:NAME, gguf:FILE, vllm:NAME, recorded:FILE, toy; repeatable.",
        flag="--model",
    )
    decoders: tuple[str, ...] = option(
        ("ancestral",), "How to decode, such as temperature=0.5; repeatable.", flag="--decoder"
    )
    estimator: str = option(
        "exact",
        "For live models: exact, mc (sampled), or biased (renormalized over words found by "
        "sampling, App. A).",
        live=True,
    )
    samples: int = option(
        1000, "Draws per context; only for --estimator mc and biased.", low=1, high=10**7, live=True
    )
    unit: str = option(
        "word", "word, or token: the first token of an answer (App. D), for one live model."
    )
    until: str | None = option(
        None,
        "With mc: stop sampling a context when the standard error of its TVD is low enough, as "
        "in se=0.01, or after --samples draws.",
        live=True,
    )
    tolerance: float = option(
        0.02, "Largest gap between the bounds of an exact TVD or D².", low=0, live=True
    )
    runtime: str = option(
        "transformers",
        "What runs local models: transformers, or llama.cpp (gguf: and smollm2, not converted).",
        live=True,
    )
    template: str = option(
        CONTEXT, "What a local model reads, such as 'Go on: {context}', or paper.", live=True
    )
    chat: bool = option(False, "Ask a local model through its chat template.", live=True)
    system: str = option("", "With --chat: the system message.", live=True)
    protocol: str = option("corrected", "corrected, or paper (as published).")
    choose: tuple[str, ...] = option(
        (), "One choice of the protocol, such as bins=half-open; repeatable."
    )
    word_rule: str | None = option(
        None,
        "How words are cut, for people and models alike: corrected, paper, characters, or your "
        "own module:function.",
    )
    abstractions: tuple[str, ...] = option(
        (), "Also tvd_syn or tvd_sem; repeatable.", flag="--metric"
    )
    tagger: str | None = option(
        None, "For tvd_syn: textblob, nltk, spacy:NAME; by default chosen by language."
    )
    language: str | None = option(
        None, "Language of the corpus, such as en or de; for tvd_syn.", fixed=False
    )
    embedder: str = option("minilm", "For tvd_sem: minilm, wordllama, vectors:FILE.")
    n_splits: int = option(20, "Random splits of the people.", flag="--splits", low=1, high=10_000)
    remarks: tuple[str, ...] = option((), "Notes shown with every result.", fixed=False)

    @property
    def loading(self) -> Loading:
        """Options for loading and asking models."""
        prompting = options_of(Prompting, vars(self))
        # As published, no token is put before a text.
        bos = "none" if self.protocol == "paper" and self.bos == "auto" else self.bos
        return replace(super().loading, bos=bos, prompting=prompting)

    @cached_property
    def choices(self) -> Choices:
        """The decisions of the protocol."""
        check_choice("unit", self.unit, ("word", "token"))
        choices = choose(self.protocol, self.choose, self.word_rule)
        return replace(choices, unit=self.unit)  # type: ignore[arg-type]

    @property
    def target_error(self) -> float | None:
        """The standard error at which sampling stops."""
        return None if self.until is None else parse_until(self.until)


def choose(protocol: str, overrides: Iterable[str], word_rule: str | None = None) -> Choices:
    """Return the choices of a protocol, with overrides `name=value` and another word rule.

    `word_rule` may be a user's `module:function`; the override `rule=...` must be installed.
    """
    check_choice("protocol", protocol, ("corrected", "paper"))
    choices = Choices.paper() if protocol == "paper" else Choices()
    for override in overrides:
        name, _, value = override.partition("=")
        choices = replace(choices, **{name: _allowed(name, value)})
    if word_rule is None:
        return choices
    if not is_code(word_rule):
        check_known(word_rule)
    return replace(choices, rule=word_rule)


def _allowed(name: str, value: str) -> Any:
    allowed = {key: get_args(kind) for key, kind in get_type_hints(Choices).items()}
    del allowed["protocol"], allowed["unit"]
    allowed["rule"] = tuple(registry.names("word_rules"))
    if name not in allowed:
        raise UsageError(f"there is no choice {name!r}; the choices are {', '.join(allowed)}.")
    if value not in allowed[name]:
        options = " or ".join(allowed[name])
        raise UsageError(f"{name}={value} is not known; use {name}={options}.")
    return value


def score_word(store: Store, monitor: Monitor | None = None) -> None:
    """Compute the per-item statistics of a saved run; needs no model."""
    monitor = monitor or Monitor()
    manifest = store.manifest
    metrics = {name: registry.find("metrics", name) for name in word_results.PAIRWISE}
    choices, seed = Choices(**manifest["choices"]), manifest["seed"]
    settings = Settings(choices, metrics, _abstractions(manifest), manifest["n_splits"], seed)
    columns = [*word_results.COLUMNS, *settings.abstractions]
    for name in CONTROLS:
        store.add_system(name, {"model": name, "decoder": "none", "estimator": "people"})
    persons = PersonSums()
    rows = _stat_rows(store, settings, monitor.track, persons)
    store.write_stats(
        columns,
        monitor.stopping.checked(rows),
        lambda: {f"{word_results.PERSONS} {name}": v for name, v in persons.facts().items()},
    )


def _stat_rows(
    store: Store, settings: Settings, track: Track[Any], persons: PersonSums
) -> Iterator[StatRow]:
    """Yield the statistics of every item and system; add the change due to each person."""
    for page in pages(track(store.walk(), store.n_items, "score"), SCORED_AT_ONCE):
        answered = [(item, systems) for _, item, systems in page]
        scored = word_scoring.score_items(answered, _on_joint_supports(settings, answered))
        for (no, item, systems), rows in zip(page, scored, strict=True):
            for row in rows:
                yield StatRow(no, row.system, row.row, row.values, row.splits)
            if item.persons is not None:
                answers = item, systems
                for system, changes in word_scoring.person_changes(answers, settings.choices):
                    persons.add(system, item.group, item.persons, changes)


def _on_joint_supports(settings: Settings, answered: Sequence[Answered]) -> Settings:
    """Use the same classes of words for the oracle and all systems of an item."""
    if not settings.abstractions:
        return settings
    from aleatoric.levels.word_classes import on_joint_support

    named = settings.abstractions.items()
    joint = {name: on_joint_support(a, answered, settings.choices) for name, a in named}
    return replace(settings, abstractions=joint)


def _abstraction_notes(store: Store) -> Iterator[str]:
    manifest = store.manifest
    if "tvd_syn" in manifest["abstractions"]:
        caveat = language_caveat(manifest["tagger"], manifest.get("language"))
        yield from [f"tvd_syn: {caveat}"] if caveat else []
    if "tvd_sem" in manifest["abstractions"]:
        language = manifest["language"] or "en"
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
    if not store.has_stats() or not {"tvd", RANK} <= set(store.stat_columns()):
        return
    parts = []
    for name in model_systems(store):
        _, columns = stat_columns(store, name, ["tvd", RANK])
        scored = np.isfinite(columns["tvd"])
        if unranked := int((scored & ~np.isfinite(columns[RANK])).sum()):
            parts.append(f"{unranked} of {int(scored.sum())} contexts of {name}")
    if parts:
        yield (
            f"{RANK}: people's first choice was never drawn in {', '.join(parts)}; the mean is "
            "over the other contexts, and the rank in these would be worse"
        )


def _failed_notes(store: Store) -> Iterator[str]:
    if not store.has_stats():
        return
    kept = store.manifest["choices"]["failed"] == "outcome"
    fate = "kept as an outcome" if kept else "rejected"
    for name in model_systems(store):
        if store.systems()[name]["estimator"] == "exact":
            yield from _wordless_notes(store, name, fate)
        elif failed := store.total(name, "failed"):
            total = store.total(name, "n_model") + (0 if kept else failed)
            yield f"{name}: {failed} of {total} draws held no word and are {fate}"


def _wordless_notes(store: Store, name: str, fate: str) -> Iterator[str]:
    """Note contexts without any word, and how likely texts without a word are after the others."""
    shares, confidence = stat_columns(store, name, ["failed", "confidence"])[1].values()
    has_word = np.isfinite(confidence)
    if left_out := int((shares[~has_word] > 0).sum()):
        yield f"{name}: no word can follow {left_out} contexts, which are left out"
    mean, most = (float(f(shares[has_word])) if has_word.any() else 0.0 for f in (np.mean, np.max))
    if mean > NOTICEABLE or most > NOTICEABLE_ONCE:
        yield (
            f"{name}: texts without a word have probability {mean:.3f} on average and up to "
            f"{most:.3f} after a context, and are {fate}"
        )


def _until_notes(store: Store) -> Iterator[str]:
    if store.manifest.get("until") is None:
        return
    error = parse_until(store.manifest["until"])
    for name in model_systems(store):
        pairs = [case.pair for case in cases(store, name)]
        yield until_note(name, pairs, error, store.manifest["samples"])


def cases(store: Store, system: str) -> Iterator[Case]:
    """Yield the items with people's and a system's distribution, for studies."""
    choices = Choices(**store.manifest["choices"])
    for item, draws in store.walk_system(system):
        for pair in pair_of(item, draws, choices):
            yield Case(item, pair, any(row.logprobs is not None for row in draws))


def _draw(store: Store, name: str, model: WordModel, ask: Ask, monitor: Monitor) -> None:
    """Save the draws of a system as they arrive, with notes on rows that match no item."""
    number, parts, answered = session.pending_items(store, name, model)
    pending = chain.from_iterable(monitor.stopping.before_each(parts))
    items: Iterable[Item] = monitor.track(pending, number, name)
    changes, masses, empty = AnswerChanges(), list[float](), set[str]()
    with monitor.stopping.finishing():
        read = partial(_read_row, Reading.of(ask.choices), changes, masses)
        rows = (row for row in model.draws(items, ask) if row.item_id not in answered)
        # Rows of other items are only counted.
        draws: Iterator[Draws] = (
            row if store.item_no(row.item_id) is None else read(row) for row in rows
        )
        if model.estimator == "recorded":
            draws = _finding_empty(draws, empty)
        joined = store.add_draws(name, draws, model.estimator == "recorded")
    with store.transaction():
        n_empty = sum(store.item_no(item_id) is not None for item_id in empty)
        notes = _join_notes(store, name, joined, n_empty, ask.choices)
        session.add_notes(store, [*notes, *model.notes()])
        if changes.changed:
            session.add_notes(store, [f"{name}: {changes.note('words')}"])
        if model.estimator == "recorded":
            session.add_notes(store, _partial_notes(name, masses))
        if changes.texts or model.estimator != "recorded":
            session.add_notes(store, _whole_notes(store, name, ask.choices))
        store.set_meta(f"done {name}", True)


def _whole_notes(store: Store, name: str, choices: Choices) -> Iterator[str]:
    """Warn about answers that are kept whole, which texts cut to a word cannot match."""
    if choices.answers == "folded":
        answered = (item for item, _ in store.walk_system(name))
        yield from whole_answers_note(name, answered, choices)


def _finding_empty(rows: Iterable[Draws], empty: set[str]) -> Iterator[Draws]:
    """Yield the rows of a recording; `empty` gets the items whose rows hold no draw at all."""
    for row in rows:
        if row.counts or row.failed or row.texts or row.logprobs:
            empty.discard(row.item_id)
        elif not row.row:  # a further row leaves its item as the rows before it did
            empty.add(row.item_id)
        yield row


def _join_notes(
    store: Store, name: str, joined: Joined, n_empty: int, choices: Choices
) -> Iterator[str]:
    """Note the items without draws and the rows without items."""
    n_items = store.n_items
    missing = n_items - store.n_items_with_draws(name)
    if missing == n_items:
        model = store.systems()[name]["model"].rpartition("@")[0]
        problem = f"none of its {joined.unmatched} rows names an item of the corpus"
        raise UsageError(f"{model}: {problem}; check id, or passage and position.")
    if missing or n_empty:
        no_row = f"{missing} of {n_items} items have no row" if missing else ""
        no_draw = f"{n_empty} of {n_items} items have a row without any draw" if n_empty else ""
        yield f"{name}: {' and '.join(filter(None, (no_row, no_draw)))} and are left out"
    if joined.unmatched:
        part = " part of the" if str(options_of(Selection, store.manifest)) else ""
        yield f"{name}: {joined.unmatched} rows name no item of the{part} corpus and are left out"
    if joined.repeated:
        meaning = "further samples" if choices.repeats == "pool" else "items of their own"
        yield f"{name}: {joined.repeated} rows repeat an item and count as {meaning}"


def _read_row(reading: Reading, changes: AnswerChanges, masses: list[float], row: Draws) -> Draws:
    """Return a row with its words read; append the sum of the probabilities that it may have."""
    if row.logprobs:
        masses.append(math.fsum(map(math.exp, row.logprobs.values())))
    return next(read_draws([row], reading, changes))


def _save_first_tokens(store: Store, model: Any, choices: Choices) -> None:
    """Replace people's words by their first tokens, as a model tokenizes them."""
    is_read = choices.original == "raw" or is_code(choices.rule)
    read = str if is_read else rule_named(choices.rule)
    with store.transaction():
        store.replace_items(lambda items: model.with_first_tokens(items, read))
        store.set_meta(word_results.TOKENS, model.tokens_key)


def _conventions(job: WordJob) -> dict[str, str]:
    """Return how a live model's texts are sampled, for the signature."""
    rule, conventions = job.choices.rule, dict[str, str]()
    if job.estimator == "biased":
        conventions["support"] = f"{job.samples}+3x100"
    if rule != "corrected" and job.unit == "word":
        conventions["new_tokens"] = str(PAPER_TOKENS if rule == "paper" else OTHER_TOKENS)
    return conventions


def _check_tokens(job: WordJob) -> None:
    """Refuse what has no meaning for first tokens."""
    check_live("--unit token", job.models)
    if len(job.models) != 1:
        fix = "run each model apart, and use aleatoric compare"
        raise UsageError(f"--unit token takes one model, whose tokens it counts; {fix}.")
    if job.estimator != "exact":
        fix = f"leave out --estimator {job.estimator}"
        raise UsageError(f"--unit token reads exact next-token probabilities; {fix}.")
    if job.abstractions:
        raise UsageError(f"{job.abstractions[0]} is about words; leave out --unit token.")
    if job.engine != "local":
        raise UsageError(f"--unit token runs in one process; leave out --engine {job.engine}.")


def _check_estimator(job: WordJob) -> None:
    """Refuse word rules and decoders that the estimator of live models cannot follow."""
    rule = job.choices.rule
    check_rule_of(job.estimator, rule)
    if job.until is not None and is_code(rule):
        fix = "leave out --until"
        raise UsageError(f"the word rule {rule} reads texts after all are sampled; {fix}.")
    changed = [decoder for decoder in job.decoders if decoder != "ancestral"]
    if job.estimator == "biased" and changed:
        problem = f"--estimator biased has its own decoders, and {changed[0]} is none of them"
        raise UsageError(f"{problem}; leave out --decoder {changed[0]}.")


def _estimator_notes(store: Store) -> Iterator[str]:
    for name in model_systems(store):
        facts = store.systems()[name]
        if facts["estimator"] == "biased":
            yield (
                f"{name}: the estimator is biased (App. A): probabilities are renormalized over "
                "the words found by sampling, the original and people's words, which makes them "
                "too high there and 0 elsewhere; for unbiased numbers use exact or mc"
            )
        if tokens := facts.get("conventions", {}).get("new_tokens"):
            rule = store.manifest["choices"]["rule"]
            yield (
                f"{name}: the word rule {rule} reads sampled texts of up to {tokens} tokens; a "
                "word that is cut off there is kept"
            )
    if store.manifest["choices"].get("unit") == "token":
        yield (
            "answers are the first tokens of words: values depend on the model's tokenizer and "
            "cannot be compared with those of words or of other tokenizers"
        )


def _partial_notes(name: str, masses: Sequence[float]) -> Iterator[str]:
    """Say how much of the probability is missing from recorded log-probabilities."""
    partial = [mass for mass in masses if mass < WHOLE]
    if partial:
        share = sum(partial) / len(partial)
        yield (
            f"{name}: the recorded log-probabilities of {len(partial)} of {len(masses)} contexts "
            f"cover only part of the probability ({share:.0%} on average) and are scaled to sum to "
            "1, which changes every metric; record samples, or words that cover the probability"
        )


def word_study(name: str, cases: Sequence[Case], manifest: Mapping[str, Any]) -> Study:
    """Run a study of next words; the regression tags them in the language of the corpus."""
    run: Callable[..., Study] = registry.find("analyses", name)
    if name != "ard":
        return run(cases, manifest["seed"])
    language = manifest.get("language")
    chosen = manifest["tagger"] if "tvd_syn" in manifest["abstractions"] else None
    tagger = fitting_tagger(chosen, language)
    study = run(cases, manifest["seed"], _open("taggers", tagger))
    caveat = language_caveat(tagger, language)
    notes = () if caveat is None else (f"Caveat: {caveat}.",)
    tables = [replace(table, notes=(*table.notes, *notes)) for table in study.tables]
    return replace(study, tables=tuple(tables))


def _abstractions(manifest: Mapping[str, Any]) -> dict[str, Any]:
    abstractions: dict[str, Any] = {}
    for name in manifest["abstractions"]:
        check_choice("metric", name, ABSTRACTIONS)
        from aleatoric.levels import word_classes as classes

        if name == "tvd_syn":
            abstractions[name] = classes.by_tag(_open("taggers", manifest["tagger"]))
        else:
            embedder = _open("embedders", manifest["embedder"])
            abstractions[name] = classes.by_cluster(embedder, manifest["seed"])
    return abstractions


def _open(kind: str, spec: str) -> Any:
    name, _, argument = spec.partition(":")
    return registry.find(kind, name)(argument)


class NextWords(Level):
    """The part of the word level that fine-tuning shares: scoring, results, notes, studies."""

    name = "word"
    controls = CONTROLS
    leading = "overlap"
    compared = ("overlap", "sq_distance", "log_loss", "agreement_M", "tvd", "tvd_syn", "tvd_sem")
    compared_first = ("overlap", "sq_distance", "log_loss")
    studies = "analyses"
    note_parts = (
        *(session.lost_notes, session.saved_notes, _estimator_notes, _failed_notes),
        *(lambda store: session.unfinished_notes(store, model_systems(store)), _until_notes),
        *(_abstraction_notes, _rank_notes, word_results.tolerance_notes, word_results.person_notes),
    )

    def study(self, store: Store, name: str, system: str, track: Track[Any]) -> Study:
        """Run the study `name` on the contexts of one system."""
        registry.find(self.studies, name)  # refuse an unknown name before reading anything
        tracked_cases = track(cases(store, system), store.n_items, f"{name} of {system}")
        return word_study(name, list(tracked_cases), store.manifest)

    def pairs(
        self, store: Store, systems: Collection[str]
    ) -> Iterator[tuple[str, tuple[str, int], Pair]]:
        """Yield people's and a system's distribution per item, with system, item id and row."""
        choices = Choices(**store.manifest["choices"])
        for _, item, draws in store.walk():
            for system in systems:
                rows = draws.get(system, [])
                for row, pair in enumerate(pair_of(item, rows, choices) if rows else ()):
                    yield system, (item.id, row), pair

    def score(self, store: Store, monitor: Monitor) -> None:
        """Compute the statistics of every context and system."""
        score_word(store, monitor)

    def system_results(self, store: Store, system: str, interval: str) -> Iterator[Result]:
        """Compute the metrics of one system with intervals."""
        return word_results.system_results(store, system, interval)


class Word(NextWords):
    """Next words: people's answers to a context against a model's next-word distribution."""

    help = """Next words: does the model spread its probability as people do?

    Example: `aleatoric word --corpus answers.jsonl --model recorded:gpt2.jsonl --out runs/gpt2`
    """
    job_type = WordJob
    model_kinds = ("models", "language_models")
    packages = ("numpy", "scipy", "scikit-learn")

    def check(self, job: WordJob) -> None:
        """Refuse unknown models, and options that do not fit them."""
        super().check(job)
        check_until(job.target_error, job.models, job.estimator)
        check_runtime(job.runtime, job.models)
        if job.unit == "token":
            _check_tokens(job)
        elif any(map(is_live, job.models)):
            _check_estimator(job)

    def open(self, job: WordJob) -> Corpus:
        """Open the corpus of contexts with people's answers."""
        return open_corpus(job.corpus, job.encoding, job.table_options)

    def facts(self, job: WordJob, corpus: Corpus) -> dict[str, Any]:
        """Return the choices of the protocol, and the tools for the language of the corpus."""
        language = language_code(job.language) if job.language is not None else corpus.language
        has_tags = "tvd_syn" in job.abstractions
        tagger = {"tagger": fitting_tagger(job.tagger, language)} if has_tags else {}
        return {"choices": job.choices.as_dict(), "language": language, **tagger}

    def prepare(self, manifest: Mapping[str, Any], allowed_probes: Collection[str]) -> None:
        """Load taggers and embedders."""
        _abstractions(manifest)

    def save_items(self, store: Store, job: WordJob, corpus: Corpus, monitor: Monitor) -> None:
        """Save the contexts and people's answers, read as words."""
        read = monitor.track(corpus.items, len(corpus.items), f"read {corpus.name}")
        items = ReadItems(read, Reading.of(job.choices))
        store.add_items(items)
        session.add_notes(store, [*job.remarks, *corpus.notes, *items.notes()])

    def ask(
        self, store: Store, job: Any, spec: str, engine: Engine, corpus: Opening, monitor: Monitor
    ) -> None:
        """Save the next words of one model under every decoder."""
        model: Any = engine.word_model(spec, job.loading)
        if job.unit == "token":
            _save_first_tokens(store, model, job.choices)
        sampling = (job.samples, job.seed, job.tolerance, job.choices, job.target_error)
        about = {"estimator": model.estimator, "label": model.label}
        if is_live(spec) and (conventions := _conventions(job)):
            about["conventions"] = conventions
        for decoder, name in self.pending_systems(store, job, spec, model, about, monitor):
            _draw(store, name, model, Ask(decoder, *sampling), monitor)
