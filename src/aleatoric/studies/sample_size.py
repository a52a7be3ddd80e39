"""How large must samples be? Subsamples of a model's draws, and learning curves.

`subsampling`: the error of TVD with few draws of the model, compared with all draws (App. C.1).
`learning_curve`: TVD between people, and between model and people, by sample size. Disjoint sets of
m people are compared with each other, and m samples of the model with m people. Both distances fall
as m grows; the part of the model's that remains above people's is systematic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.inference import control
from aleatoric.inference.bootstrap import resample
from aleatoric.inference.control import counted
from aleatoric.inference.estimate import CUT_MARK, GroupSums, cut_at, is_cut, with_cut_note
from aleatoric.inference.noise import Side
from aleatoric.nextword.answers import human_counts
from aleatoric.result_types import Study, Table
from aleatoric.rng import stream
from aleatoric.studies import notes_on, people
from aleatoric.studies.figure_data import Guide, Lines, LineSeries, histograms, plain
from aleatoric.studies.people import N_SPLITS, interval_text
from aleatoric.types import Case, Categorical, Floats, Interval

SIZES = (10, 20, 40, 100)


class SampleError(NamedTuple):
    """The error of TVD at one sample size; `by_case` is the mean square over subsamples."""

    size: int
    mean: float
    interval: Interval | None
    bias: float
    by_case: Floats


def subsampling(cases: Iterable[Case], seed: int) -> Study:
    """The study: squared error of TVD by sample size, and the data of Fig. 11."""
    cases = list(cases)
    answered = [case for case in cases if len(case.item.responses) >= 2]
    usable = [case for case in answered if (case.pair.model.n or 0) > max(SIZES)]
    if not usable:
        raise UsageError(
            f"subsampling needs contexts with more than {max(SIZES)} draws of the model and at "
            "least two answers; there is none."
        )
    errors = [errors_at(size, usable, seed) for size in SIZES]
    table = _error_table(errors, usable, len(cases))
    top = max(float(np.quantile(error.by_case, 0.99)) for error in errors) or 1.0
    samples = {f"{error.size} draws": error.by_case for error in errors}
    label, edges = "squared error of TVD, by context", np.linspace(0, top, 31)
    picture = histograms(table.title, label, samples, edges)
    return Study("subsampling", (table,), {"fig11_subsampling": picture})


def errors_at(size: int, cases: list[Case], seed: int) -> SampleError:
    """The error of TVD with `size` draws, compared with all draws and the same people."""
    gaps = np.array([_gaps(case, size, seed) for case in cases])
    squared = (gaps**2).mean(axis=1)
    interval = people.mean_interval(squared, [case.pair.group for case in cases], seed)
    return SampleError(size, float(squared.mean()), interval, float(gaps.mean()), squared)


def _gaps(case: Case, size: int, seed: int) -> Floats:
    """TVD of a subsample minus TVD of the full sample, against the target half of each split."""
    words, halves = people.words_and_halves(case.item.id, case.item.responses, seed)
    targets = halves.target.counts / halves.target.n
    sampled = _subsamples(
        case.pair.model, words, size, stream(seed, "subsampling", size, case.item.id)
    )
    small = (np.abs(targets - sampled).sum(axis=1) + (1 - sampled.sum(axis=1))) / 2
    gaps: Floats = small - people.model_tvd(case.pair.model, words, targets)
    return gaps


def _subsamples(
    model: Categorical, words: Sequence[str], size: int, rng: np.random.Generator
) -> Floats:
    """Shares of `words` in `size` of the model's draws without replacement, one row per split."""
    n = model.n or 0
    counts = [round(model.as_dict().get(word, 0.0) * n) for word in words]
    # The model's other words are one outcome: TVD does not depend on which of them are drawn.
    counts.append(n - sum(counts))
    return rng.multivariate_hypergeometric(counts, size, size=N_SPLITS)[:, :-1] / size


def _error_table(errors: list[SampleError], usable: list[Case], n_contexts: int) -> Table:
    n = len(usable)
    over = f"all {n} contexts" if n == n_contexts > 1 else f"{n} of {n_contexts} contexts"
    sizes = sorted({case.pair.model.n or 0 for case in usable})
    draws = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    notes: tuple[str, ...] = (
        *notes_on("subsampling", over=over, most=max(SIZES), draws=draws, n_splits=N_SPLITS),
        people.interval_note(errors[0].interval),
    )
    if n == 1:
        notes += ("One context says nothing about the corpus.",)
    columns = ("draws", "MSE", "sd", "[low, high]", "RMSE", "median", "90%", "99%", "bias")
    return Table(f"Subsampling, {over}", columns, tuple(map(_error_row, errors)), notes)


