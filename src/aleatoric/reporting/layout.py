"""Tables as text of a given width: no number is cut, and columns that do not fit are named."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Literal

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

from aleatoric.reporting.tables import UNDEFINED, printable
from aleatoric.result_types import Table

WIDTH = 80
"""The width of tables that are printed to a file or a pipe."""
GAP = 2
NAME_WIDTH = 12
"""Names are wrapped to no less than this."""
HEADING_WIDTH = 10
"""Headings that are not longer stay on one line."""
LONGEST_NUMBER = 30
MORE = "More with --wide or --format csv:"
"""How a note on what a table leaves out starts."""
_NUMERIC = re.compile(r"[^\w]*\d.*")
_PIECES = re.compile(r"\d+(?:\.\d+)*|[^\W\d]+|\W|_")
_STAND_FOR_NUMBERS = ("", UNDEFINED, "exact")


def to_text(table: Table, width: int = WIDTH, wide: bool = False) -> str:
    """Return a table as plain text.

    >>> print(to_text(Table("Run", ("system", "tvd", "items"), (("gpt2", "0.619", "797"),))))
    Run
    <BLANKLINE>
    system    tvd  items
    ────────────────────
    gpt2    0.619    797
    """
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, _environ={})
    console.print(to_rich(table, width, wide), crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip("\n")


def to_rich(table: Table, width: int, wide: bool = False) -> Group:
    """Return the title, the columns that fit the width, and the notes.

    A note that starts with `COLUMN:` is shown with its column. With `wide`, all columns are shown:
    below each other if they do not fit side by side.
    """
    table = _plain(table)
    if wide:
        blocks, notes = list(_blocks(table, width)), table.notes
    else:
        blocks = [_fitting(table, width)]
        left_out = [name for i, name in enumerate(table.columns) if i not in blocks[0]]
        notes = _notes(table, left_out)
    grids = [part for block in blocks for part in (Text(), _grid(table, block, width))]
    # Text, not str: brackets are no markup here.
    below = [Text(), *map(Text, notes)] if notes else []
    return Group(Text(table.title, style="italic"), *grids, *below)


def _plain(table: Table) -> Table:
    """Return a table whose cells are printable text on one line."""
    columns, wide = (tuple(map(_one_line, names)) for names in (table.columns, table.wide))
    rows = tuple(tuple(map(_one_line, row)) for row in table.rows)
    return Table(printable(table.title), columns, rows, tuple(map(printable, table.notes)), wide)


def _one_line(cell: object) -> str:
    return printable(UNDEFINED if cell is None else str(cell)).replace("\n", " ")


def _is_about(note: str, names: Sequence[str]) -> bool:
    """Whether a note starts with the names of these columns."""
    plain = [name.rstrip(" ↑↓") for name in names]
    return all(name in plain for name in note.partition(":")[0].split(", "))


def _notes(table: Table, left_out: Sequence[str]) -> tuple[str, ...]:
    """Return the notes on columns that are shown; the last says what `--wide` shows."""
    notes = [note for note in table.notes if not _is_about(note, left_out)]
    if left_out:
        names = ", ".join(name.rstrip(" ↑↓") for name in left_out)
        notes.append(f"{MORE} the column{'s' if len(left_out) > 1 else ''} {names}.")
    more = [note.removeprefix(MORE).rstrip(".") for note in notes if note.startswith(MORE)]
    others = (note for note in notes if not note.startswith(MORE))
    return (*others, *([f"{MORE}{';'.join(more)}."] if more else []))


def _fitting(table: Table, width: int) -> list[int]:
    """Return the columns that fit; the last of a table is kept as long as possible."""
    kept = [i for i, name in enumerate(table.columns) if name not in table.wide]
    while len(kept) > 2 and _least(table, kept) > width:
        del kept[-2 if len(kept) > 3 else -1]
    return kept


def _blocks(table: Table, width: int) -> Iterator[list[int]]:
    """Yield groups of columns that fit; each repeats the names at the left."""
    places = range(len(table.columns))
    names = [0, *takewhile(lambda i: not _is_numeric(table, i), places[1:])]
    block: list[int] = []
    for i in places[len(names) :]:
        if block and _least(table, [*names, *block, i]) > width:
            yield [*names, *block]
            block = []
        block.append(i)
    yield [*names, *block]


def _is_numeric(table: Table, i: int) -> bool:
    """Whether a column holds numbers, which are never wrapped."""
    cells = [row[i] for row in table.rows]
    numbers = [cell for cell in cells if cell not in _STAND_FOR_NUMBERS]
    fit = all(_NUMERIC.fullmatch(cell) and len(cell) <= LONGEST_NUMBER for cell in numbers)
    return i > 0 and fit and bool(cells)


def _least(table: Table, columns: Sequence[int]) -> int:
    """Return the width that columns need if names are wrapped."""
    return sum(_widths(table, i)[0] for i in columns) + GAP * (len(columns) - 1)


def _widths(table: Table, i: int) -> tuple[int, int]:
    heading, cells = table.columns[i], [row[i] for row in table.rows]
    word = max(map(cell_len, heading.split()), default=0)
    full = max([word, min(cell_len(heading), HEADING_WIDTH), *map(cell_len, cells)])
    return (full if _is_numeric(table, i) else min(full, max(word, NAME_WIDTH))), full


def _grid(table: Table, columns: Sequence[int], width: int) -> RichTable:
    """Return some columns of a table; names are wrapped, numbers are not."""
    grid = RichTable(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0)
    )
    widths = _shares(table, columns, width)
    grid.width = sum(widths.values()) + GAP * (len(widths) - 1)
    for i, given in widths.items():
        heading = textwrap.fill(table.columns[i], given, break_long_words=False)
        side: Literal["right", "left"] = "right" if _is_numeric(table, i) else "left"
        grid.add_column(Text(heading), justify=side, width=given, no_wrap=True, overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text("\n".join(folded(row[i], given))) for i, given in widths.items()))
    return grid


def _shares(table: Table, columns: Sequence[int], width: int) -> dict[int, int]:
    """Return the widths of columns: the widest names are wrapped until all columns fit."""
    least, full = ({i: _widths(table, i)[end] for i in columns} for end in (0, 1))
    room = max(width, _least(table, columns)) - GAP * (len(columns) - 1)
    while sum(full.values()) > room:
        full[max((i for i in columns if full[i] > least[i]), key=lambda i: full[i])] -= 1
    return full


def folded(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text: broken at spaces, else beside punctuation, not within numbers.

    >>> list(folded("hf:org/model temperature=0.75", 14))
    ['hf:org/model', 'temperature=', '0.75']
    """
    for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]:
        start = ""
        for piece in _PIECES.findall(line) if cell_len(line) > width else [line]:
            if start and cell_len(start + piece) > width:
                yield start
                start = ""
            *full, start = chop_cells(start + piece, width) or [""]
            yield from full
        yield start
