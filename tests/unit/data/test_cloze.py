"""User-supplied answers: every documented format, and the notes and errors about it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from aleatoric.data import cloze
from aleatoric.data.opening import open_corpus
from aleatoric.errors import DataError
from aleatoric.types import Item


def write(path: Path, *rows: dict[str, Any], end: str = "\n") -> Path:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_bytes("".join(line + end for line in lines).encode())
    return path


def items(path: Path, encoding: str = "utf-8") -> list[Item]:
    return list(open_corpus(str(path), encoding).items)


def test_answer_list_and_counts_are_equivalent(tmp_path: Path) -> None:
    as_list = write(tmp_path / "a.jsonl", {"context": "a b", "responses": ["x", "x", "y"]})
    as_counts = write(tmp_path / "b.jsonl", {"context": "a b", "responses": {"x": 2, "y": 1.0}})
    assert items(as_list) == items(as_counts) == [Item("1", "1", "a b", ("x", "x", "y"))]


def test_optional_fields_are_kept(tmp_path: Path) -> None:
    row = {"id": 7, "group": "g", "context": "a", "responses": ["x"], "original": "w"}
    assert items(write(tmp_path / "a.jsonl", row)) == [Item("7", "g", "a", ("x",), "w")]
    assert items(write(tmp_path / "a.jsonl", {**row, "original": None}))[0].original is None


def test_missing_ids_default_to_line_numbers(tmp_path: Path) -> None:
    rows = [{"context": c, "responses": ["x"]} for c in "ab"]
    path = write(tmp_path / "a.jsonl", *rows, end="\n\n")
    assert [(i.id, i.group) for i in items(path)] == [("1", "1"), ("3", "3")]


def test_repeated_contexts_without_id_are_noted(tmp_path: Path) -> None:
    rows = [{"context": c, "responses": ["x"]} for c in ("The cat", "The cat", "the  cat ", "b")]
    corpus = open_corpus(str(write(tmp_path / "a.jsonl", *rows)))
    for _ in range(2):
        assert len(list(corpus.items)) == 4
        assert [n for n in corpus.notes if n.startswith("2 contexts without an id repeat")]
    with_ids = [row | {"id": i} for i, row in enumerate(rows)]
    corpus = open_corpus(str(write(tmp_path / "b.jsonl", *with_ids)))
    assert len(list(corpus.items)) == 4
    assert not list(corpus.notes)
    table = tmp_path / "c.csv"
    table.write_text("context,response\nThe cat,x\nThe cat,y\nthe  cat,z\n")
    corpus = open_corpus(str(table))
    assert len(corpus.items) == 2
    assert [n for n in corpus.notes if n.startswith("1 context without an id repeats")]


@pytest.mark.parametrize(
    ("name", "hint"), [("a.dat", "only a corpus named .csv"), ("a.jsonl", "per line.$")]
)
def test_table_with_another_extension_gets_a_hint(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / name).write_text("context,response\na,b\n")
    with pytest.raises(DataError, match=hint):
        items(tmp_path / name)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_endings_bom_and_gzip_are_handled(
    tmp_path: Path, end: str, packed: bool, mark: bytes
) -> None:
    rows = [{"context": c, "responses": ["é", "猫", "😀"]} for c in ("ß", "\u0301")]
    data = mark + write(tmp_path / "raw", *rows, end=end).read_bytes()
    path = tmp_path / "a.jsonl"  # gzip is told by the bytes, not by the name
    path.write_bytes(gzip.compress(data) if packed else data)
    assert [(i.context, i.responses) for i in items(path)] == [
        ("ß", ("é", "猫", "😀")),
        ("\u0301", ("é", "猫", "😀")),
    ]


def test_blank_answers_are_counted_once_when_iterated_twice(tmp_path: Path) -> None:
    rows = [{"context": "a", "responses": ["x", " ", ""]}, {"context": "b", "responses": [" y "]}]
    corpus = open_corpus(str(write(tmp_path / "a.jsonl", *rows)))
    for _ in range(2):
        assert [item.responses for item in corpus.items] == [("x",), ("y",)]
        assert list(corpus.notes) == ["2 blank answers were dropped"]
    assert len(corpus.items) == 2


def test_zero_counts_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"context": "a", "responses": {"x": 1, "y": 0}})
    assert items(path)[0].responses == ("x",)


TABLE = 'context,response,count,id,group,original\n"a, b",x,2,i,g,w\n"a, b",y,1,i,g,w\nc,z,1,j,,\n'
OF_TABLE = [Item("i", "g", "a, b", ("x", "x", "y"), "w"), Item("j", "j", "c", ("z",), None)]


@pytest.mark.parametrize("change", [("", ""), ("\n", "\r\n"), ("\n", "\r"), ("\n", "\n\n")])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_table_has_one_answer_per_row(
    tmp_path: Path, change: tuple[str, str], encoding: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes((TABLE.replace(*change) if change[0] else TABLE).encode(encoding))
    assert items(path) == OF_TABLE


def test_tab_separated_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(TABLE.replace('"a, b"', "a; b").replace(",", "\t").replace(";", ","))
    assert items(path) == OF_TABLE


def test_table_requires_only_context_and_response(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('response,context\nx,"one\ntwo"\ny,b\nx,"one\ntwo"\n,b\n')
    corpus = open_corpus(str(path))
    assert [(i.id, i.responses) for i in corpus.items] == [("one\ntwo", ("x", "x")), ("b", ("y",))]
    assert list(corpus.notes) == ["1 blank answer was dropped"]


def test_contexts_without_id_are_merged_ignoring_whitespace(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('context,response\n"the ",x\nthe,y\n the,z\nthen,x\n')
    corpus = open_corpus(str(path))
    assert [(i.context, i.responses) for i in corpus.items] == [
        ("the ", ("x", "y", "z")),
        ("then", ("x",)),
    ]
    [note] = corpus.notes
    assert note.startswith("2 rows have no id, and a context that differs from an earlier one")


@pytest.mark.parametrize("name", ["context", "group", "original"])
def test_conflicting_rows_with_same_id_are_rejected(tmp_path: Path, name: str) -> None:
    columns = ["id", "context", "group", "original", "response"]
    first = dict.fromkeys(columns, "a")
    lines = [",".join({**first, name: cell}[c] for c in columns) for cell in "ab"]
    path = tmp_path / "a.csv"
    path.write_text("\n".join([",".join(columns), *lines]))
    with pytest.raises(DataError, match=f"line 3: id 'a' has another {name} than in line 2"):
        items(path)


def test_answers_with_participants_are_read(tmp_path: Path) -> None:
    given = [{"person": 1, "answer": "x"}, {"person": "b", "answer": " "}]
    given.append({"person": " c ", "answer": " y"})
    rows = [{"context": c, "responses": given} for c in "ab"]
    expected = [(("x", "y"), ("1", "c"))] * 2  # a blank answer is dropped with its person
    found = items(write(tmp_path / "a.jsonl", *rows))
    assert [(i.responses, i.persons) for i in found] == expected
    path = tmp_path / "a.csv"
    path.write_text("context,person,response\na,1,x\nb,1,x\na,b, \nb,b,\na,c ,y\nb,c,y\n")
    assert [(i.responses, i.persons) for i in items(path)] == expected
    assert (
        items(write(tmp_path / "b.jsonl", {"context": "a", "responses": ["x"]}))[0].persons is None
    )


ONE, OTHER = {"person": "p", "answer": "x"}, {"person": "q", "answer": "x"}


@pytest.mark.parametrize(
    ("responses", "message"),
    [
        (
            [ONE, "y"],
            "line 2: an entry of responses is not an object with exactly person and answer",
        ),
        ([ONE, {"person": "q"}], "line 2: an entry of responses is not an object with exactly"),
        ([ONE, {**OTHER, "count": 2}], "line 2: an entry of responses is not an object with"),
        ([{**ONE, "person": ""}], "line 2: person '' is not an identifier"),
        ([{**ONE, "person": None}], "line 2: person None is not an identifier"),
        ([{**ONE, "answer": 3}], "line 2: answer is int, not text"),
        ([ONE, OTHER, ONE], "line 2: person 'p' answers a context twice"),
        (["x"], "line 2: answers have no persons, but those of line 1 have some"),
        ({"x": 2}, "line 2: answers have no persons, but those of line 1 have some"),
    ],
)
def test_invalid_participants_are_reported_with_line(
    tmp_path: Path, responses: Any, message: str
) -> None:
    rows = [{"context": "a", "responses": own} for own in ([ONE, OTHER], responses)]
    with pytest.raises(DataError, match=message):
        items(write(tmp_path / "a.jsonl", *rows))


def test_participants_after_rows_without_them_are_rejected(tmp_path: Path) -> None:
    rows = [{"context": "a", "responses": own} for own in (["x"], [ONE])]
    with pytest.raises(
        DataError, match="line 2: answers have persons, but those of line 1 have none"
    ):
        items(write(tmp_path / "a.jsonl", *rows))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,,x,1", "line 3: person '' is not an identifier"),
        ("a,p,y,1", r"line 3: person 'p' answers a context twice \(line 2\)"),
        ("a,q,y,2", "line 3: one person has a count of 2"),
    ],
)
def test_invalid_participants_in_table_are_reported(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"context,person,response,count\na,p,x,1\n{row}\n")
    with pytest.raises(DataError, match=message):
        items(path)


def test_explicit_encoding_is_used(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("context,response\nä,ö\n".encode("latin-1"))
    with pytest.raises(DataError, match="line 2: byte 0xe4 at column 1 is not utf-8"):
        items(path)
    assert items(path, "latin-1")[0].responses == ("ö",)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "no-such", "base64", "undefined"])
def test_unsupported_encodings_are_rejected(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"context,response\na,b\n")
    with pytest.raises(DataError, match=r"a\.csv: .*; (save|try)"):
        items(path, encoding)


def test_corpus_is_named_after_file(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.v2.jsonl.gz", {"context": "a", "responses": ["x"]})
    corpus = cloze.load(path)
    assert (corpus.name, corpus.version, len(corpus.sha256)) == ("mine", "own", 64)
