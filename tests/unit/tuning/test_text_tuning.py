# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
"""Fine-tuning of text generators: targets, losses, memorization, resuming, splits, saved models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from marks import sampled

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from forced_lms import saved, tiny
from tokenizers import decoders
from writers import items

from aleatoric.data.references import load
from aleatoric.errors import UsageError
from aleatoric.levels.base import Monitor, resume_run, run_job
from aleatoric.levels.text import TextJob, model_systems
from aleatoric.models.base import Writing
from aleatoric.models.generate_hf import text_model
from aleatoric.models.sampling import LiveWriter
from aleatoric.models.trained import RECORD, input_key, training_notes
from aleatoric.runs.run import Store, StoredTexts
from aleatoric.runs.tables import TRAINED_MODEL
from aleatoric.tuning.text_pairs import (
    TextObjective,
    TokenPairs,
    end_token,
    split_texts,
    token_pairs,
)
from aleatoric.tuning.text_tuning import FinetuneTextJob
from aleatoric.tuning.training import (
    CHECKPOINT,
    TRAINED,
    Trained,
    make_tunable,
    save_tensors,
    train,
)
from aleatoric.types import TextItem

KINDS = ["gpt2", "t5", "bart"]
ITEMS = [
    TextItem("1", "1", ("A dog",), ("runs.", " kept reading. ")),
    TextItem("2", "2", ("Bread is made of",), ("flour", "water, salt")),
    TextItem("3", "3", ("The ferry",), ("left at seven",)),
]
QUICK = FinetuneTextJob("people", ("hf:x",), rate=0.01, batch=2, epochs=2, weight_decay=0.01)


def writer(kind: str) -> LiveWriter:
    model, tokenizer = tiny(kind)
    tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
    return text_model(model, tokenizer, label=kind)


def pairs_of(made: LiveWriter, some: list[TextItem] = ITEMS, **options: Any) -> TokenPairs:
    longest = options.pop("longest", 100)
    return token_pairs(made.network, some, Writing(**options), longest)


@pytest.mark.parametrize("kind", KINDS)
def test_targets_follow_the_prompt_of_generation_and_end(kind: str) -> None:
    made, ask = writer(kind), {"template": "Say: {input}"}
    found = pairs_of(made, **ask)
    wanted = [(item, text) for item in ITEMS for text in item.references]
    assert len(found.pairs) == len(wanted) == 5
    for (prompt, target), (item, text) in zip(found.pairs, wanted, strict=True):
        assert prompt == made.network.encode(item.input, Writing(**ask))
        assert target[-1] == end_token(made.network)
        assert made.network.decode(target).strip() == text.strip()
        if kind == "gpt2":
            assert made.network.decode((*prompt, *target)) == f"Say: {item.input[0]} {text.strip()}"


@pytest.mark.parametrize(
    ("template", "wanted"), [("{input}\n", "A dog\nruns."), ("{input}</s>", "A dogruns.")]
)
def test_no_space_after_white_space_or_special_tokens(template: str, wanted: str) -> None:
    made = writer("gpt2")
    (prompt, target), *_ = pairs_of(made, template=template).pairs
    assert made.network.decode((*prompt, *target)) == wanted


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_cut_texts_have_no_end_and_full_windows_do_not_train(kind: str) -> None:
    made = writer(kind)
    found = pairs_of(made, longest=2)
    assert {len(target) for _, target in found.pairs} == {2}
    assert found.n_cut == 5
    assert all(end_token(made.network) not in target for _, target in found.pairs)
    if kind == "gpt2":
        long = TextItem("4", "4", ("salt " * 40,), ("a", "b"))
        assert pairs_of(made, [*ITEMS, long]).n_without_room == 1
    assert any("cut to 2 tokens" in note for note in found.notes(2))


def naive_loss(made: LiveWriter, pairs: TokenPairs) -> float:
    """One token at a time, each row by itself."""
    losses = []
    for prompt, target in pairs.pairs:
        for i, token in enumerate(target):
            logits = made.network.alone(prompt, target[:i])[0].double()
            losses.append(-float(logits.log_softmax(-1)[token]))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("kind", KINDS)
def test_loss_is_over_target_tokens_only(kind: str) -> None:
    made = writer(kind)
    pairs = pairs_of(made)
    objective = TextObjective(made.network, pairs, pairs)
    with torch.no_grad():
        loss = float(sum(objective.losses(None, range(objective.size))))
    assert loss == pytest.approx(naive_loss(made, pairs), rel=1e-4)
    measured = objective.measured(made.network.model)
    assert measured.validation_loss == pytest.approx(loss, rel=1e-5)
    assert measured.train_nll == pytest.approx(loss, rel=1e-5)


def trained(
    made: LiveWriter, folder: Path, job: FinetuneTextJob = QUICK, **options: Any
) -> Trained:
    pairs = pairs_of(made)
    validation = replace(pairs, pairs=pairs.pairs[:2])
    tunable = make_tunable(made.network, job.train, job.lora_rank, job.seed)
    objective = TextObjective(made.network, pairs, validation)
    return train(tunable, objective, job, folder, **options)


@pytest.mark.parametrize("kind", sampled(KINDS, ["gpt2"]))
def test_trained_model_reproduces_its_texts(kind: str, tmp_path: Path) -> None:
    made = writer(kind)
    if kind == "bart":  # with weights as large as these, its attention does not learn
        for weight in made.network.model.parameters():
            weight.data.mul_(0.2 if weight.dim() > 1 else 1.0)
    job = replace(QUICK, epochs=60, weight_decay=0.0)
    some = [replace(item, references=item.references[:1]) for item in ITEMS]
    pairs = pairs_of(made, some)
    tunable = make_tunable(made.network, "all")
    found = train(tunable, TextObjective(made.network, pairs, pairs), job, tmp_path)
    losses = [epoch.validation_loss for epoch in found.history]
    assert losses[-1] < 0.1 < losses[0]
    asked = Writing("greedy", 1, max_new_tokens=12)
    texts = {t.item_id: t.texts for t in made.write(items(*(i.input[0] for i in some)), asked)}
    assert [texts[str(n)] for n in range(3)] == [item.references for item in some]


class StopHereError(Exception):
    """Simulates anything that ends a process."""


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
@pytest.mark.parametrize("stop_at", [1, 4])
def test_resumed_training_gives_the_same_bytes(kind: str, stop_at: int, tmp_path: Path) -> None:
    def stopping(work: Any, total: int, description: str) -> Any:
        for number, step in enumerate(work):
            if number == stop_at:
                raise StopHereError
            yield step

    job = replace(QUICK, save_every=1, patience=1)
    with pytest.raises(StopHereError):
        trained(writer(kind), tmp_path / "resumed", job, track=stopping)
    assert (tmp_path / "resumed" / CHECKPOINT).exists()
    for name in ("resumed", "whole"):
        trained(writer(kind), tmp_path / name, job)
    one, other = ((tmp_path / name / TRAINED).read_bytes() for name in ("resumed", "whole"))
    assert one == other


def test_early_stopping_keeps_the_best_weights(tmp_path: Path) -> None:
    found = trained(writer("gpt2"), tmp_path, replace(QUICK, rate=0.5, epochs=9, patience=2))
    losses = [epoch.validation_loss for epoch in found.history]
    assert found.kept == losses.index(min(losses))
    assert len(losses) - 1 == found.kept + 2


@pytest.mark.parametrize(("kind", "block"), [("t5", "decoder.block.1"), ("gpt2", ".h.1.")])
def test_last_block_is_that_of_the_decoder(kind: str, block: str) -> None:
    tunable = make_tunable(writer(kind).network, "last-1-block")
    assert tunable.parameters
    assert all(block in name for name in tunable.parameters)


# Splits -------------------------------------------------------------------------------------


def corpus(folder: Path, name: str = "people", n: int = 20, first: int = 0) -> Path:
    """Write inputs in groups of two, each with three texts."""
    path, words = folder / f"{name}.jsonl", ("bread", "salt", "water", "time", "flour")
    with path.open("w") as file:
        for i in range(first, first + n):
            texts = [words[(i + j) % 5] for j in range(3)]
            row = {"id": f"i{i}", "group": f"g{i // 2}", "input": f"dog {i}", "references": texts}
            file.write(json.dumps(row) + "\n")
    return path


def test_split_is_by_group_and_seed(tmp_path: Path) -> None:
    people = load(corpus(tmp_path))
    split = split_texts(people, None, 0.2, 0.25, 0)
    assert split.held_out is not None
    sides = [{item.group for item in side} for side in (split.train, split.validation)]
    sides.append({*split.held_out})
    assert [len(side) for side in sides] == [6, 2, 2]
    assert len(set.union(*sides)) == 10
    again, other = (split_texts(people, None, 0.2, 0.25, seed) for seed in (0, 1))
    assert again.held_out == split.held_out != other.held_out


def test_inputs_with_the_same_words_never_train(tmp_path: Path) -> None:
    people, more = load(corpus(tmp_path)), tmp_path / "more.jsonl"
    rows = [{"input": f"DOG {i}!", "references": ["a", "b"]} for i in range(15, 25)]
    more.write_text("".join(json.dumps(row) + "\n" for row in rows))
    split = split_texts(people, load(more), 0.2, 0.2, 0)
    assert split.held_out is None
    assert split.n_repeated == 5
    assert {item.input for item in (*split.train, *split.validation)} == {
        (f"DOG {i}!",) for i in range(20, 25)
    }
    assert "5 inputs are left out of training" in " ".join(split.notes(20))
    with pytest.raises(UsageError, match="no input is left to train on"):
        split_texts(people, people, 0.2, 0.2, 0)


# Runs ---------------------------------------------------------------------------------------


def job(folder: Path, kind: str, **more: Any) -> FinetuneTextJob:
    model = folder / kind if (folder / kind).exists() else saved(kind, folder)
    options: dict[str, Any] = {
        "probes": ("lexical-1",),
        "tokeniser": "whitespace",
        "n_splits": 2,
        "samples": 4,
        "max_new_tokens": 5,
        "epochs": 2,
        "rate": 0.01,
        "device": "cpu",
        "template": "Say: {input}",
    }
    people = more.pop("people", None) or corpus(folder)
    return FinetuneTextJob(str(people), (f"hf:{model}",), **options | more)


def texts_of(store: Store, system: str) -> dict[str, tuple[str, ...]]:
    return {p.item.id: p.systems[system] for p in StoredTexts(store).walk()}


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_saved_model_writes_the_texts_of_the_run(kind: str, tmp_path: Path) -> None:
    asked = job(tmp_path, kind)
    with run_job(asked, tmp_path / "run") as store:
        assert model_systems(store) == [kind, f"{kind} tuned"]
        assert store.n_items == 4
        tuned, base = (texts_of(store, name) for name in (f"{kind} tuned", kind))
        assert tuned != base
        notes = " ".join(asked_notes(store))
        assert "2 validate, 4 are evaluated" in notes
        assert "warning" not in notes.replace("warning: lengths", "")
    spec = f"hf:{tmp_path / 'run' / TRAINED_MODEL}"
    shared = ("probes", "tokeniser", "n_splits", "samples", "max_new_tokens", "device")
    options = {name: getattr(asked, name) for name in shared}
    again = TextJob(asked.corpus, (spec,), template=asked.template, **options)
    with run_job(again, tmp_path / "again") as store:
        (name,) = model_systems(store)
        found = texts_of(store, name)
        assert {item_id: found[item_id] for item_id in tuned} == tuned
        notes = " ".join(asked_notes(store))
        assert "16 of 20 inputs were used to train this model" in notes


def asked_notes(store: Store) -> list[str]:
    return list(store.meta("notes") or ())


def test_model_evaluated_on_other_inputs_or_prompts_is_noted(tmp_path: Path) -> None:
    asked = job(tmp_path, "gpt2")
    run_job(asked, tmp_path / "run").close()
    spec, new = f"hf:{tmp_path / 'run' / TRAINED_MODEL}", items("another dog")
    record = json.loads((tmp_path / "run" / TRAINED_MODEL / RECORD).read_text())
    assert len(record["inputs"]) == 16
    assert record["template"] == "Say: {input}"
    assert [*training_notes(spec, Writing(template="Say: {input}"), new)] == []
    (note,) = training_notes(spec, Writing(), new)
    assert note.endswith("--template 'Say: {input}', and this run uses '{input}'")
    assert [*training_notes(f"hf:{tmp_path}", Writing(), new)] == []
    (tmp_path / "run" / TRAINED_MODEL / RECORD).write_text("[")
    assert [*training_notes(spec, Writing(), new)] == []


def test_interrupted_run_resumes_to_the_same_texts_and_model(tmp_path: Path) -> None:
    asked = job(tmp_path, "gpt2", save_every=1)

    def stop(work: Any, total: int, description: str) -> Any:
        for number, each in enumerate(work):
            if description == "texts" and number == 3:
                raise KeyboardInterrupt
            yield each

    with pytest.raises(KeyboardInterrupt):
        run_job(asked, tmp_path / "stopped", Monitor(stop))
    with resume_run(tmp_path / "stopped") as one, run_job(asked, tmp_path / "whole") as other:
        for name in model_systems(other):
            assert texts_of(one, name) == texts_of(other, name)
        files = sorted(path.name for path in (other.path / TRAINED_MODEL).iterdir())
        for name in files:
            parts = (store.path / TRAINED_MODEL / name for store in (one, other))
            first, second = (path.read_bytes() for path in parts)
            assert first == second, name
        assert {RECORD, "config.json", "model.safetensors", "tokenizer.json"} <= {*files}


def test_lora_is_merged_into_the_saved_model(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    asked = job(tmp_path, "gpt2", train="lora", lora_rank=2, epochs=4)
    with run_job(asked, tmp_path / "run") as store:
        tuned = texts_of(store, "gpt2 tuned")
        assert tuned != texts_of(store, "gpt2")
    again = TextJob(
        asked.corpus,
        (f"hf:{tmp_path / 'run' / TRAINED_MODEL}",),
        template=asked.template, samples=4, max_new_tokens=5, probes=("lexical-1",),
        tokeniser="whitespace", n_splits=2, device="cpu",
    )  # fmt: skip
    with run_job(again, tmp_path / "again") as store:
        found = texts_of(store, "model")
        same = [found[i][n] == text for i, texts in tuned.items() for n, text in enumerate(texts)]
        assert sum(same) >= 0.9 * len(same)  # sums of weights round in another order


def test_separate_training_corpus(tmp_path: Path) -> None:
    more = corpus(tmp_path, "more", 10, first=18)
    asked = job(tmp_path, "gpt2", training=str(more))
    with run_job(asked, tmp_path / "run") as store:
        assert store.n_items == 20
        assert any("2 inputs are left out of training" in note for note in asked_notes(store))
    more.write_text(more.read_text().replace("dog 27", "cat 27"))
    with pytest.raises(UsageError, match="its --training differs"):
        run_job(asked, tmp_path / "run")


def test_training_corpus_that_changed_while_stopped_is_refused(tmp_path: Path) -> None:
    more = corpus(tmp_path, "more", 10, first=18)

    def stop(work: Any, total: int, description: str) -> Any:
        if description == "texts":
            raise KeyboardInterrupt
        return work

    with pytest.raises(KeyboardInterrupt):
        run_job(job(tmp_path, "gpt2", training=str(more)), tmp_path / "run", Monitor(stop))
    more.write_text(more.read_text().replace("dog 27", "cat 27"))
    with pytest.raises(UsageError, match="is not what it was when the run began"):
        resume_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--model", "recorded:people.jsonl"), "give one model to train (smollm2, hf, gguf)"),
        (("--held-out", "1"), "--held-out 1.0 is no share"),
        (("--train", "some"), "--train some is not known"),
        (("--warmup", "99"), "--warmup 99 does not end within the 18 steps"),
        (("--training", "nothing.jsonl"), "nothing.jsonl"),
        (("--limit", "2"), "no input is left to train on"),
    ],
)
def test_bad_options_leave_no_files(
    cli: Callable, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    model = () if "--model" in options else ("--model", f"hf:{saved('gpt2', tmp_path)}")
    out = tmp_path / "run"
    ran = cli("finetune-text", "--corpus", corpus(tmp_path), *model, "--out", out, *options)
    assert ran.status == 2
    assert said in ran.err
    assert not out.exists()


def test_command_prints_losses_and_where_the_model_is(cli: Callable, tmp_path: Path) -> None:
    model, out = saved("t5", tmp_path), tmp_path / "run"
    asked = ("--epochs", "2", "--samples", "3", "--max-new-tokens", "4", "--device", "cpu")
    probe = ("--probe", "lexical-1", "--tokeniser", "whitespace", "--splits", "2")
    argv = ("--corpus", corpus(tmp_path), "--model", f"hf:{model}", "--out", out)
    ran = cli("finetune-text", *argv, *asked, *probe, "--json")
    assert ran.status == 0, ran.err
    curves = json.loads(ran.out)["finetuning"]["t5 tuned"]["curves"]["1"]
    assert [epoch["number"] for epoch in curves] == [0, 1, 2]
    assert f"--model hf:{out / TRAINED_MODEL}" in ran.err
    shown = cli("score", out)
    assert "Epoch kept: 2." in shown.out
    assert cli("score", out, "--json").out == ran.out


def test_key_of_an_input_is_of_its_words() -> None:
    assert input_key(("A dog, runs!",)) == input_key(("a DOG runs",))
    assert len({input_key(turns) for turns in (("a", "b"), ("a b",), ("?",), ("!",))}) == 4


@pytest.mark.long
def test_killed_training_resumes_to_the_same_model(tmp_path: Path) -> None:
    people, model = corpus(tmp_path), saved("t5", tmp_path)
    base = [sys.executable, "-m", "aleatoric", "finetune-text", "--corpus", str(people)]
    base += ["--model", f"hf:{model}", "--epochs", "8", "--save-every", "1", "--device", "cpu"]
    base += ["--samples", "2", "--max-new-tokens", "4", "--probe", "lexical-1"]
    base += ["--tokeniser", "whitespace", "--splits", "2"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    with subprocess.Popen([*base, "--out", str(killed)], env=environment, **quiet) as process:
        while process.poll() is None:
            if (killed / "training" / "texts" / CHECKPOINT).exists():
                process.kill()
            time.sleep(0.01)
    assert not (killed / "training" / "texts" / TRAINED).exists()
    for out in (killed, whole):
        subprocess.run([*base, "--out", str(out)], env=environment, check=True, **quiet)
    one, other = (run / TRAINED_MODEL / "model.safetensors" for run in (killed, whole))
    assert one.read_bytes() == other.read_bytes()


def test_damaged_checkpoint_of_other_texts_is_refused(tmp_path: Path) -> None:
    facts = {"identity": {"recipe": QUICK.recipe}}
    save_tensors(tmp_path / CHECKPOINT, {"weights/x": torch.zeros(1)}, facts)
    with pytest.raises(UsageError, match="another training"):
        trained(writer("gpt2"), tmp_path, replace(QUICK, rate=0.5))
