"""The metrics on plain Python data: Counters, dicts, lists, arrays, tensors, pandas columns.

A distribution over answers is given as

- counts: a `Counter` or a dict of whole numbers, `{"many": 20, "some": 3}`;
- probabilities: a dict of floats that sum to 1, `{"many": 0.8, "some": 0.2}`;
- answers: a list of strings, one per person or draw, `["many", "some", "many"]`;
- an array of counts or of probabilities, if both sides list the same outcomes in the same order.

Numbers are counts or probabilities, never answers: write answers that are numbers as strings.
Numbers of a repeated label of a pandas column are added. Answers are compared as they are; runs
also ignore case and punctuation. A list of distributions per side means several items.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from aleatoric.errors import ArgumentError, quoted
from aleatoric.metrics import calibration, distances
from aleatoric.metrics.agreement import Agreement
from aleatoric.types import Categorical, Floats, Pair

SUM_TOLERANCE = 1e-4
"""How far a sum of probabilities may be from 1, for rounding in single precision."""
LARGEST_COUNT = 2**53
MOST_BINS = 100_000


def agreement(people: Any, model: Any) -> Agreement:
    """Return H, M and C: how often two people, two draws, and a draw and a person agree.

    Estimates from counts are unbiased; each side needs at least two answers. For several items,
    the means over items.

    >>> found = agreement({"many": 2, "some": 2}, {"many": 1.0})
    >>> round(found.human, 3), found.model, found.cross
    (0.333, 1.0, 0.5)
    """
    found = [_agreement(pair) for pair in _pairs(people, model)]
    sides = zip(*((item.human, item.model, item.cross) for item in found), strict=True)
    return Agreement(*(math.fsum(side) / len(found) for side in sides))


def overlap(people: Any, model: Any) -> float:
    """Return 2 ΣC / Σ(H + M) over items: 1 for a perfect model, 0 if no answers are shared.

    >>> overlap({"many": 20, "some": 3}, {"many": 310, "no": 120})
    0.9222255739205508
    """
    found = [_agreement(pair) for pair in _pairs(people, model)]
    both = sum(item.human + item.model for item in found)
    if both <= 0:
        raise ArgumentError("the overlap is undefined: no two answers of people or model agree.")
    return 2 * sum(item.cross for item in found) / both


def sq_distance(people: Any, model: Any) -> float:
    """Return the mean of H + M - 2C over items: 0 for a perfect model, on average.

    >>> round(sq_distance({"many": 0.5, "some": 0.5}, {"many": 1.0}), 3)
    0.5
    """
    found = [_agreement(pair).sq_distance for pair in _pairs(people, model)]
    return math.fsum(found) / len(found)


def tvd(people: Any, model: Any) -> float:
    """Return half the L1 distance, averaged over items; biased upward for samples.

    >>> tvd(["many", "some"], {"many": 1.0})
    0.5
    """
    found = [distances.tvd(pair) for pair in _pairs(people, model)]
    return math.fsum(found) / len(found)


def tvd_debiased(people: Any, model: Any) -> float:
    """Return the TVD with each person and draw left out in turn; on average not above the true TVD.

    >>> round(tvd_debiased({"many": 20, "some": 20}, {"no": 40}), 6)
    1.0
    """
    found = []
    for pair in _pairs(people, model):
        value = distances.tvd_debiased(pair)
        if value is None:
            raise ArgumentError("the debiased TVD needs counts of at least two answers per side.")
        found.append(value)
    return math.fsum(found) / len(found)


def ece(confidence: Any, correct: Any, bins: int = calibration.N_BINS) -> float:
    """Return the expected calibration error over bins of equal width.

    `confidence` holds probabilities, `correct` holds 0 and 1 (or shares of correct answers). A
    confidence on the edge of two bins, such as 0.7, belongs to the upper one. Runs place it by its
    single-precision value.

    >>> ece([0.75, 0.75], [True, False])
    0.25
    """
    sure, right = _numbers(confidence, "confidence"), _numbers(correct, "correct")
    _check_lengths(len(sure), len(right), "confidences", "values of correct")
    for name, values in (("confidence", sure), ("correct", right)):
        if len(bad := np.flatnonzero((values < 0) | (values > 1))):
            problem = f"{name}[{bad[0]}] is {values[bad[0]]:g}"
            raise ArgumentError(f"{problem}; use values between 0 and 1.")
    edges = calibration.equal_width_edges(_bins(bins))
    index = np.searchsorted(np.array(edges), sure, side="right")
    return float(calibration.ece_of(calibration.bin_sums(sure, right, index, len(edges) + 1)))


def e_ece(probs: Any, targets: Any, bins: int = 15, scheme: str = "ancestral") -> float:
    """Return the expected calibration error of the full distribution (e-ECE).

    `probs` has one row of probabilities per token, `targets` the reference class of each row.
    `scheme` is the decoder of the expectation, such as `top_p=0.8`. For logits, or for more tokens
    than fit into memory, use `CalibrationStream`.

    >>> round(e_ece([[0.5, 0.3, 0.2], [0.6, 0.2, 0.2]], [1, 0]), 3)
    0.12
    """
    from aleatoric.calibration.kernels import naive
    from aleatoric.calibration.statistics import Scheme

    rows, wanted = _rows(probs), _targets(targets)
    _check_lengths(len(rows), len(wanted), "rows of probabilities", "targets")
    if len(outside := np.flatnonzero((wanted < 0) | (wanted >= rows.shape[1]))):
        place, last = int(outside[0]), rows.shape[1] - 1
        raise ArgumentError(
            f"target {place} is {wanted[place]}; use class numbers from 0 to {last}."
        )
    with np.errstate(divide="ignore"):
        found = naive.columns(np.log(rows), wanted, [(Scheme.parse(scheme), None)])
    (columns,) = found.expected.values()
    edges = calibration.equal_width_edges(_bins(bins))
    value = calibration.ece(columns.confidence, columns.accuracy, edges)
    assert value is not None
    return value


def w1(left: Any, right: Any) -> float:
    """Return the Wasserstein-1 distance between two samples of numbers.

    >>> round(w1([0, 1], [0, 0, 3]), 4)
    0.8333
    """
    samples = _numbers(left, "left"), _numbers(right, "right")
    return float(distances.w1(samples[0][None], samples[1][None])[0])


def energy(
    people: Sequence[str], model: Sequence[str], probe: str = "lexical-1", language: str = "en"
) -> float:
    """Return 2C - M - H of texts for one input: 0 for a perfect model, on average.

    C, M and H are mean distances between a text of the model and one of a person, two texts of the
    model, and two people. `probe` is the distance, such as `lexical-1` or `semantic`. Texts in a
    script without spaces between words need their `language`.

    >>> energy(["a cat", "a dog"], ["the end", "the end"])
    1.5
    """
    from aleatoric.probes.base import Block
    from aleatoric.probes.tools import Tools, language_code, probes_with

    sides = _texts(people, "people"), _texts(model, "model")
    n, language = len(sides[0]), language_code(language)
    _check_spaces([*sides[0], *sides[1]], language)
    block = Block((*sides[0], *sides[1]), (n, len(sides[1])))
    matrix = probes_with(Tools(language), [probe])[0].matrices([block])[0]
    parts = _above_diagonal(matrix[:n, :n]), _above_diagonal(matrix[n:, n:]), matrix[:n, n:]
    if any(np.isnan(part).all() for part in parts):
        problem = f"{probe} is undefined for all pairs of these texts"
        raise ArgumentError(f"{problem}; are they too short?")
    human, own, cross = (float(np.nanmean(part)) for part in parts)
    return 2 * cross - own - human


def _check_spaces(texts: list[str], language: str) -> None:
    from aleatoric.nextword.rules import lacks_spaces

    if lacks_spaces(texts, language):
        problem = "the texts are in a script that is written without spaces between words"
        raise ArgumentError(f"{problem}; state their language, as in language='zh'.")


def _above_diagonal(matrix: Floats) -> Floats:
    return matrix[np.triu_indices(len(matrix), 1)]


def _agreement(pair: Pair) -> Agreement:
    found = Agreement.of(pair)
    if found is None:
        side = "people" if pair.human.n == 1 else "model"
        raise ArgumentError(f"{side} has one answer, and agreement needs at least two.")
    return found


def _pairs(people: Any, model: Any) -> list[Pair]:
    """The distributions of each item: of one item, or of as many as are listed."""
    people, model = _plain(people), _plain(model)
    several = [_is_list_of_distributions(side) for side in (people, model)]
    if several == [False, False]:
        return [_pair(people, model)]
    if several != [True, True]:
        raise ArgumentError("give one distribution for both people and model, or a list for both.")
    _check_lengths(len(people), len(model), "items of people", "items of the model")
    return [_pair(*sides) for sides in zip(people, model, strict=True)]


def _is_list_of_distributions(value: Any) -> bool:
    nested = (Mapping, Sequence, Categorical, np.ndarray)
    entries = value if isinstance(value, list) else ()
    return any(isinstance(_plain(e), nested) for e in entries if not isinstance(e, str | bytes))


def _pair(people: Any, model: Any) -> Pair:
    sides = [_plain(people), _plain(model)]
    names = ("people", "model")
    named_sides = zip(sides, names, strict=True)
    positional = [isinstance(s, list) and not _is_answers(s, name) for s, name in named_sides]
    if positional == [True, True]:
        _check_lengths(len(sides[0]), len(sides[1]), "outcomes of people", "outcomes of the model")
    elif any(positional):
        raise ArgumentError(
            "an array has no names for its outcomes: give arrays for both people and model, or "
            "mappings from answers to counts or probabilities."
        )
    human, own = (_distribution(s, name) for s, name in zip(sides, names, strict=True))
    return Pair("", "", human, own)


def _plain(value: Any) -> Any:
    """Arrays and tensors as lists; a pandas Series as a list of answers, or as a mapping."""
    if isinstance(value, Mapping | Categorical | str):
        return value
    if hasattr(value, "columns") or isinstance(value, bytes | set):
        kind = type(value).__name__
        raise ArgumentError(f"a {kind} is no distribution; give one column, a list or a dict.")
    if hasattr(value, "items"):  # a pandas Series
        listed = list(value)
        is_named = any(map(_is_number, listed)) and not any(isinstance(e, str) for e in listed)
        return _added(value.items()) if is_named else listed
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, Sequence) else value


def _added(labelled: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Numbers by label, NaN if one is missing; those of a repeated label are added."""
    numbers: dict[Any, Any] = {}
    for label, number in labelled:
        value = number if _is_number(number) else math.nan
        value = value.item() if isinstance(value, np.generic) else value  # int8 would overflow
        numbers[label] = numbers[label] + value if label in numbers else value
    return numbers


