"""Tables with a header line, and which of their columns hold what.

A table is CSV or a relative of it, with the delimiter found by a strict rule. In a user's table,
each row is an answer, a context or a participant.

`--columns` names columns as `context=Sentence,response=Answer`. Several columns of answers are a
range `P1:P40` or a pattern `P*`. If each row is a context, each of them is a participant; if each
row is a participant (`context=@header` or `@header2`), each of them is a context.
"""

from __future__ import annotations

import csv
import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from aleatoric.data.files import Place, Rows, first_twice, read_lines
from aleatoric.errors import DataError, UsageError, quoted

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_STATED = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
"""The first line that Excel reads and writes to name the delimiter."""
_QUOTED = re.compile(r'"[^"]*("|$)')
_HEADER_LINES = ("@header", "@header2")
"""Contexts are the names of the columns, or the cells of the second header line (Qualtrics)."""
_IMPORT_ID = '{"ImportId"'
"""How every cell of Qualtrics' last header line starts."""
_THOUSANDS = re.compile(r"\d+\.\d{3}")
_MOST_LISTED = 12
_QUALTRICS = "--columns context=@header2,response=FIRST:LAST,person=ResponseId"
_QUESTIONS = (
    "warning: the contexts are the column names of an export of Qualtrics; if they are to be the "
    "texts of the questions, in its second header line, use context=@header2"
)
_COUNTS = re.compile(
    r"n|freq|frequency|frequencies|(counts?|numbers?)(of.+)?|n?(responses|answers|people)"
    r"|(n|resp|response|answer|people)(counts?|freq|frequency)"
)
"""Folded names of columns that may hold how many people gave an answer."""
_SEVERAL = re.compile(r"0*([2-9]|[1-9]\d+)(\.0+)?")
PlacedRow = tuple[Place, list[str]]
Names = Mapping[str, str]
"""Names that `--columns` and a header may use -> what the column holds."""
Chosen = dict[str, list[str]]
"""What `--columns` says: content -> columns."""


def parse_columns(text: str | None, names: Names) -> Chosen:
    """Return what `--columns` says: content -> columns; quotes keep commas in a name.

    >>> parse_columns('context=Sentence,"response=Answer, first"', {"context": "context"} |
    ...     {"response": "response"})
    {'context': ['Sentence'], 'response': ['Answer, first']}
    """
    chosen: Chosen = {}
    for part in next(csv.reader([text or ""], skipinitialspace=True), []):
        name, equals, column = part.partition("=")
        content = names.get(_folded(name))
        if not equals or content is None:
            known = ", ".join(dict.fromkeys(names))
            problem = f"--columns {quoted(part.strip())} is not understood"
            raise UsageError(f"{problem}; write NAME=COLUMN, with a name out of {known}.")
        if content in chosen and content != "response":
            raise UsageError(f"--columns names {name.strip()} twice; name it once.")
        chosen.setdefault(content, []).append(column.strip())
    return chosen


def answer_rows(
    path: Path, encoding: str, columns: str | None, names: Names, notes: list[str]
) -> Rows:
    """Yield one row per answer, content -> text; `notes` gets what the layout means."""
    chosen, table = parse_columns(columns, names), open_table(path, encoding)
    if not chosen:
        table.check_names()
    if chosen.get("context", [""])[0].casefold() in _HEADER_LINES:
        return _of_participants(table, chosen, notes)
    return _of_contexts(table, chosen, names, notes)


def named_rows(path: Path, encoding: str, columns: str, names: Names) -> Rows:
    """Yield the rows of a table, content -> text; the first of the contents is required."""
    chosen, table = parse_columns(columns, names), open_table(path, encoding)
    header = _Header(table.header, (path, table.line))
    single, _ = header.resolve(chosen, names)
    if (required := next(iter(names.values()))) not in single:
        raise header.missing(required, False)
    _, rows = _without_further_headers(table)
    for place, row in rows:
        yield place, {content: row[i] for content, i in single.items()}


def renamed(rows: Rows, columns: str | None, names: Names) -> Rows:
    """Yield the rows of JSON lines with the keys that `--columns` names under our names."""
    chosen = {content: key for content, (key, *_) in parse_columns(columns, names).items()}
    for place, row in rows:
        for key in chosen.values():
            if key and key not in row:
                raise _missing_column(key, place, list(row), "correct --columns")
        replaced = {*chosen, *chosen.values()}
        kept = {key: value for key, value in row.items() if key not in replaced}
        yield place, kept | {name: row[key] for name, key in chosen.items() if key}


