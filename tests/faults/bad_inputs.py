"""Cases of invalid corpora, and what the one-line error on stderr must contain."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GOOD = {"context": "There are", "responses": {"many": 3, "two": 1}, "id": "1"}
PROVO_HEAD = "Text_ID,Text,Word_Number,Word,Response,Response_Count"
PROVO_ROW = "1,There are now,2,are,is,3"


@dataclass(frozen=True)
class Case:
    """A command with its input files, and the expected contents of its one-line error."""

    name: str
    message: str
    files: dict[str, bytes] = field(default_factory=dict)
    argv: tuple[str, ...] = ("--corpus", "{dir}/c.jsonl")
    file: str | None = None
    line: int | None = None
    prepare: Callable[[Path], None] = lambda folder: None
    command: tuple[str, ...] = ("word", "--out", "{dir}/run")


def lines(*rows: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def good(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**GOOD, **changes}.items() if value is not ...}


def corpus(
    name: str, message: str, data: bytes, line: int | None = 1, file: str = "c.jsonl"
) -> Case:
    """A case with an invalid corpus file."""
    return Case(name, message, {file: data}, ("--corpus", f"{{dir}}/{file}"), file, line)


def counts(name: str, literal: str, message: str) -> Case:
    """A case with an invalid count in a corpus, as written in the file."""
    row = json.dumps(good(responses="HERE")).replace('"HERE"', f'{{"many": {literal}}}')
    return corpus(f"count {name}", message, lines(GOOD) + row.encode() + b"\n", 2)


def table(
    name: str, message: str, *rows: str, line: int | None = 2, encoding: str = "utf-8"
) -> Case:
    return corpus(name, message, "\n".join(rows).encode(encoding) + b"\n", line, "c.csv")


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
    corpus("responses is text", "not a list; write", lines(good(responses="many"))),
    corpus("responses is a number", "not a list; write", lines(good(responses=4))),
    corpus("a response is a number", "is int, not text; write", lines(good(responses=["a", 3]))),
    corpus("a response is a list", "is list, not text; write", lines(good(responses=[["a"]]))),
    corpus("no responses", "no answer .*; give", lines(GOOD, good(id="2", responses={})), 2),
    corpus("an empty list of responses", "no answer .*; give", lines(good(responses=[]))),
    corpus("blank responses", "no answer .*; give", lines(good(responses=[" ", "\t", ""]))),
    corpus("only counts of zero", "no answer .*; give", lines(good(responses={"a": 0}))),
    corpus("duplicate ids", "is already used in line 1; give", lines(GOOD, good(context="b")), 2),
    corpus(
        "duplicate passage and position",
        "is already used in line 1; give",
        lines(*[{"passage": 1, "position": 2, "context": "a", "human": {"x": 1}}] * 2),
        2,
    ),
    corpus("an id that is an object", "is not an identifier; use", lines(good(id={}))),
    corpus("an id that is true", "is not an identifier; use", lines(good(id=True))),
    corpus("an id that is a fraction", "is not an identifier; use", lines(good(id=1.5))),
    corpus("a blank id", "is not an identifier; use", lines(good(id=" "))),
    corpus("a null group", "is not an identifier; use", lines(good(group=None))),
    corpus("original is a list", "original is list, not text; write", lines(good(original=[]))),
    corpus(
        "duplicate keys",
        "'context' occurs twice; merge",
        b'{"context": "a", "context": "b", "responses": ["x"]}\n',
    ),
    corpus(
        "duplicate words",
        "'x' occurs twice; merge",
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
        "is not an identifier; use|is missing",
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
    corpus("UTF-16", "'context' is missing .*; add", "{}\n".encode("utf-16")),
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
    counts("NaN", "NaN", "NaN is not a JSON number; leave"),
    counts("Infinity", "Infinity", "Infinity is not a JSON number; leave"),
    counts("minus Infinity", "-Infinity", "-Infinity is not a JSON number; leave"),
    counts("overflowing", "1e999", "is not whole; use"),
    counts("text", '"3"', "'3' is not a number; use"),
    counts("boolean", "true", "True is not a number; use"),
    counts("null", "null", "None is not a number; use"),
    counts("list", "[3]", "is not a number; use"),
    counts("huge", "1000000000000", "is over 1000000; check"),
    counts("huge float", "1e15", "is over 1000000; check"),
    corpus(
        "counts that add up to too many",
        "over 1000000 answers; split",
        lines(good(responses={"a": 900_000, "b": 900_000})),
    ),
]

TABLES = [
    table("table without context", "'context' is missing .*; add", "text,response", "a,b", line=1),
    table(
        "table without response", "'response' is missing .*; add", "context,answer", "a,b", line=1
    ),
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
    table(
        "table with two delimiters",
        "as many commas and semicolons, .*; quote",
        "context;response,x",
        "a;b,c",
        line=1,
    ),
    table("table with another delimiter", "'#' is no delimiter; use", "sep=#", "a#b", line=1),
    table("table with nothing after sep", "the file is empty; it needs", "sep=;", line=None),
    table(
        "table with a column twice but for its case",
        "may both be context; choose",
        "Context,CONTEXT,response",
        "a,b,c",
        line=1,
    ),
    corpus("a workbook", "a spreadsheet .*; save it as CSV", b"PK\x03\x04rest", None, "c.xlsx"),
    corpus("a workbook that is named CSV", "; save it as CSV", b"PK\x03\x04", None, "c.csv"),
    corpus("an old workbook", "; save it as CSV", b"\xd0\xcf\x11\xe0\xa1", None, "c.xls"),
    table("duplicate column", "'context' occurs twice; give", "context,context", "a,b", line=1),
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
    table(
        "table count abc", "count 'abc' is not a number; use", "context,response,count", "a,b,abc"
    ),
    table("table count empty", "count '' is not a number; use", "context,response,count", "a,b,"),
    table(
        "table count negative", "count -2.0 is too small; use", "context,response,count", "a,b,-2"
    ),
    table("table count fractional", "not whole; use", "context,response,count", "a,b,0.5"),
    table("table count nan", "not whole; use", "context,response,count", "a,b,nan"),
    table("table count inf", "not whole; use", "context,response,count", "a,b,inf"),
    table("table count zero", "too small; use", "context,response,count", "a,b,0"),
    table("table without answers", "no answer .*; give", "context,response", "a, "),
    table("table without context text", "context is empty; write", "context,response", ",x"),
    table(
        "two contexts of one id",
        "another context than in line 2; give",
        "id,context,response",
        "1,a,x",
        "1,b,x",
        line=3,
    ),
    table(
        "two groups of one context",
        "context 'a' has another group than in line 2; write the same group in all rows",
        "context,response,group",
        "a,x,",
        "a,y,g",
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
    table(
        "table in half UTF-16",
        "cut off or damaged; save",
        "context,response",
        line=None,
        encoding="utf-16",
    ),
    corpus("an empty table", "is empty; it needs", b"", None, "c.csv"),
    table(
        "Word_Number past the text",
        "past the 3 words of Text; count",
        PROVO_HEAD,
        PROVO_ROW.replace(",2,are", ",9,are"),
    ),
    table("Word_Number zero", "too small; use", PROVO_HEAD, PROVO_ROW.replace(",2,are", ",0,are")),
    table(
        "Word_Number text", "not a number; use", PROVO_HEAD, PROVO_ROW.replace(",2,are", ",two,are")
    ),
    table(
        "Text_ID blank", "is not an identifier; use", PROVO_HEAD, PROVO_ROW.replace("1,", " ,", 1)
    ),
    table("Response_Count text", "not a number; use", PROVO_HEAD, PROVO_ROW[:-1] + "NA"),
    table("only missing answers", "no answer .*; give", PROVO_HEAD, PROVO_ROW.replace("is", "NA")),
]
