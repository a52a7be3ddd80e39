"""The text level on generators with a known relation to people."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marks import sampled
from opened_probes import open_probes

from aleatoric.levels.base import notes, results, run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.text_variability import (
    ALIKE,
    CLOSE,
    DIFFERS,
    LESS,
    MORE,
    ScoredTexts,
    score_blocks,
    sentences,
    verdicts,
)
from aleatoric.result_types import Results
from aleatoric.rng import stream

PROBES = ("lexical-1", "lexical-2")
WORDS = np.array([f"w{i}" for i in range(12)])
SENTENCE = "I am sorry , I do not know that ."
Written = Mapping[str, Sequence[str]]


def lines(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scored(folder: Path, people: Written, **systems: Written) -> tuple[Results, list[str]]:
    """The results and the notes of a run of recorded systems."""
    rows = [{"id": i, "input": f"say {i}", "references": own} for i, own in people.items()]
    corpus = lines(folder / "people.jsonl", rows)
    models = []
    for name, texts in systems.items():
        rows = [{"id": i, "texts": own} for i, own in texts.items()]
        models.append(f"recorded:{lines(folder / f'{name}.jsonl', rows)}")
    job = TextJob(str(corpus), tuple(models), probes=PROBES, tokeniser="whitespace")
    with run_job(job, folder / "run") as store:
        return results(store), notes(store)


def verdicts_of(results: Results) -> dict[str, set[tuple[str, str]]]:
    """Verdicts over all probes, per system."""
    found: dict[str, set[tuple[str, str]]] = {}
    for one in verdicts(results):
        found.setdefault(one.system, set()).add((one.closeness, one.variability))
    return found


def texts_of(rng: np.random.Generator, item: int, n: int, temperature: float = 1.0) -> list[str]:
    """Texts of six words from the input's true distribution at a temperature."""
    truth = stream(11, "truth", item).permutation((1.0 + np.arange(len(WORDS))) ** -1.0)
    weights = truth ** (1 / temperature)
    drawn = rng.choice(len(WORDS), (n, 6), p=weights / weights.sum())
    return [" ".join(own) for own in WORDS[drawn]]


def written(name: str, n: int, temperature: float = 1.0, n_items: int = 60) -> Written:
    return {f"{i}": texts_of(stream(5, name, i), i, n, temperature) for i in range(n_items)}


@pytest.mark.parametrize("n_people", sampled([10, 20, 40], [10]))
@pytest.mark.parametrize("n_generations", sampled([10, 40], [10]))
def test_energy_ranks_the_truth_first(n_people: int, n_generations: int) -> None:
    temperatures = (0.6, 0.8, 1.0, 1.25, 1.6)
    names = [f"T={t}" for t in temperatures]
    people = written(f"people {n_people}", n_people, n_items=100)
    systems = [
        written(f"{name} {n_generations}", n_generations, t, n_items=100)
        for name, t in zip(names, temperatures, strict=True)
    ]
    items = [ScoredTexts(i, tuple(people[i]), tuple(tuple(s[i]) for s in systems)) for i in people]
    probes = open_probes(["lexical-1"], tokeniser="whitespace")
    found = score_blocks(items, names, probes, {}).systems
    energy = {name: own["energy/lexical-1"].mean() for name, own in found.items()}
    variability = {
        name: (own["mean_M/lexical-1"] - own["mean_H/lexical-1"]).mean()
        for name, own in found.items()
    }
    assert min(energy, key=lambda name: energy[name]) == "T=1.0"
    # The mean over inputs is 0 but for noise, at every number of texts.
    own = found["T=1.0"]["energy/lexical-1"]
    assert abs(energy["T=1.0"]) < 4 * own.std(ddof=1) / np.sqrt(len(own))
    # Sharper than people is less various, flatter is more, at every number of texts.
    assert list(variability.values()) == sorted(variability.values())
    assert variability["T=0.6"] < variability["T=0.8"] < 0 < variability["T=1.25"]


def test_perfect_generator_is_distinguished_from_imperfect_ones(tmp_path: Path) -> None:
    people = written("people", 10)
    systems = {
        "perfect": written("perfect", 10),
        "sharper": written("sharper", 10, 0.5),
        "flatter": written("flatter", 10, 2.0),
    }
    results, notes = scored(tmp_path, people, **systems)
    assert verdicts_of(results) == {
        "perfect": {(CLOSE, ALIKE)},
        "sharper": {(DIFFERS, LESS)},
        "flatter": {(DIFFERS, MORE)},
    }
    assert not any(result.to_dict().get("excess") for result in results)
    assert not any("length" in note for note in notes)