def _is_number(value: Any) -> bool:
    kinds = int | float | np.integer | np.floating | Fraction | Decimal
    return isinstance(value, kinds) and not isinstance(value, bool)


def _is_answers(values: list[Any], name: str) -> bool:
    if not values:
        raise ArgumentError(f"{name} has no answers; give at least one.")
    answers = any(isinstance(value, str) for value in values)
    for place, value in enumerate(values):
        problem = f"answer {place} of {name} is {quoted(value)}"
        if answers and not isinstance(value, str):
            raise ArgumentError(f"{problem}; write answers as strings, without missing ones.")
        if not (answers or _is_number(value)):
            fix = "give answers as strings, or counts or probabilities as numbers"
            raise ArgumentError(f"{problem}; {fix}.")
    return answers


def _distribution(value: Any, name: str) -> Categorical:
    if isinstance(value, Categorical):
        _check_labels(value.support, name)
        return value
    if isinstance(value, list):
        answers = _is_answers(value, name)
        value = Counter(value) if answers else {str(i): entry for i, entry in enumerate(value)}
    if not isinstance(value, Mapping):
        forms = "counts or probabilities ({'many': 20}), or a list of answers"
        raise ArgumentError(f"{name} is {quoted(value)}; give {forms}.")
    _check_labels(value, name)
    return _from_numbers({str(answer): number for answer, number in value.items()}, name)


