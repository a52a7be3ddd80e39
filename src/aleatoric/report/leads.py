"""What was measured and what was found, in sentences that a newcomer understands."""

from __future__ import annotations

from collections.abc import Sequence

from aleatoric.report.numbers import number
from aleatoric.types import Result

TITLES = {"word": "Next words", "token": "Reference tokens", "text": "Whole texts"}
LEADS = {
    "word": (
        "People were asked for the next word of each context, and disagreed. This page shows how "
        "far each system's next-word distribution is from theirs: the share of probability that "
        "would have to move (total variation distance, TVD), beside what a perfect model would "
        "score with the same number of answers (floor)."
    ),
    "token": (
        "At each position of a text the model gives a distribution over its vocabulary, and the "
        "text has a token. This page shows whether the model is as often right as it is sure: for "
        "its most likely token (ECE), and for what it would say under a generation scheme (e-ECE)."
    ),
    "text": (
        "Several people wrote a text to each input, and their texts differ. This page shows "
        "whether a generator's texts differ as much, in words, in grammar and in meaning: "
        "distances between two people's texts (H), between two of the generator's (M) and between "
        "one of each (C), and how far apart these distributions are (Wasserstein-1 distance, W1), "
        "beside people against people (control) and what a perfect generator would score with as "
        "many texts (floor)."
    ),
}
_CONTROLS = ("human", "oracle", "control")


def finding(level: str, results: Sequence[Result]) -> str:
    """The main finding as a sentence; empty where there is no system to speak of."""
    return _FINDINGS[level](results)


def _lowest(results: Sequence[Result], metric: str) -> tuple[Result | None, int]:
    """The model with the least excess by a metric, or the least value, and how many there are."""
    own = [r for r in results if r.metric == metric and r.system not in _CONTROLS]
    known = [r for r in own if r.estimate.value is not None]
    return min(known, key=_excess_or_value, default=None), len(known)


def _excess_or_value(result: Result) -> float:
    return result.excess if result.excess is not None else result.estimate.value or 0.0


def _among(name: str, n: int) -> str:
    return f"Of {n} systems, {name} is" if n > 1 else f"{name} is"


def _word(results: Sequence[Result]) -> str:
    best, n = _lowest(results, "tvd")
    oracle = next((r for r in results if (r.system, r.metric) == ("oracle", "tvd")), None)
    if best is None:
        return ""
    nearest = "nearest to people" if n > 1 else "measured against people"
    above = f", {number(best.excess)} above its floor" if best.excess is not None else ""
    value = number(best.estimate.value)
    found = f"{_among(best.system, n)} {nearest}: its TVD is {value}{above}."
    if oracle is None or oracle.estimate.value is None:
        return found
    halves = number(oracle.estimate.value)
    return f"{found} One half of the people is {halves} from the other half."


def _token(results: Sequence[Result]) -> str:
    best, n = _lowest(results, "ece")
    if best is None or best.estimate.value is None:
        return ""
    calibrated = "best calibrated" if n > 1 else "measured"
    floor = best.floor.value if best.floor else None
    beside = f" (a calibrated model would score {100 * floor:.2f}%)" if floor is not None else ""
    value = 100 * best.estimate.value
    return f"{_among(best.system, n)} {calibrated}: its ECE is {value:.2f}%{beside}."


def _text(results: Sequence[Result]) -> str:
    metric = next((r.metric for r in results if r.metric.startswith("w1_C/")), "")
    best, n = _lowest(results, metric)
    control = next((r for r in results if (r.system, r.metric) == ("control", metric)), None)
    if best is None or control is None:
        return ""
    near = "nearest to people" if n > 1 else "measured against people"
    probe, people = metric.partition("/")[2], number(control.estimate.value)
    value = number(best.estimate.value)
    return (
        f"{_among(best.system, n)} {near} by {probe}: its W1(C, H) is {value}; one half of the "
        f"people scores {people} against the other."
    )


_FINDINGS = {"word": _word, "token": _token, "text": _text}
