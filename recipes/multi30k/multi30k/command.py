"""The reproduction of e-ECE on Multi30K DE→EN, from parallel text to per-token rows.

`python -m multi30k --data DIR --out DIR` trains the translation model and the
conditional language model of intrinsic uncertainty (the same recipe, another seed), and scores the
test set. `requirements.txt` lists the packages that it needs.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.data import documents
from aleatoric.errors import AleatoricError, MissingExtraError, UsageError
from aleatoric.studies.e_ece_paper import SCHEMES
from aleatoric.types import ParallelText
from multi30k.checkpoint import save_vocabulary
from multi30k.data import TranslationData, prepare
from multi30k.rows import write_rows
from multi30k.subwords import UNK

if TYPE_CHECKING:
    from multi30k.model import Shape
    from multi30k.training import Epoch, Kept, Recipe

_SPLITS = {"train": "train", "validation": "val", "test": "test2016"}
_ROLES = ("translation", "uncertainty")
_PACKAGES = ("aleatoric", "torch", "sacremoses", "subword-nmt", "safetensors", "numpy")


@dataclass(frozen=True)
class Settings:
    """What a run is asked for; `recipe.seed` is the translation model's, the other has the next."""

    data: Path
    out: Path
    checkpoints: Path
    recipe: Recipe
    jobs: int = 1
    shape: Shape | None = None
    merges: int = 10_000


@dataclass(frozen=True)
class _Task:
    """One model to train, as it travels to a process of its own."""

    role: str
    data: TranslationData
    recipe: Recipe
    checkpoints: Path
    shape: Shape | None


@dataclass(frozen=True)
class _Outcome:
    """What is known of a trained model beside its weights."""

    history: tuple[Epoch, ...]
    epochs: dict[Kept, int] = field(default_factory=dict)


def main() -> None:
    """Run the recipe as the command line asks."""
    try:
        run(_settings(sys.argv[1:]))
    except AleatoricError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.status)


