"""`aleatoric finetune`, run through the command line: one run with all systems; no data leaks."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from tuned_lms import population, save_corpus, save_lm
from typer.testing import CliRunner

from aleatoric.cli import app
from aleatoric.errors import UsageError
from aleatoric.inference.two_samples import holm
from aleatoric.levels import word_results
from aleatoric.levels.base import Monitor, run_job
from aleatoric.reporting.finetune import systems_table
from aleatoric.reporting.page import Section, figure_data, render, write_tables
from aleatoric.reporting.parts import part_of
from aleatoric.runs.formats import DATABASE
from aleatoric.runs.run import Store
from aleatoric.runs.session import Stopped, Stopping
from aleatoric.studies.compare import compare
from aleatoric.tuning.exporting import export_weights, open_tunable
from aleatoric.tuning.finetuning import FinetuneJob
from aleatoric.tuning.training import Saved, check_identity, load_tensors


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finetune")
    save_lm(folder / "model", layers=1, width=16)
    save_corpus(folder / "people.jsonl", list(population(passages=9, length=5)))
    return folder


def options(made: Path, out: str, *more: str) -> list[str]:
    return [
        *("finetune", "--corpus", str(made / "people.jsonl"), "--model", f"hf:{made / 'model'}"),
        *("--train", "all", "--rate", "0.02", "--epochs", "3", "--batch", "2", "--folds", "2"),
        *("--temperatures", "0.7,1", "--device", "cpu", "--out", str(made / out), *more),
    ]


def run(arguments: list[str]) -> Any:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.fixture(scope="module")
def printed(made: Path) -> str:
    done = run(options(made, "run", "--loss", "text", "--loss", "human", "--json"))
    assert done.exit_code == 0
    return str(done.stdout)


def test_run_contains_base_temperature_and_every_loss(printed: str) -> None:
    found = json.loads(printed)
    values = {r["system"]: r["estimate"] for r in found["results"] if r["metric"] == "sq_distance"}
    base, *tuned = ("model", "model temperature", "model text-tuned", "model human-tuned")
    assert {"oracle", base, *tuned} == set(values)
    assert {own["n_items"] for own in values.values()} == {35}
    assert values["model human-tuned"]["value"] < values[base]["value"]
    squares = [c for c in found["comparisons"] if c["metric"] == "sq_distance"]
    pairs = {(c["first"], c["second"]): c["difference"] for c in squares}
    gap = values[base]["value"] - values["model human-tuned"]["value"]
    assert pairs[base, "model human-tuned"]["value"] == pytest.approx(gap)
    assert pairs[base, "model human-tuned"]["interval"]
    told = found["finetuning"]
    assert told[base]["fluency"]["tokens"] == told["model text-tuned"]["fluency"]["tokens"]
    assert len(told["model human-tuned"]["curves"]["1"]) == 4
    assert set(told["model temperature"]["temperatures"]) == {"1", "2"}


@pytest.mark.long
def test_repeated_command_does_not_retrain_and_can_export(made: Path, printed: str) -> None:
    weights = made / "run" / "training" / "human" / "fold-1" / "trained.safetensors"
    written = weights.stat().st_mtime_ns
    arguments = options(made, "run", "--loss", "text", "--loss", "human", "--format", "markdown")
    again = run([*arguments, "--export", str(made / "exported")])
    assert weights.stat().st_mtime_ns == written
    for shown in ("| model human-tuned |", "D² − base", "| model human-tuned | 3 | 2 |"):
        assert shown in again.stdout
    assert (made / "run" / "curves.csv").read_text().startswith("system,fold,epoch")
    assert sorted(str(p.relative_to(made / "exported")) for p in made.glob("exported/*/*")) == [
        f"{loss}/fold-{number}" for loss in ("human", "text") for number in (1, 2)
    ]
    assert run(["resume", *_saved(made), "--format", "markdown"]).stdout == again.stdout


def _saved(made: Path) -> list[str]:
    return [str(made / "run")]


def test_score_output_matches_finetune_output(made: Path, printed: str) -> None:
    assert run(["score", *_saved(made), "--json"]).stdout == printed


def test_p_values_are_adjusted_over_differences_from_base(made: Path, printed: str) -> None:
    every = json.loads(printed)["comparisons"]
    assert {c["metric"] for c in every} == {"sq_distance", "log_loss"}
    found = [c for c in every if c["metric"] == "sq_distance"]
    assert [(c["first"], c["second"]) for c in found] == [
        ("model", f"model {name}") for name in ("temperature", "text-tuned", "human-tuned")
    ]
    assert [c["p_holm"] for c in found] == holm([c["p"] for c in found])
    with Store.open(made / "run") as store:
        notes = " ".join(systems_table(store).notes)
    assert "adjusted over the 3 differences from the base, per metric" in notes


def test_report_has_differences_perplexities_curves_and_command(made: Path, printed: str) -> None:
    with Store.open(made / "run") as store:
        part = part_of([store])
        page = render([Section(part, figure_data(part, for_page=True))])
        files = {path.name for path in write_tables(part, made / "tables")}
    for shown in ("<h3>Fine-tuning</h3>", "<h3>Training curves</h3>", 'data-figure="training"'):
        assert shown in page
    assert {"table_fine-tuning.md", "table_training-curves.tex"} <= files
    again = re.search(r"aleatoric finetune --corpus .* --out run-again --json", page)
    assert again
    assert "--loss text --loss human --folds 2 --train all --rate 0.02" in again[0]


@pytest.mark.long
def test_unfinished_run_is_shown_with_available_results(made: Path, printed: str) -> None:
    path = made / "half"
    asked = Stopping()

    def stop_at_text(work: Any, total: int, description: str) -> Any:
        if description.startswith("text, fold 2"):
            asked.request()
        return work

    with Store.open(made / "run") as store:
        job = replace(
            FinetuneJob.from_manifest(store.manifest, {"device": "cpu"}),
            losses=("text",),
            n_splits=2,
        )
    with pytest.raises(Stopped):
        run_job(job, path, Monitor(stop_at_text, stopping=asked))
    shown = run(["score", str(path), "--format", "markdown"])
    assert shown.exit_code == 0
    assert "| model temperature |" in shown.stdout
    assert "text-tuned" not in shown.stdout
    resumed = run(["resume", str(path), "--device", "cpu", "--format", "markdown"])
    assert "| model text-tuned | 3 | 2 |" in resumed.stdout
    whole = (made / "run" / "curves.csv").read_text().splitlines()
    assert (path / "curves.csv").read_text().splitlines() == whole[:9]


@pytest.mark.long
def test_different_base_with_same_name_is_rejected(made: Path) -> None:
    path = made / "moved"
    shutil.copytree(made / "model", made / "base")
    arguments = [*options(made, "moved", "--rate", "1e30"), "--model", f"hf:{made / 'base'}"]
    with pytest.raises(UsageError, match=r"text, fold 1, epoch 1, step \d: the training loss is"):
        run(arguments)
    assert json.loads(run(["score", str(path), "--json"]).stdout)["results"]
    with pytest.raises(UsageError, match=r"holds another run \(its --rate differs\)"):
        run([*arguments, "--rate", "0.1"])
    save_lm(made / "base", layers=1, width=16, seed=1)
    with pytest.raises(
        UsageError, match=r"moved: holds another run .the files of --model hf:.* have changed since"
    ):
        run(arguments)


@pytest.mark.long
def test_passages_without_a_fold_are_noted(made: Path) -> None:
    split = made / "split.csv"
    split.write_text("group,fold\n1,1\n2,2\n3,validation\n", encoding="utf-8")
    more = ("--split", str(split), "--temperatures", "none", "--epochs", "1", "--tolerance", "0.1")
    done = run([*options(made, "few", *more), "--json"])
    note = "6 of 9 passages are named by no fold of the split and are left out: 4, 5, 6, 7, 8 and 1"
    assert any(note in own for own in json.loads(done.stdout)["notes"])
    with Store.open(made / "few") as store:
        assert store.manifest["tolerance"] == 0.1


@pytest.mark.long
def test_progress_bar_of_pooled_system_follows_its_items(made: Path, printed: str) -> None:
    taken: dict[str, list[int]] = {}

    def watching(work: Any, total: int, description: str) -> Any:
        for number, one in enumerate(work, 1):
            with Store.open(made / "watched") as beside:
                known = beside.systems()
                if description in known:
                    done = beside.n_items_with_draws(description)
                    taken.setdefault(description, []).append(number - done)
            yield one

    with Store.open(made / "run") as store:
        job = replace(
            FinetuneJob.from_manifest(store.manifest, {"device": "cpu"}), losses=("text",)
        )
    run_job(job, made / "watched", Monitor(watching)).close()
    # A pack is as many passages as have 48 contexts, and one item more is looked at.
    assert max(taken["model text-tuned"]) <= 21
    assert max(taken["model"]) <= 36


def test_exported_weights_give_the_same_logits_in_transformers(made: Path, printed: str) -> None:
    out = made / "given"
    assert len([*export_weights(made / "run", out, device="cpu")]) == 4
    base = AutoModelForCausalLM.from_pretrained(made / "model")
    weights = load_tensors(made / "run" / "training" / "human" / "fold-2" / "trained.safetensors")
    plain = _logits(base)
    base.load_state_dict(weights.tensors, strict=False)
    wanted = _logits(base)
    assert not torch.equal(wanted, plain)
    found = AutoModelForCausalLM.from_pretrained(out / "human" / "fold-2")
    assert torch.equal(_logits(found), wanted)
    assert AutoTokenizer.from_pretrained(out / "human" / "fold-2").encode(" alder")
    with pytest.raises(UsageError, match="fold-1: is there; choose another folder"):
        export_weights(made / "run", out, device="cpu")


@pytest.mark.long
def test_exported_lora_adapters_give_the_same_logits_in_peft(made: Path) -> None:
    peft = pytest.importorskip("peft")
    more = ("--train", "lora", "--lora-rank", "2", "--epochs", "1", "--temperatures", "none")
    run([*options(made, "lora"), *more])
    (folder, other) = export_weights(made / "lora", made / "adapters", device="cpu")
    assert folder == made / "adapters" / "text" / "fold-1"
    assert not list(other.glob("model*"))
    with Store.open(made / "lora") as store:
        own = open_tunable(FinetuneJob.from_manifest(store.manifest, {"device": "cpu"}))
    own.load(load_tensors(made / "lora/training/text/fold-1/trained.safetensors").tensors)
    wanted = _logits(own.lm.model)
    base = AutoModelForCausalLM.from_pretrained(made / "model")
    assert not torch.equal(wanted, _logits(base))
    assert torch.equal(_logits(peft.PeftModel.from_pretrained(base, folder)), wanted)
    assert torch.equal(_logits(peft.AutoPeftModelForCausalLM.from_pretrained(folder)), wanted)


def test_only_trained_weights_are_exported(made: Path, printed: str) -> None:
    shutil.copytree(made / "run", made / "torn")
    (made / "torn" / "training" / "text" / "fold-2" / "trained.safetensors").unlink()
    with pytest.raises(UsageError, match="fold 2 of text is not trained yet; continue with"):
        export_weights(made / "torn", made / "nowhere")
    assert not (made / "nowhere").exists()


def _logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(torch.tensor([[1, 2, 3, 4]])).logits


def curves(run_folder: Path) -> str:
    return (run_folder / "curves.csv").read_text()


@pytest.mark.parametrize(
    "hurt",
    [
        pytest.param("SELECT 1", marks=pytest.mark.long),
        "UPDATE draws SET row = 1 WHERE item = 9",
        pytest.param(
            "UPDATE meta SET value = 'lost' WHERE key = 'finetuning'", marks=pytest.mark.long
        ),
    ],
    ids=["nothing", "an answer", "the curves"],
)
def test_salvaged_run_keeps_curves_and_does_not_retrain(
    made: Path, printed: str, hurt: str, tmp_path: Path
) -> None:
    damaged, new = shutil.copytree(made / "run", tmp_path / "damaged"), tmp_path / "new"
    with closing(sqlite3.connect(damaged / DATABASE)) as database, database:
        database.execute(hurt)
    assert run(["resume", str(damaged), "--salvage", str(new)]).exit_code == 0
    weights = new / "training" / "human" / "fold-1" / "trained.safetensors"
    written = weights.stat().st_mtime_ns
    done = run(["resume", str(new), "--device", "cpu", "--json"])
    assert done.exit_code == 0
    assert weights.stat().st_mtime_ns == written
    assert curves(new) == curves(made / "run")
    with Store.open(made / "run") as whole, Store.open(new) as store:
        assert store.meta("finetuning") == whole.meta("finetuning")
        # A context asked for alone may have other last digits than among others.
        for name in whole.systems():
            assert store.n_items_with_draws(name) == whole.n_items_with_draws(name)


def test_manifest_keeps_save_interval_and_device(made: Path, printed: str) -> None:
    with Store.open(made / "run") as store:
        job = FinetuneJob.from_manifest(store.manifest | {"save_every": 3}, {})
        assert (job.save_every, job.loading.device) == (3, "cpu")
        assert store.manifest["save_every"] == 0


def test_weights_without_base_hash_are_accepted(
    made: Path,
) -> None:
    known = Saved({}, {"identity": {"model": "1"}})
    check_identity(made, known, {"model": "1", "base": "2"})
    with pytest.raises(UsageError, match="another base model"):
        check_identity(made, known, {"model": "2", "base": "2"})


def test_inapplicable_resume_options_are_rejected_for_finished_run(
    made: Path, printed: str
) -> None:
    folder = str(made / "run")
    with pytest.raises(UsageError, match="--batch-tokens is no option of aleatoric finetune"):
        run(["resume", folder, "--batch-tokens", "64"])
    with pytest.raises(UsageError, match="fine-tuning works in one process"):
        run(["resume", folder, "--engine", "ray"])


def test_data_leak_is_rejected_and_leaves_no_files(made: Path) -> None:
    rows = (made / "people.jsonl").read_text().splitlines()
    copied = [json.loads(row) for row in rows if json.loads(row)["group"] == "1"]
    for row in copied:
        row |= {"group": "copy", "id": f"copy {row['id']}"}
    leaky = made / "leaky.jsonl"
    leaky.write_text("\n".join([*rows, *map(json.dumps, copied)]), encoding="utf-8")
    arguments = [*options(made, "leaky-run", "--validation", "2"), "--corpus", str(leaky)]
    with pytest.raises(UsageError, match="leaks: passage"):
        run(arguments)
    assert not (made / "leaky-run").exists()


def test_unwritable_export_folder_is_reported_before_training(made: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "text" / "fold-2").mkdir(parents=True)
    (tmp_path / "file").write_text("mine")
    split = tmp_path / "split.csv"
    split.write_text("group,fold\n1,2\n2,7\n3,validation\n")
    for more, message in (
        (("--export", str(tmp_path / "out")), "fold-2: is there"),
        (("--export", str(tmp_path / "out"), "--split", str(split)), "fold-2: is there"),
        (("--export", str(tmp_path / "file" / "out")), "file: nothing can be written there"),
    ):
        with pytest.raises(UsageError, match=message):
            run(options(made, "not-begun", *more))
    assert not (made / "not-begun").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--loss", "people"), "there is no loss 'people'"),
        (("--train", "head"), "--train head is not known"),
        (("--temperatures", "0.5,x"), "numbers above 0"),
        (("--model", "recorded:x.jsonl"), "there is no model"),
        (("--validation", "100"), "--validation 100 does not fit 9 passages"),
        (("--warmup", "9"), "--warmup 9 does not end within the"),
    ],
)
def test_invalid_usage_is_reported_before_loading_a_model(
    made: Path, wrong: tuple[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run([*options(made, "wrong"), *wrong])
    assert not (made / "wrong").exists()


def test_run_with_too_wide_bounds_is_shown_without_differences(
    made: Path, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of = made / "wide"
    shutil.copytree(made / "run", run_of, ignore=shutil.ignore_patterns("results.json"))
    monkeypatch.setattr(word_results, "WIDE", -1)
    monkeypatch.setattr(word_results, "WIDEST_LOSS", -1)
    page = made / "wide.html"
    shown = run(["score", str(run_of)])
    assert shown.exit_code == run(["report", str(run_of), "--html", str(page)]).exit_code == 0
    assert run(["resume", str(run_of)]).exit_code == 0
    words = " ".join(shown.stdout.split())
    assert "model text-tuned" in words
    assert "− base" not in words
    assert "because the bounds are too wide; use a smaller --tolerance" in words
    assert "--estimator" not in shown.output
    assert json.loads(run(["score", str(run_of), "--json"]).stdout)["comparisons"] == []
    with Store.open(run_of) as store, pytest.raises(UsageError) as error:
        compare([store], metrics=["overlap"])
    assert "because the bounds are too wide; use a smaller --tolerance, or name" in str(error.value)
