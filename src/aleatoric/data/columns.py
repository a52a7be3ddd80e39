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
import math
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
    r"n|weights?|freq|frequency|frequencies|(counts?|numbers?)(of.+)?|n?(responses|answers|people)"
    r"|(n|resp|response|answer|people)(counts?|freq|frequency)"
)
"""Folded names of columns that may hold how many people gave an answer."""
_SHARES = re.compile(
    r".*(cloze|prob|proportion|percent|prozent|pct|share|anteil|relfreq|relativefreq).*|p|%"
)
"""Folded names of columns that may hold the proportion of people who gave an answer."""
_NO_COUNTS = re.compile(
    r"(.*(id|nr|rt|time|latency|duration|zeit|ms|age|alter|year|trial|position|pos|rank|order"
    r"|index|row|line|item|block|list|session|length|rating|score|scale|likert|confidence))"
    r"|((rating|score|age|rt|trial|position).*)|no\.?|#"
)
"""Folded names of columns that hold numbers, but not how many people gave an answer."""
_PERSONS = re.compile(r"(participants?|subj(ects?)?|ppt?|persons?|workers?|users?|vpn?)(id|nr|no)?")
"""Folded names of columns that may say who gave an answer."""
_PERCENT = 100
_FEW_TEXTS = 0.05
"""The share of cells without a number up to which a column is one of numbers."""
_MOST, _SEVERAL_CONTEXTS = 0.5, 3
"""The proportions of more than this share of contexts sum to 1; of at least so many if a column's
name does not say that it holds proportions."""
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
        used = {*single.values(), *answers}
        rows = _checking_counts(rows, table, single["context"], answers[0], used, notes)
    elif "count" in single and "count" not in chosen:
        rows = _one_count(rows, table.header, single["count"], names)
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


def _checking_counts(
    rows: Iterable[PlacedRow],
    table: OpenTable,
    context: int,
    answer: int,
    used: set[int],
    notes: list[str],
) -> Iterator[PlacedRow]:
    """Yield rows that are answers; then warn if a column that is not used may hold counts.

    A column of proportions is refused.
    """
    columns = {i: _Unused(name) for i, name in enumerate(table.header) if name and i not in used}
    has_persons = any(_PERSONS.fullmatch(_folded(column.name)) for column in columns.values())
    pairs, n_rows = set[int](), 0
    for place, row in rows:
        n_rows += 1
        pairs.add(hash((row[context].strip(), row[answer].strip())))
        for i, column in columns.items():
            column.add(row[context], row[i].strip())
        yield place, row
    found, is_norm = list(columns.values()), len(pairs) == n_rows
    counts = [column.name for column in found if column.is_named_count]
    if is_norm and not has_persons:
        counts += [column.name for column in found if column.may_hold_counts]
    for column in found:
        if column.holds_shares:
            raise _proportions(column.name, counts, (table.path, table.line))
    if counts:
        notes.append(
            _NOT_USED.format(quoted(counts[0], 40)) + f"counts, add {_as_count(counts[0])}"
        )
    elif is_norm and (shares := next((c.name for c in found if c.may_hold_shares), "")):
        notes.append(_NOT_USED.format(quoted(shares, 40)) + f"proportions, {_IN_PEOPLE}")


_NOT_USED = "warning: each row counts as one answer, and the column {} is not used; if it holds "
_IN_PEOPLE = (
    "multiply them by the number of people per context, and name the column of whole numbers with "
    "--columns count=NAME"
)


def _as_count(column: str) -> str:
    return f"--columns {shlex.quote(f'count={column}')}"


def _proportions(column: str, counts: Sequence[str], place: Place) -> DataError:
    """Return the error for proportions, where each row would count as one answer."""
    others = [name for name in counts if name != column]
    fix = f"add {_as_count(others[0])}" if others else _IN_PEOPLE
    fix += ", or add --columns count= if the column means something else"
    problem = f"the values of the column {quoted(column, 40)} sum to 1 (or 100) per context"
    return DataError.at(*place, f"{problem}, and proportions cannot be used as counts", fix)