def run(settings: Settings) -> dict[str, Any]:
    """Train both models, write rows and facts to `settings.out`, and give the facts."""
    started = time.monotonic()
    texts = {split: _text(settings.data, name) for split, name in _SPLITS.items()}
    train, validation, test = (text.items for text in texts.values())
    data = prepare(train, validation, test, merges=settings.merges)
    _say(f"data: {data.sizes()}")
    save_vocabulary(settings.checkpoints, data, settings.shape)
    outcomes = _train_all(settings, data)
    scores = {kept: _score(settings, data, kept) for kept in outcomes["translation"].epochs}
    facts = {
        "data_sha256": {split: text.sha256 for split, text in texts.items()},
        "sizes": data.sizes(),
        "test_unknown_targets": sum(one.target.count(UNK) for one in data.test),
        "recipe": asdict(settings.recipe),
        "uncertainty_seed": settings.recipe.seed + 1,
        "schemes": SCHEMES,
        "models": {role: asdict(outcome) for role, outcome in outcomes.items()},
        "test": scores,
        "environment": _environment(settings.recipe.device),
        "seconds": time.monotonic() - started,
    }
    (settings.out / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    return facts


def _text(folder: Path, split: str) -> ParallelText:
    source, target = (folder / f"multi30k_{split}.{side}.gz" for side in ("de", "en"))
    return documents.load_parallel(source, target)


def _train_all(settings: Settings, data: TranslationData) -> dict[str, _Outcome]:
    tasks = [_task(settings, data, number) for number in range(len(_ROLES))]
    if settings.jobs == 1:
        return {task.role: _train(task) for task in tasks}
    # One small model leaves most of a GPU idle: two train beside each other.
    with ProcessPoolExecutor(settings.jobs, get_context("spawn")) as pool:
        return dict(zip(_ROLES, pool.map(_train, tasks), strict=True))


def _task(settings: Settings, data: TranslationData, number: int) -> _Task:
    recipe = replace(settings.recipe, seed=settings.recipe.seed + number)
    return _Task(_ROLES[number], data, recipe, settings.checkpoints, settings.shape)


def _train(task: _Task) -> _Outcome:
    from multi30k.training import save, train

    trained = train(task.data, task.recipe, task.shape, lambda epoch: _progress(task.role, epoch))
    for kept, weights in trained.weights.items():
        save(weights, _checkpoint(task.checkpoints, task.role, kept))
    return _Outcome(trained.history, trained.epochs)


def _checkpoint(folder: Path, role: str, kept: Kept) -> Path:
    return folder / f"{role}-{kept}.safetensors"


def _progress(role: str, epoch: Epoch) -> None:
    held_out = epoch.validation
    _say(
        f"{role} epoch {epoch.number} step {epoch.steps} {epoch.seconds:.0f}s "
        f"train {epoch.train_loss:.3f} val {held_out.loss:.3f} nll {held_out.nll:.3f} "
        f"acc {held_out.accuracy:.3f} conf {held_out.confidence:.3f} bleu {epoch.bleu:.2f}"
    )


def _score(settings: Settings, data: TranslationData, kept: Kept) -> dict[str, float]:
    """Rows of the test set by the two models' checkpoints of one kind, and how sound they are."""
    from multi30k.scoring import heads_of, rows_of
    from multi30k.training import load
    from multi30k.translate import bleu_of

    device = settings.recipe.device
    model, other = (
        load(_checkpoint(settings.checkpoints, role, kept), data, settings.shape).to(device)
        for role in _ROLES
    )
    rows = rows_of(model, other, data.test, settings.recipe.seed)
    write_rows(settings.out / f"rows-{kept}.npz", rows)
    write_rows(settings.out / f"heads-{kept}.npz", heads_of(model, data.test))
    bleu = bleu_of(model, data.test, data.target, device)
    means = {name: float(rows[name].mean()) for name in ("p_hat", "a_hat", "p_plain", "a_plain")}
    scores = {"rows": len(rows["token"]), "bleu": bleu, "nll": -float(rows["log_prob"].mean())}
    _say(f"test, checkpoint {kept}: {scores | means}")
    return scores | means


def _environment(device: str) -> dict[str, str]:
    import torch

    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()
    versions = {package: _version(package) for package in _PACKAGES}
    return {"device": name, "python": platform.python_version(), **versions}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "source"


def _settings(argv: Sequence[str]) -> Settings:
    asked = _parser().parse_args(argv)
    try:
        from multi30k.training import Recipe
    except ModuleNotFoundError:
        raise MissingExtraError("torch", "hf") from None
    recipe = Recipe(
        seed=asked.seed,
        epochs=asked.epochs,
        label_smoothing=asked.label_smoothing,
        precision=asked.precision or ("tf32" if asked.device.startswith("cuda") else "fp32"),
        device=asked.device,
        limit_minutes=asked.limit_minutes,
    )
    _check(recipe)
    checkpoints = asked.checkpoints or asked.out / "checkpoints"
    return Settings(asked.data, asked.out, checkpoints, recipe, asked.jobs)


def _check(recipe: Recipe) -> None:
    if recipe.epochs < 1 or recipe.seed < 0:
        raise UsageError("--epochs is a whole number from 1 up and --seed one from 0 up.")
    if not 0 <= recipe.label_smoothing < 1:
        raise UsageError("--label-smoothing is from 0 up and below 1.")
    if recipe.limit_minutes is not None and not recipe.limit_minutes > 0:
        raise UsageError("--limit-minutes is above 0.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m multi30k", description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder of multi30k_{train,val,test2016}.*.gz")
    add("--out", type=Path, required=True, help="folder for rows-*.npz, heads-*.npz, facts.json")
    add("--checkpoints", type=Path, help="folder for the weights; default OUT/checkpoints")
    add("--epochs", type=int, default=60)
    add("--seed", type=int, default=1)
    add("--device", default="cpu", help="cpu or cuda")
    add("--precision", choices=("fp32", "tf32", "bf16"), help="default tf32 on cuda, else fp32")
    add("--label-smoothing", type=float, default=0.1)
    add("--limit-minutes", type=float, help="stop training each model after a whole epoch in time")
    add("--jobs", type=int, choices=(1, 2), default=1, help="2 trains both models side by side")
    return parser


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
