"""Filtered rows as CSV, some at a time."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator

_STEERING = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(heading: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[bytes]:
    """A heading and rows, encoded row by row.

    >>> b"".join(csv_lines(["a"], [[0.5], [math.nan], ["=1"]]))
    b'a\\n0.5\\n""\\n\\'=1\\n'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(list(heading))
    for row in rows:
        writer.writerow([_cell(one) for one in row])
        if out.tell() > 1 << 16:
            yield _taken(out)
    yield _taken(out)


def _taken(out: io.StringIO) -> bytes:
    found = out.getvalue().encode("utf-8", "backslashreplace")
    out.seek(0)
    out.truncate()
    return found


def _cell(value: object) -> object:
    if isinstance(value, float) and math.isnan(value):
        return ""
    # A spreadsheet would take such a text for a formula, and texts are anybody's.
    if isinstance(value, str) and value.startswith(_STEERING):
        return f"'{value}"
    return value
