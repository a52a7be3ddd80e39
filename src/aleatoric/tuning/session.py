"""What `aleatoric finetune` was asked for: its folds, its manifest, and what readers must know."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.data.opening import corpus_facts
from aleatoric.errors import UsageError
from aleatoric.levels.base import FINETUNE
from aleatoric.models.base import Ask, WordModel
from aleatoric.models.checkpoints import contents_of
from aleatoric.nextword.live import FoldedModel, by_fold
from aleatoric.registry import Track, versions
from aleatoric.runs import BASE_WEIGHTS, FINETUNING, TRAINING, Store
from aleatoric.runs.engine import Loading, open_model
from aleatoric.runs.session import Stopping
from aleatoric.tuning.losses import GRID, check_temperatures
from aleatoric.tuning.recipe import (
    SPLITS,
    VALIDATION,
    Fold,
    Passage,
    Recipe,
    assign,
    make_folds,
    passages_of,
    read_assignment,
)
from aleatoric.types import Choices, Corpus, Item

if TYPE_CHECKING:
    from aleatoric.nextword.live import LiveModel
    from aleatoric.nextword.vocabulary import Vocabulary
    from aleatoric.tuning.losses import WordTree
    from aleatoric.tuning.recipe import Tunable
    from aleatoric.tuning.training import Trained


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


@dataclass(frozen=True)
class Fluency:
    """How well a system predicts the held-out passages themselves: nats over so many tokens."""

    nll: float
    tokens: int


def open_tunable(job: FinetuneJob) -> Tunable:
    """The base model of a run, with the parameters that train."""
    return _tunable(_open_live(job), job.recipe)


def _open_live(job: FinetuneJob) -> LiveModel:
    from aleatoric.nextword.live import LiveModel

    opened = open_model(job.model, job.loading)
    assert isinstance(opened, LiveModel)  # check_specs let only live models pass
    return opened


def _tunable(live: LiveModel, recipe: Recipe) -> Tunable:
    from aleatoric.tuning.recipe import make_tunable

    return make_tunable(live.lm, recipe.train, recipe.lora_rank, recipe.seed)


def fold_folder(run: Path, loss: str, number: int) -> Path:
    """Where the weights of a loss's fold lie."""
    return run / TRAINING / loss / f"fold-{number}"


def _leave(fold: int) -> None:
    """The model stays as it is for every fold."""


