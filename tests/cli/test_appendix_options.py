"""`--estimator biased`, `--unit token` and `--protocol paper` with local models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from marks import sampled

pytest.importorskip("torch")
pytest.importorskip("transformers")

from lms import next_probs, tiny

from aleatoric.runs.run import Store

PEOPLE = [
    ("1", "There are", ["many", "many", "some", "Then"], "some,"),
    ("1", "There are many", ["things", "men", "more"], "more."),
    ("2", "The cat said", ["so", "the", "that", "theatre"], "so"),
]
RULE = """
def two(text):
    return text.strip()[:2] or None
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "rules_of_mine", raising=False)
    Path("rules_of_mine.py").write_text(RULE)
    keys = ("group", "context", "responses", "original")
    rows = (json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in PEOPLE)
    Path("people.jsonl").write_text("".join(rows))
    lm = tiny("gpt2")
    lm.model.save_pretrained("m")
    lm.tokenizer.save_pretrained("m")
    options = ("--device", "cpu", "--splits", 3, "--samples", 40, "--bos", "none")
    return ("word", "--corpus", "people.jsonl", "--model", "hf:./m", *options)


def contents(run: str) -> list[object]:
    """Everything that a run holds about items and answers."""
    with Store.open(Path(run)) as store:
        return list(store.walk())


@pytest.mark.parametrize(
    "options",
    sampled(
        [
            ("--estimator", "biased"),
            ("--unit", "token"),
            ("--protocol", "paper", "--estimator", "mc"),
            ("--word-rule", "rules_of_mine:two", "--estimator", "mc"),
        ],
        [("--unit", "token")],
    ),
)
def test_interrupted_run_resumes_to_the_same_bytes(
    cli: Callable,
    asked: tuple[object, ...],
    options: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = cli(*asked, *options, "--out", "whole", "--json")
    assert ran.status == 0, ran.err
    for metric in ("overlap", "sq_distance", "tvd", "ece_original", "ece_human", "ece_oracle"):
        assert ran.results["m", metric]["estimate"]["value"] is not None
    add_draws = Store.add_draws

    def add_one(self: Store, system: str, draws: object, whole: bool = True) -> object:
        add_draws(self, system, [next(iter(draws))], whole)  # type: ignore[call-overload]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "add_draws", add_one)
        assert cli(*asked, *options, "--out", "part").status == 130
    rule = ("--word-rule", "rules_of_mine:two") if "--word-rule" in options else ()
    resumed = cli("resume", "part", *rule)
    assert resumed.status == 0, resumed.err
    assert contents("part") == contents("whole")
    scored = cli("score", "part", "--json")
    assert scored.results == ran.results
    page = cli("report", "part", "--html", "page.html")
    assert page.status == 0, page.err


def test_biased_estimator_is_in_signature_and_notes(
    cli: Callable, asked: tuple[object, ...]
) -> None:
    ran = cli(*asked, "--estimator", "biased", "--out", "run", "--json")
    signature = ran.results["m", "tvd"]["signature"]
    assert "|estimator:biased|" in signature
    assert "support=40+3x100|" in signature
    assert any("the estimator is biased" in note for note in json.loads(ran.out)["notes"])
    study = cli("score", "run", "--analysis", "biased")
    assert "model (renormalized)" in study.out
    assert cli(*asked, "--estimator", "mc", "--out", "sampled").status == 0
    compared = cli("compare", "run", "sampled", "--json")
    assert compared.status == 0, compared.err


def test_first_tokens_of_people_and_model_are_compared(
    cli: Callable, asked: tuple[object, ...]
) -> None:
    ran = cli(*asked, "--unit", "token", "--json")
    lm, tvds, gaps = tiny("gpt2"), [], np.zeros(10)
    for _, context, words, original in PEOPLE:
        p = np.zeros(len(lm.pieces))
        for word in words:
            p[lm.continuation(f" {word}")[0]] += 1 / len(words)
        q = next_probs(lm, lm.encode(context)).numpy()
        tvds.append(np.abs(p - q).sum() / 2)
        is_right = q.argmax() == lm.continuation(f" {original.strip('.,')}")[0]
        gaps[int(q.max() * 10)] += float(is_right) - q.max()
    assert ran.results["m", "tvd"]["estimate"]["value"] == pytest.approx(np.mean(tvds), abs=1e-5)
    agreement = ran.results["human", "agreement_H"]["estimate"]["value"]
    # Of pairs of different people: 1 of 6 said "many", "the" and "theatre" share a token.
    assert agreement == pytest.approx((1 / 6 + 0 + 1 / 6) / 3)
    signature = ran.results["oracle", "tvd"]["signature"]
    assert "unit=token," in signature
    assert "tokens=" in signature
    ece = ran.results["m", "ece_original"]["estimate"]["value"]
    assert ece == pytest.approx(np.abs(gaps).sum() / len(PEOPLE), abs=1e-5)


def test_runs_of_different_units_are_not_compared(cli: Callable, asked: tuple[object, ...]) -> None:
    assert cli(*asked, "--unit", "token", "--out", "tokens").status == 0
    assert cli(*asked, "--out", "words").status == 0
    ran = cli("compare", "tokens", "words")
    assert ran.status == 2
    assert "cannot be compared: unit (token v word) differs" in ran.err
    assert cli(*asked, "--unit", "token", "--decoder", "top_k=5", "--out", "top").status == 0
    assert cli("compare", "tokens", "top").status == 0


def test_paper_protocol_samples_five_tokens_without_bos(
    cli: Callable, asked: tuple[object, ...]
) -> None:
    ran = cli(*asked[:-2], "--protocol", "paper", "--estimator", "mc", "--json")
    signature = ran.results["m", "tvd"]["signature"]
    for part in ("protocol=paper,", "rule=paper,", "new_tokens=5|", "bos=none|"):
        assert part in signature
    assert any("sampled texts of up to 5 tokens" in note for note in json.loads(ran.out)["notes"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--protocol", "paper"), "add --estimator mc"),
        (("--word-rule", "rules_of_mine:two"), "add --estimator mc"),
        (("--word-rule", "rules_of_mine:two", "--estimator", "biased"), "cannot use the word rule"),
        (("--estimator", "biased", "--decoder", "top_k=5"), "leave out --decoder top_k=5"),
        (("--estimator", "biased", "--until", "se=0.1"), "--until stops the sampling of"),
        (
            ("--estimator", "mc", "--until", "se=0.1", "--word-rule", "rules_of_mine:two"),
            "leave out --until",
        ),
        (("--unit", "letter"), "there is no unit 'letter'; use word or token"),
        (("--unit", "token", "--estimator", "mc"), "leave out --estimator mc"),
        (("--unit", "token", "--metric", "tvd_syn"), "tvd_syn is about words"),
        (("--unit", "token", "--model", "recorded:people.jsonl"), "is none"),
        (("--unit", "token", "--model", "smollm2"), "--unit token takes one model"),
        (("--unit", "token", "--engine", "ray"), "leave out --engine ray"),
        (("--choose", "unit=token"), "there is no choice 'unit'"),
    ],
)
def test_what_cannot_be_done_is_rejected_in_one_sentence(
    cli: Callable, asked: tuple[object, ...], options: tuple[str, ...], message: str
) -> None:
    ran = cli(*asked, *options, "--out", "run")
    assert ran.status == 2
    assert message in ran.err
    assert len(ran.err.partition("error: ")[2].splitlines()) == 1
    assert not Path("run").exists()