def _of_contexts(table: OpenTable, chosen: Chosen, names: Names, notes: list[str]) -> Rows:
    """Rows that are answers, or contexts with one column per participant."""
    is_qualtrics, rows = _without_further_headers(table)
    first = next(rows, None)
    if first is None:
        return
    rows = itertools.chain([first], rows)
    single, answers = _resolved(table, chosen, names, is_qualtrics)
    known = single.keys() | chosen.keys()
    if is_wide := len(answers) > 1:
        single = _without_persons(single, chosen)
        table.check_names(answers)
        notes.append(_layout_note(table.header, answers, "participant"))
    elif "count" in names.values() and not known & {"count", "person"}:
        rows = _noting_counts(rows, table.header, {*single.values(), *answers}, notes)
    persons = table.header if is_wide and "person" not in chosen else None
    for place, row in rows:
        facts = {content: row[i] for content, i in single.items()}
        if table.delimiter == ";":
            _check_thousands(facts.get("count", ""), place)
        for i in answers:
            yield place, facts | {"response": row[i]} | ({"person": persons[i]} if persons else {})


def _resolved(
    table: OpenTable, chosen: Chosen, names: Names, is_qualtrics: bool
) -> tuple[dict[str, int], list[int]]:
    """Return the columns of single contents and those of answers; both must be there."""
    header = _Header(table.header, (table.path, table.line))
    single, answers = header.resolve(chosen, names)
    for content, is_there in (("context", "context" in single), ("response", bool(answers))):
        if not is_there:
            name = next(name for name, held in names.items() if held == content)
            raise header.missing(name, is_qualtrics)
    return single, answers


def _noting_counts(
    rows: Iterable[PlacedRow], header: Sequence[str], used: set[int], notes: list[str]
) -> Iterator[PlacedRow]:
    """Yield rows that are answers; warn if a column that is not used seems to hold counts."""
    named = [i for i, name in enumerate(header) if _COUNTS.fullmatch(_folded(name))]
    suspects = [i for i in named if i not in used]
    for place, row in rows:
        if column := next((header[i] for i in suspects if _SEVERAL.fullmatch(row[i].strip())), ""):
            notes.append(
                f"warning: each row counts as one answer, and the column {quoted(column, 40)} is "
                f"not used; if it holds counts, add --columns {shlex.quote(f'count={column}')}"
            )
            suspects = []
        yield place, row


def _check_thousands(count: str, place: Place) -> None:
    """Refuse `1.000`, which in a table with semicolons may be a thousand."""
    text = count.strip()
    if _THOUSANDS.fullmatch(text):
        problem = f"the dot of count {quoted(text, 40)} may separate thousands"
        fix = f"write counts as whole numbers without it, such as {text.replace('.', '')[:40]}"
        raise DataError.at(*place, problem, fix)


def _check_participant_columns(chosen: Chosen) -> None:
    if others := chosen.keys() - {"context", "response", "person"}:
        problem = f"with {chosen['context'][0]} each context is a column, without {min(others)}"
        raise UsageError(f"{problem}; leave {min(others)} out of --columns.")


def _of_participants(table: OpenTable, chosen: Chosen, notes: list[str]) -> Rows:
    """Rows that are participants, with one column per context."""
    contexts = table.header
    if chosen["context"][0].casefold() == _HEADER_LINES[1]:
        _, contexts = next(table.rows, (None, []))
    is_qualtrics, rows = _without_further_headers(table)
    _check_participant_columns(chosen)
    header = _Header(table.header, (table.path, table.line))
    person = header.find(chosen["person"][0]) if any(chosen.get("person", ())) else None
    answers = header.find_all(chosen.get("response", []), set() if person is None else {person})
    if not answers:
        raise header.missing("response", False)
    table.check_names(answers)
    notes.append(_layout_note(table.header, answers, "context"))
    if is_qualtrics and contexts is table.header:
        notes.append(_QUESTIONS)
    for place, row in rows:
        facts = {} if "person" in chosen and person is None else {"person": str(place[1])}
        facts |= {} if person is None else {"person": row[person]}
        for i in answers:
            answer = {"id": table.header[i], "context": contexts[i], "response": row[i]}
            yield place, facts | answer


def _without_further_headers(table: OpenTable) -> tuple[bool, Iterator[PlacedRow]]:
    """Whether a table is an export of Qualtrics, and its rows without the further header lines."""
    first = list(itertools.islice(table.rows, 2))
    for number, (_, row) in enumerate(first, start=1):
        if all(cell.replace(" ", "").startswith(_IMPORT_ID) for cell in row if cell.strip()):
            return True, itertools.chain(first[number:], table.rows)
    return False, itertools.chain(first, table.rows)


