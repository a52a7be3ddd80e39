"""Invalid input of `aleatoric text`: exit status 2, one line on stderr, no files left."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

GOOD = {"id": 1, "input": "Hi?", "references": ["Hello there.", "Hi.", "Yes?"]}
GOOD_2 = {"id": 2, "input": "Go!", "references": ["No.", "I go.", "Going now."]}


def rows(*found: object) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in found).encode()


CORPORA = {
    "one reference only": (rows({**GOOD, "references": ["a"]}), r"c.jsonl: no input has 2 ref"),
    "null references": (rows({**GOOD, "references": None}), r"c.jsonl, line 1: .*references"),
    "a null reference": (rows({**GOOD, "references": ["a", None]}), r"c.jsonl, line 1: .*; "),
    "references that are one text": (rows({**GOOD, "references": "a"}), r"c.jsonl, line 1: .*; "),
    "no references": (rows({"id": 1, "input": "Hi?"}), r"line 1: 'references' is missing"),
    "an empty input": (rows({**GOOD, "input": " "}), r"line 1: input is empty"),
    "a null input": (rows({**GOOD, "input": None}), r"line 1: .*input"),
    "an id twice": (rows(GOOD, GOOD), r"c.jsonl, line 2: .*; "),
    "no JSON": (b'{"id": 1,\n', r"c.jsonl, line 1: .*; "),
    "invalid UTF-8": (b'{"id": 1, "input": "Gr\xf6\xdfe", "references": ["a", "b"]}\n', r"line 1"),
    "half a surrogate": (
        b'{"id": 1, "input": "a", "references": ["\\ud800", "b"]}\n',
        r"line 1: .*surrogate",
    ),
    "nothing": (b"", r"holds no item; give"),
}
MODELS = {
    "ids that do not join": (rows({"id": 9, "texts": ["a", "b"]}), r"m.jsonl: no id .*; give"),
    "texts that are null": (rows({"id": 1, "texts": None}), r"no text to any input"),
    "a text that is a number": (rows({"id": 1, "texts": ["a", 3]}), r"m.jsonl, line 1: .*; "),
    "no texts": (rows({"id": 1}), r"m.jsonl, line 1: .*; give"),
    "an id twice": (rows(*[{"id": 1, "texts": ["a"]}] * 2), r"m.jsonl, line 2: .*; put"),
    "invalid UTF-8": (b'{"id": 1, "texts": ["\xff"]}\n', r"m.jsonl, line 1"),
    "a bad last line": (rows({"id": 1, "texts": ["a"]}) + b"{\n", r"m.jsonl, line 2"),
    "nothing": (b"", r"m.jsonl: holds no row; record"),
}
OPTIONS = {
    "an unknown probe": (("--probe", "magic"), r"magic"),
    "an order of none": (("--probe", "lexical-0"), r"order from 1"),
    "a probe of numbers": (("--probe", "operator:sub"), r"operator:sub failed .*TypeError.*; give"),
    "a probe that gives texts": (("--probe", "os.path:join"), r"os.path:join failed .*; give"),
    "a probe without a name": (("--probe", ":"), r"the probe : names no function; write"),
    "an unknown tokeniser": (("--tokeniser", "magic"), r"magic"),
    "an unknown tagger": (("--probe", "syntactic-1", "--tagger", "magic"), r"magic"),
    "an unknown encoder": (("--probe", "semantic", "--encoder", "magic"), r"magic"),
    "an unknown protocol": (("--protocol", "magic"), r"corrected or paper"),
    "an unknown model": (("--model", "magic:wand"), r"no model 'magic:wand'"),
    "an unknown format": (("--format", "html"), r"no format 'html'"),
}


def refused(cli: Callable, folder: Path, message: str, *more: object) -> None:
    run = folder / "run"
    plain = () if "--tokeniser" in more else ("--tokeniser", "whitespace")
    probe = () if "--probe" in more else ("--probe", "lexical-1")
    ran = cli("text", "--corpus", folder / "c.jsonl", *plain, *probe, *more, "--out", run)
    assert (ran.status, ran.out) == (2, ""), ran.err
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert re.search(message, ran.err), ran.err
    assert not run.exists()


@pytest.mark.parametrize("name", CORPORA)
def test_invalid_corpus_is_rejected(cli: Callable, tmp_path: Path, name: str) -> None:
    data, message = CORPORA[name]
    (tmp_path / "c.jsonl").write_bytes(data)
    refused(cli, tmp_path, message)


@pytest.mark.parametrize("name", MODELS)
def test_invalid_recorded_texts_are_rejected(cli: Callable, tmp_path: Path, name: str) -> None:
    data, message = MODELS[name]
    (tmp_path / "c.jsonl").write_bytes(rows(GOOD, GOOD_2))
    (tmp_path / "m.jsonl").write_bytes(data)
    refused(cli, tmp_path, message, "--model", f"recorded:{tmp_path / 'm.jsonl'}")


@pytest.mark.parametrize("name", OPTIONS)
def test_invalid_options_are_rejected(cli: Callable, tmp_path: Path, name: str) -> None:
    more, message = OPTIONS[name]
    (tmp_path / "c.jsonl").write_bytes(rows(GOOD, GOOD_2))
    refused(cli, tmp_path, message, *more)


def test_template_without_input_placeholder_is_rejected(cli: Callable, tmp_path: Path) -> None:
    from forced_lms import saved

    (tmp_path / "c.jsonl").write_bytes(rows(GOOD, GOOD_2))
    saved("gpt2", tmp_path)
    model = ("--model", f"hf:{tmp_path / 'gpt2'}")
    ran = cli("text", "--corpus", tmp_path / "c.jsonl", *model, "--template", "Simplify")
    assert (ran.status, ran.out) == (2, "")
    assert "has no {input}; add it" in ran.err


def test_undefined_values_are_counted(cli: Callable, tmp_path: Path) -> None:
    lonely = {"id": 3, "input": "Hm?", "references": ["One alone."]}
    hollow = {"id": 4, "input": "Hm!", "references": ["", " ", ""]}
    (tmp_path / "c.jsonl").write_bytes(rows(GOOD, GOOD_2, lonely, hollow))
    written = [{"id": 1, "texts": ["Hi.", None, "Yes."]}, {"id": 2, "texts": ["", ""]}]
    written += [{"id": 3, "texts": ["a b", "a c"]}, {"id": 4, "texts": ["a b", "a"]}]
    (tmp_path / "m.jsonl").write_bytes(rows(*written))
    asked = ("--probe", "lexical-1", "--tokeniser", "whitespace", "--json")
    model = f"recorded:{tmp_path / 'm.jsonl'}"
    ran = cli("text", "--corpus", tmp_path / "c.jsonl", "--model", model, *asked)
    assert ran.status == 0, ran.err
    counts = {
        name: ran.results[name]["estimate"]["n_undefined"]
        for name in (("control", "mean_H/lexical-1"), ("m", "mean_M/lexical-1"))
    }
    assert counts == {("control", "mean_H/lexical-1"): 2, ("m", "mean_M/lexical-1"): 1}
    notes = " ".join(json.loads(ran.out)["notes"])
    for part in ("fewer than 2 references", "3 references are empty", "1 texts are null"):
        assert part in notes
    assert "(H), left out: 3 of 9 by lexical-1" in notes
