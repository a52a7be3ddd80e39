"""Phrases and labels of texts match naive counts; user code runs only where it is named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from aleatoric.errors import UsageError
from aleatoric.levels.text_inputs import StudyOptions, TextCase
from aleatoric.probes.tools import Tools
from aleatoric.studies import acts, phrases
from aleatoric.types import TextItem

ACTS = """
def act(text):
    return "question" if text.endswith("?") else None if not text else "statement"
def number(text):
    return 3
def fails(text):
    raise ValueError("no act")
"""


TOOLS = Tools(tokeniser_spec="whitespace")


def case(no: int, people: list[str], model: list[str]) -> TextCase:
    return TextCase(TextItem(f"{no}", f"{no}", ("say",), tuple(people), None), tuple(model), {})


def test_repeated_phrases_match_naive_counts() -> None:
    rng = np.random.default_rng(0)
    inputs = [
        [" ".join(rng.choice(["a", "b", "c", ","], 7)).split() for _ in range(3)] for _ in range(5)
    ]
    counts = Counter[phrases.Phrase]()
    for text in (text for own in inputs for text in own):
        every = {tuple(text[i:j]) for i in range(8) for j in range(i + 3, 8)}
        counts.update(g for g in every if g[0] != "," and g[-1] != ",")
    several = {phrase: n for phrase, n in counts.items() if n > 1}

    def is_inside(phrase: phrases.Phrase, other: phrases.Phrase) -> bool:
        return len(phrase) < len(other) and f" {' '.join(phrase)} " in f" {' '.join(other)} "

    maximal = {
        phrase: n
        for phrase, n in several.items()
        if not any(is_inside(phrase, other) and several[other] >= n for other in several)
    }
    assert maximal
    assert phrases.repeated(inputs, 3) == maximal


def test_phrases_are_listed_with_peoples_counts() -> None:
    model = ["I do not know that .", "Well , i do not know", "Yes ."]
    cases = [case(i, ["I do not know", "Maybe .", "No ."], model) for i in range(4)]
    cases += [case(4, ["Sure ."], ["he said so twice", "he said so twice"])]
    across, within = phrases.run(cases, 0, StudyOptions(TOOLS)).tables
    assert across.rows[0] == ("i do not know", "8 (57.1%)", "4", "4 (30.8%)", "4")
    assert within.rows[0] == ("4", "he said so twice", "2 of 2", "0 of 1")
    assert [row[1] for row in within.rows[1:]] == ["i do not know"] * 4


def test_acts_count_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acts_of_user.py").write_text(ACTS)
    monkeypatch.chdir(tmp_path)
    cases = [case(i, ["So .", "Why ?", "Yes ."], ["How ?", "Who ?", "So .", ""]) for i in range(8)]
    cases += [case(8, ["So ."], [""])]  # no label on one side: left out
    shares, agreement = acts.run(cases, 0, StudyOptions(TOOLS, "acts_of_user:act")).tables
    assert shares.rows[0][:3] == ("statement", "0.667", "0.333")
    assert shares.rows[1][:3] == ("question", "0.333", "0.667")
    assert shares.rows[1][-2:] == ("8", "16")
    assert any("9 texts have no label" in note for note in shares.notes)
    values = {row[0]: row[1] for row in agreement.rows}
    assert [values[name].split()[0] for name in "HMC"] == ["0.333", "0.333", "0.444"]
    assert values["differ"] == "0 of 8"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("", "write acts=module:function"),
        ("acts_of_users:number", "returned '3' for 'So .'; return a text, or None"),
        ("acts_of_users:fails", "failed on 'So .' .*no act"),
        ("acts_of_users:nothing", "there is no function nothing"),
        ("no_such_module:act", "cannot be imported"),
    ],
)
def test_wrong_label_functions_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, message: str
) -> None:
    (tmp_path / "acts_of_users.py").write_text(ACTS)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        acts.run([case(0, ["So ."], ["So ."])], 0, StudyOptions(TOOLS, place))