def _check_labels(answers: Collection[Any], name: str) -> None:
    texts = {str(answer): answer for answer in answers}
    if len(texts) < len(answers):
        raise ArgumentError(f"two answers of {name} have the same name; give each its own string.")
    for text in {"None", "nan", "<NA>", "NaT"} & texts.keys():
        if not isinstance(texts[text], str):
            raise ArgumentError(f"{name} has the answer {text}; leave missing answers out.")


def _from_numbers(named: dict[str, Any], name: str) -> Categorical:
    for answer, number in named.items():
        if isinstance(number, Fraction | Decimal):
            number = named[answer] = float(number)
        if not _is_number(number) or not 0 <= number <= LARGEST_COUNT:
            problem = f"{name} has {quoted(number)} for {quoted(answer)}"
            counts = f"counts (whole numbers up to {LARGEST_COUNT})"
            raise ArgumentError(f"{problem}; use {counts} or probabilities.")
    numbers = {answer: n for answer, n in named.items() if n > 0}
    if not numbers:
        raise ArgumentError(f"{name} has no answers; give at least one.")
    if all(isinstance(number, int | np.integer) for number in numbers.values()):
        return Categorical.from_counts({answer: int(n) for answer, n in numbers.items()})
    total = math.fsum(numbers.values())
    if abs(total - 1) > SUM_TOLERANCE:
        raise ArgumentError(
            f"the probabilities of {name} sum to {total:.6g}, not to 1; give counts as whole "
            "numbers (int), or mass on other answers as Categorical(..., rest=...)."
        )
    return Categorical(tuple(numbers), tuple(map(float, numbers.values())))


