"""How a run's items are worked through: what an engine is, and what may be asked of one."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.models.base import ForcedModel, Forcing, LoadOptions, TextModel, WordModel
from aleatoric.models.checkpoints import OF_FILES
from aleatoric.runs.job import LOCAL, EngineOptions, Loading

ESTIMATORS = ("exact", "mc")


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
    from aleatoric.nextword.live import LiveModel
    from aleatoric.nextword.tree import Limits

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


PART = 0.0001
"""The smallest part of a processor or of a card that a cluster gives out."""


class Engine(Protocol):
    """Opens models whose draws and texts are worked out somewhere: here, or on a cluster.

    The models that it gives are asked as any other: items in, answers out as they come, in any
    order. Who asks saves them; an engine writes nothing.
    """

    def word_model(self, spec: str, loading: Loading) -> WordModel:
        """A source of next words."""
        ...

    def text_model(self, spec: str, loading: LoadOptions) -> TextModel:
        """A writer of whole texts."""
        ...


def open_engine(options: EngineOptions) -> AbstractContextManager[Engine]:
    """The engine of a run, until the block ends.

    >>> with open_engine(EngineOptions()) as engine:
    ...     engine.word_model("toy", Loading()).label
    'toy'
    """
    check_engine(options)
    found: AbstractContextManager[Engine] = registry.find("engines", options.name)(options)
    return found


def check_engine(options: EngineOptions) -> None:
    """Refuse an unknown engine, and options that it would not look at.

    >>> check_engine(EngineOptions("ray", address="auto"))
    """
    known = registry.names("engines")
    if options.name not in known:
        raise UsageError(f"there is no engine {options.name!r}; use {' or '.join(known)}.")
    given = {
        "--address": options.address,
        "--actors": options.actors,
        "--actor-cpus": options.cpus,
        "--actor-gpus": options.gpus,
    }
    unused = [option for option, value in given.items() if value is not None]
    if options.name == LOCAL and unused:
        raise UsageError(f"{unused[0]} is for a cluster; add --engine ray.")
    check_share("--actor-cpus", options.cpus)
    check_share("--actor-gpus", options.gpus)
    if options.gpus is not None and options.gpus > 1 and options.gpus != int(options.gpus):
        raise UsageError(
            f"--actor-gpus {options.gpus:g} is no number of cards; give a whole number, or a part "
            "of one card."
        )


def check_share(option: str, asked: float | None) -> None:
    """Refuse what a cluster does not count: it knows no smaller parts than these.

    >>> check_share("--actor-cpus", 0.3)
    """
    if asked is None:
        return
    counted = math.isfinite(asked) and asked >= 0
    if not counted or not math.isclose(asked, round(asked / PART) * PART, rel_tol=1e-12):
        raise UsageError(f"{option} {asked:g} is not counted; give a multiple of {PART:g}.")


def check_one_process(options: EngineOptions, level: str) -> None:
    """Refuse to spread what is added up in the order of the corpus.

    >>> check_one_process(EngineOptions(), "token")
    """
    check_engine(options)
    if options.name != LOCAL:
        raise UsageError(
            f"the {level} level works in one process, since its sums are added up in the order of "
            "the corpus; leave out --engine, or run each --model on its own machine."
        )


class LocalEngine:
    """Gives the models themselves.

    >>> LocalEngine().word_model("toy", Loading()).estimator
    'mc'
    """

    def word_model(self, spec: str, loading: Loading) -> WordModel:
        """A source of next words, loaded now."""
        return open_model(spec, loading)

    def text_model(self, spec: str, loading: LoadOptions) -> TextModel:
        """A writer of whole texts, loaded now."""
        return open_text_model(spec, loading)


@contextmanager
def open_local(options: EngineOptions) -> Iterator[LocalEngine]:
    """Nothing to start and nothing to stop."""
    yield LocalEngine()
