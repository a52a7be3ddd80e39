"""`aleatoric token` and the commands that read its runs, with tiny models on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from forced_lms import saved, tiny
from token_rows import token_rows

from aleatoric.levels import token
from aleatoric.metrics.calibration import bin_index, bin_sums, ece_of, equal_width_edges
from aleatoric.models import gguf
from aleatoric.reporting.tokens import reliability
from aleatoric.runs.run import Store

DOCUMENTS = [
    "The ferry left at seven and nobody waved. Bread is made of flour, water, salt and time.",
    "When the lights went out the old man kept reading.",
    "A dog runs, and then another dog runs, and nobody waved at seven.",
]
SOURCES = ["Ein Hund läuft.", "Zwei Hunde laufen im Regen.", "Brot."]
TARGETS = ["A dog runs.", "Two dogs run in the rain.", "Bread is made of flour."]
NAMES = ("ece", "mce", "sce", "ace", "e_ece", "e_ece_p", "e_ece_k", "brier", "nll")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for kind in ("gpt2", "marian"):
        saved(kind, folder)
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text("\n\n".join(DOCUMENTS) + "\n")
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    source, target = tmp_path / "few.de", tmp_path / "few.en"
    source.write_text("".join(f"{line}\n" for line in SOURCES))
    target.write_text("".join(f"{line}\n" for line in TARGETS))
    return f"parallel:{source},{target}"


def asked(corpus: object, model: object, *more: object) -> tuple[object, ...]:
    return ("token", "--corpus", corpus, "--model", f"hf:{model}", *more)


@pytest.mark.parametrize("part", [("--limit", 2), ("--groups", "1-3"), ("--sample", 2)])
def test_part_of_documents(cli: Callable, models: Path, text: Path, part: tuple[str, Any]) -> None:
    out = text.parent / "run"
    ran = cli(*asked(text, models / "gpt2", *part, "--out", out, "--json"))
    document = json.loads(ran.out)
    assert "a part only: 2 of the 3 items of the corpus" in document["notes"][0]
    seed = ",seed=0" if part[0] == "--sample" else ""
    expected = f"story[{part[0][2:]}={part[1]}{seed}]#"
    assert all(expected in result["signature"] for result in document["results"])
    assert all(result["estimate"]["n_groups"] == 2 for result in document["results"])
    assert json.loads(cli("score", out, "--json").out)["notes"] == document["notes"]


def by_hand(texts: list[str]) -> dict[str, float]:
    """ECE, e-ECE and the log score of whole documents, one at a time."""
    model, tokenizer = tiny("gpt2")
    logits, targets = [], []
    for text in texts:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        with torch.inference_mode():
            logits.append(model(ids).logits[0, :-1])
        targets.append(ids[0, 1:])
    rows = token_rows(
        torch.cat(logits), torch.cat(targets), ["ancestral"], units="logits", engine="naive"
    )
    expected = rows.expected["ancestral"]
    return {
        "ece": ece(rows.confidence, rows.correct),
        "e_ece": ece(expected.confidence, expected.accuracy),
        "nll": float(rows.nll.mean()),
    }


def ece(confidence: np.ndarray, accuracy: np.ndarray) -> float:
    index = bin_index(confidence, equal_width_edges(15))
    return float(ece_of(bin_sums(confidence, accuracy, index, 15)))


def test_results_match_scoring_documents_one_by_one(
    cli: Callable, tmp_path: Path, models: Path
) -> None:
    texts = ["A dog runs.", "Bread is made of flour.", "nobody waved at seven"]
    path = tmp_path / "short.txt"
    path.write_text("\n\n".join(texts))
    ran = cli(*asked(path, models / "gpt2", "--json", "--classwise", "none"))
    for metric, value in by_hand(texts).items():
        found = ran.results["gpt2", metric]["estimate"]["value"]
        assert found == pytest.approx(value, abs=1e-5), metric


def test_token_command_json_output(cli: Callable, text: Path, models: Path) -> None:
    ran = cli(*asked(text, models / "gpt2", "--json", "--scheme", "temperature=0.5"))
    assert ran.status == 0, ran.err
    assert [metric for _, metric in ran.results][: len(NAMES)] == list(NAMES)
    found = ran.results["gpt2", "e_ece[temperature=0.5]"]
    assert "decoder:temperature=0.5|estimator:whole-space" in found["signature"]
    assert "window=24,stride=12,bos=none,eos=none" in found["signature"]
    one = ran.results["gpt2", "ece"]
    assert set(one["estimate"]["interval"]) == {"low", "high", "level", "method"}
    assert one["estimate"]["n_groups"] == 3
    assert 0 < one["perfect"]["low"] < 1
    assert "tokens/s" in ran.err


def test_sampled_schemes_do_not_depend_on_batch_size(
    cli: Callable, text: Path, models: Path
) -> None:
    more = ("--json", "--scheme", "ancestral,samples=1", "--classwise", "none")
    runs = [
        cli(*asked(text, models / "gpt2", *more, "--batch-tokens", size)) for size in (1, 20, 4096)
    ]
    values = [ran.results["gpt2", "ece[ancestral]"]["estimate"]["value"] for ran in runs]
    assert values == pytest.approx([values[0]] * 3, abs=1e-5)


def test_parallel_text_with_an_encoder_decoder(cli: Callable, pairs: str, models: Path) -> None:
    ran = cli(*asked(pairs, models / "marian", "--json"))
    assert ran.status == 0, ran.err
    found = ran.results["marian", "ece"]
    assert "eos=scored" in found["signature"]
    assert found["estimate"]["n_groups"] == 3
    _, tokenizer = tiny("marian")
    n_tokens = sum(len(tokenizer(text_target=t)["input_ids"]) for t in TARGETS)
    assert found["estimate"]["n_items"] == n_tokens


def test_finished_run_is_shown_without_the_model(
    cli: Callable, text: Path, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    first = cli(*asked(text, models / "gpt2", "--json", "--out", run))

    def absent(*_: object) -> Any:
        raise AssertionError("the model is not needed")

    monkeypatch.setattr(token, "open_forced", absent)
    assert cli(*asked(text, models / "gpt2", "--json", "--out", run)).out == first.out
    assert cli("score", run, "--json").out == first.out
    other = cli(*asked(text, models / "gpt2", "--bins", 10, "--out", run))
    assert other.status == 2
    assert "its --bins differs" in other.err


def test_interrupted_run_resumes_after_last_saved_part(
    cli: Callable, text: Path, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ("--json", "--batch-tokens", 2, "--keep-rows", "--scheme", "ancestral,samples=2")
    whole = cli(*asked(text, models / "gpt2", *more, "--out", tmp_path / "whole"))
    chunks, seen = token.chunks, []

    def stopped(*arguments: Any) -> Any:
        if seen:
            raise KeyboardInterrupt
        seen.append(1)
        return chunks(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(token, "chunks", stopped)
        assert cli(*asked(text, models / "gpt2", *more, "--out", tmp_path / "part")).status != 0
    half = cli("score", tmp_path / "part", "--json")
    assert "is not finished" in half.out
    again = cli(*asked(text, models / "gpt2", *more, "--out", tmp_path / "part"))
    assert again.out == whole.out
    rows = [read_rows(tmp_path / name) for name in ("whole", "part")]
    assert rows[0] == rows[1]


def read_rows(run: Path) -> list[dict[str, Any]]:
    files = sorted((run / "tokens" / "001").glob("*.parquet"))
    return [row for file in files for row in parquet.read_table(file).to_pylist()]


def test_saved_rows_reproduce_results(
    cli: Callable, text: Path, models: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    ran = cli(*asked(text, models / "gpt2", "--json", "--keep-rows", "--out", run))
    rows = read_rows(run)
    assert len(rows) == ran.results["gpt2", "ece"]["estimate"]["n_items"]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    for metric, pair in (
        ("ece", ("confidence", "correct")),
        ("e_ece_p", ("p[top_p=0.8]", "a[top_p=0.8]")),
    ):
        value = ran.results["gpt2", metric]["estimate"]["value"]
        assert ece(*(columns[name] for name in pair)) == pytest.approx(value, abs=1e-12)
    # Documents in their order, each from its second token on without a gap.
    for group in ("1", "3", "5"):
        own = columns["position"][columns["group"] == group]
        assert own.tolist() == list(range(1, len(own) + 1))


def test_studies_export_and_report_of_a_token_run(
    cli: Callable, models: Path, tmp_path: Path
) -> None:
    path, run = tmp_path / "many.txt", tmp_path / "run"
    path.write_text("".join(f"{DOCUMENTS[i % 3]} {i}\n" for i in range(12)))
    more = ("--documents", "lines", "--keep-rows", "--out", run)
    assert cli(*asked(path, models / "gpt2", *more)).status == 0
    for name in ("intrinsic", "stability", "frequency"):
        ran = cli("score", run, "--analysis", name, "--json")
        assert ran.status == 0, ran.err
        assert json.loads(ran.out)["tables"][0]["rows"]
    assert cli("score", run, "--export", tmp_path / "rows.parquet").status == 0
    exported = parquet.read_table(tmp_path / "rows.parquet")
    assert set(exported["system"].to_pylist()) == {"gpt2"}
    assert exported.num_rows == len(read_rows(run))
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    assert cli("report", run, "--html", page, "--figures", figures).status == 0
    assert "Reference tokens: many" in page.read_text()
    assert "Contexts least like people" not in page.read_text()
    names = {file.name for file in figures.iterdir()}
    assert {"reliability.pdf", "tab3_quartiles.png", "tab4_stability.pdf"} <= names
    assert "tab4_stability_documents.pdf" in names


def test_reliability_diagrams_are_drawn_from_sums(
    cli: Callable, text: Path, models: Path, tmp_path: Path
) -> None:
    ran = cli(*asked(text, models / "gpt2", "--out", tmp_path / "run", "--json"))
    with Store.open(tmp_path / "run") as store:
        panels = reliability(store, "gpt2")
    assert [own.title.split(" ")[0] for own in panels.pictures] == [
        *("ece", "e_ece", "e_ece_p", "e_ece_k")
    ]
    plain = panels.pictures[0]
    counts, confidence, accuracy = map(np.array, (plain.counts, plain.confidence, plain.accuracy))
    found = ran.results["gpt2", "ece"]["estimate"]
    assert counts.sum() == found["n_items"]
    gaps = np.nansum(counts * np.abs(confidence - accuracy)) / counts.sum()
    assert gaps == pytest.approx(found["value"])
    filled = counts > 0
    assert (np.array(plain.low)[filled] <= confidence[filled]).all()
    assert (confidence[filled] <= np.array(plain.high)[filled]).all()


def test_intrinsic_study_uses_entropy_of_second_model(
    cli: Callable, text: Path, models: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.symlink_to(models / "gpt2")
    run = tmp_path / "run"
    argv = (*asked(text, models / "gpt2"), "--model", f"hf:{other}", "--keep-rows", "--out", run)
    assert cli(*argv).status == 0
    ran = cli("score", run, "--analysis", "intrinsic", "--system", "gpt2", "--json")
    assert "of other" in json.loads(ran.out)["tables"][0]["notes"][0]


def test_study_without_rows_names_the_fix(
    cli: Callable, text: Path, models: Path, tmp_path: Path
) -> None:
    cli(*asked(text, models / "gpt2", "--out", tmp_path / "run", "--classwise", "none"))
    ran = cli("score", tmp_path / "run", "--analysis", "intrinsic")
    assert ran.status == 2
    assert "--keep-rows" in ran.err


@pytest.mark.skipif(not gguf.smollm2_is_cached(), reason="the embedded model is not cached")
def test_embedded_model_on_english_text(cli: Callable, text: Path) -> None:
    ran = cli("token", "--corpus", text, "--model", "smollm2", "--json")
    assert ran.status == 0, ran.err
    # Plain English: far better than chance over 49,152 tokens (10.8 nats).
    assert 2 < ran.results["smollm2", "nll"]["estimate"]["value"] < 6
    # Nearly every class is near 0 at every token: Nixon's mean over classes is tiny.
    assert 0 < ran.results["smollm2", "sce"]["estimate"]["value"] < 1e-3
