"""A `Table` as rich, Markdown, LaTeX or CSV text; every cell is escaped for where it goes."""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Callable

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from aleatoric.errors import INVISIBLE_LETTERS
from aleatoric.inference.estimate import CUT_MARK, is_cut
from aleatoric.types import Estimate, Interval, Table

_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of characters that steer a terminal or a page, or are no characters."""
_MARKDOWN = re.compile(r"([\\|\[\]`*])")
_FORMULA = ("=", "+", "-", "@", "\t")
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(e[+-]?\d+)?%?")
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {char: "\\" + char for char in "&%$#_{}"}
_LATEX |= {"†": r"\dag{}", "≤": r"$\leq$", "…": r"\ldots{}"}
_LATEX |= {
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "–": "--",
    "−": "$-$",
    "‖": r"$\Vert$",
    "²": "$^2$",
}
_LATEX |= {"μ": r"$\mu$", "<": r"\textless{}", ">": r"\textgreater{}"}


def printable(text: str) -> str:
    """Text without characters that could steer a terminal; they are shown as escapes.

    >>> printable("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return "".join(c if _harmless(c) else ascii(c)[1:-1] for c in text)


def to_rich(table: Table) -> RichTable:
    """For a terminal."""
    # Text, not str: what stands in brackets is no markup here.
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
    """For a README or an issue.

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
    """For a paper, with booktabs rules."""
    layout = "l" + "r" * (len(table.columns) - 1)
    lines = [" & ".join(_latex_cell(c) for c in row) + r" \\" for row in table.rows]
    head = " & ".join(_latex_cell(c) for c in table.columns) + r" \\"
    body = [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", head, r"\midrule", *lines]
    return "\n".join([*body, r"\bottomrule", r"\end{tabular}"])


def to_csv(table: Table) -> str:
    """For a spreadsheet, which takes no cell for a formula.

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


def _harmless(character: str) -> bool:
    return (
        character in f"\n\t{INVISIBLE_LETTERS}" or unicodedata.category(character) not in _STEERING
    )


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
