"""Filters of items: expressions of measures, such as `mean_M/lexical-1 < 0.4 and energy > 0.1`.

A comparison has measures (a name, or any text in backticks), numbers and labels in quotes; it may
be chained (0.2 < x <= 0.4). Comparisons are joined by `and`, `or`, `not` and parentheses. An item
without a value of a measure is chosen neither by a comparison nor by its `not`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric.errors import UsageError, quoted
from aleatoric.levels.base import level_of
from aleatoric.result_types import Labels
from aleatoric.runs.run import AT_ONCE, Store, heads_of, stat_columns
from aleatoric.types import Floats

Flags = NDArray[np.bool_]
Values = Mapping[str, Floats | Labels]
LONGEST = 1000
"""Characters of an expression."""
DEEPEST = 50
"""Parentheses and negations inside one another."""
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<op><=|>=|==|!=|<|>|[()])
    | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | `(?P<quoted>[^`]*)`
    | "(?P<label>[^"]*)" | '(?P<other>[^']*)'
    | (?P<name>[^\W\d][\w./:-]*)
    )""",
    re.VERBOSE,
)
_COMPARE: Mapping[str, Callable[..., Flags]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_WORDS = ("and", "or", "not")


class Truth(NamedTuple):
    """The items for which a condition holds, and for which it does not; others lack values."""

    yes: Flags
    no: Flags


class _Token(NamedTuple):
    kind: str
    text: str


def chosen(expression: str, values: Values) -> Flags:
    """Return the items for which an expression of their measures holds.

    >>> chosen("not (x > 1)", {"x": np.array([0.5, 2.0, np.nan])}).tolist()
    [True, False, False]
    """
    return _Parser(expression, values).truth().yes


def matching_items(store: Store, expression: str, system: str) -> list[str]:
    """Return the ids of a system's items for which an expression of its statistics holds."""
    numbers, values = stat_columns(store, system, store.stat_columns())
    known: dict[str, Floats | Labels] = {**values, **level_of(store).labels(store, system)}
    found = list(dict.fromkeys(numbers[chosen(expression, known)].tolist()))
    pages = (found[start : start + AT_ONCE] for start in range(0, len(found), AT_ONCE))
    return [heads[no][0] for page in pages for heads in [heads_of(store, page)] for no in page]


@dataclass
class _Parser:
    """A parser by recursive descent: every method reads one kind of expression."""

    expression: str
    values: Values

    def __post_init__(self) -> None:
        if len(self.expression) > LONGEST:
            raise UsageError(f"the filter is longer than {LONGEST} characters; shorten it.")
        self.tokens = list(_tokens(self.expression))
        self.at, self.depth = 0, 0

    def truth(self) -> Truth:
        """Read the whole expression."""
        truth = self._any()
        if self._peek().kind != "end":
            raise self._wrong("and, or, or the end")
        return truth

    def _any(self) -> Truth:
        truth = self._all()
        while self._takes("or"):
            other = self._all()
            truth = Truth(truth.yes | other.yes, truth.no & other.no)
        return truth

    def _all(self) -> Truth:
        truth = self._one()
        while self._takes("and"):
            other = self._one()
            truth = Truth(truth.yes & other.yes, truth.no | other.no)
        return truth

    def _one(self) -> Truth:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UsageError(f"the filter has over {DEEPEST} levels of parentheses; simplify it.")
        if self._takes("not"):
            truth = self._one()
            truth = Truth(truth.no, truth.yes)
        elif self._takes("("):
            truth = self._any()
            if not self._takes(")"):
                raise self._wrong("a closing parenthesis")
        else:
            truth = self._comparison()
        self.depth -= 1
        return truth

    def _comparison(self) -> Truth:
        left, truth = self._operand(), None
        while self._peek().text in _COMPARE and self._peek().kind == "op":
            compare, right = _COMPARE[self._next().text], self._operand()
            own = self._compared(compare, left, right)
            truth = own if truth is None else Truth(truth.yes & own.yes, truth.no | own.no)
            left = right
        if truth is None:
            raise self._wrong("a comparison, such as < 0.4")
        return truth

    def _compared(self, compare: Callable[..., Flags], left: _Token, right: _Token) -> Truth:
        if "label" in (left.kind, right.kind):
            first, second = self._codes(left, right), self._codes(right, left)
            if compare not in (operator.eq, operator.ne):
                raise UsageError("the filter compares a label by size; use == or !=.")
        else:
            first, second = self._numbers(left), self._numbers(right)
        known = np.broadcast_to(np.isfinite(first) & np.isfinite(second), self._shape)
        holds = np.broadcast_to(compare(first, second), self._shape)
        return Truth(known & holds, known & ~holds)

    @property
    def _shape(self) -> tuple[int, ...]:
        sizes = (len(v.codes if isinstance(v, Labels) else v) for v in self.values.values())
        return (next(sizes, 0),)

    def _numbers(self, operand: _Token) -> Floats:
        if operand.kind == "number":
            return np.array(float(operand.text))
        values = self._values(operand.text)
        if isinstance(values, Labels):
            names = " or ".join(f"'{name}'" for name in values.names.values())
            raise UsageError(f"the filter compares {operand.text} with a number; use {names}.")
        return values

    def _codes(self, operand: _Token, other: _Token) -> Floats:
        """Return the codes of labels: of a measure, or of a name among those of the measure."""
        labels = self._values((other if operand.kind == "label" else operand).text)
        if not isinstance(labels, Labels):
            raise UsageError("the filter compares a text with a number; leave out the quotes.")
        if operand.kind != "label":
            return labels.codes
        codes = {name: code for code, name in labels.names.items()}
        if operand.text not in codes:
            known = ", ".join(codes)
            raise UsageError(f"there is no label {quoted(operand.text)}; known: {known}.")
        return np.array(float(codes[operand.text]))

    def _values(self, name: str) -> Floats | Labels:
        if name not in self.values:
            near = get_close_matches(name, self.values, 3, 0.4) or list(self.values)[:8]
            raise UsageError(f"the filter names {quoted(name)}; known are {', '.join(near)}.")
        return self.values[name]

    def _operand(self) -> _Token:
        if self._peek().kind not in ("name", "number", "label"):
            raise self._wrong("a measure or a number")
        return self._next()

    def _takes(self, text: str) -> bool:
        token = self._peek()
        found = token.text == text and token.kind in ("op", "word")
        self.at += found
        return found

    def _peek(self) -> _Token:
        return self.tokens[self.at]

    def _next(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def _wrong(self, expected: str) -> UsageError:
        token = self._peek()
        found = "ends" if token.kind == "end" else f"has {quoted(token.text)}"
        return UsageError(f"the filter {found} where {expected} is expected; correct it.")


def _tokens(expression: str) -> Iterator[_Token]:
    """Yield the tokens of an expression, then one for its end."""
    at, end = 0, len(expression.rstrip())
    while at < end:
        match = _TOKEN.match(expression, at)
        if match is None:
            rest = expression[at:].strip()
            raise UsageError(f"the filter cannot be read from {quoted(rest, 20)}; correct it.")
        kind, text = next((k, v) for k, v in match.groupdict().items() if v is not None)
        same = {"quoted": "name", "other": "label"}
        kind = "word" if kind == "name" and text in _WORDS else same.get(kind, kind)
        yield _Token(kind, text)
        at = match.end()
    yield _Token("end", "")
