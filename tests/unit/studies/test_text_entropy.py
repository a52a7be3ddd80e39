"""Entropy of texts as a study: values, correlations, refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from aleatoric.errors import UsageError
from aleatoric.levels.base import run_study
from aleatoric.levels.text_inputs import TextCase
from aleatoric.rng import stream
from aleatoric.runs.formats import DamagedRowError, dump_texts, load_written
from aleatoric.runs.run import Store, StoredTexts
from aleatoric.studies.text_entropy import correlation, entropy_of, run
from aleatoric.types import TextItem, Texts


def case(
    number: int, logprobs: tuple[float, ...], mean_m: float | None, n_cut: int = 0
) -> TextCase:
    name = str(number)
    item = TextItem(name, name, (f"input {name}",), ("a", "b"))
    values = {"mean_M/lexical-1": mean_m, "mean_H/lexical-1": 0.5, "w1_M/lexical-1": 0.1}
    texts = ("t",) * len(logprobs)
    return TextCase(item, texts, values, Texts(name, texts, logprobs, n_cut))


def cases(n: int = 40) -> list[TextCase]:
    rng = stream(5, "entropies")
    made = []
    for i in range(n):
        entropy = 10 + 5 * rng.normal()
        logprobs = tuple(float(v) for v in -entropy + rng.normal(size=8))
        made.append(case(i, logprobs, float(0.5 + 0.02 * entropy + 0.1 * rng.normal()), i % 2))
    return made


def test_summary_gives_mean_error_and_reliability() -> None:
    made = cases()
    (row,) = run(made, 0).tables[0].rows
    found = [entropy_of(c.written.logprobs) for c in made]
    values = np.array([e.value for e in found])
    noise = np.mean([e.error**2 for e in found if e.error is not None])
    assert row[0].startswith(f"{values.mean():.3f} [")
    assert row[1] == f"{math.sqrt(noise):.3f}"
    assert row[2] == f"{1 - noise / values.var(ddof=1):.3f}"
    assert row[3:] == ("40", "320", "20")
    assert any("20 of 320 texts were cut" in note for note in run(made, 0).tables[0].notes)


def test_correlations_match_scipy() -> None:
    made = [*cases(), case(99, (-3.0, -4.0), None)]
    study = run(made, 0)
    m, h = study.tables[1].rows
    x = [entropy_of(c.written.logprobs).value for c in made[:-1]]
    y = [c.values["mean_M/lexical-1"] for c in made[:-1]]
    assert m[:2] == ("lexical-1", "mean M")
    assert m[2].startswith(f"{pearsonr(x, y).statistic:.3f} [")
    assert m[3].startswith(f"{spearmanr(x, y).statistic:.3f} [")
    assert m[4] == "40"
    assert h[2] == "–"  # mean H is constant
    assert [picture.title for picture in study.figures["entropy"].pictures] == ["lexical-1"]


def test_interval_of_correlation_covers_the_truth() -> None:
    rho, hits = 0.6, 0
    for trial in range(100):
        rng = stream(1, "covered", trial)
        x, e = rng.normal(size=(2, 60))
        found = correlation(x, rho * x + math.sqrt(1 - rho**2) * e, [*map(str, range(60))], 0)
        assert found.interval is not None
        hits += found.interval.low <= rho <= found.interval.high
    assert hits >= 88


def test_single_texts_have_no_error_and_few_inputs_no_correlation() -> None:
    study = run([case(1, (-2.0,), 0.3), case(2, (-4.0,), 0.4)], 0)
    (row,) = study.tables[0].rows
    assert row[0].startswith("3.000")
    assert row[1:3] == ("–", "–")
    assert [r[2] for r in study.tables[1].rows] == ["–", "–"]


def test_texts_without_log_probabilities_are_refused() -> None:
    with pytest.raises(UsageError, match="--entropy"):
        run([case(1, (), 0.3)], 0)


def test_saved_texts_keep_log_probabilities() -> None:
    plain, scored = Texts("", ("a", "b")), Texts("", ("a", "ü"), (-1.5, -2.0), 1)
    assert dump_texts(plain) == '["a","b"]'
    for texts in (plain, scored):
        assert load_written(dump_texts(texts)) == texts
    assert scored.and_more(scored) == Texts("", ("a", "ü") * 2, (-1.5, -2.0) * 2, 2)
    assert scored.and_more(plain).logprobs == ()


@pytest.mark.parametrize(
    "payload",
    [
        '{"texts":["a"],"logprobs":[-1,-2],"cut":0}',
        '{"texts":["a"],"logprobs":["x"],"cut":0}',
        '{"texts":["a"],"logprobs":[-Infinity],"cut":0}',
        '{"texts":["a"],"logprobs":[-1],"cut":2}',
        '{"texts":[1],"logprobs":[-1],"cut":0}',
        "{}",
    ],
)
def test_damaged_log_probabilities_are_refused(payload: str) -> None:
    with pytest.raises(DamagedRowError):
        load_written(payload)


def test_entropy_of_a_live_model_from_the_command_line(cli: Callable, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from forced_lms import saved

    people = tmp_path / "people.jsonl"
    rows = [
        {"id": i, "input": f"A dog {w}", "references": ["a b", "a", "b c"]}
        for i, w in enumerate(("runs", "waved", "kept", "left"))
    ]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model, out = f"hf:{saved('gpt2', tmp_path)}", tmp_path / "run"
    argv = ("text", "--corpus", people, "--probe", "lexical-1", "--tokeniser", "whitespace")
    asked = ("--samples", "4", "--max-new-tokens", "5", "--device", "cpu", "--out", out)
    decoders = ("--decoder", "ancestral", "--decoder", "temperature=0.5", "--decoder", "top_k=3")
    ran = cli(*argv, "--model", model, *decoders, *asked, "--entropy")
    assert ran.status == 0, ran.err
    assert "top_k=3 is not known" in " ".join(ran.err.split())
    ran = cli("score", out, "--analysis", "entropy", "--system", "gpt2 ancestral")
    assert ran.status == 0, ran.err
    assert "Entropy of texts in nats" in ran.out
    with Store.open(out) as store:
        (row,) = run_study(store, "entropy", "gpt2 ancestral").tables[0].rows
        known = [p.with_log_probs for p in StoredTexts(store).walk()]
        own = [entropy_of(texts["gpt2 ancestral"].logprobs).value for texts in known]
        assert {*known[0]} == {"gpt2 ancestral", "gpt2 temperature=0.5"}
        assert row[0].startswith(f"{np.mean(own):.3f}")
    ran = cli("score", out, "--analysis", "entropy", "--system", "gpt2 top_k=3")
    assert ran.status == 2
    assert "needs log-probabilities of texts" in ran.err
    ran = cli(*argv, "--model", f"recorded:{people}", "--entropy")
    assert ran.status == 2
    assert "--entropy needs a model" in ran.err
