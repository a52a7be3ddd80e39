"""A `Table` as rich, Markdown, LaTeX or CSV text; every cell is escaped for where it goes."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Callable

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from aleatoric.types import Table

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {char: "\\" + char for char in "&%$#_{}"}
_LATEX |= {"≤": r"$\leq$", "…": r"\ldots{}"}
_LATEX |= {"↓": r"$\downarrow$", "–": "--", "−": "$-$", "‖": r"$\Vert$", "²": "$^2$"}
_LATEX |= {"μ": r"$\mu$", "<": r"\textless{}", ">": r"\textgreater{}"}


def printable(text: str) -> str:
    """Text without characters that could steer a terminal; they are shown as escapes.

    >>> printable("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return "".join(c if _harmless(c) else ascii(c)[1:-1] for c in text)


def to_rich(table: Table) -> RichTable:
    """For a terminal."""
    shown = RichTable(title=table.title, box=box.SIMPLE_HEAD, caption_justify="left")
    for i, column in enumerate(table.columns):
        shown.add_column(Text(column), justify="left" if i == 0 else "right", no_wrap=i == 0)
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
    """For a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([table.columns, *table.rows])
    return out.getvalue().rstrip("\n")


FORMATS: dict[str, Callable[[Table], str]] = {
    "markdown": to_markdown,
    "latex": to_latex,
    "csv": to_csv,
}


def _harmless(character: str) -> bool:
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")


def _markdown_cell(cell: object) -> str:
    text = printable(str(cell)).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
    return text.replace("<", "&lt;")


def _latex_cell(cell: object) -> str:
    return "".join(_LATEX.get(character, character) for character in printable(str(cell)))
