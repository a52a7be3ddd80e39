"""Where the stages of the token level meet: corpus -> logits -> sums -> results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.results import CalibrationResult, GroupedSums, pack, unpack
from aleatoric.calibration.schemes import EXPECTED, Scheme
from aleatoric.calibration.statistics import TokenTable, read_table, write_part
from aleatoric.calibration.stream import CalibrationStream
from aleatoric.data.opening import check_same, corpus_facts, open_token_corpus
from aleatoric.errors import DataError, UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.inference.estimate import bounded
from aleatoric.models.base import ForcedModel, Forcing
from aleatoric.models.checkpoints import contents_of
from aleatoric.models.forced import ForcedPart, chunks, parts
from aleatoric.registry import Advance, Meter, unmetered, versions
from aleatoric.runs import COMPLETE, Store, TokenSums
from aleatoric.runs.disk import command
from aleatoric.runs.engine import EngineOptions, check_one_process, check_specs, open_forced
from aleatoric.runs.formats import DamagedRowError
from aleatoric.runs.session import Stopping, check_version, working
from aleatoric.types import Collected, ParallelText, Perfect, Result, Results, Signature, TextCorpus

BATCHES_A_PART = 8
"""So many batches are scored between two saves: what a killed run loses at most."""
METRICS = (
    *("ece", "mce", "sce", "ace", "e_ece", "e_ece_p", "e_ece_k", "brier", "nll"),
    *("sce_predicted", "ace_predicted", "sce_weighted", "ace_weighted"),
    *("ece_mass", "ece_debiased", "ece_sweep", "ece_smooth"),
    *("agreement_M", "agreement_C", "entropy", "accuracy", "vocabulary_unseen"),
)
"""The order in which metrics are given; those of other schemes follow."""
_PACKAGES = ("numpy", "scipy", "torch", "transformers", "tokenizers")


@dataclass(frozen=True)
class TokenJob:
    """A token-level run: what `aleatoric token` was asked for."""

    corpus: str
    models: tuple[str, ...]
    schemes: tuple[str, ...] = ()
    """Beside those of e_ece, e_ece_p and e_ece_k."""
    bins: int = 15
    classwise: str = "all"
    forcing: Forcing = field(default_factory=Forcing)
    batch_tokens: int = 2048
    keep_rows: bool = False
    documents: str = "blank-lines"
    seed: int = 0
    encoding: str = "utf-8"
    engine: EngineOptions = field(default_factory=EngineOptions)

    @property
    def all_schemes(self) -> tuple[str, ...]:
        """Every scheme once, the paper's first."""
        asked = [str(Scheme.parse(scheme)) for scheme in self.schemes]
        return tuple(dict.fromkeys([*map(str, EXPECTED), *asked]))


def run_token(
    job: TokenJob, out: Path, meter: Meter = unmetered, stopping: Stopping | None = None
) -> Store:
    """Read a corpus with every model and save the sums; returns the open run.

    A run that was stopped goes on after the last part that it saved. Where the input is bad,
    nothing of the run stays behind.
    """
    if not job.models:
        raise UsageError("give a model to read the corpus, as --model smollm2.")
    check_specs(job.models, "forced_models")
    check_one_process(job.engine, "token")
    corpus = open_token_corpus(job.corpus, job.encoding, job.documents)
    n_items = len(corpus.items)  # reads it all: a bad line shows before anything is written
    store = Store.continue_or_create(out, _manifest(job, corpus))
    return _worked(store, job, corpus, n_items, meter, stopping or Stopping())


def resume_token(store: Store, job: TokenJob, meter: Meter, stopping: Stopping) -> Store:
    """Go on with a run opened to be written; its corpus must be what it was."""
    check_specs(job.models, "forced_models")
    check_one_process(job.engine, "token")
    corpus = open_token_corpus(job.corpus, job.encoding, job.documents)
    check_same(corpus, store.manifest["corpus"])
    return _worked(store, job, corpus, len(corpus.items), meter, stopping)


def _worked(
    store: Store,
    job: TokenJob,
    corpus: TextCorpus | ParallelText,
    n_items: int,
    meter: Meter,
    stopping: Stopping,
) -> Store:
    with working(store, lambda made: bool(systems(made))):
        for spec in store.unfinished(job.models):
            stopping.check()
            _read(store, job, spec, corpus, n_items, meter, stopping)
            store.set_finished(spec)
        store.set_meta(COMPLETE, True)
    return store


def results(
    store: Store, interval: str = DEFAULT_METHOD, asked: Collection[str] | None = None
) -> Results:
    """The metrics of all systems, or of those asked for, with intervals, from the saved sums."""
    check_method(interval)
    named = [name for name in systems(store) if asked is None or name in asked]
    return Results(r for name in named for r in _system_results(store, name, interval))


