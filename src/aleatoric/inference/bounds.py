"""Intervals of results: cut at the bounds of their metrics, widened to stricter levels."""

from __future__ import annotations

import math
from dataclasses import replace
from fnmatch import fnmatchcase

from scipy.stats import t

from aleatoric.types import Estimate, Interval, Table

_CUT = ", cut at "
_ROUNDING = 1e-9
_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("tvd_debiased", -1.0, 1.0),
    ("tvd*", 0.0, 1.0),
    ("js", 0.0, math.log(2)),
    ("overlap", 0.0, 1.0),
    ("agreement_gap", -1.0, 1.0),
    ("agreement_*", 0.0, 1.0),
    ("log_loss", 0.0, math.inf),
    ("mass_on_human", 0.0, 1.0),
    ("mode_certified", 0.0, 1.0),
    ("accuracy", 0.0, 1.0),
    ("rank_of_human_mode", 1.0, math.inf),
    ("brier", 0.0, 2.0),
    ("nll", 0.0, math.inf),
    ("entropy*", 0.0, math.inf),
    *(
        bound
        for probe, most in (("lexical-*", 1.0), ("syntactic-*", 1.0), ("semantic", 2.0))
        for bound in (
            (f"mean_?/{probe}", 0.0, most),
            (f"w1_*/{probe}", 0.0, most),
            (f"dmu_*/{probe}", -most, most),
        )
    ),
    ("w1_*", 0.0, math.inf),
    ("ks_*", 0.0, 1.0),
    ("vocabulary_unseen", 0.0, 1.0),
    ("length_?", 0.0, math.inf),
    *((pattern, 0.0, 1.0) for pattern in ("ece*", "e_ece*", "mce", "sce*", "ace*")),
)
"""The first pattern that fits a metric's name applies; a metric without one has no known bound.

These are bounds of the true value. An unbiased estimate may lie beyond one: an overlap above 1, a
squared or energy distance below 0. `overlap` is cut because readers know it as a share; the two
distances have no bound here, so that an end below 0 shows how far noise reaches.
"""


CUT_MARK = "†"
CUT_NOTE = (
    "†: the interval is cut at the end of the metric's range, or at the estimate where that lies "
    "beyond it (an overlap above 1); --json says where in interval.method."
)


def bounds_of(metric: str) -> tuple[float, float]:
    """The smallest and the largest true value that a metric can have.

    >>> bounds_of("ece_human"), bounds_of("sq_distance")
    ((0.0, 1.0), (-inf, inf))
    """
    fitting = ((low, high) for name, low, high in _BOUNDS if fnmatchcase(metric, name))
    return next(fitting, (-math.inf, math.inf))


def bounded(estimate: Estimate, metric: str) -> Estimate:
    """Cut the interval of an estimate at the bounds of its metric, and rounding from its value.

    A value that is beyond a bound by more than rounding stays: only an unbiased estimate can be.

    >>> wide = Interval(-0.01, 0.2, 0.95, "group bootstrap, student")
    >>> bounded(Estimate(0.1, wide, 9, 3), "ece_human").interval
    Interval(low=0.0, high=0.2, level=0.95, method='group bootstrap, student, cut at 0')
    """
    return _bounded(estimate, *bounds_of(metric))


def bounded_difference(estimate: Estimate, metric: str) -> Estimate:
    """Cut the interval of a difference between two values of a metric at its largest difference.

    >>> wide = Interval(-1.2, 0.2, 0.95, "group bootstrap, student")
    >>> bounded_difference(Estimate(-0.9, wide, 9, 3), "tvd").interval.low
    -1.0
    """
    low, high = bounds_of(metric)
    return _bounded(estimate, low - high, high - low)


def cut_at(interval: Interval, value: float, low: float, high: float) -> Interval:
    """Cut an interval of `value` at the bounds, and say so in its method.

    An end beyond a bound moves to the bound, or to the value where that lies beyond it too: the
    true value is never cut off, and neither is the estimate.

    >>> cut_at(Interval(0.9, 1.1, 0.95, "t"), 1.05, 0.0, 1.0)
    Interval(low=0.9, high=1.05, level=0.95, method='t, cut at 1.05')
    """
    low, high = min(low, value), max(high, value)
    ends, before = (max(interval.low, low), min(interval.high, high)), (interval.low, interval.high)
    cut = [f"{end:.3g}" for end, old in zip(ends, before, strict=True) if end != old]
    if not cut:
        return interval
    method = f"{interval.method}{_CUT}{' and '.join(cut)}"
    return replace(interval, low=ends[0], high=ends[1], method=method)


def with_cut_note(table: Table) -> Table:
    """A table with a note on its cut intervals, where it has any.

    >>> with_cut_note(Table("t", ("overlap",), (("0.98 [0.90, 1.00]†",),))).notes == (CUT_NOTE,)
    True
    """
    marked = any(CUT_MARK in str(cell) for row in table.rows for cell in row)
    return replace(table, notes=(*table.notes, CUT_NOTE)) if marked else table


def is_cut(interval: Interval | None) -> bool:
    """Whether an interval was cut at a bound.

    >>> is_cut(Interval(0.0, 0.2, 0.95, "group bootstrap, student, cut at 0"))
    True
    """
    return interval is not None and _CUT in interval.method


def _bounded(estimate: Estimate, low: float, high: float) -> Estimate:
    own, value = estimate.interval, estimate.value
    if value is None:
        return estimate
    inside = min(max(value, low), high)
    value = inside if abs(inside - value) < _ROUNDING else value
    return replace(estimate, value=value, interval=own and cut_at(own, value, low, high))


def at_level(estimate: Estimate, level: float) -> Estimate:
    """Return an estimate with its interval widened to a higher level, by Student's t.

    >>> wide = at_level(Estimate(0.5, Interval(0.4, 0.6, 0.95, "t"), 100, 50), 0.99).interval
    >>> round(wide.low, 3), round(wide.high, 3)
    (0.367, 0.633)
    """
    own = estimate.interval
    if own is None or estimate.value is None or level <= own.level:
        return estimate
    freedom = max(estimate.n_groups - 1, 1)
    factor = t.ppf((1 + level) / 2, freedom) / t.ppf((1 + own.level) / 2, freedom)
    low, high = (
        float(estimate.value + factor * (end - estimate.value)) for end in (own.low, own.high)
    )
    return replace(estimate, interval=Interval(low, high, level, own.method))
