"""Comparing systems subsampled to the same number of draws per item."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from aleatoric.errors import UsageError
from aleatoric.levels.base import notes, run_job
from aleatoric.levels.word import WordJob, results, score_word
from aleatoric.levels.word_results import unknown_metrics
from aleatoric.reporting.views import view_of
from aleatoric.runs.run import Store
from aleatoric.studies.by_agreement import by_agreement
from aleatoric.studies.compare import compare
from aleatoric.studies.compare_statistics import drawn
from aleatoric.types import Categorical, Estimate

WORDS = ["a", "b", "c", "d"]
N_ITEMS = 24


def recorded(path: Path, rows: dict[str, dict[str, object]]) -> str:
    path.write_text("".join(json.dumps({"id": i, **row}) + "\n" for i, row in rows.items()))
    return f"recorded:{path}"


def run(tmp_path: Path, **systems: dict[str, dict[str, object]]) -> Store:
    """Twenty answers per item, mostly the first words, and recorded systems."""
    corpus = tmp_path / "people.jsonl"
    people = [w for w, n in zip(WORDS, (10, 6, 3, 1), strict=True) for _ in range(n)]
    lines = [
        {"id": str(i), "context": "It", "responses": people, "passage": i % 8}
        for i in range(N_ITEMS)
    ]
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    specs = tuple(recorded(tmp_path / f"{name}.jsonl", own) for name, own in systems.items())
    return run_job(WordJob(str(corpus), specs), tmp_path / "run")


def samples(n: int, seed: int, items: range = range(N_ITEMS)) -> dict[str, dict[str, object]]:
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, [0.4, 0.3, 0.2, 0.1], len(items))
    return {
        str(i): {"samples": {w: int(k) for w, k in zip(WORDS, own, strict=True) if k}}
        for i, own in zip(items, counts, strict=True)
    }


def logprobs() -> dict[str, dict[str, object]]:
    known = {w: math.log(p) for w, p in zip(WORDS, (0.4, 0.3, 0.2, 0.1), strict=True)}
    return {str(i): {"logprobs": known} for i in range(N_ITEMS)}


def test_subsampling_is_uniform_without_replacement() -> None:
    model = Categorical.from_counts({"a": 6, "b": 3, "c": 1})
    found = [drawn(model, 5, np.random.default_rng(i)) for i in range(4000)]
    assert all(own.n == 5 for own in found)
    counts = np.array([[5 * own.as_dict().get(w, 0) for w in "abc"] for own in found])
    assert (counts.max(axis=0) <= [5, 3, 1]).all()
    assert counts.mean(axis=0) == pytest.approx([3, 1.5, 0.5], abs=0.05)
    assert drawn(model, 10, np.random.default_rng(0)).as_dict() == model.as_dict()


def test_sampling_never_repeats_words_from_unassigned_mass() -> None:
    model = Categorical(("a", "b"), (0.5, 0.25), rest=0.25)
    found = drawn(model, 40_000, np.random.default_rng(0))
    assert found.n == 40_000
    assert found.as_dict()["a"] == pytest.approx(0.5, abs=0.01)
    others = [round(p * 40_000) for w, p in found.as_dict().items() if w not in "ab"]
    assert set(others) == {1}
    assert len(others) == pytest.approx(10_000, abs=300)


def test_each_item_uses_smallest_number_of_draws(tmp_path: Path) -> None:
    few = samples(5, 0, range(12)) | samples(30, 1, range(12, N_ITEMS))
    with run(tmp_path, few=few, many=samples(1000, 2)) as store:
        plain = compare([store], metrics=["tvd"])
        found = compare([store], matched=True)
        assert found.to_dict() == compare([store], matched=True).to_dict()
        other = compare([store], matched=True, seed=1)
    (before,) = plain.comparisons
    tvd = {c.metric: c.paired.difference.value for c in found.comparisons}["tvd"]
    # The system with few draws is left as it is; the other one loses what its draws gave it.
    assert found.values["tvd"]["few"] == pytest.approx(plain.values["tvd"]["few"])
    assert found.values["tvd"]["many"] > plain.values["tvd"]["many"] + 0.05
    assert abs(tvd) < abs(before.paired.difference.value)
    assert "(5 to 30)" in found.notes[0]
    assert "n:17.5 matched" in found.comparisons[0].signatures[0]
    assert "matched=seed=0" in found.comparisons[0].signatures[0]
    assert other.values["tvd"]["many"] != found.values["tvd"]["many"]


def test_sampling_of_exact_probabilities_is_noted(tmp_path: Path) -> None:
    with run(tmp_path, few=samples(10, 0), known=logprobs()) as store:
        found = compare([store], matched=True)
    assert "known: draws are samples of exact probabilities" in found.notes[1]
    (one,) = (c for c in found.comparisons if c.metric == "tvd")
    assert abs(one.paired.difference.value) < 0.1


def test_systems_without_any_draws_cannot_be_matched(tmp_path: Path) -> None:
    with (
        run(tmp_path, one=logprobs(), other=logprobs()) as store,
        pytest.raises(UsageError, match="--matched needs a system with draws"),
    ):
        compare([store], matched=True)


def test_only_word_level_can_be_matched(tmp_path: Path) -> None:
    from aleatoric.studies.compare import check_matchable
    from aleatoric.studies.compare_statistics import ComparedSystem

    with Store.create(tmp_path / "texts", {"level": "text"}) as store:
        member = ComparedSystem(store, "x", "x", {})
        with pytest.raises(UsageError, match="is a run of the text level"):
            check_matchable([member, member])


def test_single_draws_cannot_be_matched(tmp_path: Path) -> None:
    with run(tmp_path, one=samples(1, 0), many=samples(30, 1)) as store:
        with pytest.raises(UsageError, match="one: has one draw per item, and agreements need two"):
            compare([store], matched=True)
        assert "(one 24) count at most in TVD and ECE" in " ".join(
            view_of("word").caveats(results(store))
        )


def test_systems_without_a_common_item_have_no_values_and_a_note(tmp_path: Path) -> None:
    with run(tmp_path, a=samples(9, 0, range(12)), b=samples(9, 1, range(12, 24))) as store:
        notes = " ".join(compare([store], metrics=["overlap"]).notes)
    assert "overlap: no item is common to all systems" in notes


def test_copied_answers_are_noted(tmp_path: Path) -> None:
    copied = {
        str(i): {"samples": {"a": 10 - i % 3, "b": 6 + i % 3, "c": 3, "d": 1}}
        for i in range(N_ITEMS)
    }
    with run(tmp_path, copied=copied, sampled=samples(20, 0)) as store:
        notes = " ".join(compare([store], metrics=["overlap"]).notes)
    assert "copied: the overlap is above 1 (p < .001)" in notes


def test_quartile_boundaries_are_shared_by_all_systems(tmp_path: Path) -> None:
    with run(tmp_path, half=samples(9, 0, range(6)), all=samples(9, 1)) as store:
        rows = by_agreement(store).rows
        assert by_agreement(store, ["all"]).rows == tuple(row for row in rows if row[0] == "all")
        with pytest.raises(UsageError, match="no system 'oracle'"):
            by_agreement(store, ["oracle"])
    levels = [[row[1] for row in rows if row[0] == system] for system in ("half", "all")]
    assert set(levels[0]) <= set(levels[1])
    assert sum(int(row[-1]) for row in rows if row[0] == "all") == 2 * N_ITEMS


@pytest.mark.parametrize(
    ("known", "unknown"),
    [
        ({"agreement_M_low": 0.01, "agreement_M_high": 0.05, "mode_certified": 0.6}, set()),
        (
            {"agreement_M_low": 0.0, "agreement_M_high": 0.9},
            {"agreement_M", "agreement_gap", "overlap", "entropy_model"},
        ),
        ({"agreement_C_low": 0.0, "agreement_C_high": 0.2}, {"agreement_C", "overlap"}),
        ({"tvd_low": 0.2, "tvd_high": 0.5}, {"tvd", "tvd_debiased", "js", "mass_on_human"}),
        ({"mode_certified": 0.2}, {"ece_human"}),
        ({"log_loss_low": 1.0, "log_loss_high": 1.09}, set()),
        ({"log_loss_low": 1.0, "log_loss_high": 9.0}, {"log_loss"}),
        ({"log_loss_low": 1.0, "log_loss_high": None}, {"log_loss"}),
    ],
)
def test_metrics_with_wide_bounds_are_not_reported(
    known: dict[str, float | None], unknown: set[str]
) -> None:
    names = ("overlap", "sq_distance", *("agreement_M", "agreement_C", "agreement_gap", "tvd"))
    names += ("tvd_debiased", "js", "mass_on_human", "entropy_model", "ece_human", "log_loss")
    values = dict.fromkeys(names, 0.3) | known
    found = {name: Estimate(value, None, 9, 3) for name, value in values.items()}
    assert unknown_metrics(found) == unknown


def test_system_without_draws_is_excluded_from_quartiles(tmp_path: Path) -> None:
    with run(tmp_path, one=samples(9, 0)) as store:
        store.add_system("later", store.systems()["one"])
        score_word(store)
        assert {row[0] for row in by_agreement(store).rows} == {"one"}
        store.set_meta("n_items", N_ITEMS + 3)
        assert "3 of 27 items were lost" in notes(store)[0]
