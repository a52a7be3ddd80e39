"""Data of figures, computed before they are drawn: frozen dataclasses of plain numbers.

They are saved as JSON and read back, checked against the types of their fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aleatoric.runs.formats import is_text

if TYPE_CHECKING:
    from scipy.stats import gaussian_kde

Values: TypeAlias = tuple[float, ...]

N_KERNELS = 1024
FEWEST = 20
"""Values that a density needs; fewer are drawn as points."""
TVD_EDGES: Values = tuple(i / 20 - 0.025 for i in range(22))
"""Bins for TVDs of small samples: halves of 40 people differ by twentieths, the bin centers."""


@dataclass(frozen=True)
class LineSeries:
    """A curve, with a band if `low` and `high` are given; `slot` selects its color and marker.

    `points` are the values of a sample that is too small for a density, drawn instead of it. A
    `faded` curve is thin, gray and without a name: it is there to compare another one with.
    """

    label: str
    x: Values
    y: Values
    low: Values = ()
    high: Values = ()
    slot: int | None = None
    points: Values = ()
    faded: bool = False


@dataclass(frozen=True)
class Guide:
    """A straight line across the figure, at a value of x or of y; gray without a slot."""

    label: str
    x: float | None = None
    y: float | None = None
    slot: int | None = None


@dataclass(frozen=True)
class _Labelled:
    """The title of a figure and the labels of its axes."""

    title: str
    x_label: str
    y_label: str


@dataclass(frozen=True)
class Lines(_Labelled):
    """Several curves over one axis, which is limited to `x_ends` if given; y ends at `y_end`."""

    lines: tuple[LineSeries, ...]
    marks: tuple[Guide, ...] = ()
    x_ends: tuple[float, float] | None = None
    y_end: float | None = None


@dataclass(frozen=True)
class Histograms:
    """Densities of several samples over the same bins, each drawn in its slot.

    `points` are the values of samples that are too small for a density, drawn instead of it. The
    axis of x goes from one of `x_ends` to the other and contains 0; that of y ends at `y_end`.
    """

    title: str
    x_label: str
    edges: Values
    heights: Mapping[str, Values]
    means: Mapping[str, float] = field(default_factory=dict)
    slots: tuple[int, ...] = ()
    points: Mapping[str, Values] = field(default_factory=dict)
    x_ends: tuple[float, float] = (0.0, 1.0)
    y_end: float | None = None


@dataclass(frozen=True)
class Scatter(_Labelled):
    """A target against a predictor; `trend` is the mean of the target by tenths of the cases."""

    x: Values
    y: Values
    trend: LineSeries
    correlation: float | None


@dataclass(frozen=True)
class Boxes(_Labelled):
    """The distribution of a target by category."""

    values: Mapping[str, Values]
    counted: str = "contexts"


@dataclass(frozen=True)
class Coefficients:
    """Coefficients with intervals; `kept` says which ones the regression did not prune away."""

    title: str
    x_label: str
    names: tuple[str, ...]
    values: Values
    low: Values
    high: Values
    kept: tuple[bool, ...]


@dataclass(frozen=True)
class WordBars:
    """The most probable words of people and of a model for one context, with both shares."""

    context: str
    system: str
    words: tuple[str, ...]
    human: Values
    model: Values
    tvd: float


@dataclass(frozen=True)
class Reliability:
    """Accuracy by bin of confidence (NaN if empty), and 95% limits of a calibrated model's."""

    title: str
    edges: Values
    confidence: Values
    accuracy: Values
    low: Values
    high: Values
    counts: Values


@dataclass(frozen=True)
class Dots:
    """Estimates with intervals, per name and series; all are compared with series `reference`.

    The axis is limited to `x_ends` if given; it contains 0. `slots` select the colors of series.
    """

    title: str
    x_label: str
    rows: tuple[str, ...]
    values: Mapping[str, Values]
    low: Mapping[str, Values]
    high: Mapping[str, Values]
    reference: str = ""
    x_ends: tuple[float, float] | None = None
    slots: tuple[int, ...] = ()


@dataclass(frozen=True)
class AgreementBars(Dots):
    """How often people agree with people, a system with itself, and a system with people.

    The rows are systems, each with a note such as its overlap.
    """

    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class HeatMap(_Labelled):
    """One value per cell; rows may have different lengths, and `ids` name the item of each cell."""

    value_label: str
    rows: tuple[str, ...]
    values: tuple[Values, ...]
    ids: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class MetricPoint:
    """A named point with the ends of its two intervals; `slot` selects its color and marker."""

    label: str
    x: float
    y: float
    x_ends: tuple[float, float]
    y_ends: tuple[float, float]
    slot: int


