"""Provo's answers and recordings, read with the word rule.

Origin: `golden/agreement.json` beside the shared data, computed by other code from case-folded
words, blank ones left out (`answers=folded`); the number of answers that the word
rule changes was counted there too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from aleatoric.data.provo import load
from aleatoric.models.base import Ask
from aleatoric.models.recorded import load as load_recorded
from aleatoric.nextword.answers import (
    AnswerChanges,
    Reading,
    ReadItems,
    human_counts,
    normalised_counts,
    read_draws,
)
from aleatoric.types import Choices

SYSTEMS = ("gpt2", "gpt2_temp05", "bloom", "chatgpt_diverse")


def people(provo: Path, choices: Choices) -> tuple[dict[str, dict[str, int]], list[str]]:
    read = ReadItems(load(provo / "provo_cloze.jsonl.gz").items, Reading.of(choices))
    return {item.id: human_counts(item.responses) for item in read}, list(read.notes())


def recording(provo: Path, system: str, choices: Choices) -> dict[str, Counter[str]]:
    model = load_recorded(str(provo / f"{system}.jsonl.gz"))
    found: dict[str, Counter[str]] = {}
    for draws in read_draws(model.draws((), Ask("", 0, 0)), Reading.of(choices), AnswerChanges()):
        found.setdefault(draws.item_id, Counter()).update(normalised_counts(draws.counts))
    return found


def agreement(counts: Mapping[str, int]) -> float:
    n = sum(counts.values())
    return sum(k * (k - 1) for k in counts.values()) / (n * (n - 1))


def cross(human: Mapping[str, int], model: Mapping[str, int]) -> float:
    same = sum(count * human.get(word, 0) for word, count in model.items())
    return same / (sum(human.values()) * sum(model.values()))


def test_word_rule_changes_96_answers(provo: Path) -> None:
    found, notes = people(provo, Choices())
    assert (
        "the word rule changed 96 of 107,785 answers (12 without punctuation; 9 short" in notes[0]
    )
    assert "75 left out because they hold no word" in notes[0]
    assert len(found) == 2687
    assert sum(sum(own.values()) for own in found.values()) == 107_785 - 75


@pytest.mark.parametrize("system", SYSTEMS)
def test_agreements_of_folded_words(shared: Path, provo: Path, system: str) -> None:
    expected = json.loads((shared / "golden" / "agreement.json").read_text())["systems"][system]
    choices = Choices(answers="folded")
    human, _ = people(provo, choices)
    pairs = [
        (human[item], model)
        for item, model in recording(provo, system, choices).items()
        if item in human and sum(model.values()) > 1 and sum(human[item].values()) > 1
    ]
    n = len(pairs)
    h, m, c = (
        sum(values) / n
        for values in zip(
            *((agreement(p), agreement(q), cross(p, q)) for p, q in pairs), strict=True
        )
    )
    found = {"items": n, "H": h, "M": m, "C": c, "sq_distance": h + m - 2 * c}
    found["overlap"] = 2 * c / (h + m)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.long
def test_word_command_reproduces_agreements(shared: Path, provo: Path, cli: Callable) -> None:
    models = [f"--model=recorded:{provo / system}.jsonl.gz" for system in SYSTEMS]
    corpus = provo / "provo_cloze.jsonl.gz"
    ran = cli("word", "--corpus", corpus, *models, "--choose", "answers=folded", "--json")
    expected = json.loads((shared / "golden" / "agreement.json").read_text())["systems"]
    names = {"H": "agreement_H", "M": "agreement_M", "C": "agreement_C"}
    for system in SYSTEMS:
        for name in ("H", "M", "C", "sq_distance", "overlap"):
            estimate = ran.results[system, names.get(name, name)]["estimate"]
            assert estimate["value"] == pytest.approx(expected[system][name], abs=1e-9)
            assert estimate["n_items"] == expected[system]["items"]
