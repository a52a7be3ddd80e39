"""Live models through the command line, with the embedded SmolLM2 if it is cached."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from aleatoric.models import gguf

pytestmark = pytest.mark.skipif(
    not gguf.smollm2_is_cached(), reason="the embedded model is not cached; make test fetches it"
)
CONTEXTS = ("The old lighthouse keeper", "The old lighthouse keeper climbed the", "Once upon a")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.jsonl"
    rows = [{"context": c, "responses": ["the", "stairs", "time", "Time"]} for c in CONTEXTS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.long
def test_exact_and_sampled_estimates_agree(cli: Callable, people: Path) -> None:
    asked = ("word", "--corpus", people, "--model", "smollm2", "--json")
    exact = cli(*asked).results
    sampled = cli(*asked, "--estimator", "mc", "--samples", 2000).results
    bounds = [exact["smollm2", m]["estimate"]["value"] for m in ("tvd_low", "tvd", "tvd_high")]
    assert bounds == sorted(bounds)
    # 2000 draws: the mean of three distances is off by less than .05 (noise and its bias).
    assert sampled["smollm2", "tvd"]["estimate"]["value"] == pytest.approx(bounds[1], abs=0.05)
    assert "estimator:exact" in exact["smollm2", "tvd"]["signature"]


@pytest.mark.long
def test_run_resumes_where_it_was_interrupted(
    cli: Callable, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aleatoric.nextword.live import LiveModel

    whole, part = tmp_path / "whole", tmp_path / "part"
    asked = ("word", "--corpus", people, "--model", "smollm2", "--estimator", "mc")
    asked = (*asked, "--samples", 20, "--json")
    first = cli(*asked, "--out", whole)
    draw = LiveModel.draws

    def stopped(self: LiveModel, items: object, ask: object) -> object:
        yield next(iter(draw(self, items, ask)))  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LiveModel, "draws", stopped)
        assert cli(*asked, "--out", part).status != 0
    again = cli(*asked, "--out", part)
    found = [{k: r["estimate"] for k, r in ran.results.items()} for ran in (first, again)]
    assert found[0] == found[1]


@pytest.mark.long
def test_answers_with_punctuation_are_scored_as_words(
    cli: Callable, people: Path, tmp_path: Path
) -> None:
    messy = tmp_path / "messy.jsonl"
    answers = ["the.", " stairs!", "time and again", "Time,", "?"]
    rows = [{"context": context, "responses": answers} for context in CONTEXTS]
    messy.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for estimator in ("exact", "mc"):
        asked = ("--model", "smollm2", "--estimator", estimator, "--samples", 20, "--json")
        clean, same = (cli("word", "--corpus", c, *asked).results for c in (people, messy))
        values = [r["smollm2", "tvd"]["estimate"]["value"] for r in (clean, same)]
        assert values[0] == values[1] < 1


def test_single_non_ancestral_decoder_is_part_of_system_name(
    cli: Callable, people: Path, tmp_path: Path
) -> None:
    asked = ("word", "--corpus", people, "--model", "smollm2", "--decoder", "top_k=5")
    ran = cli(*asked, "--out", tmp_path / "run", "--json")
    assert {system for system, _ in ran.results} == {"human", "oracle", "smollm2 top_k=5"}
    again = cli("resume", tmp_path / "run", "--json")
    assert again.results.keys() == ran.results.keys()


def test_paper_protocol_is_rejected_for_exact_probabilities(
    cli: Callable, people: Path, tmp_path: Path
) -> None:
    ran = cli(
        *("word", "--corpus", people, "--model", "smollm2", "--protocol", "paper"),
        *("--out", tmp_path / "run"),
    )
    assert ran.status == 2
    assert "add --estimator mc" in ran.err
    assert not (tmp_path / "run").exists()