@dataclass(frozen=True)
class Points(_Labelled):
    """Systems in the plane of two metrics; `reference` names the one to be close to."""

    points: tuple[MetricPoint, ...]
    reference: str = ""


@dataclass(frozen=True)
class Blank:
    """A place in a grid of panels without data, and why."""

    title: str
    text: str


@dataclass(frozen=True)
class Panels:
    """Figures that belong together."""

    title: str
    pictures: tuple[Picture, ...]
    columns: int = 2


_Simple: TypeAlias = Lines | Histograms | Scatter | Boxes | Coefficients | WordBars
_Other: TypeAlias = Reliability | Dots | AgreementBars | HeatMap | Points | Blank
Picture: TypeAlias = _Simple | _Other | Panels


def plain(values: ArrayLike) -> Values:
    """An array as a flat tuple of floats."""
    return tuple(float(value) for value in np.asarray(values).ravel())


def has_spread(sample: NDArray[np.float64]) -> bool:
    """Whether the values of a sample differ by more than rounding."""
    return len(sample) > 1 and bool(np.ptp(sample) > 1e-12 * np.abs(sample).max())


def density(
    label: str,
    values: Sequence[float] | NDArray[np.float64],
    low: float = 0.0,
    high: float = 1.0,
    shown: tuple[float, float] | None = None,
) -> LineSeries:
    """A kernel density estimate on [low, high], reflected at both ends: no mass leaks out.

    An end may be infinite if `shown` gives the part of the axis to draw. The line of a sample
    without spread is empty.
    """
    sample = np.asarray(values, dtype=np.float64)
    few = plain(sample) if len(sample) < FEWEST else ()
    if not has_spread(sample):
        return LineSeries(label, (), (), points=few)
    x = np.linspace(*(shown or (low, high)), 201)
    estimate = _kernels(sample)
    reflected = [estimate(2 * end - x) for end in (low, high) if np.isfinite(end)]
    y = sum(reflected, start=estimate(x))
    return LineSeries(label, plain(x), plain(y), points=few)


def _kernels(sample: NDArray[np.float64]) -> gaussian_kde:
    """Kernels with Scott's width; those of a large sample are placed at the means of bins."""
    from scipy.stats import gaussian_kde

    if len(sample) <= 2 * N_KERNELS:
        return gaussian_kde(sample)
    counts, edges = np.histogram(sample, N_KERNELS)
    totals, filled = np.histogram(sample, edges, weights=sample)[0], counts > 0
    means, counts = totals[filled] / counts[filled], counts[filled]
    # Keep the sample's width: scipy treats weights as a smaller sample with a larger spread.
    spread = np.var(sample, ddof=1) / np.cov(means, aweights=counts)
    return gaussian_kde(means, len(sample) ** (-1 / 5) * spread**0.5, counts)


def histograms(
    title: str,
    x_label: str,
    samples: Mapping[str, Sequence[float] | NDArray[np.float64]],
    edges: Sequence[float] | NDArray[np.float64],
    slots: Sequence[int] = (),
) -> Histograms:
    """Densities of samples over common bins; values beyond the edges count in the end bins.

    `slots` are those of the samples, by default their order.
    """
    heights, means, few = {}, {}, {}
    for label, sample in samples.items():
        clipped = np.clip(np.asarray(sample, dtype=np.float64), edges[0], edges[-1])
        counts, _ = np.histogram(clipped, np.asarray(edges))
        heights[label] = plain(counts / (max(1, len(clipped)) * np.diff(edges)))
        if len(clipped):
            means[label] = float(np.mean(sample))
        if 0 < len(clipped) < FEWEST:
            few[label] = plain(sample)
    drawn, bins = tuple(slots) or tuple(range(len(samples))), plain(edges)
    ends = _ends(bins, heights.values())
    return Histograms(title, x_label, bins, heights, means, drawn, few, ends)


def _ends(edges: Values, heights: Iterable[Values]) -> tuple[float, float]:
    """Return the ends of the non-empty bins with an empty one on each side, and with 0."""
    used = [i for own in heights for i, height in enumerate(own) if height]
    first, last = min(used, default=0), max(used, default=len(edges) - 2)
    low, high = edges[max(0, first - 1)], edges[min(len(edges) - 1, last + 2)]
    return min(low, 0.0), max(high, 0.0)


def shared(pictures: Sequence[Picture]) -> list[Picture]:
    """Return pictures of one kind with the same axes; others, such as blanks, are unchanged."""
    return [_with_axes(picture, pictures) for picture in pictures]


