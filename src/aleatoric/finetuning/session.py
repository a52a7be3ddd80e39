"""A fine-tuning run being worked on: the base, its best temperature, then loss by loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.engine.folded import FoldedModel, by_fold
from aleatoric.engine.opening import open_model
from aleatoric.engine.stopping import Stopping
from aleatoric.errors import UsageError
from aleatoric.finetuning.jobs import FinetuneJob
from aleatoric.models.base import Ask, WordModel
from aleatoric.progress import Track
from aleatoric.store import BASE_WEIGHTS, FINETUNING, TRAINING, Store
from aleatoric.training.folds import Fold, Passage
from aleatoric.training.recipe import Recipe
from aleatoric.types import Item

if TYPE_CHECKING:
    from aleatoric.engine.live import LiveModel
    from aleatoric.training.finetune import Trained
    from aleatoric.training.soft_labels import WordTree
    from aleatoric.training.trainable import Tunable
    from aleatoric.words.vocabulary import Vocabulary


@dataclass(frozen=True)
class Fluency:
    """How well a system predicts the held-out passages themselves: nats over so many tokens."""

    nll: float
    tokens: int


def open_tunable(job: FinetuneJob) -> Tunable:
    """The base model of a run, with the parameters that train."""
    return _tunable(_open_live(job), job.recipe)


def _open_live(job: FinetuneJob) -> LiveModel:
    from aleatoric.engine.live import LiveModel

    opened = open_model(job.model, job.loading)
    assert isinstance(opened, LiveModel)  # check_specs let only live models pass
    return opened


def _tunable(live: LiveModel, recipe: Recipe) -> Tunable:
    from aleatoric.training.trainable import make_tunable

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
        from aleatoric.training.soft_labels import word_tree
        from aleatoric.words.exact import Search

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
        from aleatoric.training.temperatures import SCORES, best_temperature, scores

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
        from aleatoric.training.finetune import TRAINED, train_fold

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
        from aleatoric.training.texts import mean_nll, predicted, text_rows

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
