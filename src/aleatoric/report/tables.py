"""A `Table` as rich, Markdown, LaTeX or CSV text; every cell is escaped for where it goes."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from aleatoric.showing import INVISIBLE_LETTERS
from aleatoric.types import Table

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
