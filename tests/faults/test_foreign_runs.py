"""Run directories from untrusted sources: no user file is changed, no command crashes.

Checksums do not help here: every crafted row below has a valid checksum.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import struct
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from marks import spread

from aleatoric.errors import AleatoricError
from aleatoric.levels import text as text_pipeline
from aleatoric.levels.base import run_job
from aleatoric.levels.word import WordJob
from aleatoric.reporting.explorer.library import OpenRun
from aleatoric.runs import formats
from aleatoric.runs.formats import DATABASE

DEEP = "[" * 100_000 + "]" * 100_000
SLOWEST_S = 30.0
"""Seconds that all commands may take together on one crafted run of a few items."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of each level."""
    folder = tmp_path_factory.mktemp("runs")
    people = folder / "people.jsonl"
    answers = [[["ann", "x"], ["bob", "y"], ["cho", "x"]], [["ann", "z"], ["bob", "y"]]] * 2
    rows = [
        {"id": str(n), "group": f"g{n % 3}", "context": "a b", "original": "x"}
        | {"responses": [{"person": person, "answer": word} for person, word in own]}
        for n, own in enumerate(answers)
    ]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, counts in (("m", {"x": 3, "y": 1}), ("n", {"y": 2, "z": 2})):
        lines = [json.dumps({"id": str(n), "samples": counts}) + "\n" for n in range(4)]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    models = tuple(f"recorded:{folder / name}.jsonl" for name in ("m", "n"))
    run_job(WordJob(str(people), models, n_splits=2), folder / "word").close()
    texts = folder / "texts.jsonl"
    line = {"input": "Hello?", "references": ["a b", "b c d"]}
    texts.write_text("".join(json.dumps(line | {"id": str(n)}) + "\n" for n in range(3)))
    written = folder / "t.jsonl"
    lines = [json.dumps({"id": str(n), "texts": ["a b", "c"]}) + "\n" for n in range(3)]
    written.write_text("".join(lines))
    job = text_pipeline.TextJob(
        str(texts), (f"recorded:{written}",), probes=("lexical-1",), tokeniser="whitespace"
    )
    run_job(job, folder / "text").close()
    return folder


def commands(run: Path, out: Path) -> list[tuple[object, ...]]:
    """Every command that reads a run; those that replace statistics come last."""
    return [
        ("compare", run, "--json"),
        ("plan", run, "--system", "m", "--width", "0.1", "--json"),
        ("report", run, "--html", out / "page.html"),
        ("score", run, "--by", "agreement"),
        ("score", run, "--export", out / "rows.csv", "--json"),
        ("resume", run, "--json"),
    ]


# Files beside the database ----------------------------------------------------------------


def to_rollback_mode(run: Path) -> None:
    with closing(sqlite3.connect(run / DATABASE)) as database:
        database.execute("PRAGMA journal_mode = DELETE")


