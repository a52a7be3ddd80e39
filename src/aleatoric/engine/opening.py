"""From what a user wrote after --model to a source of words or texts, or a reader of references."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.models.base import ForcedModel, Forcing, LoadOptions, TextModel, WordModel
from aleatoric.models.checkpoints import OF_FILES

ESTIMATORS = ("exact", "mc")


@dataclass(frozen=True)
class Loading:
    """How live models are loaded and asked."""

    estimator: str = "exact"
    dtype: str = "float32"
    device: str | None = None
    bos: str = "auto"
    trust_remote_code: bool = False


def open_model(spec: str, loading: Loading) -> WordModel:
    """The model of `recorded:FILE`, `toy`, `smollm2`, `hf:NAME[@REVISION]`, `gguf:FILE`, ...

    >>> open_model("toy", Loading()).label
    'toy'
    """
    check_estimator(loading.estimator)
    kind, _, argument = spec.partition(":")
    if kind in registry.names("models"):
        model: WordModel = registry.find("models", kind)(argument)
        return model
    if kind not in registry.names("language_models"):
        known = [*registry.names("models"), *registry.names("language_models")]
        raise UsageError(f"there is no model {spec!r}; known kinds: {', '.join(sorted(known))}.")
    return _open_live(spec, kind, argument, loading)


def _open_live(spec: str, kind: str, argument: str, loading: Loading) -> WordModel:
    # Imported here: live models need torch, recorded ones do not.
    from aleatoric.engine.live import LiveModel
    from aleatoric.words.tree import Limits

    options: dict[str, Any] = {"dtype": loading.dtype, "device": loading.device}
    options |= {"bos": loading.bos}
    if kind == "hf":
        argument, _, revision = argument.partition("@")
        options |= {"revision": revision or None, "trust_remote_code": loading.trust_remote_code}
    if not argument and kind != "smollm2":
        raise UsageError(f"{kind}: needs a name; write {kind}:NAME.")
    places = [argument] if argument else []
    lm = registry.find("language_models", kind)(*places, **options)
    return LiveModel(lm, spec.rstrip("/").rpartition("/")[2], loading.estimator, Limits())


def open_forced(spec: str, forcing: Forcing) -> ForcedModel:
    """The teacher-forced model of `smollm2`, `hf:NAME[@REVISION]`, `gguf:FILE`, ..."""
    model: ForcedModel = _open(spec, "forced_models", "read references", forcing)
    return model


def check_specs(specs: Iterable[str], *kinds: str) -> None:
    """Refuse specs of no known kind and files that are not there, before any model has worked.

    >>> check_specs(["toy", "smollm2"], "models", "language_models")
    """
    known = sorted({name for kind in kinds for name in registry.names(kind)})
    for spec in specs:
        name, _, argument = spec.partition(":")
        if name not in known:
            raise UsageError(f"there is no model {spec!r}; known kinds: {', '.join(known)}.")
        _check_text(spec, argument)
        # FILE@CHECKPOINT and FILE?system=NAME name a part of a file; a name may hold these too.
        paths = {argument, argument.rpartition("@")[0] or argument, argument.partition("?")[0]}
        is_path = name in OF_FILES or argument.startswith(("/", "./", "../", "~"))
        is_path |= name == "hf" and argument.endswith("/")
        if argument and is_path and not any(map(os.path.exists, paths)):
            raise UsageError(f"{argument}: no such file; check --model {spec}.")


def _check_text(spec: str, argument: str) -> None:
    """Refuse a name in other bytes than UTF-8: systems are saved and shown by it."""
    try:
        spec.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{argument!a}: its name is not UTF-8; rename the file.") from None


def open_text_model(spec: str, loading: LoadOptions) -> TextModel:
    """The writer of `smollm2`, `hf:NAME[@REVISION]`, `gguf:FILE`, `openai:...`, `recorded:FILE`.

    `loading` is a `Loading` or a `Forcing`: precision, device, beginning of text, remote code.
    """
    model: TextModel = _open(spec, "text_models", "write texts", loading)
    return model


def _open(spec: str, plugins: str, task: str, loading: LoadOptions) -> Any:
    kind, _, argument = spec.partition(":")
    if kind not in registry.names(plugins):
        known = ", ".join(registry.names(plugins))
        raise UsageError(f"there is no model {spec!r} to {task}; known kinds: {known}.")
    if bool(argument) == (kind == "smollm2"):
        fix = "write smollm2" if argument else f"write {kind}:NAME"
        raise UsageError(f"{spec!r} is no model; {fix}.")
    return registry.find(plugins, kind)(argument, loading)


def check_until(error: float | None, specs: Iterable[str], estimator: str) -> None:
    """Refuse to sample until a target is met where nothing is sampled draw by draw.

    >>> check_until(0.01, ["smollm2"], "mc")
    """
    if error is None:
        return
    if estimator != "mc":
        raise UsageError("--until stops sampling, and --estimator exact draws nothing; use mc.")
    live = registry.names("language_models")
    for spec in specs:
        if spec.partition(":")[0] not in live:
            known = ", ".join(live)
            raise UsageError(f"--until needs a live model ({known}); {spec} is none.")


def check_estimator(name: str) -> None:
    """Refuse what is no estimator of a live model."""
    if name not in ESTIMATORS:
        raise UsageError(f"there is no estimator {name!r}; use {' or '.join(ESTIMATORS)}.")
