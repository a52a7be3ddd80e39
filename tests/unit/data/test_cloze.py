"""Anybody's own answers: every form that is documented, and what must be told about it."""

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


def test_a_list_and_counts_mean_the_same(tmp_path: Path) -> None:
    as_list = write(tmp_path / "a.jsonl", {"context": "a b", "responses": ["x", "x", "y"]})
    as_counts = write(tmp_path / "b.jsonl", {"context": "a b", "responses": {"x": 2, "y": 1.0}})
    assert items(as_list) == items(as_counts) == [Item("1", "1", "a b", ("x", "x", "y"))]


def test_optional_fields_are_kept(tmp_path: Path) -> None:
    row = {"id": 7, "group": "g", "context": "a", "responses": ["x"], "original": "w"}
    assert items(write(tmp_path / "a.jsonl", row)) == [Item("7", "g", "a", ("x",), "w")]
    assert items(write(tmp_path / "a.jsonl", {**row, "original": None}))[0].original is None


def test_without_ids_a_context_is_known_by_its_line(tmp_path: Path) -> None:
    rows = [{"context": c, "responses": ["x"]} for c in "ab"]
    path = write(tmp_path / "a.jsonl", *rows, end="\n\n")
    assert [(i.id, i.group) for i in items(path)] == [("1", "1"), ("3", "3")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_marks_and_gzip_do_not_matter(
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


def test_blank_answers_are_dropped_and_counted_also_on_a_second_walk(tmp_path: Path) -> None:
    rows = [{"context": "a", "responses": ["x", " ", ""]}, {"context": "b", "responses": [" y "]}]
    corpus = open_corpus(str(write(tmp_path / "a.jsonl", *rows)))
    for _ in range(2):
        assert [item.responses for item in corpus.items] == [("x",), ("y",)]
        assert list(corpus.notes) == ["2 blank answers were dropped"]
    assert len(corpus.items) == 2


def test_a_count_of_zero_says_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"context": "a", "responses": {"x": 1, "y": 0}})
    assert items(path)[0].responses == ("x",)


TABLE = 'context,response,count,id,group,original\n"a, b",x,2,i,g,w\n"a, b",y,1,i,g,w\nc,z,1,j,,\n'
OF_TABLE = [Item("i", "g", "a, b", ("x", "x", "y"), "w"), Item("j", "j", "c", ("z",), None)]


@pytest.mark.parametrize("change", [("", ""), ("\n", "\r\n"), ("\n", "\r"), ("\n", "\n\n")])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_table_holds_one_answer_a_row(
    tmp_path: Path, change: tuple[str, str], encoding: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes((TABLE.replace(*change) if change[0] else TABLE).encode(encoding))
    assert items(path) == OF_TABLE


def test_tabs_may_stand_for_commas(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(TABLE.replace('"a, b"', "a; b").replace(",", "\t").replace(";", ","))
    assert items(path) == OF_TABLE


def test_a_table_needs_only_context_and_response(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('response,context\nx,"one\ntwo"\ny,b\nx,"one\ntwo"\n,b\n')
    corpus = open_corpus(str(path))
    assert [(i.id, i.responses) for i in corpus.items] == [("one\ntwo", ("x", "x")), ("b", ("y",))]
    assert list(corpus.notes) == ["1 blank answers were dropped"]


def test_contexts_without_id_are_joined_across_white_space(tmp_path: Path) -> None:
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
def test_rows_of_one_id_must_agree(tmp_path: Path, name: str) -> None:
    columns = ["id", "context", "group", "original", "response"]
    first = dict.fromkeys(columns, "a")
    lines = [",".join({**first, name: cell}[c] for c in columns) for cell in "ab"]
    path = tmp_path / "a.csv"
    path.write_text("\n".join([",".join(columns), *lines]))
    with pytest.raises(DataError, match=f"line 3: id 'a' has another {name} than in line 2"):
        items(path)


def test_answers_may_have_persons(tmp_path: Path) -> None:
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
def test_bad_persons_are_told_with_their_line(tmp_path: Path, responses: Any, message: str) -> None:
    rows = [{"context": "a", "responses": own} for own in ([ONE, OTHER], responses)]
    with pytest.raises(DataError, match=message):
        items(write(tmp_path / "a.jsonl", *rows))


def test_persons_after_answers_without_are_refused(tmp_path: Path) -> None:
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
def test_bad_persons_of_a_table_are_told(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"context,person,response,count\na,p,x,1\n{row}\n")
    with pytest.raises(DataError, match=message):
        items(path)


def test_another_encoding_is_read_when_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("context,response\nä,ö\n".encode("latin-1"))
    with pytest.raises(DataError, match="line 2: byte 0xe4 at column 1 is not utf-8"):
        items(path)
    assert items(path, "latin-1")[0].responses == ("ö",)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "no-such", "base64", "undefined"])
def test_encodings_that_cannot_be_read_are_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"context,response\na,b\n")
    with pytest.raises(DataError, match=r"a\.csv: .*; (save|try)"):
        items(path, encoding)


def test_the_corpus_is_named_after_its_file(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.v2.jsonl.gz", {"context": "a", "responses": ["x"]})
    corpus = cloze.load(path)
    assert (corpus.name, corpus.version, len(corpus.sha256)) == ("mine", "own", 64)
