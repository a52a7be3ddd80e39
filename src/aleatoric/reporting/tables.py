"""Numbers as text, cells, and tables as Markdown, LaTeX, CSV, JSON and text of a given width.

In CSV and JSON a cell has one number; the ends of its interval are in cells beside it. In a
terminal no number is cut, and columns that do not fit are named.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import textwrap
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal

from rich import box
from rich.cells import cell_len, chop_cells
from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text

from aleatoric.data.files import csv_text
from aleatoric.errors import INVISIBLE_LETTERS
from aleatoric.inference.estimate import CUT_MARK, is_cut
from aleatoric.reporting import resource
from aleatoric.result_types import Result, Table
from aleatoric.types import Estimate, Interval

TEXTS: Mapping[str, Mapping[str, Mapping[str, Any]]] = tomllib.loads(resource("tables.toml"))
"""Level or command -> `columns`, `measures` and `notes` of its tables."""
_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of control characters, and of code points that are no characters."""
_HARMLESS = f"\n\t{INVISIBLE_LETTERS}"
_MARKDOWN = re.compile(r"([\\|\[\]`*~]|(?<![^\W_])_|_(?![^\W_]))")
"""Characters with a meaning; an underscore between letters or digits has none."""
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {char: "\\" + char for char in "&%$#_{}"}
_LATEX |= {"†": r"\dag{}", "≤": r"$\leq$", "…": r"\ldots{}", "↓": r"$\downarrow$"}
_LATEX |= {"↑": r"$\uparrow$", "–": "--", "−": "$-$", "‖": r"$\Vert$", "²": "$^2$"}
_LATEX |= {"μ": r"$\mu$", "<": r"\textless{}", ">": r"\textgreater{}"}


