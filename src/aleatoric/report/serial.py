"""A figure's data as JSON for the page: short numbers, harmless texts, only what is shown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from aleatoric.analyses.pictures import Boxes, Picture, Scatter
from aleatoric.report.tables import printable

DIGITS = 5
MOST_POINTS = 4000
"""So many points of a scatter are drawn; of more, every so many-th."""


def to_json(data: Any) -> str:
    """JSON that can stand inside a script element: no text in it can end the element.

    >>> to_json({"text": "</script>"})
    '{"text":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def to_data(picture: Picture) -> dict[str, Any]:
    """A picture as plain data with its kind.

    >>> from aleatoric.analyses.pictures import Line, Lines
    >>> to_data(Lines("t", "x", "y", (Line("a", (0.0,), (1 / 3,)),)))["lines"][0]["y"]
    [0.33333]
    """
    if isinstance(picture, Boxes):
        return {**_plain(replace(picture, values={})), "boxes": _boxes(picture.values)}
    if isinstance(picture, Scatter):
        every = -(-len(picture.x) // MOST_POINTS) or 1
        picture = replace(picture, x=picture.x[::every], y=picture.y[::every])
    found: dict[str, Any] = _plain(picture)
    return found


def shown(text: str) -> str:
    """A text without characters that could steer what shows it; the quick look spares plain ones.

    >>> shown("a\\x1b[31m")
    'a\\\\x1b[31m'
    """
    return text if text.isprintable() else printable(text)


def short(value: float | None) -> float | None:
    """A number in as many digits as a figure shows; nothing where it is undefined.

    >>> short(1 / 3), short(math.nan), short(None)
    (0.33333, None, None)
    """
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        own = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **own}
    if isinstance(value, Mapping):
        return {shown(str(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, str):
        return shown(value)
    return short(value) if isinstance(value, float) else value


def _boxes(samples: Mapping[str, Any]) -> dict[str, Any]:
    """By category the number of values, the quartiles, and how far the whiskers reach."""
    return {shown(name): _box(np.asarray(own, dtype=np.float64)) for name, own in samples.items()}


def _box(sample: Any) -> dict[str, Any]:
    if not len(sample):
        return {"n": 0}
    low, middle, high = (float(q) for q in np.quantile(sample, [0.25, 0.5, 0.75]))
    # Quartiles of values that are equal up to rounding may lie beyond all of them.
    rounding = 1e-9 * float(np.abs(sample).max())
    reach = 1.5 * abs(high - low) + rounding
    within = sample[(sample >= low - reach) & (sample <= high + reach)]
    ends = [short(float(end)) for end in (within.min(), within.max())]
    return {"n": len(sample), "ends": ends, "quartiles": [short(q) for q in (low, middle, high)]}