def add_journal(run: Path, victim: Path) -> None:
    """A hot rollback journal without pages, whose super-journal record names the target file.

    The layout is that of https://www.sqlite.org/fileformat.html#the_rollback_journal and of
    `writeSuperJournal` in SQLite's pager.c.
    """
    magic = bytes.fromhex("d9d505f920a163d7")
    n_pages = (run / DATABASE).stat().st_size // 4096
    header = magic + struct.pack(">5I", 0, 1, n_pages, 512, 4096)
    name = str(victim).encode()
    record = struct.pack(">I", 0x40000000 // 4096 + 1) + name
    record += struct.pack(">II", len(name), sum(name)) + magic
    (run / f"{DATABASE}-journal").write_bytes(header.ljust(512, b"\0") + record)


def test_crafted_journal_makes_sqlite_delete_a_file(runs: Path, tmp_path: Path) -> None:
    """Without the checks, opening such a folder deletes an arbitrary file: the attack works."""
    run, victim = tmp_path / "run", tmp_path / "victim"
    shutil.copytree(runs / "word", run)
    victim.write_text("mine")
    to_rollback_mode(run)
    add_journal(run, victim)
    with closing(sqlite3.connect(run / DATABASE)) as database:
        database.execute("SELECT 1 FROM meta").fetchone()
    assert not victim.exists()


def execute(statement: str) -> Callable[[Path, Path], None]:
    def change(run: Path, victim: Path) -> None:
        with closing(sqlite3.connect(run / DATABASE)) as database, database:
            database.execute(statement)

    return change


def both(run: Path, victim: Path) -> None:
    to_rollback_mode(run)
    add_journal(run, victim)


def linked(ending: str, make: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    def change(run: Path, victim: Path) -> None:
        if not ending:
            shutil.copy(run / DATABASE, victim)
            (run / DATABASE).unlink()
        make(victim, run / f"{DATABASE}{ending}")

    return change


FILES: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "a journal in rollback mode": ("has no rollback journal", both),
    "a journal in WAL mode": ("has no rollback journal", add_journal),
    "rollback mode": ("write-ahead log", lambda run, victim: to_rollback_mode(run)),
    **{
        f"{name} as {DATABASE}{ending}": ("is a link", linked(ending, make))
        for ending in ("", "-wal", "-shm")
        for name, make in (("a link", os.symlink), ("a hard link", os.link))
    },
    "a view": ("tables are not", execute("CREATE VIEW v AS SELECT 1")),
    "a trigger": (
        "tables are not",
        execute("CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM items; END"),
    ),
    "a virtual table": ("tables are not", execute("CREATE VIRTUAL TABLE v USING fts5(a)")),
    "a table": ("tables are not", execute("CREATE TABLE mine (a)")),
    "an index": ("tables are not", execute("CREATE INDEX mine ON items (grp)")),
    "a missing table": ("tables are not", execute("DROP TABLE stats")),
    "another column": ("tables are not", execute("ALTER TABLE items ADD COLUMN mine")),
}


@pytest.mark.parametrize("kind", spread(FILES, 3))
def test_unsafe_database_is_rejected_and_no_file_changes(
    kind: str, runs: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    problem, change = FILES[kind]
    run, victim = tmp_path / "run", tmp_path / "victim"
    shutil.copytree(runs / "word", run)
    victim.write_text("mine")
    change(run, victim)
    before = victim.read_bytes(), (run / DATABASE).read_bytes(), sorted(run.iterdir())
    asked = [
        *commands(run, tmp_path),
        ("view", run, "--no-browser"),
        ("resume", run, "--salvage", tmp_path / "new"),
        ("word", "--corpus", runs / "people.jsonl", "--out", run),
    ]
    for command in asked:
        ran = cli(*command)
        assert (ran.status, ran.err.count("\n")) == (2, 1), (command, ran.err)
        assert problem in ran.err, (command, ran.err)
    assert (victim.read_bytes(), (run / DATABASE).read_bytes()) == before[:2]
    assert {file.name.removesuffix("-shm").removesuffix("-wal") for file in run.iterdir()} == {
        file.name.removesuffix("-shm").removesuffix("-wal") for file in before[2]
    }
    assert not (tmp_path / "new").exists()


@pytest.mark.long
def test_database_with_repeated_pages_is_interrupted(
    runs: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    """Interior pages that repeat one child hundreds of times turn a few pages into 10^18 rows."""
    run = tmp_path / "run"
    shutil.copytree(runs / "word", run)
    with closing(sqlite3.connect(run / DATABASE)) as database:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'items'"
        (root,) = database.execute(query).fetchone()
        (last,) = database.execute("PRAGMA page_count").fetchone()
    data = bytearray((run / DATABASE).read_bytes())
    levels = 8
    data += bytes(4096 * levels)
    leaf = data[4096 * (root - 1) : 4096 * root]
    data[4096 * (last + levels - 1) :] = leaf
    numbers = [root, *range(last + 1, last + levels)]
    for page, child in zip(numbers, [*numbers[1:], last + levels], strict=True):
        cells = [struct.pack(">IB", child, 1)] * 400
        pointers = [4096 - 5 * (i + 1) for i in range(len(cells))]
        header = struct.pack(">BHHHBI", 5, 0, len(cells), pointers[-1], 0, child)
        body = header + struct.pack(f">{len(cells)}H", *pointers)
        own = bytearray(body.ljust(4096, b"\0"))
        own[pointers[-1] :] = b"".join(cells)
        data[4096 * (page - 1) : 4096 * page] = own
    data[28:32] = struct.pack(">I", last + levels)
    (run / DATABASE).write_bytes(data)
    begun = time.monotonic()
    for command in commands(run, tmp_path):
        ran = cli(*command)
        reads_few_items = ran.status == 0 and command[0] == "plan"
        assert reads_few_items or (ran.status == 2 and "is damaged" in ran.err), ran.err
    assert time.monotonic() - begun < 4 * SLOWEST_S


# Rows -------------------------------------------------------------------------------------


def fact(key: str, change: Callable[[Any], Any]) -> tuple[str, str, Any]:
    return "meta", f"key = '{key}'", lambda text: json.dumps(change(json.loads(text)))


def manifest(**new: Any) -> tuple[str, str, Any]:
    return fact("manifest", lambda old: old | new)


def without(*keys: str) -> tuple[str, str, Any]:
    return fact("manifest", lambda old: {k: v for k, v in old.items() if k not in keys})


def draws(payload: Any) -> tuple[str, str, Any]:
    text = payload if isinstance(payload, str | bytes) else json.dumps(payload)
    return "draws", "item = 2 AND system = 1", lambda _: text


def exact(**new: Any) -> tuple[str, str, Any]:
    words = {"support": ["x", "y"], "probs": [0.5, 0.25], "rest": 0.25, "n": None}
    words |= new.pop("words", {})
    found = {"words": words, "bounds": {}, "certified": True, "failed": 0.0} | new
    return draws({"counts": {}, "exact": found})


def responses(text: Any) -> tuple[str, str, Any]:
    return "items", "no = 2", lambda _: text if isinstance(text, str | bytes) else json.dumps(text)


def stats(change: Callable[[bytes], bytes]) -> tuple[str, str, Any]:
    return "stats", "system = 1", change


def system(change: Callable[[Any], Any]) -> tuple[str, str, Any]:
    return "systems", "no = 1", lambda text: json.dumps(change(json.loads(text)))


def deflated(numbers: int, value: float = 0.0) -> bytes:
    return b"\0" + zlib.compress(struct.pack("<d", value) * numbers)


ROWS: dict[str, tuple[str, str, Any]] = {
    # Draws
    "draws no object": draws([1]),
    "draws without counts": draws({}),
    "counts a list": draws({"counts": ["x"]}),
    "a negative count": draws({"counts": {"x": -1}}),
    "a fractional count": draws({"counts": {"x": 0.5}}),
    "a NaN count": draws('{"counts":{"x":NaN}}'),
    "an infinite count": draws('{"counts":{"x":1e999}}'),
    "a huge count": draws({"counts": {"x": 10**400}}),
    "a huge valid count": draws({"counts": {"x": 9 * 10**7, "y": 1}}),
    "a count that is true": draws({"counts": {"x": True}}),
    "all counts zero": draws({"counts": {"x": 0}}),
    "no counts at all": draws({"counts": {}}),
    "failed a text": draws({"counts": {"x": 1}, "failed": "1"}),
    "failed negative": draws({"counts": {"x": 1}, "failed": -5}),
    "texts of numbers": draws({"counts": {}, "texts": [1]}),
    "texts no list": draws({"counts": {}, "texts": "x"}),
    "log-probabilities of text": draws({"counts": {}, "logprobs": {"x": "1"}}),
    "log-probabilities NaN": draws('{"counts":{},"logprobs":{"x":NaN}}'),
    "log-probabilities huge": draws({"counts": {}, "logprobs": {"x": 1e308, "y": -1e308}}),
    "deep nesting": draws(DEEP),
    "half a surrogate pair": draws('{"counts":{"\\ud800":1}}'),
    "a blob": draws(b"\xff\x00"),
    "no JSON": draws("{"),
    "exact: lengths differ": exact(words={"probs": [0.5]}),
    "exact: probabilities over 1": exact(words={"probs": [0.9, 0.9]}),
    "exact: a negative probability": exact(words={"probs": [0.5, -0.25]}),
    "exact: no probabilities": exact(words={"support": [], "probs": []}),
    "exact: a word twice": exact(words={"support": ["x", "x"]}),
    "exact: an unknown statistic": exact(bounds={"a'; DROP TABLE items": [0, 1]}),
    "exact: a bound of text": exact(bounds={"tvd": ["0", "1"]}),
    "exact: one bound": exact(bounds={"tvd": [0.5]}),
    "exact: nothing": draws({"counts": {}, "exact": None}),
    # Items
    "no responses": responses([]),
    "responses of numbers": responses([1, 2]),
    "responses an object": responses({"x": 1}),
    "responses null": responses("null"),
    "persons of three parts": responses([["ann", "x", "y"]]),
    "persons of one part": responses([["ann"], ["bob"]]),
    "persons mixed with words": responses([["ann", "x"], "y"]),
    "persons of numbers": responses([[1, "x"], [2, "y"]]),
    "responses deep": responses(DEEP),
    "responses a blob": responses(b"\xff"),
    # The manifest
    "manifest a list": fact("manifest", lambda old: []),
    "manifest deep": ("meta", "key = 'manifest'", lambda _: DEEP),
    "manifest empty": fact("manifest", lambda old: {}),
    "an unknown level": manifest(level="sentence"),
    "level a number": manifest(level=1),
    "another level": manifest(level="token"),
    "the text level": manifest(level="text"),
    "a billion splits": manifest(n_splits=10**9),
    "splits a text": manifest(n_splits="2"),
    "other splits": manifest(n_splits=3),
    "a negative seed": manifest(seed=-1),
    "a huge seed": manifest(seed=10**40),
    "an unknown choice": manifest(choices={"mine": "x"}),
    "a choice of numbers": manifest(choices={"bins": 3}),
    "an unknown rule": manifest(choices={"rule": "none"}),
    "an unknown abstraction": manifest(abstractions=["mine"]),
    "models a text": manifest(models="m"),
    "models of objects": manifest(models=[{"a": 1}]),
    "corpus a text": manifest(corpus="x"),
    "corpus without facts": manifest(corpus={}),
    "no corpus": without("corpus"),
    "no choices": without("choices"),
    "no seed": without("seed"),
    "no models": without("models", "decoders"),
    "no versions": without("versions"),
    "versions a list": manifest(versions=[]),
    "tolerance NaN": manifest(tolerance=math.nan),
    "samples negative": manifest(samples=-1),
    "until a text": manifest(until="x"),
    "a fine-tuning run": manifest(command="finetune"),
    "half a surrogate pair in the manifest": manifest(language="\ud800"),
    # Facts
    "notes an object": fact("notes", lambda old: {"a": 1}),
    "notes of numbers": fact("notes", lambda old: [1]),
    "columns of numbers": fact("stat_columns", lambda old: [1]),
    "columns twice": fact("stat_columns", lambda old: [old[0], *old]),
    "no columns": fact("stat_columns", lambda old: []),
    "fewer columns": fact("stat_columns", lambda old: old[:3]),
    "other columns": fact("stat_columns", lambda old: [f"x{i}" for i in range(len(old))]),
    "columns of SQL": fact("stat_columns", lambda old: ["1); DROP TABLE items; --", *old[1:]]),
    "splits of a list": fact("split_names", lambda old: []),
    "other splits' names": fact("split_names", lambda old: {k: ["x"] for k in old}),
    "statistics of nobody": fact("stats", lambda old: {}),
    "a generation of text": fact("stats", lambda old: old | {"generation": "1"}),
    "another generation": fact("stats", lambda old: old | {"generation": 7}),
    "rows of text": fact("stats", lambda old: old | {"rows": {"m": "4"}}),
    "items a text": fact("n_items", lambda old: "4"),
    "persons of a bomb": fact(
        "persons m", lambda old: {"shape": [1000, 1000, 5], "cells": "eJzLSM3JyQcABiwCFQ=="}
    ),
    "persons of another shape": fact("persons m", lambda old: old | {"shape": [1, 1, 1]}),
    "persons without a shape": fact("persons m", lambda old: {}),
    "done a text": fact("done m", lambda old: "yes"),
    # Systems
    "a system's facts a list": system(lambda old: []),
    "a system without facts": system(lambda old: {}),
    "a system's model a number": system(lambda old: old | {"model": 1}),
    "an exact system without probabilities": system(lambda old: old | {"estimator": "exact"}),
    # Statistics
    "statistics of no bytes": stats(lambda _: b""),
    "statistics not compressed": stats(lambda _: b"\0mine"),
    "statistics cut short": stats(lambda old: old[:-9]),
    "statistics and more": stats(lambda old: old + b"x"),
    "statistics of another shape": stats(lambda _: deflated(7)),
    "statistics of a bomb": stats(lambda _: deflated(20_000_000)),
    "statistics all infinite": stats(lambda _: deflated(48 * 4, math.inf)),
    "statistics all NaN": stats(lambda _: deflated(48 * 4, math.nan)),
}


TEXT_ROWS: dict[str, tuple[str, str, Any]] = {
    "texts of numbers": draws([1, 2]),
    "texts an object": draws({"a": 1}),
    "no texts": draws([]),
    "texts deep": draws(DEEP),
    "texts half a surrogate pair": draws('["\\ud800"]'),
    "references of numbers": responses([1]),
    "references null": responses("null"),
    "references empty": responses([]),
    "the word level": manifest(level="word"),
    "an unknown probe": manifest(probes=["mine"]),
    "probes a text": manifest(probes="lexical-1"),
    "an unknown tokeniser": manifest(tokeniser="mine"),
    "a negative length": manifest(max_length=-1),
    "an unknown protocol": manifest(protocol="mine"),
    "samples an object": manifest(samples={"mine": 1}),
    "stop a text": manifest(stop="x"),
    "probes' facts a list": fact("probe_facts", lambda old: []),
    "probes' facts of numbers": fact("probe_facts", lambda old: {"lexical-1": {"a": 1}}),
    "probes' facts of others": fact("probe_facts", lambda old: {"mine": {}}),
    "bounds of three": fact("probe_bounds", lambda old: {"lexical-1": [0, 1, 2]}),
    "bounds NaN": fact("probe_bounds", lambda old: {"lexical-1": [0, math.nan]}),
    "control a text": fact("has_control", lambda old: "no"),
    "other columns": fact("stat_columns", lambda old: [f"x{i}/y" for i in range(len(old))]),
}
CRAFTED = {("word", kind): row for kind, row in ROWS.items()}
CRAFTED |= {("text", kind): row for kind, row in TEXT_ROWS.items()}


def reseal(run: Path, table: str, where: str, change: Callable[[Any], Any]) -> None:
    """Change the contents of a row and update its checksum."""
    with closing(sqlite3.connect(run / DATABASE)) as database, database:
        names = [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]
        (row,) = database.execute(f"SELECT * FROM {table} WHERE {where} LIMIT 1").fetchall()
        *key, content = formats.unseal(row)
        sealed = formats.seal((*key, change(content)))
        update = f"UPDATE {table} SET {names[-2]} = ?, {names[-1]} = ? WHERE {where}"
        database.execute(update, sealed[-2:])


@pytest.mark.parametrize("level_and_kind", spread(CRAFTED, 9), ids=" ".join)
def test_crafted_row_raises_one_line_error_or_has_no_effect(
    level_and_kind: tuple[str, str], runs: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    run, begun = tmp_path / "run", time.monotonic()
    shutil.copytree(runs / level_and_kind[0], run)
    reseal(run, *CRAFTED[level_and_kind])
    with closing(sqlite3.connect(run / DATABASE)) as database, database:
        database.execute("DELETE FROM meta WHERE key = 'complete'")
    try:
        shown = OpenRun("0", run)
        shown.work()
    except AleatoricError:
        pass
    for command in commands(run, tmp_path):
        ran = cli(*command)
        assert ran.status in (0, 2), (command, ran.err)
        assert "Traceback" not in ran.err
        if ran.status == 2:
            assert ran.err.splitlines()[-1].startswith("error: "), (command, ran.err)
        elif "--json" in command:
            json.loads(ran.out)
    assert time.monotonic() - begun < SLOWEST_S
