"""Intervals of results: cut at the bounds of their metrics, widened to stricter levels."""

from __future__ import annotations

import math
from dataclasses import replace
from fnmatch import fnmatchcase

from scipy.stats import t

from aleatoric.types import Estimate, Interval

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
    ("w1_*", 0.0, math.inf),
    ("mean_?/lexical-*", 0.0, 1.0),
    ("mean_?/syntactic-*", 0.0, 1.0),
    ("mean_?/semantic", 0.0, 2.0),
    ("length_?", 0.0, math.inf),
    *((pattern, 0.0, 1.0) for pattern in ("ece*", "e_ece*", "mce", "sce*", "ace*")),
)
"""The first pattern that fits a metric's name applies; a metric without one has no known bound.

These are bounds of the true value. An unbiased estimate may lie beyond one: an overlap above 1, a
squared or energy distance below 0. `overlap` is cut because readers know it as a share; the two
distances have no bound here, so that an end below 0 shows how far noise reaches.
"""


def bounds_of(metric: str) -> tuple[float, float]:
    """The smallest and the largest true value that a metric can have.

    >>> bounds_of("ece_human"), bounds_of("sq_distance")
    ((0.0, 1.0), (-inf, inf))
    """
    fitting = ((low, high) for name, low, high in _BOUNDS if fnmatchcase(metric, name))
    return next(fitting, (-math.inf, math.inf))


def bounded(estimate: Estimate, metric: str) -> Estimate:
    """Cut the interval of an estimate at the bounds of its metric; the estimate stays as it is.

    An end beyond a bound moves to the bound, or to the estimate where that lies beyond it too: the
    true value is never cut off, and neither is the estimate.

    >>> wide = Interval(-0.01, 0.2, 0.95, "group bootstrap, student")
    >>> bounded(Estimate(0.1, wide, 9, 3), "ece_human").interval
    Interval(low=0.0, high=0.2, level=0.95, method='group bootstrap, student, cut at 0')
    """
    own, value = estimate.interval, estimate.value
    if own is None or value is None:
        return estimate
    low, high = bounds_of(metric)
    low, high = min(low, value), max(high, value)
    ends = max(own.low, low), min(own.high, high)
    cut = [
        f"{end:.3g}" for end, before in zip(ends, (own.low, own.high), strict=True) if end != before
    ]
    if not cut:
        return estimate
    method = f"{own.method}, cut at {' and '.join(cut)}"
    return replace(estimate, interval=Interval(*ends, own.level, method))


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
