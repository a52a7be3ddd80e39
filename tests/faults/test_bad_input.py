"""Bad input ends with exit status 2 and one sentence: the file, the line, the problem, the fix.

Every case runs the real command line. Nothing stands on stdout, and no run stays behind.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aleatoric import cli

GOOD = {"context": "There are", "responses": {"many": 3, "two": 1}, "id": "1"}
PROVO_HEAD = "Text_ID,Text,Word_Number,Word,Response,Response_Count"
PROVO_ROW = "1,There are now,2,are,is,3"


@dataclass(frozen=True)
class Case:
    """A command with its input files, and what the one line on stderr must say."""

    name: str
    says: str
    files: dict[str, bytes] = field(default_factory=dict)
    argv: tuple[str, ...] = ("--corpus", "{dir}/c.jsonl")
    file: str | None = None
    line: int | None = None
    prepare: Callable[[Path], None] = lambda folder: None


def lines(*rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def good(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**GOOD, **changes}.items() if value is not ...}


def corpus(name: str, says: str, data: bytes, line: int | None = 1, file: str = "c.jsonl") -> Case:
    """A bad corpus file."""
    return Case(name, says, {file: data}, ("--corpus", f"{{dir}}/{file}"), file, line)


def counts(name: str, literal: str, says: str) -> Case:
    """A bad count in a corpus, written as it stands in the file."""
    row = json.dumps(good(responses="HERE")).replace('"HERE"', f'{{"many": {literal}}}')
    return corpus(f"count {name}", says, lines(GOOD) + row.encode() + b"\n", 2)


def table(name: str, says: str, *rows: str, line: int | None = 2, encoding: str = "utf-8") -> Case:
    return corpus(name, says, "\n".join(rows).encode(encoding) + b"\n", line, "c.csv")


def recorded(name: str, says: str, data: bytes, line: int | None = 1) -> Case:
    """A good corpus and a bad recording."""
    files = {"c.jsonl": lines(GOOD), "m.jsonl": data}
    argv = ("--corpus", "{dir}/c.jsonl", "--model", "recorded:{dir}/m.jsonl")
    return Case(f"recorded {name}", says, files, argv, "m.jsonl", line)


def usage(name: str, says: str, *argv: str) -> Case:
    """Good files and a bad command."""
    return Case(name, says, {"c.jsonl": lines(GOOD)}, ("--corpus", "{dir}/c.jsonl", *argv))


def hold_a_run(folder: Path) -> None:
    (folder / "run").mkdir()
    (folder / "run" / "run.sqlite").write_bytes(b"this is no database, but it is somebody's")


def hold_a_file(folder: Path) -> None:
    (folder / "run").write_text("a file where the run should go")


def link_to_nothing(folder: Path) -> None:
    (folder / "c.jsonl").symlink_to(folder / "gone")


CORPORA = [
    corpus("context missing", "'context' is missing .*; add", lines(GOOD, good(context=...)), 2),
    corpus("responses missing", "'responses' is missing .*; add", lines(good(responses=...))),
    corpus(
        "human missing",
        "'human' is missing|'responses' is missing",
        lines({"passage": 1, "position": 2, "context": "a"}),
    ),
    corpus(
        "position missing",
        "'position' is missing .*; add",
        lines({"passage": 1, "context": "a", "human": {"x": 1}}),
    ),
    corpus("context is a number", "context is int, not text; write", lines(good(context=3))),
    corpus("context is null", "context is NoneType, not text; write", lines(good(context=None))),
    corpus("responses is text", "no list; write", lines(good(responses="many"))),
    corpus("responses is a number", "no list; write", lines(good(responses=4))),
    corpus("a response is a number", "is int, not text; write", lines(good(responses=["a", 3]))),
    corpus("a response is a list", "is list, not text; write", lines(good(responses=[["a"]]))),
    corpus("no responses", "no answer .*; give", lines(GOOD, good(id="2", responses={})), 2),
    corpus("an empty list of responses", "no answer .*; give", lines(good(responses=[]))),
    corpus("blank responses", "no answer .*; give", lines(good(responses=[" ", "\t", ""]))),
    corpus("only counts of zero", "no answer .*; give", lines(good(responses={"a": 0}))),
    corpus("duplicate ids", "stands in line 1 already; give", lines(GOOD, good(context="b")), 2),
    corpus(
        "duplicate passage and position",
        "stands in line 1 already; give",
        lines(*[{"passage": 1, "position": 2, "context": "a", "human": {"x": 1}}] * 2),
        2,
    ),
    corpus("an id that is an object", "is no identifier; use", lines(good(id={}))),
    corpus("an id that is true", "is no identifier; use", lines(good(id=True))),
    corpus("an id that is a fraction", "is no identifier; use", lines(good(id=1.5))),
    corpus("a blank id", "is no identifier; use", lines(good(id=" "))),
    corpus("a null group", "is no identifier; use", lines(good(group=None))),
    corpus("original is a list", "original is list, not text; write", lines(good(original=[]))),
    corpus(
        "duplicate keys",
        "'context' stands twice; merge",
        b'{"context": "a", "context": "b", "responses": ["x"]}\n',
    ),
    corpus(
        "duplicate words",
        "'x' stands twice; merge",
        b'{"context": "a", "responses": {"x": 1, "x": 2}}\n',
    ),
    corpus(
        "half a surrogate pair",
        "surrogate pair.*; export",
        b'{"context": "a\\ud800", "responses": ["x"]}\n',
    ),
    corpus(
        "half a surrogate pair in a word",
        "surrogate pair.*; export",
        b'{"context": "a", "responses": {"\\udfff": 1}}\n',
    ),
    corpus(
        "an escaped NUL",
        "NUL character; remove",
        b'{"context": "a", "responses": ["\\u0000failed"]}\n',
    ),
    corpus("a NUL byte", "NUL byte .*; save", b'{"context": "a\0", "responses": ["x"]}\n'),
    corpus(
        "a control character in the message",
        "is no identifier; use|is missing",
        b'{"\\u001b[31mred\\u202e": 1, "responses": ["x"]}\n',
    ),
    corpus("a JSON list", "a JSON list, not an object; write", b'["context", "responses"]\n'),
    corpus("a JSON number", "a JSON int, not an object; write", b"42\n"),
    corpus("a JSON string", "a JSON str, not an object; write", b'"context"\n'),
    corpus("a JSON null", "a JSON NoneType, not an object; write", b"null\n"),
    corpus(
        "a whole file as one JSON list",
        "not JSON|a JSON list",
        json.dumps([GOOD, GOOD], indent=1).encode(),
    ),
    corpus("truncated JSON", "not JSON .*; write", lines(GOOD) + lines(GOOD)[:20], 2),
    corpus("two objects on a line", "not JSON .*; write", lines(GOOD).strip() * 2),
    corpus("deep nesting", "nested too deeply.*; write", b"[" * 200_000 + b"\n"),
    corpus("deep nesting of objects", "nested too deeply.*; write", b'{"a":' * 200_000 + b"\n"),
    corpus(
        "a number of 10000 digits",
        "number too long; write|is over",
        b'{"context": "a", "responses": {"x": ' + b"9" * 10_000 + b"}}\n",
    ),
    corpus("a context of 2 MB", "characters; shorten", lines(good(context="a " * 1_000_000))),
    corpus(
        "a line of 10 MB",
        "longer than 4 MiB; put",
        lines(GOOD) + lines(good(context="a" * 10_000_000)),
        2,
    ),
    corpus("10 MB without a line end", "longer than 4 MiB; put", b" " * 10_000_000),
    corpus("an empty file", "holds no item; give", b"", None),
    corpus("only empty lines", "holds no item; give", b"\n \n\r\n\t\n", None),
    corpus(
        "a latin-1 byte",
        "byte 0xe9 at column 17 is not utf-8; save",
        b'{"context": "caf\xe9", "responses": ["x"]}\n',
    ),
    corpus(
        "mixed encodings",
        "byte 0xe9 .* is not utf-8; save",
        lines(GOOD) + '{"context": "é", "responses": ["x"]}\n'.encode() + b'{"x": "\xe9"}\n',
        3,
    ),
    corpus("UTF-16", "is not utf-8; save", "\ufeff{}\n".encode("utf-16")),
    corpus("UTF-16 without a mark", "NUL byte .*; save", '{"context": 1}\n'.encode("utf-16-le")),
    corpus("an overlong form", "is not utf-8; save", b'{"context": "\xc0\x80"}\n'),
    corpus(
        "truncated gzip",
        "gzip data are cut off or damaged; copy",
        gzip.compress(lines(*[GOOD] * 9))[:-12],
        None,
    ),
    corpus("gzip cut in its head", "gzip data are cut off or damaged; copy", b"\x1f\x8b\x08"),
    corpus(
        "corrupted gzip",
        "gzip data are cut off or damaged; copy",
        gzip.compress(os.urandom(2000))[:40] + b"\xff" * 400,
        None,
    ),
    corpus(
        "gzip with a wrong checksum",
        "gzip data are cut off or damaged; copy",
        gzip.compress(lines(GOOD))[:-8] + b"\0" * 8,
        None,
    ),
    corpus(
        "gzip followed by rubbish",
        "gzip data are cut off or damaged; copy",
        gzip.compress(lines(GOOD)) + b"rubbish",
        None,
    ),
]

COUNTS = [
    counts("negative", "-1", "'many' -1 is too small; use"),
    counts("fractional", "2.5", "'many' 2.5 is not whole; use"),
    counts("NaN", "NaN", "NaN is no JSON number; leave"),
    counts("Infinity", "Infinity", "Infinity is no JSON number; leave"),
    counts("minus Infinity", "-Infinity", "-Infinity is no JSON number; leave"),
    counts("overflowing", "1e999", "is not whole; use"),
    counts("text", '"3"', "'3' is no number; use"),
    counts("boolean", "true", "True is no number; use"),
    counts("null", "null", "None is no number; use"),
    counts("list", "[3]", "is no number; use"),
    counts("huge", "1000000000000", "is over 1000000; check"),
    counts("huge float", "1e15", "is over 1000000; check"),
    corpus(
        "counts that add up to too many",
        "over 1000000 answers; split",
        lines(good(responses={"a": 900_000, "b": 900_000})),
    ),
]

TABLES = [
    table("table without context", "'context' is missing .*; add", "text,response", "a,b"),
    table("table without response", "'response' is missing .*; add", "context,answer", "a,b"),
    table(
        "table without Text",
        "'Text' is missing .*; add",
        PROVO_HEAD.replace("Text,", "Other,"),
        PROVO_ROW,
    ),
    table(
        "table without Response_Count",
        "'Response_Count' is missing .*; add",
        PROVO_HEAD.replace("Response_Count", "Count"),
        PROVO_ROW,
    ),
    table("table with semicolons", "'context' is missing .*; add", "context;response", "a;b"),
    table("duplicate column", "'context' stands twice; give", "context,context", "a,b", line=1),
    table(
        "ragged row, too short",
        "1 fields where the header has 2; quote",
        "context,response",
        "a,b",
        "c",
        line=3,
    ),
    table(
        "ragged row, too long",
        "3 fields where the header has 2; quote",
        "context,response",
        "a, b,c",
    ),
    table("open quote", "not CSV .*; close", "context,response", 'a,"b', "c,d", line=3),
    table("quote in the header", "not CSV .*; close", '"context,response', "a,b"),
    table("text after a quote", "not CSV .*; close", "context,response", '"a" b,c'),
    table("a cell of 1 MB", "not CSV .*; close", "context,response", "a" * 1_000_000 + ",b"),
    table("table count abc", "count 'abc' is no number; use", "context,response,count", "a,b,abc"),
    table("table count empty", "count '' is no number; use", "context,response,count", "a,b,"),
    table(
        "table count negative", "count -2.0 is too small; use", "context,response,count", "a,b,-2"
    ),
    table("table count fractional", "not whole; use", "context,response,count", "a,b,0.5"),
    table("table count nan", "not whole; use", "context,response,count", "a,b,nan"),
    table("table count inf", "not whole; use", "context,response,count", "a,b,inf"),
    table("table count zero", "too small; use", "context,response,count", "a,b,0"),
    table("table without answers", "no answer .*; give", "context,response", "a, "),
    table("table without context text", "is no identifier; use", "context,response", ",x"),
    table(
        "two contexts of one id",
        "another context than in line 2; give",
        "id,context,response",
        "1,a,x",
        "1,b,x",
        line=3,
    ),
    table("header only", "holds no item; give", "context,response", line=None),
    table(
        "table in latin-1",
        "byte 0xe9 .* not utf-8; save",
        "context,response",
        "café,x",
        encoding="latin-1",
    ),
    table("table in UTF-16", "is not utf-8; save", "context,response", line=1, encoding="utf-16"),
    corpus("an empty table", "is empty; it needs", b"", None, "c.csv"),
    table(
        "Word_Number past the text",
        "past the 3 words of Text; count",
        PROVO_HEAD,
        PROVO_ROW.replace(",2,are", ",9,are"),
    ),
    table("Word_Number zero", "too small; use", PROVO_HEAD, PROVO_ROW.replace(",2,are", ",0,are")),
    table(
        "Word_Number text", "no number; use", PROVO_HEAD, PROVO_ROW.replace(",2,are", ",two,are")
    ),
    table("Text_ID blank", "is no identifier; use", PROVO_HEAD, PROVO_ROW.replace("1,", " ,", 1)),
    table("Response_Count text", "no number; use", PROVO_HEAD, PROVO_ROW[:-1] + "NA"),
    table("only missing answers", "no answer .*; give", PROVO_HEAD, PROVO_ROW.replace("is", "NA")),
]

RECORDINGS = [
    recorded("without an id", "'id' is missing .*; add", lines({"samples": {"a": 1}})),
    recorded(
        "with passage alone",
        "'position' is missing .*; add",
        lines({"passage": 1, "samples": {"a": 1}}),
    ),
    recorded("with a null id", "is no identifier; use", lines({"id": None, "samples": {"a": 1}})),
    recorded(
        "rows that join nothing",
        "none of its 2 rows .*; check",
        lines(*[{"id": "x", "samples": {"a": 1}}] * 2),
        None,
    ),
    recorded(
        "samples and texts",
        "samples and texts; give",
        lines({"id": "1", "samples": {"a": 1}, "texts": ["b"]}),
    ),
    recorded("nothing in a row", "this one none; give", lines({"id": "1"})),
    recorded(
        "positive logprobs",
        "0.5 is no log-probability; use",
        lines({"id": "1", "logprobs": {"a": 0.5}}),
    ),
    recorded(
        "a logprob that is text",
        "is no log-probability; use",
        lines({"id": "1", "logprobs": {"a": "-1"}}),
    ),
    recorded("no logprobs", "no object with words; write", lines({"id": "1", "logprobs": {}})),
    recorded("NaN logprobs", "no JSON number; leave", b'{"id": "1", "logprobs": {"a": NaN}}\n'),
    recorded("samples as a number", "no object of counts; write", lines({"id": "1", "samples": 3})),
    recorded("a negative count", "too small; use", lines({"id": "1", "samples": {"a": -1}})),
    recorded(
        "a fraction of failures",
        "failed 0.5 is not whole; use",
        lines({"id": "1", "samples": {"a": 1}, "failed": 0.5}),
    ),
    recorded(
        "texts that are no texts", "is int, not text; write", lines({"id": "1", "texts": [1]})
    ),
    recorded(
        "the sentinel of failures",
        "NUL character; remove",
        b'{"id": "1", "samples": {"\\u0000failed": 3}}\n',
    ),
    recorded(
        "truncated JSON in line 2",
        "not JSON .*; write",
        lines({"id": "1", "samples": {"a": 1}}) + b'{"id"',
        2,
    ),
    recorded("an empty file", "holds no row; record", b"", None),
    recorded("a CSV file", "not JSON .*; write", b"id,word\n1,a\n"),
    recorded(
        "truncated gzip",
        "gzip data are cut off or damaged; copy",
        gzip.compress(lines({"id": "1", "samples": {"a": 1}}))[:-9],
        None,
    ),
]

USAGE = [
    Case("no such file", "no such file; check", file="c.jsonl"),
    Case("no such folder", "no such file; check", argv=("--corpus", "{dir}/no/c.jsonl")),
    Case(
        "a name longer than any file",
        "cannot be read|no corpus",
        argv=("--corpus", "{dir}/" + "c" * 300 + ".jsonl"),
    ),
    Case("a folder for a corpus", "this is a folder; name", argv=("--corpus", "{dir}")),
    Case("a device for a corpus", "no regular file; save", argv=("--corpus", "/dev/null")),
    Case("a link to nothing", "no such file; check", file="c.jsonl", prepare=link_to_nothing),
    Case("an unknown corpus", "no corpus or file 'brown'; known", argv=("--corpus", "brown")),
    Case("a corpus that is not fetched", "run aleatoric fetch provo", argv=("--corpus", "provo")),
    Case(
        "a kind of corpus without a file",
        "no corpus or file 'cloze'|cloze",
        argv=("--corpus", "cloze:"),
    ),
    Case(
        "simulated of an unknown option",
        "not understood; use",
        argv=("--corpus", "simulated:size=3"),
    ),
    Case(
        "simulated with text", "not understood; use", argv=("--corpus", "simulated:contexts=many")
    ),
    Case(
        "simulated without people",
        "people is 1 to 1000000",
        argv=("--corpus", "simulated:people=0"),
    ),
    Case(
        "simulated with a negative",
        "not understood; use",
        argv=("--corpus", "simulated:contexts=-5"),
    ),
    Case(
        "simulated too large",
        "people is 1 to 1000000",
        argv=("--corpus", "simulated:people=99999999999"),
    ),
    usage("an unknown kind of model", "no .* named 'magic'; known", "--model", "magic:wand"),
    usage("a recording without a file", "needs a file; write", "--model", "recorded:"),
    usage("a recording that is not there", "no such file; check", "--model", "recorded:{dir}/no"),
    usage("a recording that is a folder", "this is a folder; name", "--model", "recorded:{dir}"),
    usage("a toy of an unknown option", "no toy model; use", "--model", "toy:size=3"),
    usage("a toy at temperature 0", "no toy model; use", "--model", "toy:temperature=0"),
    usage("a toy at temperature nan", "no toy model; use", "--model", "toy:temperature=nan"),
    usage("an unknown protocol", "no protocol 'new'; use", "--protocol", "new"),
    usage("an unknown choice", "no choice 'colour'; the choices are", "--choose", "colour=red"),
    usage("a choice without a value", "is not known; use", "--choose", "bins"),
    usage("an unknown value of a choice", "is not known; use", "--choose", "bins=open"),
    usage("a choice of the protocol", "no choice 'protocol'", "--choose", "protocol=paper"),
    usage("an unknown metric", "no metric 'bleu'; use", "--metric", "bleu"),
    usage("an unknown format", "no format 'html'; use", "--format", "html"),
    usage("an unknown encoding", "no encoding 'klingon'; try", "--encoding", "klingon"),
    usage("an encoding without line ends", "line by line; save", "--encoding", "utf-16"),
    Case("a run that is damaged", "choose|restore", {"c.jsonl": lines(GOOD)}, prepare=hold_a_run),
    Case(
        "a file where the run should go",
        "choose another --out",
        {"c.jsonl": lines(GOOD)},
        prepare=hold_a_file,
    ),
]

CASES = [*CORPORA, *COUNTS, *TABLES, *RECORDINGS, *USAGE]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_bad_input_is_one_sentence_and_leaves_nothing_behind(
    case: Case,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path / "cache"))
    for name, data in case.files.items():
        (tmp_path / name).write_bytes(data)
    case.prepare(tmp_path)
    before = contents(tmp_path)
    argv = [part.format(dir=tmp_path) for part in case.argv]
    monkeypatch.setattr(sys, "argv", ["aleatoric", "word", *argv, "--out", f"{tmp_path}/run"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    assert end.value.code == 2, err
    assert out == ""
    check_message(err, case)
    assert contents(tmp_path) == before


def check_message(err: str, case: Case) -> None:
    assert err.startswith("error: ")
    assert err.endswith(".\n")
    assert err.count("\n") == 1
    assert len(err) < 800
    assert not {c for c in err[:-1] if unicodedata.category(c) in ("Cc", "Cf", "Cs")}
    assert "Traceback" not in err
    assert re.search(case.says, err), err
    if case.file:
        assert case.file in err
    if case.line is not None:
        assert f"{case.file}, line {case.line}: " in err


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder, with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def test_the_names_of_the_cases_are_unique_and_many() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 40


def test_a_file_name_cannot_forge_a_second_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a\nerror: \x1b[31mb.jsonl"
    monkeypatch.setattr(sys, "argv", ["aleatoric", "word", "--corpus", str(path)])
    with pytest.raises(SystemExit):
        cli.main()
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_parents_that_were_made_for_a_failed_run_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.jsonl").write_bytes(lines(GOOD, {}))
    argv = ["word", "--corpus", f"{tmp_path}/c.jsonl", "--out", f"{tmp_path}/a/b/run"]
    monkeypatch.setattr(sys, "argv", ["aleatoric", *argv])
    with pytest.raises(SystemExit):
        cli.main()
    assert [path.name for path in tmp_path.iterdir()] == ["c.jsonl"]


def test_the_folder_of_somebody_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.jsonl").write_bytes(lines(GOOD, {}))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    argv = ["word", "--corpus", f"{tmp_path}/c.jsonl", "--out", f"{tmp_path}/run"]
    monkeypatch.setattr(sys, "argv", ["aleatoric", *argv])
    with pytest.raises(SystemExit):
        cli.main()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]