def _with_axes(picture: Picture, others: Sequence[Picture]) -> Picture:
    if isinstance(picture, Histograms):
        same = [other for other in others if isinstance(other, Histograms)]
        tops = [
            h for o in same for name, own in o.heights.items() if name not in o.points for h in own
        ]
        ends = (min(o.x_ends[0] for o in same), max(o.x_ends[1] for o in same))
        return replace(picture, x_ends=ends, y_end=1.05 * max(tops, default=0.0) or None)
    if isinstance(picture, Lines):
        lines = [other for other in others if isinstance(other, Lines)]
        tops = [y for o in lines for line in o.lines for y in line.y]
        limits = [o.x_ends for o in lines if o.x_ends]
        both = (min(e[0] for e in limits), max(e[1] for e in limits)) if limits else None
        return replace(picture, x_ends=both, y_end=1.05 * max(tops, default=0.0) or None)
    if isinstance(picture, Dots):
        rows = [
            s for o in others if isinstance(o, Dots) for m in (o.low, o.high) for s in m.values()
        ]
        values = [value for row in rows for value in row if np.isfinite(value)]
        low, high = min(values, default=0.0), max(values, default=1.0)
        room = 0.04 * (max(high, 0.0) - min(low, 0.0))
        return replace(picture, x_ends=(min(low, 0.0) - room, max(high, 0.0) + room))
    return picture


def scatter(
    title: str, x_label: str, y_label: str, x: NDArray[np.float64], y: NDArray[np.float64]
) -> Scatter:
    """Points with the mean of y by tenths of x."""
    order = np.argsort(x, kind="stable")
    tenths = [part for part in np.array_split(order, 10) if len(part)]
    means = [plain([values[part].mean() for part in tenths]) for values in (x, y)]
    trend = LineSeries("mean by tenths", means[0], means[1])
    spread = len(x) > 1 and np.ptp(x) > 0 and np.ptp(y) > 0
    correlation = round(float(np.corrcoef(x, y)[0, 1]), 12) if spread else None
    return Scatter(title, x_label, y_label, plain(x), plain(y), trend, correlation)


# JSON -------------------------------------------------------------------------------------

_KIND = "kind"
"""Key of the name of a class."""


def dump_pictures(value: Any) -> Any:
    """Return figures by name as what `json.dumps` takes."""
    if is_dataclass(value):
        parts = {field.name: dump_pictures(getattr(value, field.name)) for field in fields(value)}
        return {_KIND: type(value).__name__, **parts}
    if isinstance(value, Mapping):
        return {name: dump_pictures(part) for name, part in value.items()}
    if isinstance(value, tuple):
        are_plain = set(map(type, value)) <= {float}
        return list(value) if are_plain else list(map(dump_pictures, value))
    return value.item() if isinstance(value, np.generic) else value


def load_pictures(saved: Any, hint: Any = dict[str, Picture]) -> Any:
    """Return what was dumped; `ValueError` if it has other types than the fields it is for."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _load_either(saved, parts)
    if origin is tuple and type(saved) is list:
        return _load_tuple(saved, parts)
    if origin in (dict, Mapping) and type(saved) is dict and all(map(is_text, saved)):
        return {name: load_pictures(part, parts[1]) for name, part in saved.items()}
    if is_dataclass(hint) and type(saved) is dict:
        return _load_object(saved, hint)
    if type(saved) is not hint or (hint is str and not is_text(saved)):
        raise ValueError(f"{hint} expected")
    return saved


def _load_either(saved: Any, hints: tuple[Any, ...]) -> Any:
    for hint in hints:
        try:
            return load_pictures(saved, hint)
        except ValueError:
            continue
    raise ValueError("none of the types of a field")


def _load_tuple(saved: list[Any], hints: tuple[Any, ...]) -> tuple[Any, ...]:
    if hints[-1] is not ...:
        return tuple(load_pictures(*pair) for pair in zip(saved, hints, strict=True))
    if hints[0] is float and set(map(type, saved)) <= {float}:
        return tuple(saved)
    return tuple(load_pictures(part, hints[0]) for part in saved)


def _load_object(saved: dict[str, Any], class_: Any) -> Any:
    hints = _hints(class_)
    if saved.get(_KIND) != class_.__name__ or saved.keys() != {_KIND, *hints}:
        raise ValueError(f"no {class_.__name__}")
    return class_(**{name: load_pictures(saved[name], hint) for name, hint in hints.items()})


_hints = cache(get_type_hints)
