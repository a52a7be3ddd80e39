"""What a metric cannot pass: a studentised end beyond a bound is cut there, and says so."""

from __future__ import annotations

import math
from dataclasses import replace
from fnmatch import fnmatchcase

from aleatoric.types import Estimate, Interval

_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("tvd_debiased", -1.0, 1.0),
    ("tvd*", 0.0, 1.0),
    ("js", 0.0, math.log(2)),
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
"""The first pattern that fits a metric's name; what none fits has no bound that is known here.

An unbiased squared distance is not among them: below 0 it says that the noise was taken for more
than it is.
"""


def bounds_of(metric: str) -> tuple[float, float]:
    """The smallest and the largest value that a metric can have.

    >>> bounds_of("ece_human"), bounds_of("sq_distance")
    ((0.0, 1.0), (-inf, inf))
    """
    fitting = ((low, high) for name, low, high in _BOUNDS if fnmatchcase(metric, name))
    return next(fitting, (-math.inf, math.inf))


def bounded(estimate: Estimate, metric: str) -> Estimate:
    """The estimate with an interval that ends where the metric does.

    >>> wide = Interval(-0.01, 0.2, 0.95, "group bootstrap, student")
    >>> bounded(Estimate(0.1, wide, 9, 3), "ece_human").interval
    Interval(low=0.0, high=0.2, level=0.95, method='group bootstrap, student, cut at 0')
    """
    own = estimate.interval
    if own is None:
        return estimate
    low, high = bounds_of(metric)
    cut = [
        f"{bound:.3g}" for bound, over in ((low, own.low < low), (high, own.high > high)) if over
    ]
    if not cut:
        return estimate
    method = f"{own.method}, cut at {' and '.join(cut)}"
    # An interval that lies wholly beyond a bound ends in it.
    lowest, highest = (min(max(end, low), high) for end in (own.low, own.high))
    return replace(estimate, interval=Interval(lowest, highest, own.level, method))
