"""`--word-rule` and unnormalised answers through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aleatoric.data.files import read_json_lines

MESSY = """id,context,response,original
1,"He said that "," she.",she
1,"He said that ",She,she
1,"He said that ","\"\"she\"\"",she
1,"He said that ",,she
1,"He said that ",???,she
2,They live in,New York,U.S.
2,They live in,U.S.,U.S.
2,They live in,u.s,U.S.
2,They live in,new,U.S.
3,Voici,l'homme,l\u2019homme
3,Voici,L\u2019HOMME,l\u2019homme
4,Nothing,...,x
"""
SAMPLES = [
    {"id": "1", "samples": {"she.": 3, "She,": 2, "...": 1}},
    {"id": "2", "samples": {"U.S.": 2, "New York": 2}},
    {"id": "3", "texts": ["l\u2019homme est", " L'homme"]},
]
RULE = """
from pathlib import Path
def first(text):
    with Path("calls").open("a") as file:
        file.write("x")
    return text[:2] or None
def wrong(text):
    return 7
def broken(text):
    raise KeyError(text)
def ending(text):
    raise SystemExit(0)
"""


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def messy(tmp_path: Path) -> tuple[object, ...]:
    people = tmp_path / "people.csv"
    people.write_text(MESSY, encoding="utf-8")
    model = write_rows(tmp_path / "model.jsonl", SAMPLES)
    return ("word", "--corpus", people, "--model", f"recorded:{model}", "--json")


@pytest.fixture
def chinese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "segmenter", raising=False)
    Path("segmenter.py").write_text(RULE)
    row = {"id": "1", "context": "\u6211\u559c\u6b22", "responses": ["\u732b\u54aa", "\u72d7"]}
    people = write_rows(tmp_path / "people.jsonl", [row | {"original": "\u732b\u54aa\u5427"}])
    texts = ["\u732b\u54aa\u5f88", "\u732b\u5f88", "\u72d7"]
    model = write_rows(tmp_path / "model.jsonl", [{"id": "1", "texts": texts}])
    return ("word", "--corpus", people, "--model", f"recorded:{model}")


def test_answers_and_samples_are_normalised_alike(cli: Callable, messy: tuple[object, ...]) -> None:
    ran = cli(*messy)
    assert ran.results["model", "tvd"]["estimate"]["value"] == 0
    assert ran.results["model", "tvd"]["estimate"]["n_items"] == 3
    notes = json.loads(ran.out)["notes"]
    assert any(note.startswith("the word rule changed 7 of 11 answers (2 with") for note in notes)
    assert any(note.startswith("model: the word rule changed 10 of 10 words") for note in notes)
    assert "no answer holds a word, and the item is left out: '4'" in notes


def test_original_word_is_normalised_like_answers(cli: Callable, messy: tuple[object, ...]) -> None:
    """`U.S.` is read as "u" everywhere; joined, it would be "us", which no answer can match."""
    found = cli(*messy).results["human", "ece_original"]["estimate"]
    # Modes: she (right, 1), u or new (u is right, .5), l'homme (right, 1).
    assert found["value"] == pytest.approx((0 + 0.5 + 0) / 3)


def test_paper_protocol_does_not_change_answers(cli: Callable, messy: tuple[object, ...]) -> None:
    ran = cli(*messy, "--protocol", "paper")
    assert ran.results["model", "tvd"]["estimate"]["value"] > 0.3
    assert not any("word rule" in note for note in json.loads(ran.out)["notes"])


def test_answers_kept_whole_that_texts_cannot_match_are_noted(
    cli: Callable, messy: tuple[object, ...], tmp_path: Path
) -> None:
    samples = write_rows(tmp_path / "samples.jsonl", SAMPLES[:2])
    folded = ("--model", f"recorded:{samples}", "--choose", "answers=folded")
    notes = json.loads(cli(*messy, *folded).out)["notes"]
    assert [note for note in notes if "cut to their first word" in note] == [
        "warning: model: its texts are cut to their first word and cannot match 3 of 10 answers of "
        "people, which are kept whole, such as 'New York'; record its answers as samples, or use "
        "--choose answers=rule"
    ]


def test_scripts_without_spaces_are_rejected_or_segmented(
    cli: Callable, chinese: tuple[object, ...]
) -> None:
    refused = cli(*chinese, "--out", "run")
    assert refused.status == 2
    assert "--word-rule module:function" in refused.err
    assert not Path("run").exists()
    one = cli(*chinese, "--word-rule", "characters", "--json").results["model", "tvd"]
    assert one["estimate"]["value"] == pytest.approx(1 / 6)  # 2/3 against 1/2
    assert "rule=characters" in one["signature"]
    own = cli(*chinese, "--word-rule", "segmenter:first", "--json").results["model", "tvd"]
    assert own["estimate"]["value"] == pytest.approx(1 / 3)


def test_user_defined_rule_runs_only_if_named_by_command(
    cli: Callable, chinese: tuple[object, ...]
) -> None:
    ran = cli(*chinese, "--word-rule", "segmenter:first", "--out", "run", "--json")
    assert Path("calls").exists()
    Path("calls").unlink()
    for command in (("score", "run"), ("report", "run", "--html", "page.html"), ("resume", "run")):
        assert cli(*command).status == 0
    assert not Path("calls").exists()
    assert cli("score", "run", "--json").results.keys() == ran.results.keys()
    assert ran.results["human", "ece_original"]["estimate"]["value"] is not None


def test_unfinished_run_is_resumed_if_its_rule_is_named(
    cli: Callable, chinese: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("aleatoric.models.recorded.RecordedModel.draws", stopped)
        cli(*chinese, "--model", "toy", "--word-rule", "segmenter:first", "--out", "run")
    Path("calls").unlink()
    refused = cli("resume", "run")
    assert refused.status == 2
    assert refused.err.endswith("aleatoric resume run --word-rule segmenter:first.\n")
    assert not Path("calls").exists()
    assert cli("resume", "run", "--word-rule", "other:rule").status == 2
    assert cli("resume", "run", "--word-rule", "segmenter:first").status == 0


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("nothing", "unknown word rule 'nothing'; use characters, corrected, paper or"),
        ("nowhere:rule", "the word rule nowhere:rule cannot be imported"),
        ("segmenter:none", "there is no function none in segmenter"),
        ("segmenter:wrong", "the word rule segmenter:wrong returned int"),
        ("segmenter:broken", "the word rule segmenter:broken failed on"),
        ("segmenter:ending", "(SystemExit: 0); correct it"),
        (":", "names no function"),
    ],
)
def test_invalid_rule_raises_one_line_error(
    cli: Callable, chinese: tuple[object, ...], rule: str, message: str
) -> None:
    ran = cli(*chinese, "--word-rule", rule, "--out", "run")
    assert ran.status == 2
    assert message in ran.err
    assert not Path("run").exists()


def test_choose_option_does_not_run_code(cli: Callable, chinese: tuple[object, ...]) -> None:
    ran = cli(*chinese, "--choose", "rule=segmenter:first")
    assert ran.status == 2
    assert not Path("calls").exists()


def test_encoding_with_nul_is_rejected(cli: Callable, messy: tuple[object, ...]) -> None:
    ran = cli(*messy, "--encoding", "utf\0-8")
    assert ran.status == 2
    assert "there is no encoding" in ran.err


def test_real_surveys_in_other_languages_are_read(shared: Path) -> None:
    """Raw typed answers in German, Spanish and English keep nearly all their words."""
    from aleatoric.data.cloze import load
    from aleatoric.nextword.answers import Reading, ReadItems
    from aleatoric.types import Choices

    for name in ("nicenboim2020_de", "bianchi2015_es", "endings31_en"):
        path = shared / "data" / "people" / f"{name}.jsonl.gz"
        items = list(ReadItems(load(path).items, Reading.of(Choices())))
        assert len(items) == sum(1 for _ in read_json_lines(path))