def systems(store: Store) -> list[str]:
    """The models that have read anything."""
    return [name for name in store.systems() if store.tokens_read(name)]


def calibration(store: Store, system: str, interval: str = DEFAULT_METHOD) -> CalibrationResult:
    """All of a system's estimates and curves."""
    return _restored(store, system).result(interval)


def grouped(store: Store, system: str) -> GroupedSums:
    """A system's sums by document, to be paired with those of another."""
    return _restored(store, system).grouped()


def _restored(store: Store, system: str) -> CalibrationStream:
    sums = store.token_sums(system)
    if sums is None:
        raise UsageError(f"{store.path}: {system} has read nothing; repeat the command.")
    stream = _stream(store.manifest, store.systems()[system]["vocabulary"])
    _restore(stream, sums)
    return stream


def _restore(stream: CalibrationStream, sums: TokenSums) -> None:
    try:
        stream.restore(unpack(sums.payload))
    except (KeyError, ValueError, TypeError, OSError, BadZipFile) as error:
        raise DamagedRowError(str(error)) from None


def token_table(store: Store, system: str) -> TokenTable:
    """A system's rows, where they were kept.

    Another system that has read the very same tokens lends its entropy as the language's own
    uncertainty; without one, the system's own entropy stands for it.
    """
    table = read_table(store.token_rows_folder(system), system)
    for name in systems(store):
        if name == system or store.systems()[name]["reads"] != store.systems()[system]["reads"]:
            continue
        other = read_table(store.token_rows_folder(name), name)
        if np.array_equal(other.target, table.target):
            return replace(table, uncertainty=other.uncertainty, uncertainty_of=name)
    return table


def notes(store: Store) -> list[str]:
    """What a reader of the numbers should know."""
    found: list[str] = []
    for name in systems(store):
        sums = store.token_sums(name)
        if sums is not None and sums.unscored:
            found.append(
                f"{name}: {sums.unscored} of {sums.items} items are one token long, have nothing "
                "to be predicted from, and are left out"
            )
        if not store.meta(f"done {name}"):
            found.append(f"{name}: is not finished; continue it with {command(store.path)}")
    return found


def _read(
    store: Store,
    job: TokenJob,
    spec: str,
    corpus: TextCorpus | ParallelText,
    n_items: int,
    meter: Meter,
    stopping: Stopping,
) -> None:
    """Read what is left of the corpus with one model, part by part."""
    name = _name_of(store, spec)
    if name is not None and store.meta(f"done {name}"):
        return
    model = open_forced(spec, job.forcing)
    check_version(store, spec, model.version)
    _check_kind(model, corpus)
    name = name or _add_system(store, spec, model)
    done = store.token_sums(name) or TokenSums(0, 0, 0, b"")
    with meter(name, n_items) as advance:
        advance(done.items, 0)
        left = islice(corpus.items, done.items, None)
        done = _read_parts(store, name, model, left, done, job.batch_tokens, advance, stopping)
    if not done.tokens:
        raise DataError(f"{corpus.name}: no document is longer than a token; give longer texts.")
    store.set_meta(f"done {name}", True)


def _read_parts(
    store: Store,
    name: str,
    model: ForcedModel,
    items: Iterable[Any],
    done: TokenSums,
    batch_tokens: int,
    advance: Advance,
    stopping: Stopping,
) -> TokenSums:
    """Score items after those done, and save after each part.

    A stop waits for the end of a part: the parts of a run that went on must be those of one that
    was never stopped, since sums of floating-point numbers depend on their order.
    """
    stream = _stream(store.manifest, model.vocabulary_size)
    if done.items:
        _restore(stream, done)
    for part in parts(model, items, BATCHES_A_PART * batch_tokens):
        with stopping.finishing():
            positions = _score(stream, model, part, batch_tokens, advance)
            _keep_rows(store, name, stream, positions, done.items)
            done = _save(store, name, stream, done, part)
            advance(part.n_items, 0)
    return done


def _score(
    stream: CalibrationStream,
    model: ForcedModel,
    part: ForcedPart,
    batch_tokens: int,
    advance: Advance,
) -> NDArray[np.int64]:
    """Feed a part to the stream; where each of its tokens stands in its document."""
    positions = [np.zeros(0, dtype=np.int64)]
    for chunk in chunks(model, part.strips, batch_tokens):
        stream.update(chunk.logits, chunk.targets, chunk.groups)
        positions.append(chunk.positions)
        advance(0, len(chunk.positions))
    return np.concatenate(positions)


