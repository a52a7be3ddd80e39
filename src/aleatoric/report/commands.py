"""The command that makes a number again, from what a run remembers of how it was asked for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from aleatoric.calibration.schemes import EXPECTED
from aleatoric.levels.base import FINETUNE
from aleatoric.report.tables import printable
from aleatoric.runs import Store
from aleatoric.tuning.losses import GRID
from aleatoric.tuning.recipe import Recipe
from aleatoric.tuning.session import FinetuneJob
from aleatoric.types import Choices

Manifest = Mapping[str, Any]
Option = tuple[str, Any, Any]
"""A flag, its value, and the default at which it need not be said."""


def command_of(store: Store, system: str | None = None) -> str:
    """The command of a whole run, or of one of its models alone.

    A control needs no model: people are in the corpus. A fine-tuning run is made as a whole.
    """
    manifest = store.manifest
    if manifest.get("command") == FINETUNE:
        return _finetune_command(store)
    words = ["aleatoric", manifest["level"], "--corpus", manifest["corpus"]["spec"]]
    for flag, value, default in _options(manifest, _asked(store, system)):
        words += _flagged(flag, value, default)
    return printable(shlex.join([*words, "--json"]))


def _finetune_command(store: Store) -> str:
    words = ["aleatoric", FINETUNE, "--corpus", store.manifest["corpus"]["spec"]]
    for flag, value, default in _finetune_options(store.manifest):
        words += _flagged(flag, value, default)
    return printable(shlex.join([*words, "--out", f"{store.path.name}-again", "--json"]))


def _finetune_options(manifest: Manifest) -> Iterator[Option]:
    yield "--model", manifest["models"], []
    yield "--loss", manifest["losses"], []
    for name, value in manifest["folds"].items():
        yield f"--{name}", value, getattr(FinetuneJob, name)
    for name, value in manifest["recipe"].items():
        if name != "tolerance":  # that of the run
            yield f"--{name.replace('_', '-')}", value, getattr(Recipe, name)
    tried = ",".join(f"{value:g}" for value in manifest["temperatures"]) or "none"
    yield "--temperatures", tried, ",".join(f"{value:g}" for value in GRID)
    yield "--tolerance", manifest["tolerance"], 0.02
    yield "--bos", manifest["bos"], "auto"
    yield "--encoding", manifest["corpus"].get("encoding"), "utf-8"


def _asked(store: Store, system: str | None) -> tuple[list[str], list[str]]:
    """The models and decoders to ask for."""
    manifest = store.manifest
    models, decoders = list(manifest["models"]), list(manifest.get("decoders", ()))
    if system is None:
        return models, decoders
    facts = store.systems()[system]
    spec = facts.get("spec") or facts["model"].rpartition("@")[0]
    decoder = str(facts.get("decoder"))
    return [m for m in models if m == spec], [decoder] if decoder in decoders else []


def _options(manifest: Manifest, asked: tuple[list[str], list[str]]) -> Iterator[Option]:
    models, decoders = asked
    yield "--model", models, []
    yield "--decoder", decoders, ["ancestral"]
    live = any(not model.startswith("recorded:") for model in models)
    yield from _OF_LEVEL[manifest["level"]](manifest, live)
    yield "--splits", manifest.get("n_splits"), 20
    yield "--seed", manifest["seed"], 0
    yield "--encoding", manifest["corpus"].get("encoding"), "utf-8"
    if live:
        yield "--dtype", manifest.get("dtype"), "float32"
        yield "--bos", manifest.get("bos"), "auto"


def _word(manifest: Manifest, live: bool) -> Iterator[Option]:
    if live:
        yield "--estimator", manifest["estimator"], "exact"
        yield "--samples", manifest["samples"], 1000
        yield "--tolerance", manifest["tolerance"], 0.02
        error = manifest.get("until")
        yield "--until", None if error is None else f"se={error:g}", None
    protocol = manifest["choices"]["protocol"]
    base = Choices.paper() if protocol == "paper" else Choices.corrected()
    choices = Choices.saved(manifest["choices"]).as_dict()
    rule = choices.pop("rule")
    chosen = [f"{k}={v}" for k, v in choices.items() if base.as_dict()[k] != v]
    yield "--protocol", protocol, "corrected"
    yield "--word-rule", rule, base.rule
    yield "--choose", chosen, []
    yield "--metric", manifest["abstractions"], []
    tools = {"tvd_syn": ("--tagger", "textblob"), "tvd_sem": ("--embedder", "minilm")}
    for metric in manifest["abstractions"]:
        flag, default = tools[metric]
        yield flag, manifest[flag.removeprefix("--")], default
    if "tvd_syn" in manifest["abstractions"]:
        yield "--language", manifest.get("language"), None


def _token(manifest: Manifest, live: bool) -> Iterator[Option]:
    yield "--scheme", [s for s in manifest["schemes"] if s not in map(str, EXPECTED)], []
    yield "--bins", manifest["bins"], 15
    yield "--classwise", manifest["classwise"], "all"
    yield "--window", manifest["window"], None
    yield "--stride", manifest["stride"], None
    yield "--documents", manifest["documents"], "blank-lines"


def _text(manifest: Manifest, live: bool) -> Iterator[Option]:
    writing = manifest.get("writing", {}) if live else {}
    yield "--samples", writing.get("samples"), 10
    yield "--max-new-tokens", writing.get("max_new_tokens"), 100
    yield "--template", writing.get("template"), "{input}"
    yield "--chat", writing.get("chat"), False
    yield "--turns", writing.get("turns"), "eos"
    yield "--stop", list(writing.get("stop") or ()), []
    yield "--protocol", manifest["protocol"], "corrected"
    yield "--probe", list(manifest.get("probes") or ()), []
    for tool in ("tokeniser", "tagger", "encoder"):
        yield f"--{tool}", manifest.get(tool), None
    yield "--max-length", manifest.get("max_length"), 100
    yield "--limit", manifest.get("limit"), None


def _flagged(flag: str, value: Any, default: Any) -> list[str]:
    """A flag with its value or values; nothing where it is the default.

    >>> _flagged("--seed", 0, 0), _flagged("--model", ["a", "b"], []), _flagged("--chat", True, 0)
    ([], ['--model', 'a', '--model', 'b'], ['--chat'])
    """
    if value is None or value == default:
        return []
    if value is True:
        return [flag]
    many = value if isinstance(value, list) else [value]
    return [word for one in many for word in (flag, str(one))]


_OF_LEVEL = {"word": _word, "token": _token, "text": _text}
