"""TVD over word classes in a run: shared clusters for all systems, and the corpus language."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aleatoric.errors import UsageError
from aleatoric.inference import control
from aleatoric.levels import word_classes
from aleatoric.levels.base import notes, run_job
from aleatoric.levels.word import WordJob, results
from aleatoric.levels.word_classes import by_cluster
from aleatoric.metrics.distances import tvd_of_counts
from aleatoric.probes import tools
from aleatoric.probes.tools import fitting_tagger
from aleatoric.runs.run import Store
from aleatoric.studies.compare import compare
from aleatoric.types import Item

PEOPLE = {"dog": 4, "cat": 3, "run": 2, "walk": 1}
FIRST = {"dog": 5, "cow": 3, "jump": 2}
SECOND = {"cat": 2, "emu": 4, "walk": 3, "skip": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """People, two recorded systems and a file of random vectors for all their words."""
    rng = np.random.default_rng(7)
    words = dict.fromkeys([*PEOPLE, *FIRST, *SECOND])
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=3))}\n" for word in words]
    (tmp_path / "vectors.txt").write_text("".join(lines))
    person = {"id": "1", "context": "They saw the", "responses": PEOPLE}
    (tmp_path / "people.jsonl").write_text(json.dumps(person) + "\n")
    for name, samples in (("first", FIRST), ("second", SECOND)):
        row = {"id": "1", "samples": samples}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


def sem_run(folder: Path, out: str, *names: str) -> Store:
    job = WordJob(
        str(folder / "people.jsonl"),
        tuple(f"recorded:{folder / name}.jsonl" for name in names),
        abstractions=("tvd_sem",),
        embedder=f"vectors:{folder / 'vectors.txt'}",
    )
    return run_job(job, folder / out)


def shares(counts: dict[str, int], classes: dict[str, str]) -> np.ndarray:
    names = sorted(set(classes.values()))
    return np.array(
        [sum(n for w, n in counts.items() if classes[w] == name) for name in names]
    ) / sum(counts.values())


def test_oracle_and_systems_share_the_same_clusters(folder: Path) -> None:
    """Every TVD_sem of a context uses one clustering of all its words."""
    store = sem_run(folder, "run", "first", "second")
    found = {r.system: r.estimate.value for r in results(store) if r.metric == "tvd_sem"}
    responses = tuple(word for word, n in PEOPLE.items() for _ in range(n))
    item = Item("1", "1", "They saw the", responses)
    embedder = word_classes.vectors(str(folder / "vectors.txt"))
    joint = list(dict.fromkeys([*PEOPLE, *FIRST, *SECOND]))
    classes = by_cluster(embedder, seed=0)(item, joint)
    for name, counts in (("first", FIRST), ("second", SECOND)):
        expected = np.abs(shares(PEOPLE, classes) - shares(counts, classes)).sum() / 2
        assert found[name] == pytest.approx(expected), name
    (page,) = store.stat_pages("oracle")
    words, names = list(PEOPLE), sorted(set(classes.values()))
    member = np.array([[classes[word] == name for name in names] for word in words], dtype=int)
    codes = np.repeat(np.arange(len(words)), list(PEOPLE.values()))
    orders = control.independent_orders(len(codes), 20, 0, "1")
    halves = control.split_all([codes], [orders])
    expected = tvd_of_counts(halves.target.counts @ member, halves.player.counts @ member)
    assert page.values["tvd_sem"][0] == pytest.approx(expected)
    assert any("compare tvd_sem within one run only" in note for note in notes(store))


def test_tvd_sem_is_not_compared_between_runs(folder: Path) -> None:
    stores = [sem_run(folder, "a", "first"), sem_run(folder, "b", "second")]
    assert "tvd_sem" not in {one.metric for one in compare(stores).comparisons}
    with pytest.raises(UsageError, match="give all models to one command"):
        compare(stores, metrics=["tvd_sem"])
    together = sem_run(folder, "both", "first", "second")
    assert "tvd_sem" in {one.metric for one in compare([together]).comparisons}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--language", "de", "--tagger", "textblob"), "textblob reads 'en' and the corpus is in"),
        (("--language", "de", "--tagger", "spacy:fr_x"), "give --tagger spacy:PIPELINE"),
        (("--language", "xq"), "no tagger for the language 'xq' is installed: give --tagger"),
        (("--language", "German!"), "--language 'German!' is not a language code"),
    ],
)
def test_tagger_of_another_language_is_rejected(
    cli: Callable, folder: Path, more: tuple[str, ...], message: str
) -> None:
    asked = ("word", "--corpus", folder / "people.jsonl", "--metric", "tvd_syn")
    ran = cli(*asked, *more)
    assert ran.status == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_unknown_language_is_noted(cli: Callable, folder: Path) -> None:
    asked = ("word", "--corpus", folder / "people.jsonl", "--metric", "tvd_syn")
    caveat = "tagged by textblob, which reads 'en', and the language of the corpus is not stated"
    assert caveat in cli(*asked).err
    assert caveat not in cli(*asked, "--language", "en").err


def test_resumed_run_keeps_its_language(folder: Path) -> None:
    job = WordJob(str(folder / "people.jsonl"), abstractions=("tvd_syn",), language="EN-gb")
    store = run_job(job, folder / "run")
    assert store.manifest["language"] == "en"
    assert WordJob.from_manifest(store.manifest, {}) == replace(
        job, language="en", tagger="textblob"
    )


def test_default_tagger_follows_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_installed_pipelines", lambda language: [f"{language}_core_x"])
    assert fitting_tagger(None, "de") == "spacy:de_core_x"
    assert fitting_tagger(None, None) == fitting_tagger(None, "en") == "textblob"
    assert fitting_tagger("spacy:xx_sent_ud_sm", "de") == "spacy:xx_sent_ud_sm"


def test_regression_rejects_language_without_tagger(cli: Callable, tmp_path: Path) -> None:
    run = tmp_path / "run"
    asked = ("--model", "toy", "--samples", "20", "--splits", "2", "--out", run)
    corpus = "simulated:contexts=20,people=6"
    assert cli("word", "--corpus", corpus, *asked, "--language", "xq").status == 0
    ran = cli("score", run, "--analysis", "ard")
    assert ran.status == 2
    assert "no tagger for the language 'xq'" in ran.err


def test_contexts_without_a_rank_are_counted(folder: Path) -> None:
    """The first system drew the most frequent human answer, the second never did."""
    store = sem_run(folder, "ranks", "first", "second")
    found = {r.system: r.estimate for r in results(store) if r.metric == "rank_of_human_mode"}
    assert (found["first"].value, found["first"].n_undefined) == (1.0, 0)
    assert (found["second"].value, found["second"].n_undefined) == (None, 1)
    (note,) = (note for note in notes(store) if note.startswith("rank_of_human_mode"))
    assert "never drawn in 1 of 1 contexts of second" in note
    assert "of first" not in note
