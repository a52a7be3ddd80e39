"""What was measured and what was found, in sentences that a newcomer understands."""

from __future__ import annotations

from collections.abc import Sequence

from aleatoric.report.numbers import number
from aleatoric.texts.verdicts import sentences, verdicts
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
        "mean distances between two people's texts (H), between two of the generator's (M) and "
        "between one of each (C). The energy distance 2C − M − H says how close a generator is to "
        "people: 0 for a perfect one, at any number of texts. M against H says whether it varies "
        "more or less than people. W1, the paper's metric, stands beside people against people "
        "(control)."
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
    found = verdicts(results)
    several = len({one.system for one in found}) > 1
    # With several systems, the first probe alone: the table has the others.
    shown = [one for one in found if one.probe == found[0].probe] if several else found
    return " ".join(sentences(shown))


_FINDINGS = {"word": _word, "token": _token, "text": _text}
