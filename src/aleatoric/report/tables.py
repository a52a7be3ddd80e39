"""Numbers as text, cells, and tables as rich, Markdown, LaTeX or CSV text with escaped cells."""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from aleatoric.errors import INVISIBLE_LETTERS
from aleatoric.inference.estimate import CUT_MARK, is_cut
from aleatoric.result_types import Result, Table
from aleatoric.types import Estimate, Interval

_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of control characters, and of code points that are no characters."""
_MARKDOWN = re.compile(r"([\\|\[\]`*])")
_FORMULA = ("=", "+", "-", "@", "\t")
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(e[+-]?\d+)?%?")
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {char: "\\" + char for char in "&%$#_{}"}
_LATEX |= {"†": r"\dag{}", "≤": r"$\leq$", "…": r"\ldots{}", "↓": r"$\downarrow$"}
_LATEX |= {"↑": r"$\uparrow$", "–": "--", "−": "$-$", "‖": r"$\Vert$", "²": "$^2$"}
_LATEX |= {"μ": r"$\mu$", "<": r"\textless{}", ">": r"\textgreater{}"}


def printable(text: str) -> str:
    """Return a text with its control characters as escapes, safe for a terminal or a page."""
    if text.isprintable():
        return text  # most texts, and quick to see
    kept = f"\n\t{INVISIBLE_LETTERS}"
    harmless = (c in kept or unicodedata.category(c) not in _STEERING for c in text)
    return "".join(c if safe else ascii(c)[1:-1] for c, safe in zip(text, harmless, strict=True))


def to_rich(table: Table) -> RichTable:
    """Return a table for a terminal."""
    # Text, not str: brackets are no markup here.
    title = Text(printable(table.title))
    shown = RichTable(title=title, box=box.SIMPLE_HEAD, caption_justify="left")
    for i, column in enumerate(table.columns):
        name = Text(printable(column))
        shown.add_column(name, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for row in table.rows:
        shown.add_row(*(Text(printable(str(cell))) for cell in row))
    shown.caption = Text("\n".join(printable(note) for note in table.notes))
    return shown


def to_markdown(table: Table) -> str:
    """Return a table for a README or an issue.

    >>> print(to_markdown(Table("t", ("a", "b"), (("x|y", "1"),))))
    | a | b |
    |---|--:|
    | x\\|y | 1 |
    """
    rule = ["---", *["--:"] * (len(table.columns) - 1)]
    lines = [table.columns, *table.rows]
    shown = ["| " + " | ".join(_markdown_cell(c) for c in line) + " |" for line in lines]
    return "\n".join([shown[0], "|" + "|".join(rule) + "|", *shown[1:]])


def to_latex(table: Table) -> str:
    """Return a table for a paper, with booktabs rules."""
    layout = "l" + "r" * (len(table.columns) - 1)
    lines = [" & ".join(_latex_cell(c) for c in row) + r" \\" for row in table.rows]
    head = " & ".join(_latex_cell(c) for c in table.columns) + r" \\"
    body = [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", head, r"\midrule", *lines]
    return "\n".join([*body, r"\bottomrule", r"\end{tabular}"])


def to_csv(table: Table) -> str:
    """Return a table for a spreadsheet; no cell is taken for a formula.

    >>> print(to_csv(Table("t", ("word", "n"), (("=1+1", -2), ("a,b", "-0.5")))))
    word,n
    '=1+1,-2
    "a,b",-0.5
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([[_csv_cell(cell) for cell in row] for row in (table.columns, *table.rows)])
    return out.getvalue().rstrip("\n")


FORMATS: dict[str, Callable[[Table], str]] = {
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
}


def _markdown_cell(cell: object) -> str:
    text = printable(str(cell)).replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;")
    return _MARKDOWN.sub(r"\\\1", text)


def _latex_cell(cell: object) -> str:
    text = printable(str(cell)).replace("\n", " ")
    return "".join(_LATEX.get(character, character) for character in text)


def _csv_cell(cell: object) -> str:
    text = printable(str(cell))
    return f"'{text}" if text[:1] in _FORMULA and not _NUMBER.fullmatch(text) else text


