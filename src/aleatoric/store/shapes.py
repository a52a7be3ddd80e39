"""The shapes of saved facts: a run may come from others, and its checksums prove nothing.

A shape is a type, a predicate, a list of one shape (any number of them), a tuple (any of them), or
a dictionary of shapes by key. Keys that are missing are noticed where they are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from aleatoric.codec import DamagedRowError
from aleatoric.types import Choices

Shape = Any
_CHOICES = {field.name for field in fields(Choices)}


def fits(value: Any, shape: Shape) -> bool:
    """Whether a value has a shape.

    >>> fits(["a", None], [(str, None)]), fits({"n": -1}, {"n": whole(0)}), fits(True, int)
    (True, False, False)
    """
    if shape is None or isinstance(shape, type):
        return value is None if shape is None else type(value) is shape
    if isinstance(shape, tuple):
        return any(fits(value, one) for one in shape)
    if isinstance(shape, list):
        return type(value) is list and all(fits(one, shape[0]) for one in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            fits(value[key], own) for key, own in shape.items() if key in value
        )
    return bool(shape(value))


def whole(low: int, high: int = 2**63 - 1) -> Callable[[Any], bool]:
    """Whole numbers between two ends, both included."""
    return lambda value: type(value) is int and low <= value <= high


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return type(value) in (int, float) and abs(value) < 1e300 and math.isfinite(value)


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and not math.isnan(value)


def _is_text(value: Any) -> bool:
    """Whether a value is text that can be written anywhere: no half of a surrogate pair."""
    return type(value) is str and not any("\ud800" <= char <= "\udfff" for char in value)


def _are_texts(value: Any) -> bool:
    return type(value) is list and all(map(_is_text, value))


def each(shape: Shape) -> Callable[[Any], bool]:
    """Dictionaries with any names, and values of one shape."""
    return lambda value: (
        isinstance(value, dict)
        and all(_is_text(name) and fits(own, shape) for name, own in value.items())
    )


def _is_choices(value: Any) -> bool:
    return each(_is_text)(value) and value.keys() <= _CHOICES


_TEXT_OR_NONE = (_is_text, None)
_COUNT = whole(0)
_MANIFEST: Shape = {
    "level": lambda value: value in ("word", "token", "text"),
    "command": _TEXT_OR_NONE,
    "corpus": dict.fromkeys(("name", "version", "sha256", "spec", "encoding"), _is_text),
    **dict.fromkeys(("models", "decoders", "remarks", "abstractions", "probes"), _are_texts),
    **dict.fromkeys(("schemes", "losses"), _are_texts),
    **dict.fromkeys(("estimator", "dtype", "bos", "embedder", "protocol"), _is_text),
    **dict.fromkeys(("device", "tagger", "language", "tokeniser", "encoder"), _TEXT_OR_NONE),
    "choices": _is_choices,
    "samples": whole(0, 10**7),
    "until": (is_number, None),
    "tolerance": lambda value: is_number(value) and value >= 0,
    "n_splits": whole(1, 10_000),
    "seed": whole(0, 2**64 - 1),
    "versions": each(_TEXT_OR_NONE),
    "limit": (_COUNT, None),
    "max_length": _COUNT,
    "writing": {},
    "bins": whole(1, 10_000),
    "keep_rows": bool,
    **dict.fromkeys(("batch_tokens", "window", "stride", "save_every"), (_COUNT, None)),
    "recipe": {},
    "folds": {},
}
_NUMBERS = each((int, float, None))
_PER_NAME = each(_NUMBERS)
_TRAINED: Shape = {
    "fluency": (_NUMBERS, None),
    "kept": each(_COUNT),
    "curves": each([_NUMBERS]),
    "temperatures": each(is_number),
    "temperatures_by_log_loss": each(is_number),
}
_FACTS: dict[str, Shape] = {
    "manifest": lambda value: fits(value, _MANIFEST) and "level" in value,
    "n_items": _COUNT,
    "notes": _are_texts,
    "finished models": _are_texts,
    "complete": bool,
    "has_control": bool,
    "stat_columns": lambda value: _are_texts(value) and 0 < len(set(value)) == len(value),
    "split_names": each(_are_texts),
    "stats": {"generation": _COUNT, "rows": each(_COUNT)},
    "probe_facts": each(each(_is_text)),
    "probe_bounds": each(lambda value: fits(value, [_is_real]) and len(value) == 2),
    "finetuning": lambda value: each(_TRAINED)(value) and _PER_NAME(value.get("grid", {})),
}
_TALLY = {"texts", "cut", "empty", "short_of_room"}
_NAMED: dict[str, Shape] = {
    "done": bool,
    "tally": lambda value: each(_COUNT)(value) and value.keys() <= _TALLY,
    "persons": each((_is_text, [whole(1, 1000)])),
}
"""Facts about one system, whose name follows."""
_SYSTEM: Shape = {
    **dict.fromkeys(("model", "decoder", "estimator", "label", "reads"), _is_text),
    "vocabulary": whole(1, 10**7),
    "conventions": each(_TEXT_OR_NONE),
}


def check_fact(key: str, value: Any) -> None:
    """Refuse a fact that is not of the shape that this package saves."""
    shape = _FACTS.get(key, _NAMED.get(str(key).partition(" ")[0], lambda value: True))
    if not fits(value, shape):
        raise DamagedRowError(f"the fact {key!r} has another shape")


def check_system(name: str, facts: Any) -> None:
    """Refuse a system whose name or facts are not of the shape that this package saves."""
    if not (_is_text(name) and name and isinstance(facts, dict) and fits(facts, _SYSTEM)):
        raise DamagedRowError(f"the system {name!r} has another shape")