def test_held_out_references_act_as_a_perfect_generator(tmp_path: Path, shared: Path) -> None:
    """Five of ASSET's ten references against the other five."""
    people, held_out = {}, {}
    path = shared / "data" / "multiref" / "asset_valid.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line, _ in zip(file, range(400), strict=False)]
    for row in rows:
        own = stream(2, "held out", row["id"]).permutation(row["references"]).tolist()
        people[f"{row['id']}"], held_out[f"{row['id']}"] = own[:5], own[5:]
    results, notes = scored(tmp_path, people, held_out=held_out)
    assert verdicts_of(results) == {"held_out": {(CLOSE, ALIKE)}}
    for result in results:
        if result.metric.startswith("energy/"):
            interval = result.estimate.interval
            assert interval is not None
            assert interval.low <= 0 <= interval.high
    assert not any(result.to_dict().get("excess") for result in results)
    assert not any("lengths differ" in note for note in notes)


@pytest.mark.parametrize("sentence", [SENTENCE, "No .", " ".join([SENTENCE] * 9)])
def test_constant_generator_varies_less_than_people(tmp_path: Path, sentence: str) -> None:
    """One sentence for every input, and one sentence per input; of any length."""
    people = written("people", 10, n_items=30)
    parrot = {i: [sentence] * 10 for i in people}
    repeater = {i: [own[0]] * 10 for i, own in written("parrot", 1, n_items=30).items()}
    results, _ = scored(tmp_path, people, parrot=parrot, repeater=repeater)
    assert verdicts_of(results) == {"parrot": {(DIFFERS, LESS)}, "repeater": {(DIFFERS, LESS)}}
    # Its texts are further from people's than people's are, which is no variability.
    far = {(r.system, r.metric): r.estimate.value or 0 for r in results}
    assert far["parrot", "dmu_C/lexical-1"] > 0
    assert MORE not in " ".join(sentences(verdicts(results)))


def pool_texts(name: str, n_sentences: int, n_items: int = 40) -> Written:
    """Texts of the given numbers of sentences, drawn from one pool shared by all inputs."""
    rng = stream(3, "pool")
    zipf = (1.0 + np.arange(200)) ** -1.0
    words = np.array([f"v{i}" for i in range(200)])
    pool = [
        " ".join(rng.choice(words, rng.integers(6, 15), p=zipf / zipf.sum())) for _ in range(500)
    ]
    found = {}
    for i in range(n_items):
        own = stream(4, name, i)
        found[f"{i}"] = [" ".join(own.choice(pool, n_sentences)) for _ in range(8)]
    return found


@pytest.mark.parametrize(("n_people", "n_model"), [(30, 4), (4, 30)])
def test_length_differences_alone_are_not_variability(
    tmp_path: Path, n_people: int, n_model: int
) -> None:
    people, model = pool_texts("people", n_people), pool_texts("model", n_model)
    results, notes = scored(tmp_path, people, model=model)
    assert {variability for _, variability in verdicts_of(results)["model"]} == {ALIKE}
    assert any(note.startswith("warning: lengths differ") for note in notes)
    found = {r.metric: r.estimate for r in results if r.system == "model"}
    shorter, longer = sorted(found[name].value or 0 for name in ("length_H", "length_M"))
    assert longer == 100  # cut
    assert 35 < shorter < 50
    # What the verdict would have been without texts of the same length.
    naive = found["dmu_M/lexical-1"].interval
    assert naive is not None
    assert naive.low > 0 or naive.high < 0


@pytest.mark.long
def test_truncation_keeps_differences_not_due_to_length(tmp_path: Path) -> None:
    """Longer texts that truly vary more or less than human texts are still detected."""
    people = written("people", 10)
    twice = {
        name: {
            i: [f"{a} {b}" for a, b in zip(own[::2], own[1::2], strict=True)]
            for i, own in texts.items()
        }
        for name, texts in (
            ("sharper", written("sharper", 20, 0.5)),
            ("perfect", written("perfect", 20)),
            ("flatter", written("flatter", 20, 2.0)),
        )
    }
    results, notes = scored(tmp_path, people, **twice)
    verdict = {name: {one[1] for one in own} for name, own in verdicts_of(results).items()}
    assert verdict == {"sharper": {LESS}, "perfect": {ALIKE}, "flatter": {MORE}}
    assert sum(note.startswith("warning: lengths differ") for note in notes) == 3