UNDEFINED = "–"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number as papers print it."""
    if value is None:
        return UNDEFINED
    # A negative number that rounds to zero is printed as zero.
    return f"{value:.{digits}f}" if round(value, digits) else f"{0:.{digits}f}"


def with_interval(estimate: Estimate, digits: int = 3, times: float = 1.0) -> str:
    """Return a value with its interval, multiplied by `times`; marked if it is cut at a bound.

    >>> with_interval(Estimate(0.5, None, 3, 1))
    '0.500'
    >>> with_interval(Estimate(0.5, Interval(0.0, 0.9, 0.95, "t, cut at 0"), 3, 3))
    '0.500 [0.000, 0.900]†'
    """
    text = number(None if estimate.value is None else times * estimate.value, digits)
    if estimate.interval is None:
        return text + (f" ({p_calibrated(estimate)})" if p_calibrated(estimate) else "")
    return f"{text} {interval_text(estimate.interval, digits, times)}"


def interval_text(interval: Interval, digits: int = 3, times: float = 1.0) -> str:
    """Return the two ends of an interval, multiplied by `times`."""
    low, high = (number(times * end, digits) for end in (interval.low, interval.high))
    return f"[{low}, {high}]{CUT_MARK if is_cut(interval) else ''}"


def p_calibrated(estimate: Estimate) -> str:
    """Return the p-value of calibration if it replaces the interval, else an empty text."""
    if estimate.p_calibrated is None or estimate.interval is not None:
        return ""
    return f"p = {max(estimate.p_calibrated, 0.001):.3f}"


def between(low: float | None, high: float | None, digits: int = 3) -> str:
    """Return a range of numbers; one number if both ends are equal."""
    if low is None or high is None:
        return UNDEFINED
    ends = number(low, digits), number(high, digits)
    return ends[0] if ends[0] == ends[1] else "–".join(ends)


def interval_ends(estimate: Estimate | None, times: float = 1.0) -> tuple[float, float, float]:
    """Return the low end, the value and the high end of an estimate; NaN where undefined."""
    if estimate is None or estimate.value is None:
        return math.nan, math.nan, math.nan
    value, interval = estimate.value, estimate.interval
    ends = (interval.low, value, interval.high) if interval else (value, value, value)
    return times * ends[0], times * ends[1], times * ends[2]


DIGITS = 5


def short(value: float | None) -> float | None:
    """Return a number with as many digits as a figure shows; `None` if it is undefined."""
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def p_value(p: float | None) -> str:
    """Return a p-value as papers print it."""
    if p is None:
        return UNDEFINED
    return "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence lists them."""
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


Letters = Mapping[str, Mapping[str, str]]
"""Metric -> system -> letters."""


@dataclass(frozen=True)
class TableCell:
    """A number as it is shown and as it is sorted, and the result that it cites."""

    text: str
    sort: float | str | None
    interval: str = ""
    letters: str = ""
    cites: tuple[str, str] | None = None
    """The system and the metric whose signature it has."""

    def plain(self, with_interval: bool = True) -> str:
        """Return the cell as plain text; counts have no commas."""
        text = str(self.sort) if isinstance(self.sort, int) else self.text
        return f"{text} {self.interval}".strip() if with_interval else text

    @classmethod
    def count(cls, n: int) -> TableCell:
        """Return the cell of a number of items."""
        return cls(f"{n:,}", n)

    @classmethod
    def value(
        cls, result: Result | None, letters: Letters, times: float = 1.0, is_small: bool = False
    ) -> TableCell:
        """Return the cell of a result, multiplied by `times`; small values need more digits."""
        if result is None or result.estimate.value is None:
            return cls(UNDEFINED, None)
        estimate, digits = result.estimate, 3 if times == 1 else 2
        scaled = times * result.estimate.value
        text = f"{scaled:.3g}" if is_small else number(scaled, digits)
        interval = p = p_calibrated(estimate)
        if p and (estimate.p_calibrated or 0.0) > 0.05:
            interval = f"consistent with calibration ({p})"
        if estimate.interval and not is_small:
            interval = interval_text(estimate.interval, digits, times)
        shown_letters = letters.get(result.metric, {}).get(result.system, "")
        return cls(text, estimate.value, interval, shown_letters, (result.system, result.metric))

    @classmethod
    def perfect(cls, result: Result | None, times: float = 1.0) -> TableCell:
        """Return the expected value of a perfect model, under both estimates of the truth."""
        perfect = result.perfect if result else None
        if result is None or perfect is None:
            return cls(UNDEFINED, None)
        low, high = (None if end is None else times * end for end in (perfect.low, perfect.high))
        text = between(low, high, 3 if times == 1 else 2)
        return cls(text, perfect.low, cites=(result.system, result.metric))


@dataclass(frozen=True)
class Column:
    """The heading of a column, what it means, and how it is sorted."""

    heading: str
    kind: str = "number"
    help: str = ""
