"""`aleatoric finetune` from the command line: one run with all systems; leaks are refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tuned_lms import population, save_corpus, save_lm
from typer.testing import CliRunner

from aleatoric.cli import app
from aleatoric.errors import UsageError
from aleatoric.finetuning import job_of, run_finetune
from aleatoric.store import DATABASE, Store


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


def test_one_run_holds_base_temperature_and_every_loss(made: Path) -> None:
    done = run(options(made, "run", "--loss", "text", "--loss", "human", "--json"))
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    values = {r["system"]: r["estimate"] for r in found["results"] if r["metric"] == "tvd"}
    base, *tuned = ("model", "model temperature", "model text-tuned", "model human-tuned")
    assert {"oracle", base, *tuned} == set(values)
    assert {own["n_items"] for own in values.values()} == {35}
    assert values["model human-tuned"]["value"] < values[base]["value"]
    pairs = {(c["first"], c["second"]): c["difference"] for c in found["comparisons"]}
    gap = values[base]["value"] - values["model human-tuned"]["value"]
    assert pairs[base, "model human-tuned"]["value"] == pytest.approx(gap)
    assert pairs[base, "model human-tuned"]["interval"]
    told = found["finetuning"]
    assert told[base]["fluency"]["tokens"] == told["model text-tuned"]["fluency"]["tokens"]
    assert len(told["model human-tuned"]["curves"]["1"]) == 4
    assert set(told["model temperature"]["temperatures"]) == {"1", "2"}


def test_repeated_it_trains_nothing_again_and_prints_a_table(made: Path) -> None:
    weights = made / "run" / "training" / "human" / "fold-1" / "trained.safetensors"
    written = weights.stat().st_mtime_ns
    again = run(options(made, "run", "--loss", "text", "--loss", "human", "--format", "markdown"))
    assert weights.stat().st_mtime_ns == written
    assert "| model human-tuned |" in again.stdout
    assert (made / "run" / "curves.csv").read_text().startswith("system,fold,epoch")
    with Store.open(made / "run") as store:
        job = job_of(store.manifest, device="cpu")
    with run_finetune(job, made / "run", score=False) as store:
        assert store.manifest["command"] == "finetune"


def curves(run_folder: Path) -> str:
    return (run_folder / "curves.csv").read_text()


@pytest.mark.parametrize(
    "hurt",
    [
        "SELECT 1",
        "UPDATE draws SET row = 1 WHERE item = 9",
        "UPDATE meta SET value = 'lost' WHERE key = 'finetuning'",
    ],
    ids=["nothing", "an answer", "the curves"],
)
def test_a_salvaged_run_has_its_curves_and_trains_nothing_again(
    made: Path, hurt: str, tmp_path: Path
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


def test_a_run_knows_how_often_it_saves_and_where_it_runs(made: Path) -> None:
    with Store.open(made / "run") as store:
        job = job_of(store.manifest | {"save_every": 3})
        assert (job.save_every, job.loading.device) == (3, "cpu")
        assert store.manifest["save_every"] == 0


def test_what_cannot_be_said_anew_is_refused_though_the_run_is_done(made: Path) -> None:
    folder = str(made / "run")
    with pytest.raises(UsageError, match="--batch-tokens is for runs of the token level"):
        run(["resume", folder, "--batch-tokens", "64"])
    with pytest.raises(UsageError, match="fine-tuning works in one process"):
        run(["resume", folder, "--engine", "ray"])


def test_a_planted_leak_is_refused_and_leaves_nothing_behind(made: Path) -> None:
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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--loss", "people"), "there is no loss 'people'"),
        (("--train", "head"), "--train head is not known"),
        (("--temperatures", "0.5,x"), "numbers above 0"),
        (("--model", "recorded:x.jsonl"), "there is no model"),
    ],
)
def test_mistakes_are_told_before_any_model_is_loaded(
    made: Path, wrong: tuple[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        run([*options(made, "wrong"), *wrong])
    assert not (made / "wrong").exists()
