"""Engines: where models are loaded and queried, in this process or on a cluster."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, cast

from aleatoric import registry
from aleatoric.errors import UsageError, check_choice, did_you_mean, quoted
from aleatoric.models.base import (
    ForcedModel,
    Forcing,
    LoadOptions,
    Prompting,
    TextModel,
    WordModel,
)
from aleatoric.models.gguf import OF_FILES, OF_HUB
from aleatoric.models.loading import check_no_languages
from aleatoric.runs.job import LOCAL, EngineOptions, Loading

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
DEFAULT_RUNTIME = "transformers"
_RUNTIMES = {DEFAULT_RUNTIME: "language_models", "llama.cpp": "llamacpp_models"}
"""What runs local models -> the plugins that load them."""
SMALLEST_SHARE = 0.0001
"""The smallest part of a CPU or GPU that a cluster assigns."""


class Engine:
    """Loads models in this process; subclasses may load them elsewhere.

    Models take items and yield answers as they come, in any order; an engine saves nothing.
    """

    def word_model(self, spec: str, loading: Loading) -> WordModel:
        """Load a model of next words."""
        return open_model(spec, loading)

    def text_model(self, spec: str, loading: LoadOptions) -> TextModel:
        """Load a model of whole texts."""
        return open_text_model(spec, loading)


def open_local(options: EngineOptions) -> AbstractContextManager[Engine]:
    """Open the local engine."""
    return nullcontext(Engine())


def open_engine(options: EngineOptions) -> AbstractContextManager[Engine]:
    """Open the engine of a run."""
    check_engine(options)
    engine: AbstractContextManager[Engine] = registry.find("engines", options.name)(options)
    return engine


def check_engine(options: EngineOptions) -> None:
    """Refuse an unknown engine, and options that it does not use."""
    check_choice("engine", options.name, registry.names("engines"))
    cluster_options = {
        "--address": options.address,
        "--actors": options.actors,
        "--actor-cpus": options.cpus,
        "--actor-gpus": options.gpus,
    }
    unused = [option for option, value in cluster_options.items() if value is not None]
    if options.name == LOCAL and unused:
        raise UsageError(f"{unused[0]} is for a cluster; add --engine ray.")
    _check_share("--actor-cpus", options.cpus or 0)
    _check_gpus(options.gpus or 0)


def _check_gpus(gpus: float) -> None:
    _check_share("--actor-gpus", gpus)
    if gpus > 1 and gpus != int(gpus):
        fix = "give a whole number, or a part of one GPU"
        raise UsageError(f"--actor-gpus {gpus:g} is not a number of GPUs; {fix}.")


def _check_share(option: str, share: float) -> None:
    units = round(share / SMALLEST_SHARE) if 0 <= share < math.inf else math.nan
    if not math.isclose(share, units * SMALLEST_SHARE, rel_tol=1e-12):
        fix = f"give a multiple of {SMALLEST_SHARE:g}"
        raise UsageError(f"{option} {share:g} cannot be assigned; {fix}.")


def open_model(spec: str, loading: Loading) -> WordModel:
    """Open the next-word model of `recorded:FILE`, `toy`, `smollm2`, `hf:NAME[@REVISION]`, ..."""
    check_estimator(loading.estimator)
    check_runtime(loading.runtime, [spec])
    kind, _, argument = spec.partition(":")
    if kind in registry.names("models"):
        if loading.prompting != Prompting() and kind != "recorded":
            fix = "leave them out; served models take mode=chat instead"
            raise UsageError(
                f"{spec}: --template, --chat and --system are for local models; {fix}."
            )
        return cast(WordModel, registry.find("models", kind)(argument))
    if kind not in registry.names("language_models"):
        raise unknown_model(spec, [*registry.names("models"), *registry.names("language_models")])
    lm = replace(_open(spec, _RUNTIMES[loading.runtime], loading), prompting=loading.prompting)
    label = spec.rstrip("/").rpartition("/")[2]
    live: WordModel = registry.find("estimators", loading.estimator)(lm, label, loading.estimator)
    return live


def open_forced(spec: str, forcing: Forcing) -> ForcedModel:
    """Open the teacher-forced model of `smollm2`, `hf:NAME[@REVISION]`, `gguf:FILE`, ..."""
    return cast(ForcedModel, _open(spec, "forced_models", forcing))


def open_text_model(spec: str, loading: LoadOptions) -> TextModel:
    """Open the text model of `smollm2`, `hf:NAME[@REVISION]`, `openai:...`, `recorded:FILE`, ..."""
    if spec.partition(":")[0] not in (*registry.names("language_models"), "recorded"):
        check_no_languages(loading, spec)
    return cast(TextModel, _open(spec, "text_models", loading))


def _open(spec: str, plugins: str, loading: LoadOptions) -> Any:
    kind, _, argument = spec.partition(":")
    if kind not in registry.names(plugins):
        raise unknown_model(spec, registry.names(plugins))
    if bool(argument) == (kind == "smollm2"):
        fix = "write smollm2" if argument else f"write {kind}:NAME"
        raise UsageError(f"{spec!r} is no model; {fix}.")
    return registry.find(plugins, kind)(argument, loading)


def check_specs(specs: Iterable[str], *kinds: str) -> None:
    """Refuse models of unknown kinds and missing files, before any model is loaded."""
    known_kinds = sorted({name for kind in kinds for name in registry.names(kind)})
    for spec in specs:
        name, _, argument = spec.partition(":")
        if name not in known_kinds:
            raise unknown_model(spec, known_kinds)
        try:
            spec.encode()  # systems are saved and shown under it
        except UnicodeEncodeError:
            raise UsageError(f"{argument!a}: its name is not UTF-8; rename the file.") from None
        # FILE@CHECKPOINT and FILE?system=NAME name a part of a file; a name may hold these too.
        paths = {argument, argument.rpartition("@")[0] or argument, argument.partition("?")[0]}
        is_path = name in OF_FILES or argument.startswith(("/", "./", "../", "~"))
        is_path |= name in OF_HUB and argument.endswith("/")
        if argument and is_path and not any(map(os.path.exists, paths)):
            raise UsageError(f"{argument}: no such file; check --model {spec}.")


def unknown_model(spec: str, kinds: Collection[str]) -> UsageError:
    """Return the error for a model of no known kind, with what may have been meant.

    >>> str(unknown_model("gpt2", ["hf", "toy"]))
    "there is no model 'gpt2' (did you mean hf:gpt2?); known kinds: hf, toy."
    """
    near = did_you_mean(spec, kinds)
    if (os.path.exists(spec) or not near) and (kind := _kind_of(spec)) in kinds:
        near = f" (did you mean {kind}:{quoted(spec, 200)[1:-1]}?)"
    known = ", ".join(sorted(kinds))
    return UsageError(f"there is no model {quoted(spec, 200)}{near}; known kinds: {known}.")


def _kind_of(name: str) -> str | None:
    """Return the kind of model that a name without one looks like."""
    if os.path.isfile(name):
        return "gguf" if name.endswith(".gguf") else "recorded"
    return "hf" if os.path.isdir(name) or _HUB_NAME.fullmatch(name) else None


def check_decoders(specs: Collection[str], decoders: Collection[str]) -> None:
    """Refuse decoders if there is no model to decode from."""
    is_recorded = [spec.startswith("recorded:") for spec in specs]
    changed = [name for name in decoders if name != "ancestral"]
    if changed and is_recorded and all(is_recorded):
        raise UsageError(
            f"--decoder {changed[0]} cannot change answers that are recorded; leave it out, or "
            "give a live model."
        )


def check_until(error: float | None, specs: Iterable[str], estimator: str) -> None:
    """Refuse to sample until a target is met if nothing is sampled draw by draw."""
    if error is None:
        return
    if estimator != "mc":
        raise UsageError(f"--until stops the sampling of --estimator mc, not {estimator}; use mc.")
    check_live("--until", specs)


def is_live(spec: str) -> bool:
    """Whether a model of next words is a language model that is loaded and run."""
    return spec.partition(":")[0] in registry.names("language_models")


def check_live(option: str, specs: Iterable[str]) -> None:
    """Refuse other models than language models, for an option that needs their tokens."""
    for spec in specs:
        if not is_live(spec):
            kinds = ", ".join(registry.names("language_models"))
            raise UsageError(f"{option} needs a live model ({kinds}); {spec} is none.")


def check_runtime(runtime: str, specs: Iterable[str]) -> None:
    """Refuse an unknown runtime, and models that it does not run."""
    check_choice("runtime", runtime, _RUNTIMES)
    kinds = registry.names(_RUNTIMES[runtime])
    for spec in specs:
        if runtime != DEFAULT_RUNTIME and spec.partition(":")[0] not in kinds:
            fix = "use gguf:FILE or smollm2, or leave --runtime out"
            raise UsageError(f"--runtime {runtime} runs GGUF files, and {spec} is none; {fix}.")


def check_estimator(name: str) -> None:
    """Refuse an unknown estimator of a live model."""
    check_choice("estimator", name, registry.names("estimators"))
