"""A run that was stopped, or died, goes on: all it needs to know is in its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aleatoric.errors import UsageError
from aleatoric.levels import text, token, word
from aleatoric.levels.base import FINETUNE
from aleatoric.models.base import Forcing, Writing
from aleatoric.models.checkpoints import check_contents
from aleatoric.models.openai import check_receivers
from aleatoric.probes.base import check_known, check_said_rule
from aleatoric.registry import Meter, Track, quietly, unmetered
from aleatoric.runs import COMPLETE, Store
from aleatoric.runs.disk import told
from aleatoric.runs.engine import LOCAL, EngineOptions, Loading, check_engine, check_one_process
from aleatoric.runs.formats import DamagedRowError
from aleatoric.runs.session import Stopping
from aleatoric.tuning import FinetuneJob, run_finetune
from aleatoric.tuning import job_of as finetune_job_of
from aleatoric.types import Choices


@dataclass(frozen=True)
class Anew:
    """What may be said anew when a run goes on; `None` leaves it as it was.

    Whether code of a model's repository may run is never saved; `probes` and a `word_rule` that
    are code run, and hosts are sent a key (`key_for`), only where they are named here: a run may
    come from others.
    """

    device: str | None = None
    batch_tokens: int | None = None
    trust_remote_code: bool = False
    engine: EngineOptions = field(default_factory=EngineOptions)
    probes: tuple[str, ...] = ()
    key_for: tuple[str, ...] = ()
    word_rule: str | None = None


def resume(
    path: Path,
    anew: Anew | None = None,
    track: Track[Any] = quietly,
    meter: Meter = unmetered,
    stopping: Stopping | None = None,
) -> Store:
    """Go on with the run in `path` until all that was asked for is done; returns the open run."""
    store = Store.resume(path)
    try:
        with told(path):
            return _resumed(store, anew or Anew(), track, meter, stopping or Stopping())
    except BaseException:
        store.close()
        raise


def _resumed(
    store: Store, anew: Anew, track: Track[Any], meter: Meter, stopping: Stopping
) -> Store:
    path = store.path
    check_anew(store.manifest, anew)
    if store.meta(COMPLETE):
        store.release()
        return store
    check_said_rule(_rule_of(store.manifest), anew.word_rule, str(path))
    models = store.unfinished(store.manifest.get("models") or ())
    check_receivers(models, anew.key_for, str(path))
    check_contents(store.manifest.get("contents") or {}, models)
    job: Any = job_of(store.manifest, anew)
    if _is_finetuning(store.manifest):
        store.close()  # training opens its run itself
        return run_finetune(job, path, track, stopping=stopping)
    if store.manifest["level"] == "token":
        return token.resume_token(store, job, meter, stopping)
    if store.manifest["level"] == "text":
        return text.resume_text(store, job, anew.probes, track, stopping)
    return word.resume_word(store, job, track, stopping)


def check_anew(manifest: Mapping[str, Any], anew: Anew) -> None:
    """Refuse what cannot be said anew of a run of this kind, whether it is finished or not.

    >>> check_anew({"level": "token"}, Anew(batch_tokens=64))
    """
    level = FINETUNE if _is_finetuning(manifest) else manifest["level"]
    if anew.batch_tokens is not None and level != "token":
        raise UsageError(
            f"--batch-tokens is for runs of the token level, and this is one of {level}; "
            "leave it out."
        )
    check_known(anew.probes, manifest.get("probes") or ())
    if anew.word_rule is not None and anew.word_rule != _rule_of(manifest):
        raise UsageError(f"--word-rule {anew.word_rule} is not the run's; leave it out.")
    check_engine(anew.engine)
    if level == FINETUNE and anew.engine.name != LOCAL:
        raise UsageError("fine-tuning works in one process; leave out --engine.")
    if level == "token":
        check_one_process(anew.engine, level)


def _rule_of(manifest: Mapping[str, Any]) -> str | None:
    """The word rule of a run of the word level."""
    rule: str | None = manifest.get("choices", {}).get("rule")
    return rule


def _is_finetuning(manifest: Mapping[str, Any]) -> bool:
    return bool(manifest.get("command") == FINETUNE)


Job = word.WordJob | text.TextJob | token.TokenJob | FinetuneJob


def job_of(manifest: Mapping[str, Any], anew: Anew) -> Job:
    """What a run was asked for, by its command and level."""
    try:
        return _job_of(manifest, anew)
    except (KeyError, TypeError, ValueError) as error:  # options of no version of this package
        raise DamagedRowError(str(error)) from None


def _job_of(manifest: Mapping[str, Any], anew: Anew) -> Job:
    if _is_finetuning(manifest):
        return finetune_job_of(manifest, anew.device, anew.trust_remote_code)
    if manifest["level"] == "token":
        return _token_job(manifest, anew)
    if manifest["level"] == "text":
        return _text_job(manifest, anew)
    return _word_job(manifest, anew)


def _word_job(manifest: Mapping[str, Any], anew: Anew) -> word.WordJob:
    return word.WordJob(
        corpus=manifest["corpus"]["spec"],
        models=tuple(manifest["models"]),
        decoders=tuple(manifest["decoders"]),
        samples=manifest["samples"],
        loading=_loading(manifest, anew, manifest["estimator"]),
        tolerance=manifest["tolerance"],
        choices=Choices.saved(manifest["choices"]),
        abstractions=tuple(manifest["abstractions"]),
        tagger=manifest["tagger"],
        embedder=manifest["embedder"],
        n_splits=manifest["n_splits"],
        seed=manifest["seed"],
        encoding=manifest["corpus"]["encoding"],
        until=manifest.get("until"),
        remarks=tuple(manifest["remarks"]),
        engine=anew.engine,
        language=manifest.get("language"),
    )


def _text_job(manifest: Mapping[str, Any], anew: Anew) -> text.TextJob:
    writing = manifest["writing"]
    return text.TextJob(
        corpus=manifest["corpus"]["spec"],
        models=tuple(manifest["models"]),
        decoders=tuple(manifest["decoders"]),
        writing=Writing(**writing | {"stop": tuple(writing["stop"])}),
        loading=_loading(manifest, anew),
        protocol=manifest["protocol"],
        probes=tuple(manifest["probes"]),
        tokeniser=manifest["tokeniser"],
        tagger=manifest["tagger"],
        encoder=manifest["encoder"],
        max_length=manifest.get("max_length", 0),
        n_splits=manifest["n_splits"],
        seed=manifest["seed"],
        encoding=manifest["corpus"]["encoding"],
        limit=manifest["limit"],
        engine=anew.engine,
    )


def _token_job(manifest: Mapping[str, Any], anew: Anew) -> token.TokenJob:
    return token.TokenJob(
        corpus=manifest["corpus"]["spec"],
        models=tuple(manifest["models"]),
        schemes=tuple(manifest["schemes"]),
        bins=manifest["bins"],
        classwise=manifest["classwise"],
        forcing=Forcing(
            dtype=manifest["dtype"],
            device=anew.device or manifest["device"],
            bos=manifest["bos"],
            trust_remote_code=anew.trust_remote_code,
            window=manifest["window"],
            stride=manifest["stride"],
        ),
        batch_tokens=anew.batch_tokens or manifest["batch_tokens"],
        keep_rows=manifest["keep_rows"],
        documents=manifest["documents"],
        seed=manifest["seed"],
        encoding=manifest["corpus"]["encoding"],
        engine=anew.engine,
    )


def _loading(manifest: Mapping[str, Any], anew: Anew, estimator: str = "exact") -> Loading:
    return Loading(
        estimator=estimator,
        dtype=manifest["dtype"],
        device=anew.device or manifest["device"],
        bos=manifest["bos"],
        trust_remote_code=anew.trust_remote_code,
    )