class _Unused:
    """What the numbers of a column that is not used look like."""

    def __init__(self, name: str) -> None:
        self.name, folded = name, _folded(name)
        self._like_counts = _COUNTS.fullmatch(folded) is not None
        self._like_shares = _SHARES.fullmatch(folded) is not None
        self._like_others = _NO_COUNTS.fullmatch(folded) is not None
        self._sums: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._varying: set[str] = set()
        self._largest, self._rows, self._texts = 0.0, 0, 0
        self._has_fractions = self._is_several = self._is_excluded = False
        self._is_series = True

    def add(self, context: str, cell: str) -> None:
        """Add the cell of one row."""
        self._rows += 1
        if self._is_excluded and not self._like_counts:
            return
        value = _number(cell)
        if value is None or value < 0:
            self._texts += 1
            self._is_excluded = self._texts > 10 + _FEW_TEXTS * self._rows
            return
        is_whole, last = value == int(value), self._last.get(context)
        if last is not None and last != value:
            self._varying.add(context)
        self._is_several = self._is_several or (is_whole and value > 1)
        self._is_series = self._is_series and (last is None or value == last + 1)
        self._last[context] = value
        self._sums[context] = self._sums.get(context, 0.0) + value
        self._largest = max(self._largest, value)
        self._has_fractions = self._has_fractions or not is_whole
        self._is_excluded = self._has_fractions and self._largest > _PERCENT

    @property
    def is_named_count(self) -> bool:
        """Whether it is named like counts, and one of its numbers is a count above 1."""
        return self._is_several and self._like_counts

    @property
    def may_hold_counts(self) -> bool:
        """Whether it holds whole numbers like counts, without a name that says something else."""
        is_other = self._like_shares or self._like_others or self._is_series
        return self._varies and self._is_several and not self._has_fractions and not is_other

    @property
    def holds_shares(self) -> bool:
        """Whether its values are proportions that sum to 1 or 100 in most contexts."""
        # Whole numbers that sum to 100 are counts of 100 people if no name says more.
        if not self._may_be_shares or not (self._has_fractions or self._like_shares):
            return False
        is_named = self._like_shares or self._like_counts
        low, high = (0.9 if is_named else 0.98), 1.02
        near = [c for c, total in self._sums.items() if low <= total / self._whole <= high]
        n_varying = len(self._varying.intersection(near))
        least = 1 if is_named else _SEVERAL_CONTEXTS
        return len(near) > _MOST * len(self._sums) and n_varying >= least

    @property
    def may_hold_shares(self) -> bool:
        """Whether it is named like proportions, and its values may be some of them."""
        largest = max(self._sums.values(), default=0.0)
        return self._like_shares and self._may_be_shares and largest <= 1.02 * self._whole

    @property
    def _varies(self) -> bool:
        is_numeric = not self._is_excluded and self._texts <= _FEW_TEXTS * self._rows
        return is_numeric and bool(self._varying)

    @property
    def _may_be_shares(self) -> bool:
        # Numbers 0 and 1 are marks, such as of the original word.
        is_share = self._has_fractions or self._whole == _PERCENT
        return self._varies and self._largest <= self._whole and is_share

    @property
    def _whole(self) -> int:
        return 1 if self._largest <= 1 else _PERCENT


def _number(cell: str) -> float | None:
    """Return the number in a cell, which may have a decimal comma or a percent sign."""
    text = cell.removesuffix("%").replace(",", ".") if cell.count(",") < 2 else cell
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _one_count(
    rows: Iterable[PlacedRow], header: Sequence[str], count: int, names: Names
) -> Iterator[PlacedRow]:
    """Yield rows; refuse a second column of counts with another number."""
    same = [i for i, name in enumerate(header) if names.get(_folded(name)) == "count"]
    for place, row in rows:
        for i in same:
            if _number(row[i].strip()) != _number(row[count].strip()):
                listed = " and ".join(quoted(header[j], 40) for j in sorted((count, i)))
                fix = f"choose one with {_as_count(header[count])}"
                raise DataError.at(*place, f"{listed} hold different counts", fix)
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
