"""Numbers as they are shown."""

from __future__ import annotations

import math

from aleatoric.inference.bounds import CUT_MARK, is_cut
from aleatoric.types import Estimate, Interval

UNDEFINED = "–"


def number(value: float | None, digits: int = 3) -> str:
    """A number as papers print it.

    >>> number(0.43239), number(None)
    ('0.432', '–')
    """
    if value is None:
        return UNDEFINED
    # A negative that rounds to zero is zero.
    return f"{value:.{digits}f}" if round(value, digits) else f"{0:.{digits}f}"


def with_interval(estimate: Estimate, digits: int = 3) -> str:
    """A value with its interval, which has a mark where it is cut at a bound.

    >>> with_interval(Estimate(0.5, None, 3, 1))
    '0.500'
    >>> with_interval(Estimate(0.5, Interval(0.0, 0.9, 0.95, "t, cut at 0"), 3, 3))
    '0.500 [0.000, 0.900]†'
    """
    text = number(estimate.value, digits)
    if estimate.interval is None:
        return text + (f" ({p_calibrated(estimate)})" if p_calibrated(estimate) else "")
    return f"{text} {interval_text(estimate.interval, digits)}"


def interval_text(interval: Interval, digits: int = 3, times: float = 1.0) -> str:
    """The two ends of an interval, multiplied by `times`.

    >>> interval_text(Interval(0.1, 0.9, 0.95, "t"), 1, 100)
    '[10.0, 90.0]'
    """
    low, high = (number(times * end, digits) for end in (interval.low, interval.high))
    return f"[{low}, {high}]{CUT_MARK if is_cut(interval) else ''}"


def p_calibrated(estimate: Estimate) -> str:
    """The p-value of calibration, where it stands in place of an interval; else nothing.

    >>> p_calibrated(Estimate(0.1, None, 9, 3, p_calibrated=0.4286))
    'p = 0.429'
    """
    if estimate.p_calibrated is None or estimate.interval is not None:
        return ""
    return f"p = {max(estimate.p_calibrated, 0.001):.3f}"


def between(low: float | None, high: float | None, digits: int = 3) -> str:
    """A range of numbers; one number where both ends are equal.

    >>> between(0.2, 0.3), between(0.2, 0.2), between(None, None)
    ('0.200–0.300', '0.200', '–')
    """
    if low is None or high is None:
        return UNDEFINED
    ends = number(low, digits), number(high, digits)
    return ends[0] if ends[0] == ends[1] else "–".join(ends)


def interval_ends(estimate: Estimate | None, times: float = 1.0) -> tuple[float, float, float]:
    """The low end, the value and the high end of an estimate; NaN where undefined.

    >>> interval_ends(Estimate(0.5, None, 3, 1), 100)
    (50.0, 50.0, 50.0)
    """
    if estimate is None or estimate.value is None:
        return math.nan, math.nan, math.nan
    value, own = estimate.value, estimate.interval
    ends = (own.low, value, own.high) if own else (value, value, value)
    return times * ends[0], times * ends[1], times * ends[2]