class Session:
    """A run being worked on, with its model loaded once."""

    def __init__(
        self,
        store: Store,
        job: FinetuneJob,
        folds: Sequence[Fold],
        track: Track[Any],
        stopping: Stopping,
    ) -> None:
        self._store, self._job, self._folds = store, job, folds
        self._shown, self._stopping = track, stopping
        self._fold_of = {p.group: fold.number for fold in folds for p in fold.held_out}
        self._by_number = {fold.number: fold for fold in folds}
        self._facts: dict[str, Any] = store.meta(FINETUNING) or {}

    def _track(self, work: Iterable[Any], total: int, description: str) -> Iterable[Any]:
        """Work that is shown, and given up between its steps where a stop is asked for."""
        return self._stopping.checked(self._shown(work, total, description))

    @cached_property
    def _live(self) -> LiveModel:
        return _open_live(self._job)

    @cached_property
    def _tunable(self) -> Tunable:
        return _tunable(self._live, self._job.recipe)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return self._live.vocabulary(self._job.choices.lead)

    @cached_property
    def _trees(self) -> dict[str, WordTree]:
        """The word trees of all passages, found by the base model: each once for all folds."""
        from aleatoric.nextword.exact import Search
        from aleatoric.tuning.losses import word_tree

        self._tunable.reset()
        passages = [*self._passages()]
        search = Search(tolerance=self._job.recipe.tolerance)
        shown: Iterable[Passage] = self._track(passages, len(passages), "word trees")
        lm = self._live.lm
        return {
            p.group: word_tree(lm, p.items, self._vocabulary, search).to(lm.device) for p in shown
        }

    def _passages(self) -> Iterator[Passage]:
        yield from self._folds[0].validation
        for fold in self._folds:
            yield from fold.held_out

    def run(self) -> None:
        """The base, its best temperature, and every loss."""
        base = self._live.label
        if not all(self._store.meta(f"done {base} {loss}-tuned") for loss in self._job.losses):
            self._check_base()  # what cannot be trained is told before hours are spent
        self._draw(base, self._live, lambda: {"fluency": self._fluency(_leave)})
        self._draw_best_temperature(f"{base} temperature")
        for loss in self._job.losses:
            self._draw_tuned(f"{base} {loss}-tuned", loss)

    def _check_base(self) -> None:
        """Refuse to go on with another model than the run began with."""
        own = f"{self._tunable.digest} {self._tunable.base_digest}"
        known = self._store.meta(BASE_WEIGHTS)
        if known is None:
            self._store.set_meta(BASE_WEIGHTS, own)
        elif known != own:
            problem = f"was begun with other weights of {self._job.model}"
            raise UsageError(
                f"{self._store.path}: {problem}; use those again, or begin another run."
            )

    def _draw_best_temperature(self, name: str) -> None:
        if not self._job.temperatures or self._store.meta(f"done {name}"):
            return
        chosen, by_log_loss = self._temperatures()
        decoders = {number: f"temperature={value:g}" for number, value in chosen.items()}
        listed = ",".join(decoders[number] for number in sorted(decoders))
        model = self._folded(name, f"best of {len(self._job.temperatures)} on training", decoders)
        told = {"temperatures": chosen, "temperatures_by_log_loss": by_log_loss}
        self._draw(name, model, lambda: told | {"fluency": self._fluency(_leave, chosen)}, listed)

    def _temperatures(self) -> tuple[dict[int, float], dict[int, float]]:
        """The best temperature on each fold's training passages, by each of the two scores."""
        from aleatoric.tuning.losses import SCORES, best_temperature, scores

        self._tunable.reset()
        items = [item for _, item, _ in self._store.walk()]
        ask = Ask("ancestral", 0, self._job.recipe.seed, self._job.tolerance, self._job.choices)
        grid = self._job.temperatures
        shown: Iterable[float] = self._track(grid, len(grid), "temperatures")
        found = {value: scores(self._live, items, value, ask) for value in shown}
        means = {
            f"{value:g}": {name: _mean(own[name].values()) for name in SCORES}
            for value, own in found.items()
        }
        self._keep("grid", means)
        by_distance, by_log_loss = (
            {fold.number: best_temperature(fold, found, name) for fold in self._folds}
            for name in SCORES
        )
        return by_distance, by_log_loss

    def _draw_tuned(self, name: str, loss: str) -> None:
        if self._store.meta(f"done {name}"):
            return
        trained = {fold.number: self._train(fold, loss) for fold in self._folds}

        def ready(number: int) -> None:
            self._tunable.load(trained[number].weights)

        recipe = self._job.recipe_of(loss)
        version = f"{self._live.version},{loss},{recipe.train},{len(trained)} folds"
        model = self._folded(name, version, {}, ready)
        self._draw(name, model, lambda: _told(trained) | {"fluency": self._fluency(ready)})
        self._tunable.reset()

    def _train(self, fold: Fold, loss: str) -> Trained:
        from aleatoric.tuning.training import TRAINED, train_fold

        recipe, folder = self._job.recipe_of(loss), fold_folder(self._store.path, loss, fold.number)
        # Trees take a while: what is trained already needs none.
        needed = recipe.human_share > 0 and not (folder / TRAINED).exists()
        trees = self._trees if needed else {}
        every, track = self._job.save_every, self._track
        return train_fold(self._tunable, fold, recipe, trees, folder, every, track)

    def _folded(
        self,
        label: str,
        version: str,
        decoders: Mapping[int, str],
        ready: Callable[[int], None] = _leave,
    ) -> WordModel:
        return FoldedModel(self._live, label, version, self._fold_of, ready, decoders)

    def _fluency(
        self, ready: Callable[[int], None], temperatures: Mapping[int, float] | None = None
    ) -> dict[str, Any]:
        """The loss of the held-out passages under each fold's own model, pooled over tokens."""
        from aleatoric.tuning.losses import mean_nll, predicted, text_rows

        total, tokens = 0.0, 0
        for fold in self._folds:
            ready(fold.number)
            rows = [row for p in fold.held_out for row in text_rows(self._live.lm, p)]
            temperature = (temperatures or {}).get(fold.number, 1.0)
            nll = mean_nll(self._live.lm.model, rows, temperature=temperature)
            total += nll * predicted(rows)
            tokens += predicted(rows)
        return asdict(Fluency(total / max(1, tokens), tokens))

    def _draw(
        self,
        name: str,
        model: WordModel,
        more: Callable[[], Mapping[str, Any]],
        decoder: str = "ancestral",
    ) -> None:
        """Save a system's distributions as they come, and then what else is known of it."""
        store, job = self._store, self._job
        if store.meta(f"done {name}"):
            return
        facts = {"model": f"{job.model}@{model.version}", "decoder": decoder}
        store.add_system(name, facts | {"estimator": model.estimator, "label": name})
        waiting: Iterable[Item] = store.waiting(name)
        if isinstance(model, FoldedModel):
            waiting = by_fold(waiting, self._fold_of)
        left = store.n_items - store.n_items_with_draws(name)
        ask = Ask("ancestral", 0, job.recipe.seed, job.tolerance, job.choices)
        shown = self._shown(self._stopping.before_each(waiting), left, name)
        with self._stopping.finishing():
            store.add_draws(name, model.draws(shown, ask), whole=False)
        self._keep(name, dict(more()))
        store.set_meta(f"done {name}", True)

    def _keep(self, name: str, facts: Any) -> None:
        self._facts[name] = facts
        self._store.set_meta(FINETUNING, self._facts)


def _told(trained: Mapping[int, Trained]) -> dict[str, Any]:
    """The curves of the folds, and the epochs whose weights were kept."""
    return {
        "curves": {n: [asdict(epoch) for epoch in own.history] for n, own in trained.items()},
        "kept": {n: own.kept for n, own in trained.items()},
    }


def _mean(values: Collection[float]) -> float | None:
    """The mean; `None` where it is infinite or there are no values."""
    total = sum(values)
    return total / len(values) if values and math.isfinite(total) else None
