"""The published Provo layout and JSON lines give the same items."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from provo_layout import COLUMNS, rows, table, with_lone_dash, with_slipped_numbers

from aleatoric.data import fetch, files, provo
from aleatoric.data.opening import open_corpus, sniff
from aleatoric.errors import DataError, UsageError
from aleatoric.types import Corpus, Item

ITEMS = (
    Item("1:2", "1", "Caf\u00e9", ("is", "is", "was"), "doesn\u2019t"),
    Item("1:3", "1", "Caf\u00e9 doesn\u2019t", ("matter",), 'stop,"'),
    Item("2:2", "2", "There", ("are", "are"), "are"),
)


def load(path: Path, data: bytes, encoding: str = "utf-8") -> Corpus:
    path.write_bytes(data)
    return provo.load(path, encoding)


def facts(items: object) -> list[tuple[object, ...]]:
    """Items with sorted answers: a table may list them in any order."""
    assert isinstance(items, tuple)
    return [(i.id, i.group, i.context, sorted(i.responses), i.original) for i in items]


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "mac-roman"])
@pytest.mark.parametrize("packed", [False, True])
def test_items_round_trip_through_published_layout(
    tmp_path: Path, delimiter: str, line_end: str, encoding: str, packed: bool
) -> None:
    data = table(rows(ITEMS), delimiter, line_end, encoding)
    named = "utf-8" if encoding == "utf-8-sig" else encoding
    path = tmp_path / ("norms.csv.gz" if packed else "norms.csv")
    corpus = load(path, gzip.compress(data) if packed else data, named)
    assert corpus.items == ITEMS
    assert corpus.notes == ()
    assert sniff(path, named) == "provo"


def test_full_corpus_round_trips_with_flaws_of_published_file(shared: Path, tmp_path: Path) -> None:
    from_json = provo.load(shared / "data" / "provo" / "provo_cloze.jsonl.gz")
    flawed = (with_lone_dash(with_slipped_numbers(row)) for row in rows(from_json.items))
    data = table(flawed, line_end="\r", encoding="mac-roman")
    from_table = load(tmp_path / "norms.csv", data, "mac-roman")
    assert len(from_table.items) == 2687
    assert facts(from_table.items) == facts(from_json.items)
    assert set(from_json.notes) < set(from_table.notes)
    assert set(from_table.notes) - set(from_json.notes) == {
        "passage 3: Word_Number is 1 too high from 46",
        "passage 13: Word_Number is 1 too high from 20",
        "passage 36: 1 dashes alone in Text are no words",
    }


def test_missing_word_does_not_shift_following_words(tmp_path: Path) -> None:
    item = Item("1:4", "1", "a b c", ("x",), "d")
    corpus = load(tmp_path / "n.csv", table(rows([replace(item, id="1:2", context="a b c")])))
    assert corpus.items[0].context == "a"  # type: ignore[index]
    two = [Item("1:2", "1", "a", ("x",), "b"), item]
    assert load(tmp_path / "n.csv", table(rows(two))).items == tuple(two)


def test_repeated_word_is_not_treated_as_numbering_error(tmp_path: Path) -> None:
    items = (Item("1:2", "1", "had", ("x",), "had"), Item("1:4", "1", "had had had", ("y",), "had"))
    assert load(tmp_path / "n.csv", table(rows(items))).items == items


def test_float_formatted_ids_are_read_as_integers(tmp_path: Path) -> None:
    floats = [
        {**row, "Text_ID": row["Text_ID"] + ".0", "Word_Number": row["Word_Number"] + ".0"}
        for row in rows(ITEMS)
    ]
    assert load(tmp_path / "n.csv", table(floats)).items == ITEMS


def test_blank_and_missing_answers_are_dropped_and_counted(tmp_path: Path) -> None:
    first = next(rows(ITEMS))
    blank = {**first, "Response": " ", "Response_Count": "3"}
    missing = {**first, "Response": "NA", "Response_Count": "2"}
    nothing = {**first, "Response": "NA", "Response_Count": "NA"}
    corpus = load(tmp_path / "n.csv", table([*rows(ITEMS), blank, missing, nothing]))
    assert corpus.items == ITEMS
    assert list(corpus.notes) == ["5 blank answers were dropped"]


def test_answers_are_case_folded_and_duplicate_rows_summed(tmp_path: Path) -> None:
    again = [{**row, "Response": row["Response"].upper()} for row in rows(ITEMS)]
    corpus = load(tmp_path / "n.csv", table([*rows(ITEMS), *again]))
    assert [len(item.responses) for item in corpus.items] == [6, 2, 4]
    assert {word for item in corpus.items for word in item.responses} == {
        *("is", "was", "matter", "are")
    }


def test_different_text_in_same_passage_is_noted(tmp_path: Path) -> None:
    changed = [*rows(ITEMS)]
    changed[1] = {**changed[1], "Text": changed[1]["Text"].replace("\u2019", "'")}
    corpus = load(tmp_path / "n.csv", table(changed))
    assert corpus.items == ITEMS
    assert list(corpus.notes) == ["passage 1: 1 rows carry another Text"]


def test_newlines_inside_quotes_and_blank_lines_are_read(tmp_path: Path) -> None:
    data = table({**row, "Text": row["Text"].replace(" ", "\n")} for row in rows(ITEMS))
    padded = b"\n\n" + data.replace(b"\r\n", b"\n\n\n") + b"\n,,,,,,,,,,\n  \n"
    assert load(tmp_path / "n.csv", padded).items == ITEMS


def test_errors_name_first_line_of_multiline_row(tmp_path: Path) -> None:
    bad = [{**row, "Text": row["Text"].replace(" ", "\n")} for row in rows(ITEMS)]
    bad[1]["Response_Count"] = "many"
    with pytest.raises(DataError, match=r"n\.csv, line 5: Response_Count 'many' is not a number"):
        load(tmp_path / "n.csv", table(bad))


def test_published_file_and_encoding_are_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path))
    known = fetch.DOWNLOADS["provo"]
    path = tmp_path / known.filename
    path.write_bytes(table(rows(ITEMS), line_end="\r", encoding="mac-roman"))
    with pytest.raises(DataError, match="name its encoding with --encoding"):
        open_corpus("provo")
    published = replace(known, sha256=files.sha256_of(path))
    monkeypatch.setitem(fetch.DOWNLOADS, "provo", published)
    for spec in ("provo", str(path), f"provo:{path}"):
        assert open_corpus(spec).items == ITEMS


def test_modified_fetched_file_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match="run aleatoric fetch provo"):
        open_corpus("provo")
    path = tmp_path / fetch.DOWNLOADS["provo"].filename
    path.write_bytes(table(rows(ITEMS)))
    assert open_corpus("provo").items == ITEMS
    path.with_name(path.name + ".sha256").write_text("0" * 64 + "  norms\n")
    with pytest.raises(DataError, match="was changed since it was fetched"):
        open_corpus("provo")


@pytest.mark.parametrize("column", sorted(provo.COLUMNS))
def test_missing_column_is_named(tmp_path: Path, column: str) -> None:
    path = tmp_path / "n.csv"
    path.write_bytes(table(rows(ITEMS)).replace(column.encode() + b",", b"Other,", 1))
    if column == "Text_ID":
        path.write_bytes(table(rows(ITEMS)).replace(b",Text_ID,", b",Other,", 1))
    with pytest.raises(DataError, match=f"line 2: '{column}' is missing"):
        open_corpus(str(path))


def test_layout_writer_has_all_required_columns() -> None:
    assert set(provo.COLUMNS) <= set(COLUMNS)
