"""Figures for the page: their captions joined to their data, and the data as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from aleatoric.report.tables import printable, short
from aleatoric.studies.figure_data import Boxes, Picture, Scatter

MOST_POINTS = 4000
"""The most points of a scatter plot that are drawn; larger ones are thinned evenly."""


@dataclass(frozen=True)
class PageFigure:
    """A figure of the page; with several variants, a reader chooses one by system."""

    name: str
    title: str
    how_to_read: str
    variants: Mapping[str, Picture]


def page_figures(
    captions: Mapping[str, tuple[str, str]],
    pictures: Mapping[str, Picture],
    hidden: tuple[str, ...] = (),
) -> Iterator[PageFigure]:
    """Yield the figures in the order of their captions; those of single systems become one."""
    grouped: dict[str, dict[str, Picture]] = {}
    for name, picture in pictures.items():
        base, _, system = name.partition(" ")
        grouped.setdefault(base, {})[system] = picture
    others = [base for base in grouped if base not in captions and base not in hidden]
    for base in (*(base for base in captions if base in grouped), *others):
        title, how_to_read = captions.get(base, (base, "A figure of a study."))
        yield PageFigure(base, title, how_to_read, grouped[base])


def to_json(data: Any) -> str:
    """Return JSON for a script element; no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def to_data(picture: Picture) -> dict[str, Any]:
    """Return a picture as plain data with its kind."""
    if isinstance(picture, Boxes):
        samples = {name: np.asarray(sample, np.float64) for name, sample in picture.values.items()}
        boxes = {printable(name): _box(sample) for name, sample in samples.items()}
        return {**_plain(replace(picture, values={})), "boxes": boxes}
    if isinstance(picture, Scatter):
        every = -(-len(picture.x) // MOST_POINTS) or 1
        picture = replace(picture, x=picture.x[::every], y=picture.y[::every])
    data: dict[str, Any] = _plain(picture)
    return data


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        values = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **values}
    if isinstance(value, Mapping):
        return {printable(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return printable(value)
    return short(value) if isinstance(value, float) else value


def _box(sample: Any) -> dict[str, Any]:
    """Return the number of values, the quartiles and the ends of the whiskers."""
    if not len(sample):
        return {"n": 0}
    low, middle, high = (float(q) for q in np.quantile(sample, [0.25, 0.5, 0.75]))
    # Quartiles of values that are equal up to rounding may lie beyond all of them.
    rounding = 1e-9 * float(np.abs(sample).max())
    reach = 1.5 * abs(high - low) + rounding
    within = sample[(sample >= low - reach) & (sample <= high + reach)]
    ends = [short(float(end)) for end in (within.min(), within.max())]
    return {"n": len(sample), "ends": ends, "quartiles": [short(q) for q in (low, middle, high)]}