def _without_persons(single: Mapping[str, int], chosen: Chosen) -> dict[str, int]:
    """Leave out who answered and how often: each column of answers is one participant."""
    for content in ("count", "person"):
        if any(chosen.get(content, ())):
            problem = f"each column of answers is one participant, so {content} is known"
            raise UsageError(f"{problem}; leave {content} out of --columns.")
    return {content: i for content, i in single.items() if content not in ("count", "person")}


def _layout_note(header: Sequence[str], answers: Sequence[int], what: str) -> str:
    ends = " to ".join(dict.fromkeys(quoted(header[i], 40) for i in (answers[0], answers[-1])))
    return f"answers are read from {len(answers)} columns ({ends}), one per {what}"


class _Header:
    """The names of a table's columns, which users may write in another case or spacing."""

    def __init__(self, names: Sequence[str], place: Place) -> None:
        self._names, self._place = names, place

    def resolve(self, chosen: Chosen, names: Names) -> tuple[dict[str, int], list[int]]:
        """Return the columns of single contents, and those of answers, chosen or by their names."""
        others = {content: columns[0] for content, columns in chosen.items() if any(columns)}
        others.pop("response", None)
        single = {content: self.find(column) for content, column in others.items()}
        answers = self.find_all(chosen.get("response", []), set(single.values()))
        for content in dict.fromkeys(names.values()):
            taken = {*single.values(), *answers}
            if content not in chosen and (i := self._match(content, names, taken)) is not None:
                single[content] = i
        return single, answers or [single.pop("response")] if "response" in single else answers

    def find(self, name: str) -> int:
        """Return the column of this name."""
        if (found := self._find(name)) is None:
            near = get_close_matches(name, [own for own in self._names if own], 1)
            fix = f"did you mean {quoted(near[0], 40)}" if near else "correct --columns"
            raise self._absent(name, fix)
        return found

    def _find(self, name: str) -> int | None:
        exact = [i for i, own in enumerate(self._names) if own == name]
        alike = exact or [i for i, own in enumerate(self._names) if _folded(own) == _folded(name)]
        if len(alike) > 1:
            problem = f"there are {len(alike)} columns like {quoted(name, 40)}"
            raise DataError.at(*self._place, problem, "rename all but one")
        return alike[0] if alike and name else None

    def find_all(self, patterns: Iterable[str], used: set[int]) -> list[int]:
        """Return the columns of names, ranges `A:B` and patterns `A*`, without the used ones."""
        found = dict.fromkeys(i for pattern in patterns for i in self._matching(pattern))
        return [i for i in found if i not in used and self._names[i]]

    def _matching(self, pattern: str) -> Sequence[int]:
        if (single := self._find(pattern)) is not None:
            return [single]
        first, colon, last = pattern.partition(":")
        if colon:
            start, end = self.find(first.strip()), self.find(last.strip())
            if start > end:
                fix = f"write {last.strip()}:{first.strip()}"
                raise DataError.at(*self._place, f"{quoted(pattern)} runs backwards", fix)
            return range(start, end + 1)
        names = [name.casefold() for name in self._names]
        found = [i for i, name in enumerate(names) if fnmatchcase(name, pattern.casefold())]
        return found or [self.find(pattern)]

    def _match(self, content: str, names: Names, taken: set[int]) -> int | None:
        """Return the column that is named after what it holds, if there is one."""
        known = [name for name, held in names.items() if held == content]
        free = {i: own for i, own in enumerate(self._names) if i not in taken}
        exact = [i for i, own in free.items() if own in known]
        alike = exact or [i for i, own in free.items() if _folded(own) in known]
        if len(alike) > 1:
            listed = " and ".join(quoted(self._names[i], 40) for i in alike[:2])
            fix = f"choose one with --columns {known[0]}=NAME"
            raise DataError.at(*self._place, f"{listed} may both be {known[0]}", fix)
        return alike[0] if alike else None

    def missing(self, content: str, is_qualtrics: bool) -> DataError:
        """Return the error for a table without a column that is needed."""
        fix = f"add it, or name its column with --columns {content}=NAME"
        if content in ("response", "reference"):
            fix += f" (several columns: {content}=FIRST:LAST)"
        if is_qualtrics:
            fix = f"for an export of Qualtrics, add {_QUALTRICS}"
        return self._absent(content, fix)

    def _absent(self, name: str, fix: str) -> DataError:
        return _missing_column(name, self._place, [own for own in self._names if own], fix)