def _error_row(error: SampleError) -> tuple[str, ...]:
    quantiles = (f"{q:.5f}" for q in np.quantile(error.by_case, [0.5, 0.9, 0.99]))
    mean, root = f"{error.mean:.5f}", f"{np.sqrt(error.mean):.3f}"
    spread = f"{error.by_case.std(ddof=1):.5f}" if len(error.by_case) > 1 else "–"
    ends = interval_text(error.interval, ".5f")
    return (str(error.size), mean, spread, ends, root, *quantiles, f"{error.bias:+.4f}")


FURTHER = (2, 5)
"""Sizes to extrapolate to, as multiples of the largest measured one."""
_ENDS = ("low", "high")
_LEAST = 4
_STEEPEST = -0.5
"""A sample approaches its distribution at most with the square root of its size."""


class CurvePoint(NamedTuple):
    """Both curves at one size, measured or extrapolated; `size` is None for infinite samples."""

    size: int | None
    people: float
    people_interval: Interval | None
    model: float
    model_interval: Interval | None
    measured: bool


@dataclass(frozen=True, eq=False)
class Curves:
    """(groups, 2 sizes + 1) summed distances: people's, then the model's; then the contexts."""

    sizes: tuple[int, ...]
    sums: Floats
    n_cases: int
    n_left_out: int

    def means(self, sums: Floats) -> tuple[Floats, Floats]:
        """(..., sizes) means of both curves from sums, original or resampled."""
        k = len(self.sizes)
        means = sums[..., :-1] / sums[..., -1:]
        return means[..., :k], means[..., k:]


def learning_curve(cases: Iterable[Case], seed: int) -> Study:
    """The study: both curves with intervals, extrapolated, and the data of their figure."""
    curves = measure(list(cases), seed)
    points = list(_points(curves, seed))
    figures = {"learning_curve": _picture(points, curves)}
    return Study("learning-curve", (_curve_table(points, curves),), figures)


