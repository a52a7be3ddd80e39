"""The token level: is a model's teacher-forced distribution calibrated?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from aleatoric import registry
from aleatoric.calibration.results import CalibrationResult, GroupedSums
from aleatoric.calibration.statistics import (
    EXPECTED,
    PLAIN,
    REASON,
    Scheme,
    TokenTable,
    known_schemes,
    part_files,
    partial_columns,
    read_table,
    unknown_metrics,
    write_part,
)
from aleatoric.calibration.stream import CalibrationStream, pack, unpack
from aleatoric.data.opening import open_token_corpus
from aleatoric.data.selection import options_of
from aleatoric.errors import DataError, UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.levels.base import Level, Monitor, Opening
from aleatoric.models.base import SOURCE, ForcedModel, Forcing, Strip
from aleatoric.models.forced import chunks, parts
from aleatoric.models.recorded_tokens import RecordedForced
from aleatoric.registry import Track
from aleatoric.result_types import Result, Study
from aleatoric.runs import session
from aleatoric.runs.engine import Engine, open_forced
from aleatoric.runs.formats import DamagedRowError
from aleatoric.runs.job import Job, option
from aleatoric.runs.run import Store, signature
from aleatoric.runs.tables import TokenSums
from aleatoric.types import (
    Collected,
    Estimate,
    Ints,
    ParallelText,
    Perfect,
    Signature,
    TextCorpus,
)

BATCHES_PER_PART = 8
"""Batches between two saves: the most that a killed run loses."""
METRICS = (
    *("ece", "mce", "sce", "ace", "e_ece", "e_ece_p", "e_ece_k", "brier", "nll"),
    *("sce_predicted", "ace_predicted", "sce_weighted", "ace_weighted"),
    *("ece_mass", "ece_debiased", "ece_sweep", "ece_smooth"),
    *("agreement_M", "agreement_C", "entropy", "accuracy", "vocabulary_unseen"),
)
"""Display order of metrics; those of other schemes follow."""


@dataclass(frozen=True)
class TokenJob(Job):
    """The options of `aleatoric token`."""

    command = "token"

    corpus: str = option(help="A text file (.txt, .jsonl; .gz), or parallel:SOURCE,TARGET.")
    models: tuple[str, ...] = option(
        (), "smollm2, hf:NAME, recorded:FILE; repeatable.", flag="--model"
    )
    schemes: tuple[str, ...] = option(
        (),
        "One more e-ECE, such as temperature=0.5 or ancestral,samples=1; repeatable.",
        flag="--scheme",
    )
    bins: int = option(15, "Number of confidence bins.", low=1, high=1000)
    classwise: str = option("all", "SCE and ACE: all (slower), predicted or none.")
    window: int | None = option(
        None, "Tokens read at once; by default 1024, or the model's maximum.", low=2
    )
    stride: int | None = option(
        None, "Tokens from one window to the next; by default half a window.", low=1
    )
    documents: str = option(
        "blank-lines", "What a document is in plain text: blank-lines, lines or file."
    )
    template: str = option(
        SOURCE,
        "What an encoder reads, such as 'translate English to German: {source}'.",
        live=True,
    )
    source_language: str | None = option(
        None, "Source language of a translation model, such as eng_Latn (NLLB).", live=True
    )
    target_language: str | None = option(
        None, "Target language of a translation model, such as deu_Latn (NLLB).", live=True
    )
    batch_tokens: int = option(
        2048, "Tokens per batch, padding included.", low=1, high=10**7, fixed=False
    )
    keep_rows: bool = option(False, "Save one row per token, for studies.")

    @property
    def forcing(self) -> Forcing:
        """Options for loading models and reading the reference."""
        return options_of(Forcing, vars(self))


def systems(store: Store) -> list[str]:
    """Return the models that have read at least one token."""
    return [name for name in store.systems() if store.tokens_read(name)]


def calibration(store: Store, system: str, interval: str = DEFAULT_METHOD) -> CalibrationResult:
    """Compute all estimates and curves of a system."""
    result = _restored(store, system).result(interval)
    unknown = Estimate(None, None, 0, 0, n_undefined=result.n_tokens, reason=REASON)
    undefined = dict.fromkeys(_undefined(store, system), unknown)
    return replace(
        result,
        estimates={**result.estimates, **undefined},
        curves=_without(result.curves, undefined),
        consistency=_without(result.consistency, undefined),
    )


def _without(part: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in names}


def _undefined(store: Store, system: str) -> list[str]:
    """Return the metrics that recorded rows of a system do not determine."""
    return list(store.systems()[system].get("undefined", ()))


def _restored(store: Store, system: str) -> CalibrationStream:
    sums = store.token_sums(system)
    if sums is None:
        raise UsageError(f"{store.path}: {system} has read nothing; repeat the command.")
    return _stream(store, system, sums)


def token_table(store: Store, system: str) -> TokenTable:
    """Return the saved rows of a system.

    Intrinsic uncertainty is the entropy of another system that read the same tokens, else its own.
    """
    table = read_table(store.token_rows_folder(system), system)
    for name in systems(store):
        if name == system or store.systems()[name]["reads"] != store.systems()[system]["reads"]:
            continue
        other = read_table(store.token_rows_folder(name), name)
        if np.array_equal(other.target, table.target):
            return replace(table, uncertainty=other.uncertainty, uncertainty_of=name)
    return table


def _read(
    store: Store, name: str, model: ForcedModel, items: Any, batch_tokens: int, monitor: Monitor
) -> TokenSums:
    """Score the remaining items, and save after each part.

    A stop waits for the end of a part: sums of floating-point numbers depend on their order.
    """
    done = store.token_sums(name) or TokenSums(0, 0, 0, b"")
    stream = _stream(store, name, done if done.items else None)
    pending = parts(model, islice(items, done.items, None), BATCHES_PER_PART * batch_tokens)
    with monitor.meter(name, len(items)) as advance:
        advance(done.items, 0)
        for part in pending:
            with monitor.stopping.finishing():
                positions = [np.zeros(0, dtype=np.int64)]
                for batch_positions in _update(stream, model, part.strips, batch_tokens):
                    positions.append(batch_positions)
                    advance(0, len(batch_positions))
                if (rows := stream.take_rows()) is not None:
                    # Named by its first item, so that a repeated part replaces the file.
                    path = store.token_rows_folder(name) / f"{done.items:012}.parquet"
                    write_part(path, *rows, np.concatenate(positions))
                counts = (done.items + part.n_items, done.unscored + part.n_unscored)
                done = TokenSums(*counts, stream.n_tokens, pack(stream.save()))
                store.save_token_sums(name, done)
                advance(part.n_items, 0)
    return done


def _update(
    stream: CalibrationStream, model: ForcedModel, strips: Sequence[Strip], batch_tokens: int
) -> Iterator[Ints]:
    """Add the scored tokens of strips to a stream; yield the positions of each batch."""
    if isinstance(model, RecordedForced) and model.tops:
        for strip in strips:
            rows = [model.tops[row] for row in strip.given]
            columns = partial_columns(rows, strip.wanted, stream.schemes)
            stream.add_rows(columns, [strip.group] * len(rows))
            yield strip.offset + np.arange(len(rows))
        return
    for chunk in chunks(model, strips, batch_tokens):
        stream.update(chunk.logits, chunk.targets, chunk.groups)
        yield chunk.positions


def _add_system(store: Store, spec: str, model: ForcedModel) -> str:
    label = session.label_of(model.label, spec, store.manifest["models"], ())
    name = label if label not in store.systems() else spec
    facts: dict[str, Any] = {"spec": spec, "model": f"{spec}@{model.version}", "reads": model.reads}
    facts |= {"vocabulary": model.vocabulary_size, "conventions": dict(model.conventions)}
    if isinstance(model, RecordedForced) and model.tops:
        schemes, classwise = (store.manifest[option] for option in ("schemes", "classwise"))
        parsed = [Scheme.parse(scheme) for scheme in schemes]
        known = known_schemes(parsed, model.tops)
        facts["schemes"] = [str(s) for s in parsed if s in known or str(s) == PLAIN]
        facts["classwise"] = "predicted" if classwise == "all" else classwise
        facts["undefined"] = unknown_metrics(parsed, known, classwise)
    store.add_system(name, facts)
    return name


def _check_kind(model: ForcedModel, corpus: Collected[Any]) -> None:
    if model.reads == "pairs" and isinstance(corpus, TextCorpus):
        problem, fix = "translates: it needs parallel text", "parallel:SOURCE,TARGET"
    elif model.reads == "text" and isinstance(corpus, ParallelText):
        problem, fix = "is no translation model: it reads plain text", "FILE"
    else:
        return
    raise UsageError(f"{model.label} {problem}; give --corpus {fix}.")


def _stream(store: Store, system: str, sums: TokenSums | None) -> CalibrationStream:
    """Return a stream of a system that continues from saved sums, if there are any."""
    facts, names = store.systems()[system], ("schemes", "bins", "classwise", "keep_rows", "seed")
    options = {name: facts.get(name, store.manifest[name]) for name in names}
    stream = CalibrationStream(vocabulary_size=facts["vocabulary"], units="logits", **options)
    if sums is not None:
        try:
            stream.restore(unpack(sums.payload))
        except (KeyError, ValueError, TypeError, OSError, BadZipFile) as error:
            raise DamagedRowError(str(error)) from None
    return stream


def _signature(store: Store, system: str, metric: str, n_tokens: int) -> Signature:
    manifest, facts = store.manifest, store.systems()[system]
    choices = facts["conventions"] | {"bins": str(manifest["bins"]), "closed": "at-1"}
    if facts["reads"] == "text":
        choices["documents"] = manifest["documents"]
    decoding = _decoder(metric, manifest["schemes"])
    return signature(store, system, metric, choices, str(n_tokens), *decoding)


def _decoder(metric: str, schemes: Iterable[str]) -> tuple[str, str]:
    for scheme in map(Scheme.parse, schemes):
        if scheme.metric == metric:
            form = f"{scheme.samples}-samples" if scheme.samples else "whole-space"
            return str(scheme.decoder), form
    return "none", "teacher-forced"


def _notes(store: Store) -> Iterator[str]:
    """Note undefined metrics, documents without a token to predict, and unfinished systems."""
    names = systems(store)
    for name in names:
        if undefined := _undefined(store, name):
            yield f"{name}: {', '.join(undefined)}: {REASON}"
    for name in names:
        sums = store.token_sums(name)
        if sums is not None and sums.unscored:
            yield (
                f"{name}: {sums.unscored} of {sums.items} items are one token long, have nothing "
                "to be predicted from, and are left out"
            )
    yield from session.unfinished_notes(store, names)


class Token(Level):
    """Reference tokens: a model's teacher-forced distribution and the token that follows."""

    name = "token"
    help = """Reference tokens: is the model's distribution calibrated?

    Example: `aleatoric token --corpus story.txt --model smollm2 --out runs/story`
    """
    job_type = TokenJob
    model_kinds = ("forced_models",)
    leading = "ece"
    compared = ("ece", "sce", "ace", "e_ece*", "sce_*", "ace_*")
    compared_first = ("e_ece", "ece", "nll")
    note_parts = (session.saved_notes, _notes)
    one_process = (
        "the token level works in one process, since its sums are added up in the order of the "
        "corpus; leave out --engine, or run each --model on its own machine."
    )
    packages = ("numpy", "scipy", "torch", "transformers", "tokenizers")

    def check(self, job: TokenJob) -> None:
        """Refuse a job without a model, and one that would be spread over a cluster."""
        if not job.models:
            raise UsageError("give a model to read the corpus, as --model smollm2.")
        super().check(job)

    def open(self, job: TokenJob) -> TextCorpus | ParallelText:
        """Open the documents or sentence pairs."""
        corpus = open_token_corpus(job.corpus, job.encoding, job.documents, job.table_options)
        len(corpus.items)  # reads everything once, to find bad lines early
        return corpus

    def facts(self, job: TokenJob, corpus: Any) -> dict[str, Any]:
        """Return all schemes of e-ECE, the paper's first."""
        schemes = [*EXPECTED, *map(Scheme.parse, job.schemes)]
        return {"schemes": list(dict.fromkeys(map(str, schemes)))}

    def save_items(self, store: Store, job: TokenJob, corpus: Any, monitor: Monitor) -> None:
        """Save notes only: documents are read from the corpus when needed."""
        session.add_notes(store, corpus.notes)

    def ask(
        self, store: Store, job: Any, spec: str, engine: Engine, corpus: Opening, monitor: Monitor
    ) -> None:
        """Read the rest of the corpus with one model, and save the sums of each part."""
        saved_systems = store.systems().items()
        name = next((name for name, facts in saved_systems if facts["spec"] == spec), None)
        if name is not None and store.meta(f"done {name}"):
            return
        model, opened = open_forced(spec, job.forcing), corpus()
        session.check_version(store, spec, model.version)
        _check_kind(model, opened)
        name = name or _add_system(store, spec, model)
        if not _read(store, name, model, opened.items, job.batch_tokens, monitor).tokens:
            problem = "no document is longer than a token"
            raise DataError(f"{opened.name}: {problem}; give longer texts.")
        if isinstance(model, RecordedForced):
            session.add_notes(store, model.unused_notes({item.id for item in opened.items}))
        store.set_meta(f"done {name}", True)

    def holds_work(self, store: Store) -> bool:
        """Whether a model has read anything."""
        return bool(systems(store))

    def intact(self, store: Store, n_items: int) -> Iterator[str]:
        """Yield how many models' sums were salvaged."""
        n_intact = sum(store.token_sums(name) is not None for name in store.systems())
        yield f"the sums of {n_intact} of {len(store.systems())} models are intact"

    def score(self, store: Store, monitor: Monitor) -> None:
        """Compute nothing: the saved sums are the statistics."""

    has_statistics = holds_work

    def system_results(self, store: Store, system: str, interval: str) -> Iterator[Result]:
        """Compute calibration errors with intervals from the saved sums."""
        result = calibration(store, system, interval)
        ordered = [name for name in METRICS if name in result.estimates]
        others = [name for name in result.estimates if name not in METRICS]
        for metric in (*ordered, *others):
            signed, perfect = _signature(store, system, metric, result.n_tokens), None
            if metric in result.consistency:
                # The error of a calibrated model with these confidences, due to few tokens alone.
                expected = result.consistency[metric].expected
                method = "reference tokens drawn from the model itself"
                perfect = Perfect(expected, expected, method)
            yield Result(system, metric, signed, result.estimates[metric], perfect)

    def model_systems(self, store: Store) -> list[str]:
        """Return the models that have read anything."""
        return systems(store)

    studies = "token_analyses"

    def study(self, store: Store, name: str, system: str, track: Track[Any]) -> Study:
        """Run the study `name` on the saved rows of one system."""
        run: Callable[..., Study] = registry.find(self.studies, name)
        if "e_ece" in _undefined(store, system):
            raise UsageError(f"{system}: the study {name} needs e_ece, which is {REASON}.")
        manifest = store.manifest
        return run(token_table(store, system), manifest["seed"], manifest["bins"])

    def group_sums(self, store: Store, system: str) -> GroupedSums:
        """Return the sums of one system per document."""
        sums, undefined = _restored(store, system).grouped(), _undefined(store, system)
        return sums._replace(metrics=_without(sums.metrics, undefined))

    def row_files(self, store: Store) -> list[tuple[str, Path]]:
        """Return the files of rows per token."""
        folders = [(name, store.token_rows_folder(name)) for name in systems(store)]
        files = [(name, file) for name, folder in folders for file in part_files(folder)]
        if not files:
            raise UsageError(f"{store.path}: has no rows per token; run it with --keep-rows.")
        return files