def _keep_rows(
    store: Store,
    name: str,
    stream: CalibrationStream,
    positions: NDArray[np.int64],
    first_item: int,
) -> None:
    """Write the rows of a part; named by its first item, so that a repeated part replaces them."""
    kept = stream.take_rows()
    if kept is not None:
        path = store.token_rows_folder(name) / f"{first_item:012}.parquet"
        write_part(path, *kept, positions)


def _save(
    store: Store, name: str, stream: CalibrationStream, done: TokenSums, part: ForcedPart
) -> TokenSums:
    sums = TokenSums(
        done.items + part.n_items,
        done.unscored + part.n_unscored,
        stream.n_tokens,
        pack(stream.save()),
    )
    store.save_token_sums(name, sums)
    return sums


def _name_of(store: Store, spec: str) -> str | None:
    """The name that a model has in the run already."""
    known = store.systems().items()
    return next((name for name, facts in known if facts["spec"] == spec), None)


def _add_system(store: Store, spec: str, model: ForcedModel) -> str:
    name = model.label if model.label not in store.systems() else spec
    facts: dict[str, Any] = {"spec": spec, "model": f"{spec}@{model.version}", "reads": model.reads}
    facts |= {"vocabulary": model.vocabulary_size, "conventions": dict(model.conventions)}
    store.add_system(name, facts)
    return name


def _check_kind(model: ForcedModel, corpus: Collected[Any]) -> None:
    if model.reads == "pairs" and isinstance(corpus, TextCorpus):
        raise UsageError(
            f"{model.label} translates: it needs parallel text; give "
            "--corpus parallel:SOURCE,TARGET."
        )
    if model.reads == "text" and isinstance(corpus, ParallelText):
        raise UsageError(
            f"{model.label} is no translation model: it reads plain text; give --corpus FILE."
        )


def _stream(manifest: Mapping[str, Any], vocabulary: int) -> CalibrationStream:
    return CalibrationStream(
        vocabulary_size=vocabulary,
        units="logits",
        schemes=manifest["schemes"],
        bins=manifest["bins"],
        classwise=manifest["classwise"],
        keep_rows=manifest["keep_rows"],
        seed=manifest["seed"],
    )


def _manifest(job: TokenJob, corpus: Collected[Any]) -> dict[str, Any]:
    forcing = job.forcing
    return {
        "level": "token",
        "corpus": corpus_facts(corpus, job.corpus, job.encoding),
        "models": list(job.models),
        "contents": contents_of(job.models),
        "schemes": list(job.all_schemes),
        "bins": job.bins,
        "classwise": job.classwise,
        "keep_rows": job.keep_rows,
        "documents": job.documents,
        "batch_tokens": job.batch_tokens,
        "device": forcing.device,
        "dtype": forcing.dtype,
        "bos": forcing.bos,
        "window": forcing.window,
        "stride": forcing.stride,
        "seed": job.seed,
        "versions": versions(_PACKAGES),
    }


def _system_results(store: Store, system: str, interval: str) -> Iterator[Result]:
    found = calibration(store, system, interval)
    ordered = [name for name in METRICS if name in found.estimates]
    others = [name for name in found.estimates if name not in METRICS]
    for metric in (*ordered, *others):
        signature = _signature(store, system, metric, found.n_tokens)
        perfect = _perfect(found.consistency[metric].expected) if metric in found.curves else None
        own = bounded(found.estimates[metric], metric)
        yield Result(system, metric, signature, own, perfect)


def _perfect(expected: float) -> Perfect:
    """The error of a calibrated model with these confidences: few tokens alone make one."""
    return Perfect(expected, expected, "reference tokens drawn from the model itself")


def _signature(store: Store, system: str, metric: str, n_tokens: int) -> Signature:
    manifest, facts = store.manifest, store.systems()[system]
    decoder, estimator = _form(metric, manifest["schemes"])
    choices = facts["conventions"] | {"bins": str(manifest["bins"]), "closed": "at-1"}
    if facts["reads"] == "text":
        choices["documents"] = manifest["documents"]
    return Signature(
        manifest["corpus"]["name"],
        manifest["corpus"]["sha256"],
        facts["model"],
        decoder,
        estimator,
        choices,
        str(n_tokens),
        manifest["seed"],
        metric,
        manifest["versions"]["aleatoric"],
    )


def _form(metric: str, schemes: Iterable[str]) -> tuple[str, str]:
    """The decoder of a metric, and over what its expectation is taken."""
    for scheme in map(Scheme.parse, schemes):
        if scheme.metric == metric:
            form = f"{scheme.samples}-samples" if scheme.samples else "whole-space"
            return str(scheme.decoder), form
    return "none", "teacher-forced"