def measure(cases: list[Case], seed: int) -> Curves:
    """Distances at sizes from 2 to the largest that 95% of the contexts allow."""
    # The largest sample size that each context allows on both sides.
    sides = [(len(case.item.responses) // 2, case.pair.model.n) for case in cases]
    allowed = [people if draws is None else min(people, draws) for people, draws in sides]
    most = int(np.quantile(allowed, 0.05, method="lower")) if cases else 0
    if most < _LEAST:
        raise UsageError(
            f"a learning curve needs at least {2 * _LEAST} answers and {_LEAST} draws of the model "
            f"in 95% of the contexts; {sum(size >= _LEAST for size in allowed)} of {len(allowed)} "
            "have them."
        )
    usable = [case for case, size in zip(cases, allowed, strict=True) if size >= most]
    sizes = tuple(int(m) for m in np.unique(np.geomspace(2, most, 8).round()))
    values = np.array([_distances(case, sizes, seed) for case in usable])
    sums = GroupSums()
    groups = [case.pair.group for case in usable]
    sums.add(groups, np.column_stack([values, np.ones(len(usable))]))
    return Curves(sizes, sums.table, len(usable), len(cases) - len(usable))


def _distances(case: Case, sizes: tuple[int, ...], seed: int) -> Floats:
    """Mean distances over random orders of the people: people's by size, then the model's."""
    counts, model = human_counts(case.item.responses), case.pair.model
    codes = np.repeat(np.arange(len(counts)), list(counts.values()))
    answers = codes[control.independent_orders(len(codes), N_SPLITS, seed, case.item.id)]
    rng = stream(seed, "learning-curve", case.item.id)
    side = Side.of(model, list(counts))
    of_people, of_model = [], []
    for m in sizes:
        first, second = answers[:, :m], answers[:, m : 2 * m]
        target, other = (counted(half, len(counts)) / m for half in (first, second))
        of_people.append(_tvd(target, other))
        of_model.append(_tvd(target, side.part(m, rng, N_SPLITS)))
    return np.array([*of_people, *of_model])


def _tvd(target: Floats, other: Floats) -> float:
    """Mean TVD over rows; mass outside the target's words need not be counted."""
    return float(1 - np.minimum(target, other).sum(axis=1).mean())


def people_at(sizes: Floats, means: Floats, size: float) -> Floats:
    """The curve of people at any size: (..., sizes) means -> (...).

    The logarithm of the distance is a concave parabola in that of the size. Where it would fall
    faster than the square root of the size, it continues with that slope.
    """
    x = np.log(sizes)
    bent, slope, level = _fitted(np.column_stack([x**2, x, x**0]), means)
    straight = _fitted(np.column_stack([x, x**0]), means)
    is_bent = bent < 0
    slope = np.where(is_bent, slope, straight[0])
    level = np.where(is_bent, level, straight[1])
    bent = np.where(is_bent, bent, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = np.where(is_bent, (_STEEPEST - slope) / (2 * bent), np.inf)
    # The slope is limited only beyond the last measured size.
    turn = np.maximum(turn, x[-1])
    near = np.minimum(np.log(size), turn)
    beyond = np.maximum(np.log(size) - turn, 0.0) * _STEEPEST
    distance: Floats = np.exp(bent * near**2 + slope * near + level + beyond)
    return distance


def _fitted(design: Floats, means: Floats) -> Floats:
    """Least squares of log means, (coefficients, ...)."""
    logs = np.log(np.maximum(means, 1e-12)).reshape(-1, means.shape[-1]).T
    solution = np.linalg.lstsq(design, logs, rcond=None)[0]
    shaped: Floats = solution.reshape(design.shape[1], *means.shape[:-1]).astype(np.float64)
    return shaped


def model_at(people: Floats, model: Floats, people_then: Floats) -> Floats:
    """The model's curve where that of people is `people_then`: (..., sizes) means -> (...).

    The squared distance is fitted, on the upper half of the sizes, as the model's own squared
    distance plus a multiple of people's: that of a perfect model vanishes with theirs.
    """
    upper = people.shape[-1] // 2
    x, y = people[..., upper:] ** 2, model[..., upper:] ** 2
    away = x - x.mean(axis=-1, keepdims=True)
    scatter = np.maximum((away**2).sum(axis=-1), 1e-18)
    slope = np.maximum((away * y).sum(axis=-1) / scatter, 0.0)
    squared = y.mean(axis=-1) + slope * (people_then**2 - x.mean(axis=-1))
    distance: Floats = np.sqrt(np.maximum(squared, 0.0))
    return distance


def _points(curves: Curves, seed: int) -> Iterator[CurvePoint]:
    sizes, top = curves.sizes, curves.sizes[-1]
    for size in (*sizes, *(top * times for times in FURTHER), None):
        people, model = (_value(curves, seed, size, which) for which in (0, 1))
        yield CurvePoint(size, *people, *model, size in sizes)


def _value(
    curves: Curves, seed: int, size: int | None, which: int
) -> tuple[float, Interval | None]:
    """One curve's value at a size, and its interval: fits are repeated on resampled groups."""

    def at(sums: Floats) -> Floats:
        return _curve(curves, sums, size)[which]

    value = min(1.0, float(at(curves.sums.sum(axis=0)[None])[0]))
    if size is None and which == 0:
        return 0.0, None  # infinite samples of one population do not differ
    interval = resample(curves.sums, at, seed).interval
    return value, interval and cut_at(interval, value, 0.0, 1.0)


def _curve(curves: Curves, sums: Floats, size: int | None) -> tuple[Floats, Floats]:
    people, model = curves.means(sums)
    if size in curves.sizes:
        place = curves.sizes.index(size)
        return people[..., place], model[..., place]
    then = np.zeros(people.shape[:-1])
    if size is not None:
        then = people_at(np.array(curves.sizes, dtype=np.float64), people, size)
    return then, model_at(people, model, then)


def _curve_table(points: list[CurvePoint], curves: Curves) -> Table:
    notes = list(notes_on("learning_curve", n_splits=N_SPLITS, n=curves.n_cases))
    if curves.n_left_out:
        notes.append(f"{curves.n_left_out} contexts with fewer answers or draws are left out.")
    columns = ("m", "people", "[low, high]", "model", "[low, high]", "above people")
    rows = tuple(_curve_row(p) for p in points)
    return with_cut_note(Table("Learning curve", columns, rows, tuple(notes)))


def _curve_row(point: CurvePoint) -> tuple[str, ...]:
    size = ("∞" if point.size is None else str(point.size)) + ("" if point.measured else "*")
    people, model = (
        interval_text(ends) + (CUT_MARK if is_cut(ends) else "")
        for ends in (point.people_interval, point.model_interval)
    )
    above = f"{point.model - point.people:+.3f}"
    return (size, f"{point.people:.3f}", people, f"{point.model:.3f}", model, above)


def _picture(points: list[CurvePoint], curves: Curves) -> Lines:
    finite = [point for point in points if point.size is not None]
    lines = tuple(_line(finite, side) for side in ("people", "model"))
    marks = (
        Guide("largest measured", x=float(curves.sizes[-1])),
        Guide("model, infinite samples", y=points[-1].model),
    )
    return Lines("Learning curve", "people and samples, m", "TVD", lines, marks)


def _line(points: list[CurvePoint], side: str) -> LineSeries:
    y = plain([getattr(point, side) for point in points])
    intervals = [getattr(point, f"{side}_interval") for point in points]
    band = () if None in intervals else (plain([getattr(i, e) for i in intervals]) for e in _ENDS)
    return LineSeries(f"{side} v people", plain([point.size or 0 for point in points]), y, *band)
