"""Write items in the layout of the published Provo norms, including its flaws."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator

from aleatoric.types import Item

COLUMNS = (
    *("Word_Unique_ID", "Text_ID", "Text", "Word_Number", "Sentence_Number"),
    *("Word_In_Sentence_Number", "Word", "Response", "Response_Count"),
    *("Total_Response_Count", "Response_Proportion"),
)
SKIPPED = {"3": 45, "13": 19}
"""In these passages the published file skips this Word_Number and is one too high after it."""


def rows(items: Iterable[Item]) -> Iterator[dict[str, str]]:
    """One row per distinct response; the words of a passage are numbered from 1."""
    items = tuple(items)
    texts = {item.group: f"{item.context} {item.original}" for item in items}
    for number, item in enumerate(items):
        counts = Counter(item.responses)
        for response, count in counts.items():
            yield {
                "Word_Unique_ID": f"QID{number}",
                "Text_ID": item.group,
                "Text": texts[item.group],
                "Word_Number": item.id.partition(":")[2],
                "Sentence_Number": "1",
                "Word_In_Sentence_Number": "NA",
                "Word": item.original or "",
                "Response": response,
                "Response_Count": str(count),
                "Total_Response_Count": str(len(item.responses)),
                "Response_Proportion": f"{count / len(item.responses):.4f}",
            }


def with_slipped_numbers(row: dict[str, str]) -> dict[str, str]:
    """The row as published, with the numbering errors in passages 3 and 13."""
    number = int(row["Word_Number"])
    slipped = number + (number >= SKIPPED.get(row["Text_ID"], number + 1))
    return {**row, "Word_Number": str(slipped)}


def with_lone_dash(row: dict[str, str]) -> dict[str, str]:
    """The row as published, with the dash between two words in passage 36."""
    text = row["Text"].replace(" earth betting ", " earth \u2014 betting ")
    return {**row, "Text": text}


def table(
    rows: Iterable[dict[str, str]],
    delimiter: str = ",",
    line_end: str = "\n",
    encoding: str = "utf-8",
) -> bytes:
    """The bytes of a CSV or TSV file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, delimiter=delimiter, lineterminator=line_end)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode(encoding)
