"""Whether a saved run was asked for with the same words; what differs, as a user knows it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aleatoric.errors import UsageError

MAY_DIFFER = ("versions", "device", "batch_tokens", "remarks", "save_every", "language")
"""What may change when a run goes on: anything else would mix two runs in one.

A language changes no number but by the tools chosen for it, which are facts of their own.
"""
_OPTIONS = {
    "abstractions": "--metric",
    "choices": "--choose",
    "decoders": "--decoder",
    "losses": "--loss",
    "models": "--model",
    "n_splits": "--splits",
    "probes": "--probe",
    "schemes": "--scheme",
}
"""The options whose facts have other names than they have; others are called alike."""
_GROUPS = ("writing", "recipe", "folds")
"""Facts that hold those of several options."""


def check_asked(path: Path, saved: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Refuse to go on with the run in `path` where something else is asked for now.

    >>> check_asked(Path("runs/a"), {"level": "word", "n_splits": 20}, {"level": "word"})
    Traceback (most recent call last):
    aleatoric.errors.UsageError: runs/a: holds another run (its --splits differs); choose another \
--out.
    """
    asked = json.loads(json.dumps(dict(manifest)))
    for problem in _problems(saved, asked):
        raise UsageError(f"{path}: holds another run ({problem}); choose another --out.")


def _problems(saved: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    """All that differs, what says most first."""
    if saved.get("command") != asked.get("command"):
        yield f"it is of aleatoric {saved.get('command') or saved.get('level')}"
    if saved.get("level") != asked.get("level"):
        yield f"it is of the {saved.get('level')} level"
    for name in _differing(saved, asked):
        if name == "corpus":
            yield from _corpus_problems(saved.get(name) or {}, asked.get(name) or {})
        elif name == "contents":
            yield from _content_problems(saved.get(name) or {}, asked.get(name) or {})
        elif name not in MAY_DIFFER:
            yield f"its {_option(name, saved.get(name), asked.get(name))} differs"


def _differing(saved: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    names = sorted(saved.keys() | asked.keys())
    return [name for name in names if saved.get(name) != asked.get(name)]


def _option(name: str, saved: Any, asked: Any) -> str:
    """The option that a fact of the manifest came from.

    >>> _option("n_splits", 20, 10), _option("dtype", "float32", "bfloat16")
    ('--splits', '--dtype')
    >>> _option("writing", {"max_new_tokens": 10}, {"max_new_tokens": 20})
    '--max-new-tokens'
    """
    if isinstance(saved, dict) and isinstance(asked, dict):
        inner = _differing(saved, asked)
        if name in _GROUPS or (name == "choices" and "protocol" in inner):
            name = "protocol" if name == "choices" else inner[0]
        elif name == "choices" and inner == ["rule"]:
            name = "word_rule"
    return _OPTIONS.get(name, f"--{name.replace('_', '-')}")


def _content_problems(saved: Mapping[str, str], asked: Mapping[str, str]) -> Iterator[str]:
    """Which models have other files; of one run or the other, they may not be known."""
    for spec in sorted(saved.keys() & asked.keys()):
        if saved[spec] != asked[spec]:
            yield f"the files of --model {spec} have changed since"


def _corpus_problems(saved: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    """What differs of a corpus; one file has many paths."""
    differing = _differing(saved, asked)
    if differing == ["spec"] and _is_same_place(saved["spec"], asked["spec"]):
        return
    if differing == ["encoding"]:
        yield "its --encoding differs"
    elif saved.get("spec") == asked.get("spec") and "sha256" in differing:
        yield "its --corpus has changed since"
    else:
        yield "its --corpus differs"


def _is_same_place(saved: str, asked: str) -> bool:
    """Whether two ways to name a corpus name the same files.

    >>> _is_same_place("w.jsonl", "./w.jsonl"), _is_same_place("cloze:a/../w", "cloze:w")
    (True, True)
    >>> _is_same_place("w.jsonl", "cloze:w.jsonl"), _is_same_place("w.jsonl", "v.jsonl")
    (False, False)
    """
    (kind, *first), (other_kind, *second) = _places(saved), _places(asked)
    return kind == other_kind and first == second


def _places(spec: str) -> list[str]:
    """The kind of a corpus, empty where it is not named, and its resolved paths."""
    kind, colon, argument = spec.partition(":")
    if not colon:
        kind, argument = "", spec
    return [kind, *map(os.path.realpath, argument.split(","))]