def printable(text: str) -> str:
    """Return a text with its control characters as escapes, safe for a terminal or a page."""
    if text.isprintable():
        return text  # most texts, and quick to see
    harmless = (c in _HARMLESS or unicodedata.category(c) not in _STEERING for c in text)
    return "".join(c if safe else ascii(c)[1:-1] for c, safe in zip(text, harmless, strict=True))


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
    head, *lines = (" & ".join(map(_latex_cell, r)) + r" \\" for r in (table.columns, *table.rows))
    body = [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", head, r"\midrule", *lines]
    return "\n".join([*body, r"\bottomrule", r"\end{tabular}"])


def _markdown_cell(cell: object) -> str:
    text = printable(str(cell)).replace("\n", " ").replace("&", "&amp;").replace("<", "&lt;")
    return _MARKDOWN.sub(r"\\\1", text)


def _latex_cell(cell: object) -> str:
    text = printable(str(cell)).replace("\n", " ")
    escaped = "".join(_LATEX.get(character, character) for character in text)
    # After the end of a row, LaTeX reads * and [ as arguments of it.
    return "{}" + escaped if text.lstrip().startswith(("[", "*")) else escaped


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


_VALUE = r"([-+−]?(?:\d[\d,]*)?\.?\d+(?:e[-+]?\d+)?%?)"
_SHAPES = tuple(
    (re.compile(shape.replace("N", _VALUE) + "[†*]?"), endings)
    for shape, endings in (
        (r"N(?: \[–\])?", ("",)),
        (r"N \[N, N\]", ("", "_low", "_high")),
        (r"\[N, N\]", ("_low", "_high")),
        ("N–N", ("_low", "_high")),
        ("N ± N", ("", "_sd")),
        (r"N \(N\)", ("", "_other")),
    )
)
"""Cells with one or more numbers, and the endings of the columns that these go to."""
_SIGNS = {"²": "2", "−": " minus ", "%": " percent ", "/": " per ", "μ": "mu_", "≤": " at most "}


def counted(results: Iterable[Result]) -> Estimate:
    """Return the estimate whose items a row counts: the first that has any; leading ones first."""
    estimates = [result.estimate for result in results]
    return next((estimate for estimate in estimates if estimate.n_items), estimates[0])


def results_data(results: Iterable[Result]) -> Table:
    """Return results with one row per system (and probe), and every metric as it is saved."""
    grouped: dict[tuple[str, str], dict[str, Result]] = {}
    for result in results:
        # `_low` and `_high` are the ends of intervals: bounds of a metric have other endings.
        name = re.sub(r"_low(?=$|/)", "_lower_bound", result.metric)
        metric, _, probe = re.sub(r"_high(?=$|/)", "_upper_bound", name).partition("/")
        grouped.setdefault((result.system, probe), {})[metric] = result
    has_probes, records = any(probe for _, probe in grouped), []
    for (system, probe), by_metric in grouped.items():
        record: dict[str, Any] = {"system": system} | ({"probe": probe} if has_probes else {})
        estimate = counted(by_metric.values())
        record |= {"n_items": estimate.n_items, "n_groups": estimate.n_groups}
        for metric, result in by_metric.items():
            record |= _result_cells(metric, result)
        records.append(record)
    return table_of_records("Results", records)


def _result_cells(metric: str, result: Result) -> dict[str, float | None]:
    ends = result.estimate.interval
    low, high = (ends.low, ends.high) if ends else (None, None)
    cells = {metric: result.estimate.value, f"{metric}_low": low, f"{metric}_high": high}
    if result.estimate.p_calibrated is not None:
        cells[f"{metric}_p_calibrated"] = result.estimate.p_calibrated
    if result.perfect:
        cells[f"{metric}_perfect_low"] = result.perfect.low
        cells[f"{metric}_perfect_high"] = result.perfect.high
    return cells


def table_of_records(title: str, records: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with one row per record; what a record lacks is undefined."""
    longest_first = sorted(records, key=len, reverse=True)
    columns = tuple(dict.fromkeys(name for record in longest_first for name in record))
    rows = tuple(tuple(record.get(name) for name in columns) for record in records)
    return Table(title, columns, rows)


def as_data(table: Table) -> Table:
    """Split the cells of a table that hold several numbers.

    >>> as_data(Table("t", ("system", "TVD"), (("gpt2", "0.62 [0.61, 0.63]†"),)))
    Table(title='t', columns=('system', 'tvd', 'tvd_low', 'tvd_high'), rows=(('gpt2', 0.62, ...
    """
    columns: dict[str, tuple[Any, ...]] = {}
    previous = ""
    for i, heading in enumerate(table.columns):
        name = previous if heading == "[low, high]" else column_name(heading)
        previous = name
        for ending, cells in _split([row[i] for row in table.rows]):
            columns[_unused(f"{name}{ending}", columns)] = cells
    rows = tuple(zip(*columns.values(), strict=True))
    return Table(table.title, tuple(columns), rows, table.notes)


def column_name(heading: str) -> str:
    """Return a heading as the name of a column.

    >>> column_name("D² − base"), column_name("overlap ↑"), column_name("ece %")
    ('d2_minus_base', 'overlap', 'ece_percent')
    """
    for sign, word in _SIGNS.items():
        heading = heading.replace(sign, word)
    return re.sub(r"\W+", "_", heading.lower()).strip("_") or "column"


def _unused(name: str, taken: Iterable[str]) -> str:
    names = (name, *(f"{name}_{n}" for n in range(2, 10_000)))
    return next(candidate for candidate in names if candidate not in taken)


def _split(cells: Sequence[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the columns that the cells of one column fill, by their endings."""
    parts = [_parts(cell) for cell in cells]
    endings = list(dict.fromkeys(ending for part in parts for ending in part)) or [""]
    if endings[0] != "" and "" in endings:
        endings = ["", *(ending for ending in endings if ending)]
    for ending in endings:
        yield ending, tuple(part.get(ending) for part in parts)


def _parts(cell: Any) -> dict[str, Any]:
    """Return the numbers of a cell by the ending of their column; text goes to the first."""
    text = str(cell)
    if cell is None or text == UNDEFINED:
        return {}
    for shape, endings in _SHAPES:
        if isinstance(cell, str) and (match := shape.fullmatch(text)):
            return dict(zip(endings, map(_number, match.groups()), strict=True))
    return {"": cell}


def _number(text: str) -> int | float:
    value = text.replace("−", "-").replace(",", "").removeprefix("+")
    if value.endswith("%"):
        return round(float(value[:-1]) / 100, 12)
    return int(value) if re.fullmatch(r"-?\d+", value) else float(value)


def to_csv(table: Table) -> str:
    """Return a table for a spreadsheet; no cell is taken for a formula.

    >>> print(to_csv(Table("t", ("word", "n"), (("=1+1", -2), ("a,b", None)))))
    word,n
    '=1+1,-2
    "a,b",
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in (table.columns, *table.rows):
        texts = (None if _undefined(cell) else printable(str(cell)) for cell in row)
        writer.writerow(["" if text is None else csv_text(text) for text in texts])
    return out.getvalue().rstrip("\n")


def _undefined(cell: object) -> bool:
    return cell is None or (isinstance(cell, float) and not math.isfinite(cell))


def tables_to_csv(tables: Sequence[Table]) -> str:
    """Return tables one after the other, with an empty line between them."""
    return "\n\n".join(map(to_csv, tables))


def tables_to_json(tables: Sequence[Table]) -> str:
    """Return one list of rows; with several tables, each row names its own."""
    rows = [
        ({"table": table.title} if len(tables) > 1 else {})
        | {name: None if _undefined(cell) else cell for name, cell in named}
        for table in tables
        for named in (zip(table.columns, row, strict=True) for row in table.rows)
    ]
    return json.dumps(rows, allow_nan=False, indent=1)


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
_CLAUSES = re.compile(r"[^,]*,|[^,]+")
_PIECES = re.compile(r"\d+(?:\.\d+)*|[^\W\d]+|\W|_")
_HASH = re.compile(r"@[0-9a-f]{12}\b")
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
    table = _without_shared_word(_plain(table), width)
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


def _without_shared_word(table: Table, width: int) -> Table:
    """Leave out the model's name if all systems share it and rows do not fit with it."""
    shown = _fitting(table, width)
    full = sum(_widths(table, i)[1] for i in shown) + GAP * (len(shown) - 1)
    if "system" not in table.columns or full <= width:
        return table
    at = table.columns.index("system")
    words = [row[at].partition(" ") for row in table.rows]
    if len({first for first, *_ in words}) != 1 or not all(rest for *_, rest in words):
        return table
    rows = zip(table.rows, words, strict=True)
    cut = tuple((*row[:at], rest, *row[at + 1 :]) for row, (*_, rest) in rows)
    note = f"system: without the first word of all names, {words[0][0]}."
    return replace(table, rows=cut, notes=(*table.notes, note))


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


def text_columns(table: Table) -> list[bool]:
    """Whether each column of a table holds names rather than numbers."""
    plain = _plain(table)
    return [not _is_numeric(plain, i) for i in range(len(table.columns))]


def _least(table: Table, columns: Sequence[int]) -> int:
    """Return the width that columns need if names are wrapped."""
    return sum(_widths(table, i)[0] for i in columns) + GAP * (len(columns) - 1)


def _widths(table: Table, i: int) -> tuple[int, int]:
    heading, cells = table.columns[i], [row[i] for row in table.rows]
    word = max(map(cell_len, heading.split()), default=0)
    longest = max([word, *map(cell_len, cells)])
    full = max(longest, min(cell_len(heading), HEADING_WIDTH))
    return (longest if _is_numeric(table, i) else min(full, max(word, NAME_WIDTH))), full


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
    """Return the widths of columns: headings of numbers are wrapped, then the widest names."""
    least, full = ({i: _widths(table, i)[end] for i in columns} for end in (0, 1))
    room = max(width, _least(table, columns)) - GAP * (len(columns) - 1)
    if sum(full.values()) > room:
        full |= {i: least[i] for i in columns if _is_numeric(table, i)}
    while sum(full.values()) > room:
        full[max((i for i in columns if full[i] > least[i]), key=lambda i: full[i])] -= 1
    return full


def folded(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a text: broken at spaces, else after commas, else beside other signs.

    >>> list(folded("hf:org/model temperature=0.75,top_p=0.9", 17))
    ['hf:org/model', 'temperature=0.75,', 'top_p=0.9']
    """
    for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]:
        for clause in _packed(_CLAUSES.findall(line), width):
            for part in _packed(_PIECES.findall(clause), width):
                yield from chop_cells(part, width) or [""]


def _packed(pieces: Iterable[str], width: int) -> Iterator[str]:
    """Yield pieces, joined where they fit one line."""
    line = ""
    for piece in pieces:
        if line and cell_len(line + piece) > width:
            yield line
            line = ""
        line += piece
    yield line


def short_names(names: Sequence[str]) -> list[str]:
    """Return names of systems without the hashes of their files, where they stay distinct.

    >>> short_names(["recorded:a.jsonl@fc75545920c0 as recorded", "smollm2"])
    ['recorded:a.jsonl as recorded', 'smollm2']
    """
    short = [_HASH.sub("", name) for name in names]
    return short if len(set(short)) == len(set(names)) else list(names)
