"""What `aleatoric finetune` was asked for: its folds, its manifest, and what readers must know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aleatoric.engine.opening import Loading
from aleatoric.errors import UsageError
from aleatoric.levels import FINETUNE
from aleatoric.models.checkpoints import contents_of
from aleatoric.sources import corpus_facts
from aleatoric.training.folds import (
    SPLITS,
    VALIDATION,
    Fold,
    assign,
    make_folds,
    passages_of,
    read_assignment,
)
from aleatoric.training.recipe import Recipe
from aleatoric.training.temperatures import GRID, check_temperatures
from aleatoric.types import Choices, Corpus, Item
from aleatoric.versions import versions

_PACKAGES = ("numpy", "scipy", "torch", "transformers")
_FEW = 5


@dataclass(frozen=True)
class FinetuneJob:
    """What `aleatoric finetune` was asked for."""

    corpus: str
    model: str
    losses: tuple[str, ...] = ("text",)
    recipe: Recipe = field(default_factory=Recipe)
    folds: int = 4
    split: str = "paper"
    validation: int | None = None
    temperatures: tuple[float, ...] = GRID
    loading: Loading = field(default_factory=Loading)
    tolerance: float = 0.02
    choices: Choices = field(default_factory=Choices)
    n_splits: int = 20
    encoding: str = "utf-8"
    save_every: int = 0

    def __post_init__(self) -> None:
        if not self.losses or self.save_every < 0:
            raise UsageError("name one loss or more, and save every 0, 1, ... steps.")
        for loss in self.losses:
            self.recipe_of(loss)
        check_temperatures(self.temperatures)

    def recipe_of(self, loss: str) -> Recipe:
        """The recipe with one of the losses."""
        return replace(self.recipe, loss=loss)


def folds_of(job: FinetuneJob, corpus: Corpus) -> list[Fold]:
    """The folds of a corpus by the job's split; a leak is refused."""
    passages = passages_of(corpus.items)
    if job.split in SPLITS:
        groups = [passage.group for passage in passages]
        chosen = assign(groups, job.split, job.folds, job.validation, job.recipe.seed)
        return make_folds(passages, chosen)
    by_hand = read_assignment(Path(job.split))
    unknown = sorted(by_hand.keys() - {passage.group for passage in passages})
    if unknown:
        raise UsageError(
            f"{job.split}: names the group {unknown[0]!r}, which {job.corpus} does not have; "
            "correct or remove its row."
        )
    return make_folds([p for p in passages if p.group in by_hand], by_hand)


def job_of(
    manifest: Mapping[str, Any], device: str | None = None, trust_remote_code: bool = False
) -> FinetuneJob:
    """What a run was asked for, so that it can go on; where it runs may be said anew."""
    where = device or manifest["device"]
    loading = Loading("exact", manifest["dtype"], where, manifest["bos"], trust_remote_code)
    return FinetuneJob(
        manifest["corpus"]["spec"],
        manifest["models"][0],
        tuple(manifest["losses"]),
        Recipe(**manifest["recipe"]),
        **manifest["folds"],
        temperatures=tuple(manifest["temperatures"]),
        loading=loading,
        tolerance=manifest["tolerance"],
        choices=Choices.saved(manifest["choices"]),
        n_splits=manifest["n_splits"],
        encoding=manifest["corpus"]["encoding"],
        save_every=manifest["save_every"],
    )


def check_steps(job: FinetuneJob, folds: Sequence[Fold]) -> None:
    """Refuse a warmup that outlasts the training of a fold."""
    for fold in folds:
        job.recipe.check_warmup(job.recipe.steps(len(fold.train)))


def evaluated(corpus: Corpus, folds: Sequence[Fold]) -> Iterator[Item]:
    """The items that some fold's model is tested on."""
    held_out = {passage.group for fold in folds for passage in fold.held_out}
    return (item for item in corpus.items if item.group in held_out)


def split_notes(corpus: Corpus, folds: Sequence[Fold]) -> Iterator[str]:
    """How the passages were parted, and which have no part in it."""
    tested = sum(len(fold.held_out) for fold in folds)
    yield (
        f"{tested} passages in {len(folds)} folds, each tested by a model trained on the other "
        f"folds; {len(folds[0].validation)} passages only validate and are no part of the results"
    )
    first = folds[0]
    used = {p.group for side in (first.train, first.validation, first.held_out) for p in side}
    left_out = [g for g in dict.fromkeys(item.group for item in corpus.items) if g not in used]
    if left_out:
        yield (
            f"{len(left_out)} of {len(used) + len(left_out)} passages are named by no fold of the "
            f"split and are left out: {_few(left_out)}"
        )


def _few(names: Sequence[str]) -> str:
    """A few names, and how many more there are.

    >>> _few(["a", "b"]), _few(list("abcdefg"))
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(f"{name:.40}" for name in names[:_FEW]) + more


def manifest_of(job: FinetuneJob, corpus: Corpus, folds: Sequence[Fold]) -> dict[str, Any]:
    """What makes a run this one (nothing of that may change as it goes on), and how it works."""
    where = {p.group: fold.number for fold in folds for p in fold.held_out}
    split = where | {p.group: VALIDATION for p in folds[0].validation}
    recipe = job.recipe.as_dict()
    del recipe["loss"]
    return {
        "level": "word",
        "command": FINETUNE,
        "corpus": corpus_facts(corpus, job.corpus, job.encoding),
        "models": [job.model],
        "contents": contents_of([job.model]),
        "losses": list(job.losses),
        "recipe": recipe,
        "folds": {"folds": job.folds, "split": job.split, "validation": job.validation},
        "split": split,
        "temperatures": list(job.temperatures),
        "decoders": ["ancestral"],
        "samples": 0,
        "until": None,
        "estimator": "exact",
        "tolerance": job.tolerance,
        "dtype": job.loading.dtype,
        "bos": job.loading.bos,
        "device": job.loading.device,
        "save_every": job.save_every,
        "choices": job.choices.as_dict(),
        "abstractions": [],
        "tagger": "textblob",
        "embedder": "minilm",
        "n_splits": job.n_splits,
        "seed": job.recipe.seed,
        "versions": versions(_PACKAGES),
    }