def _missing_column(name: str, place: Place, found: list[str], fix: str) -> DataError:
    listed = ", ".join(quoted(own, 40) for own in found[:_MOST_LISTED]) or "nothing"
    listed += f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
    return DataError.at(*place, f"{quoted(name, 40)} is missing (found {listed})", fix)


def _folded(name: str) -> str:
    """A column name without case, spaces and underscores.

    >>> _folded("Original Word"), _folded("original_word")
    ('originalword', 'originalword')
    """
    return "".join(name.split()).replace("_", "").casefold()


@dataclass(frozen=True)
class OpenTable:
    """The header of a table, and its rows as they are read; a column may have no name."""

    path: Path
    line: int
    """The number of the header's last line."""
    header: list[str]
    rows: Iterator[PlacedRow]
    delimiter: str

    def check_names(self, columns: Iterable[int] | None = None) -> None:
        """Refuse two columns of one name, among all or some."""
        names = self.header if columns is None else [self.header[i] for i in columns]
        if (twice := first_twice([name for name in names if name])) is not None:
            problem = f"the column name {quoted(twice, 40)} occurs twice"
            fix = "give every column its own name, or name those to read with --columns"
            raise DataError.at(self.path, self.line, problem, fix)


def open_table(path: Path, encoding: str = "utf-8") -> OpenTable:
    """Read the header of a table; blank lines and blank cells after a row's end are left out."""
    lines = _NumberedLines(path, encoding)
    head, delimiter = _header_line(lines)
    # Strict: a quote that is never closed must not swallow the rows after it.
    rows = csv.reader(itertools.chain([head], lines), delimiter=delimiter, strict=True)
    header = [name.strip() for name in _next_row(rows, lines) or []]
    while header and not header[-1]:
        header.pop()
    return OpenTable(path, lines.number, header, _rows(rows, lines, len(header)), delimiter)


def table_rows(path: Path, encoding: str = "utf-8") -> Rows:
    """Yield each row of a table as column -> text, with its place."""
    table = open_table(path, encoding)
    table.check_names()
    for place, row in table.rows:
        yield place, {name: cell for name, cell in zip(table.header, row, strict=True) if name}


def _header_line(lines: _NumberedLines) -> tuple[str, str]:
    """The header and the delimiter: as a line `sep=;` names it, else the most frequent one."""
    head = _line_with_text(lines)
    if stated := _STATED.fullmatch(head):
        if stated[1] not in DELIMITERS:
            problem = f"{quoted(stated[1])} is no delimiter"
            raise DataError.at(lines.path, lines.number, problem, "use , ; | or a tab")
        return _line_with_text(lines), stated[1]
    bare = _QUOTED.sub("", head)
    most = max(map(bare.count, DELIMITERS))
    first, *others = [mark for mark in DELIMITERS if bare.count(mark) == most]
    if most and others:
        names = " and ".join(DELIMITERS[mark] for mark in (first, *others))
        problem = f"the header holds as many {names}, and either may be the delimiter"
        fix = "quote the column names, or name the delimiter in a first line, as in sep=;"
        raise DataError.at(lines.path, lines.number, problem, fix)
    return head, first


def _line_with_text(lines: _NumberedLines) -> str:
    line = next((line for line in lines if line.strip()), None)
    if line is None:
        raise DataError.at(lines.path, None, "the file is empty", "it needs a header line and rows")
    return line


def _rows(rows: Iterator[list[str]], lines: _NumberedLines, width: int) -> Iterator[PlacedRow]:
    place = (lines.path, lines.number + 1)
    while (row := _next_row(rows, lines)) is not None:
        if any(cell.strip() for cell in row):
            while len(row) > width and not row[-1].strip():
                row.pop()
            if len(row) != width:
                problem = f"{len(row)} fields where the header has {width}"
                raise DataError.at(*place, problem, "quote fields that hold the delimiter")
            yield place, row
        place = (lines.path, lines.number + 1)


def _next_row(rows: Iterator[list[str]], lines: _NumberedLines) -> list[str] | None:
    try:
        return next(rows, None)
    except csv.Error as error:
        problem = f"not CSV ({str(error).partition(' - ')[0]})"
        fix = "close the quotes of the field and double those inside it"
        if "field limit" in problem:
            fix += f", and keep it to {csv.field_size_limit()} characters"
        raise DataError.at(lines.path, lines.number, problem, fix) from None


class _NumberedLines(Iterator[str]):
    """Lines of a file for csv.reader; `number` is that of the last line given."""

    def __init__(self, path: Path, encoding: str) -> None:
        self.path = path
        self._lines = read_lines(path, encoding)
        self.number = 0

    def __next__(self) -> str:
        (_, self.number), text = next(self._lines)
        return text
