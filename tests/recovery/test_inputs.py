"""Labels of single inputs on planted generators, whose relation to people is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aleatoric.levels.base import notes, run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.text_inputs import LabelCounts, label_counts, labels_of
from aleatoric.result_types import Labels
from aleatoric.rng import stream
from aleatoric.types import Floats

N_INPUTS, N_TEXTS = 200, 10
N_WORDS = 40
ZIPF = (1.0 + np.arange(N_WORDS)) ** -1.0


def texts(
    who: str, item: int, weights: Floats = ZIPF, topic: str = "t", longest: int = 12, n: int = 10
) -> list[str]:
    """Texts of the words of an input's topic, of `longest` - 4 to `longest` words."""
    rng, words = stream(1, who, item), stream(1, "words", item).permutation(len(weights))
    lengths = rng.integers(longest - 4, longest + 1, n)
    p = weights / weights.sum()
    return [" ".join(f"{topic}{w}" for w in words[rng.choice(len(p), k, p=p)]) for k in lengths]


def planted(name: str, item: int, n: int) -> list[str]:
    """Texts of a generator."""
    if name == "parrot":
        return texts(name, item, n=1) * n
    if name == "diverse":
        return texts(name, item, np.ones(10 * N_WORDS), n=n)
    if name == "topic":
        return texts(name, item, topic="other", n=n)
    return texts(name, item, longest=24 if name == "long" else 12, n=n)


def lines(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def planted_run(
    folder: Path, systems: Mapping[str, Sequence[str]], first: int = 0
) -> tuple[dict[str, dict[str, Labels]], list[LabelCounts], list[str]]:
    """Labels, their numbers and the notes of a run by lexical-1.

    `systems` maps names to the generator of each input; inputs are numbered from `first`.
    """
    items = range(first, first + len(next(iter(systems.values()))))
    rows = [{"id": f"{i}", "input": f"{i}", "references": texts("people", i)} for i in items]
    corpus, models = lines(folder / "people.jsonl", rows), []
    for name, generators in systems.items():
        pairs = zip(items, generators, strict=True)
        rows = [{"id": f"{i}", "texts": planted(own, i, N_TEXTS)} for i, own in pairs]
        models.append(f"recorded:{lines(folder / f'{name}.jsonl', rows)}")
    job = TextJob(str(corpus), tuple(models), probes=("lexical-1",), tokeniser="whitespace")
    with run_job(job, folder / "run") as store:
        labels = {name: labels_of(store, name) for name in systems}
        return labels, list(label_counts(store, list(systems))), notes(store)


def shares(labels: dict[str, Labels]) -> dict[str, float]:
    """The share of inputs per label."""
    found = {}
    for key, own in labels.items():
        values = list(own)
        assert None not in values
        found |= {f"{key.partition('/')[0]} {v}": values.count(v) / len(values) for v in values}
    return found


RIGHT = {
    "perfect": ("variability varies as people", "closeness no difference", "length as long"),
    "parrot": ("variability varies less", "closeness differs"),
    "diverse": ("variability varies more", "closeness differs", "length as long"),
    "topic": ("variability varies as people", "closeness differs", "length as long"),
    "long": ("variability varies as people", "length longer"),
}


def test_planted_generators_are_labelled_rightly(tmp_path: Path) -> None:
    """At least 95% of 200 inputs have the right label at a false discovery rate of 5%."""
    systems = {name: [name] * N_INPUTS for name in RIGHT}
    labels, counts, noted = planted_run(tmp_path, systems)
    for name, right in RIGHT.items():
        found = shares(labels[name])
        assert {label: found.get(label, 0.0) for label in right if found.get(label, 0) < 0.95} == {}
    by_system = {count.system: count for count in counts}
    assert [name for name, count in by_system.items() if count.same_length] == ["long"]
    assert sum(note.startswith("warning: lengths differ") for note in noted) == 1


@pytest.mark.long
def test_false_discoveries_are_controlled_in_a_mixture(tmp_path: Path) -> None:
    """Half of the inputs of a system are repeated or too diverse, the others vary as people."""
    names, n = ("perfect", "parrot", "topic", "diverse"), 80
    truth = np.tile([0, -1, 0, 1], n // 4)
    found, wrong = [], []
    for repetition in range(6):
        (folder := tmp_path / f"{repetition}").mkdir()
        labels, _, _ = planted_run(folder, {"mixed": names * (n // 4)}, repetition * n)
        codes = labels["mixed"]["variability/lexical-1"].codes
        found.append(((codes == truth) & (truth != 0)).sum() / (truth != 0).sum())
        wrong.append(((codes != 0) & (codes != truth)).sum() / max(1, (codes != 0).sum()))
    assert np.mean(found) > 0.95
    assert np.mean(wrong) <= 0.05
