"""Fine-tuning on a fold: trained parameters, masking, stopping, and resuming."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from marks import sampled
from tuned_lms import population, words_lm

from aleatoric.errors import DataError, ModelError, UsageError
from aleatoric.nextword.vocabulary import Vocabulary
from aleatoric.tuning.losses import WordTree, mean_nll, text_losses, text_rows, word_tree
from aleatoric.tuning.recipe import (
    FinetuneJob,
    Fold,
    FoldPassage,
    assign,
    make_folds,
    passages_of,
)
from aleatoric.tuning.training import (
    CHECKPOINT,
    TRAINED,
    Trained,
    Tunable,
    load_tensors,
    make_tunable,
    save_tensors,
    train_fold,
)
from aleatoric.types import Item

QUICK = FinetuneJob("people", losses=("mixed",), train="all", rate=1e-2, batch=2, epochs=2)


@cache
def fold() -> Fold:
    passages = passages_of(population(passages=7, length=4))
    return make_folds(passages, assign([p.group for p in passages], "paper", 3, 1, 0))[0]


@cache
def trees() -> dict[str, WordTree]:
    lm = words_lm(dropout=0.1)
    vocabulary = Vocabulary(lm.pieces)
    sides = (*fold().train, *fold().validation)
    return {p.group: word_tree(lm, p.items, vocabulary) for p in sides}


def model(train: str = "all") -> Tunable:
    return make_tunable(words_lm(dropout=0.1), train)


def trained(folder: Path, job: FinetuneJob = QUICK, **options: Any) -> Trained:
    return train_fold(model(job.train), fold(), job, trees(), folder, **options)


def test_padding_does_not_affect_loss() -> None:
    lm = words_lm()
    rows = [(1, 2, 3, 4, 5, 6), (7, 8), (9, 1, 2)]
    with torch.no_grad():
        alone = [float(sum(text_losses(lm.model, [row], 1))) * (len(row) - 1) for row in rows]
        together, in_parts = (float(sum(text_losses(lm.model, rows, n))) for n in (3, 2))
    assert together == pytest.approx(sum(alone) / 8, rel=1e-5)
    assert in_parts == pytest.approx(together, rel=1e-5)
    assert mean_nll(lm.model, rows, batch=1) == pytest.approx(together, rel=1e-5)


def test_only_last_blocks_are_trained(tmp_path: Path) -> None:
    own = model("last-1-block")
    before = {name: value.clone() for name, value in own.lm.model.state_dict().items()}
    train_fold(own, fold(), replace(QUICK, train="last-1-block"), trees(), tmp_path)
    after = own.lm.model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(".h.1." in name for name in changed)
    own.reset()
    assert all(torch.equal(before[name], own.lm.model.state_dict()[name]) for name in before)


def test_lora_starts_as_base_model_and_trains_only_adapters(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    plain, own = words_lm(), make_tunable(words_lm(), "lora", rank=2)
    ids = torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        assert torch.allclose(plain.model(ids).logits, own.lm.model(ids).logits, atol=1e-6)
    assert own.parameters
    assert all("lora" in name for name in own.parameters)
    found = train_fold(own, fold(), replace(QUICK, train="lora"), trees(), tmp_path)
    assert found.history[-1].validation_loss < found.history[0].validation_loss


def test_weights_are_determined_by_seed(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        trained(tmp_path / name, replace(QUICK, seed=seed))
    a, b, c = (load_tensors(tmp_path / name / TRAINED) for name in "abc")
    assert (tmp_path / "a" / TRAINED).read_bytes() == (tmp_path / "b" / TRAINED).read_bytes()
    assert any(not torch.equal(a.tensors[name], c.tensors[name]) for name in b.tensors)


class StopHereError(Exception):
    """Simulates anything that ends a process."""


@pytest.mark.parametrize("stop_at", sampled([1, 2, 3], [2]))
def test_resume_at_any_step_gives_same_weights(tmp_path: Path, stop_at: int) -> None:
    def stopping(work: Any, total: int, description: str) -> Any:
        for number, step in enumerate(work):
            if number == stop_at:
                raise StopHereError
            yield step

    patient = replace(QUICK, patience=5)
    whole = trained(tmp_path / "whole", patient)
    with pytest.raises(StopHereError):
        trained(tmp_path / "parts", replace(patient, save_every=1), track=stopping)
    assert (tmp_path / "parts" / CHECKPOINT).exists()
    resumed = trained(tmp_path / "parts", patient)
    assert resumed.history == whole.history
    names = [tmp_path / name / TRAINED for name in ("whole", "parts")]
    assert names[0].read_bytes() == names[1].read_bytes()
    assert not (tmp_path / "parts" / CHECKPOINT).exists()


def test_finished_training_is_not_repeated(tmp_path: Path) -> None:
    first = trained(tmp_path)
    written = (tmp_path / TRAINED).stat().st_mtime_ns
    again = trained(tmp_path)
    assert (tmp_path / TRAINED).stat().st_mtime_ns == written
    assert again.history == first.history


def test_early_stopping_keeps_weights_with_lowest_validation_loss(tmp_path: Path) -> None:
    wild = replace(QUICK, rate=0.5, epochs=6, patience=1)
    found = trained(tmp_path, wild)
    losses = [epoch.validation_loss for epoch in found.history]
    assert len(losses) < 7
    assert found.kept == losses.index(min(losses))
    own = model()
    own.load(found.weights)
    again = train_fold(own, fold(), wild, trees(), tmp_path)
    assert again.kept == found.kept


def test_different_training_in_same_directory_is_rejected(tmp_path: Path) -> None:
    trained(tmp_path)
    with pytest.raises(UsageError, match="is of another training \\(its recipe differs\\)"):
        trained(tmp_path, replace(QUICK, rate=1e-3))


def test_weights_of_another_base_with_same_trained_shape_are_rejected(
    tmp_path: Path,
) -> None:
    job = replace(QUICK, losses=("text",), train="last-1-block", epochs=1)
    train_fold(model(job.train), fold(), job, {}, tmp_path)
    changed = model(job.train)
    frozen = next(own for own in changed.lm.model.parameters() if not own.requires_grad)
    frozen.data[0, 0] += 1e-3
    with pytest.raises(UsageError, match="was trained from another base model"):
        train_fold(changed, fold(), job, {}, tmp_path)


def test_nan_loss_stops_training_and_is_located(tmp_path: Path) -> None:
    wild = replace(QUICK, losses=("text",), rate=1e30)
    for _ in range(2):  # what is saved is whole: going on tells the same
        with pytest.raises(UsageError) as told:
            trained(tmp_path, replace(wild, save_every=1))
        assert str(told.value) == (
            "text, fold 1, epoch 1, step 2: the training loss is nan; begin another run with "
            "--rate below 1e+30, --clip-norm 1 or --warmup."
        )
    assert load_tensors(tmp_path / CHECKPOINT).facts["state"]["steps"] == 1
    assert not (tmp_path / TRAINED).exists()


def test_nan_loss_at_end_of_epoch_is_reported(tmp_path: Path) -> None:
    wild = replace(QUICK, losses=("text",), rate=1e30, batch=9)
    with pytest.raises(UsageError, match=r"epoch 1, step 1: the loss of the training texts is nan"):
        trained(tmp_path, wild)


def test_out_of_memory_in_training_raises_one_line_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    own = model()
    monkeypatch.setattr(own.lm.model, "forward", full)
    with pytest.raises(ModelError, match="mixed, fold 1: out of memory; begin another run with"):
        train_fold(own, fold(), QUICK, trees(), tmp_path)


def test_texts_that_are_prefixes_of_others_are_not_trained_on() -> None:
    contexts = {"alder birch cedar": "elder", "alder birch": "cedar", "hazel larch": "maple"}
    contexts |= {"rowan": ""}
    items = [Item(c, "1", c, ("olive",), original) for c, original in contexts.items()]
    lm = words_lm()
    rows = text_rows(lm, FoldPassage("1", tuple(items)))
    assert rows == [lm.encode("alder birch cedar elder"), lm.encode("hazel larch maple")]


def test_corrupt_checkpoint_raises_one_line_error(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"\x80\x04pickle")
    with pytest.raises(DataError, match=r"checkpoint\.safetensors: is damaged"):
        trained(tmp_path)


def test_partial_file_never_replaces_complete_one(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_tensors(path, {"a": torch.ones(2)}, {"n": 1})
    (tmp_path / "w.safetensors.part").write_bytes(b"half")
    assert load_tensors(path).facts == {"n": 1}
    assert load_tensors(path).tensors["a"].tolist() == [1.0, 1.0]


def test_full_disk_is_reported_and_leaves_no_partial_weights(tmp_path: Path) -> None:
    """A real write(2) failure, in a process with a file size limit."""
    program = (
        "import resource, signal, sys, torch; from pathlib import Path\n"
        "from aleatoric.tuning.exporting import _new_folder\n"
        "from aleatoric.tuning.training import save_tensors\n"
        "from safetensors.torch import save_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, resource.RLIM_INFINITY))\n"
        "place, weights = Path(sys.argv[1]), {'a': torch.ones(9_000)}\n"
        "def exported():\n"
        "    with _new_folder(place / 'out') as folder: save_file(weights, folder / 'w')\n"
        "for write in (lambda: save_tensors(place / 'w', weights), exported):\n"
        "    try: write()\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    message = "the disk is full; make room and repeat the command."
    assert done.stdout.splitlines() == [
        f"StorageError {tmp_path / name}: {message}" for name in ("w", "out")
    ]
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "wrong",
    [
        {"losses": ("both",)},
        {"schedule": "step"},
        {"mix": 1.5},
        {"rate": 0.0},
        {"rate": float("nan")},
        {"rate": 1e38},
        {"train": "last-0-blocks"},
        {"train": "head"},
        {"batch": 0},
        {"batch": 2.5},
        {"epochs": 0},
        {"patience": 0},
        {"patience": -2},
        {"patience": 1.5},
        {"weight_decay": -0.01},
        {"weight_decay": float("inf")},
        {"clip_norm": -1.0},
        {"epsilon": -1e-8},
        {"warmup": -1},
        {"lora_rank": 0},
        {"tolerance": -0.1},
    ],
)
def test_invalid_recipes_are_rejected(wrong: dict[str, Any]) -> None:
    message = f"{next(iter(wrong)).replace('losses', 'loss').replace('_', '-')} "
    with pytest.raises(UsageError, match=message):
        FinetuneJob("people", **wrong)


def test_warmup_as_long_as_the_training_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--warmup 4 does not end within the 4 steps.*0 to 3"):
        trained(tmp_path, replace(QUICK, warmup=4))


def test_more_blocks_than_the_model_has_are_rejected() -> None:
    with pytest.raises(UsageError, match="the model has 2"):
        make_tunable(words_lm(), "last-3-blocks")