def _numbers(values: Any, name: str) -> Floats:
    """One-dimensional, finite and not empty."""
    array = _array(values, f"{name} is {quoted(values)}; give an array of numbers.")
    if array.ndim != 1 or not len(array):
        raise ArgumentError(f"{name} has the shape {array.shape}; give one dimension, not empty.")
    if len(bad := np.flatnonzero(~np.isfinite(array))):
        raise ArgumentError(f"{name}[{bad[0]}] is {array[bad[0]]}; leave missing values out.")
    return array


def _array(values: Any, problem: str) -> Floats:
    try:
        plain = values.tolist() if hasattr(values, "tolist") else values
        return np.asarray(plain, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(problem) from None


def _rows(probs: Any) -> Floats:
    rows = _array(probs, "probs must have one row of probabilities per token.")
    if rows.ndim != 2 or not rows.size:
        raise ArgumentError(f"probs has the shape {rows.shape}; give (tokens, classes), not empty.")
    sums = rows.sum(axis=1)
    is_bad = ~(np.abs(sums - 1) <= SUM_TOLERANCE) | ~(rows >= 0).all(axis=1)
    if len(bad := np.flatnonzero(is_bad)):
        raise ArgumentError(
            f"row {bad[0]} of probs sums to {sums[bad[0]]:.6g} or has negative values; rows of "
            "probabilities sum to 1; for logits use CalibrationStream(units='logits', ...)."
        )
    normalized: Floats = rows / sums[:, None]
    return normalized


def _targets(targets: Any) -> Any:
    numbers = _numbers(targets, "targets")
    if len(bad := np.flatnonzero(numbers != np.floor(numbers))):
        raise ArgumentError(f"targets[{bad[0]}] is {numbers[bad[0]]}; use whole class numbers.")
    return numbers.astype(np.int64)


def _check_lengths(left: int, right: int, lefts: str, rights: str) -> None:
    if left != right:
        raise ArgumentError(f"there are {left} {lefts} and {right} {rights}; give equally many.")


def _bins(bins: int) -> int:
    if not isinstance(bins, int | np.integer) or not 1 <= bins <= MOST_BINS:
        raise ArgumentError(f"bins is {quoted(bins)}; use a whole number from 1 to {MOST_BINS}.")
    return int(bins)


def _texts(texts: Any, name: str) -> tuple[str, ...]:
    listed = _plain(texts)
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise ArgumentError(f"{name} is {quoted(texts)}; give a list of texts.")
    if len(listed) < 2:
        raise ArgumentError(f"{name} has {len(listed)} texts, and the distance needs at least two.")
    return tuple(listed)
