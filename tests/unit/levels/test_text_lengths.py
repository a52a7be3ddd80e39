"""Lengths of texts: summaries against numpy, sentences with and without spaCy, the study."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aleatoric.levels.text_lengths import CHUNK, LengthSummary, lengths_by_unit, sentence_splitter


def test_summary_is_that_of_numpy() -> None:
    random = np.random.default_rng(1)
    for n in (1, 2, 7, 100):
        lengths = random.integers(0, 30, n)
        found = LengthSummary.of(Counter(lengths.tolist()))
        assert found is not None
        assert found.n == n
        assert found.mean == pytest.approx(lengths.mean())
        assert found.std == pytest.approx(lengths.std())
        assert found.median == np.median(lengths)
        assert (found.low, found.high) == (lengths.min(), lengths.max())
    assert LengthSummary.of({}) is None


def test_lengths_of_many_texts() -> None:
    texts = ["One two three. Four!", "", "Five"] * CHUNK
    split = sentence_splitter("en")[0]
    found = lengths_by_unit(texts, split, lambda own: [text.split() for text in own])
    assert (found["words"].n, found["words"].mean, found["words"].high) == (3 * CHUNK, 5 / 3, 4)
    assert (found["sentences"].low, found["sentences"].high) == (0, 2)
    assert (found["words per sentence"].n, found["words per sentence"].high) == (3 * CHUNK, 3)
    assert "tokens" not in found
    assert lengths_by_unit([], split, split) == {}


def test_sentences_without_spacy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    split, name = sentence_splitter("en")
    assert "extra nlp" in name
    text = 'He said "Go." Then 3.5 left.\nBye'
    assert split([text, " "]) == [['He said "Go."', "Then 3.5 left.", "Bye"], []]
    assert split(["好。再见！"]) == [["好。", "再见！"]]


def test_sentences_of_spacy_and_of_a_language_without_rules() -> None:
    pytest.importorskip("spacy")
    assert sentence_splitter("de")[0](["Ja. Nein?", ""]) == [["Ja.", "Nein?"], []]
    assert "extra nlp" in sentence_splitter("qq")[1]


def test_study_of_a_run(cli: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    rows = [
        {"id": n, "input": ["Hi.", "You there?"], "references": ["Yes, I am.", "No"]}
        for n in range(3)
    ]
    texts = [{"id": n, "texts": ["Yes. Yes. Yes."] * 3} for n in range(3)]
    for name, listed in (("people.jsonl", rows), ("bot.jsonl", texts)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in listed))
    argv = ("--corpus", tmp_path / "people.jsonl", "--model", f"recorded:{tmp_path / 'bot.jsonl'}")
    ran = cli("text", *argv, "--probe", "lexical-1", "--out", tmp_path / "run")
    assert ran.status == 0, ran.err
    shown = cli("score", tmp_path / "run", "--analysis", "lengths", "--json")
    assert shown.status == 0, shown.err
    (table,) = json.loads(shown.out)["tables"]
    found = {(row[0], row[2]): row for row in table["rows"]}
    assert found["inputs", "words"][3:] == ["3.00", "0.00", "3", "3–3"]
    assert found["people's texts", "tokens"][1:] == ["6", "tokens", "3.00", "2.00", "3", "1–5"]
    assert found["generator's texts", "sentences"][3:] == ["3.00", "0.00", "3", "3–3"]
    assert "2.0 (2 to 2) of people, 3.0 (3 to 3) of the generator" in table["notes"][0]
