"""Fine-tuned models beside their base: folds trained, each tested on the passages it never saw.

One run holds the base model, the base at the temperature that suited the training passages best,
and one system a loss, whose folds are pooled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.engine.opening import Loading, check_specs, open_model
from aleatoric.engine.stopping import Stopping
from aleatoric.engine.working import working
from aleatoric.errors import UsageError
from aleatoric.models.base import Ask, WordModel
from aleatoric.pipeline import score_word
from aleatoric.progress import Track, quietly
from aleatoric.sources import corpus_facts, open_corpus
from aleatoric.store import COMPLETE, FINETUNING, TRAINING, Store
from aleatoric.training.folds import (
    VALIDATION,
    Fold,
    Passage,
    assign,
    make_folds,
    passages_of,
    read_assignment,
)
from aleatoric.training.recipe import Recipe
from aleatoric.training.temperatures import GRID
from aleatoric.types import Choices, Corpus, Item
from aleatoric.versions import versions

if TYPE_CHECKING:
    from aleatoric.engine.live import LiveModel
    from aleatoric.training.finetune import Trained
    from aleatoric.training.soft_labels import WordTree
    from aleatoric.training.trainable import Tunable
    from aleatoric.words.vocabulary import Vocabulary

FINETUNE = "finetune"
"""The command of such runs, in their manifests."""
_PACKAGES = ("numpy", "scipy", "torch", "transformers")


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

    def recipe_of(self, loss: str) -> Recipe:
        """The recipe with one of the losses."""
        return replace(self.recipe, loss=loss)


@dataclass(frozen=True)
class Fluency:
    """How well a system predicts the held-out passages themselves: nats over so many tokens."""

    nll: float
    tokens: int


def run_finetune(
    job: FinetuneJob,
    out: Path,
    track: Track[Any] = quietly,
    score: bool = True,
    stopping: Stopping | None = None,
) -> Store:
    """Train and evaluate every loss's folds; repeated on the same directory, it goes on.

    Where the input is bad, nothing of the run stays behind; where `stopping` is asked for, systems
    that are drawn, folds that are trained and the last checkpoint do.
    """
    stopping = stopping or Stopping()
    check_specs([job.model], "language_models")
    for loss in job.losses:
        job.recipe_of(loss)
    corpus = open_corpus(job.corpus, job.encoding)
    folds = folds_of(job, corpus)
    store = Store.continue_or_create(out, _manifest(job, corpus, folds))
    with working(store, _holds_work):
        if store.lacks_items:
            with store.transaction():
                store.add_items(_evaluated(corpus, folds))
                store.set_meta("notes", [*corpus.notes, *_split_notes(folds)])
        _Session(store, job, folds, track, stopping).run()
        if score:
            score_word(store, track, stopping)
            store.set_meta(COMPLETE, True)
    return store


def _holds_work(store: Store) -> bool:
    drawn = any(store.n_items_with_draws(name) for name in store.systems())
    return drawn or (store.path / TRAINING).exists()


def folds_of(job: FinetuneJob, corpus: Corpus) -> list[Fold]:
    """The folds of a corpus by the job's split; a leak is refused."""
    passages = passages_of(corpus.items)
    if job.split in ("paper", "grouped"):
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
        choices=Choices(**manifest["choices"]),
        n_splits=manifest["n_splits"],
        encoding=manifest["corpus"]["encoding"],
        save_every=manifest["save_every"],
    )


def _evaluated(corpus: Corpus, folds: Sequence[Fold]) -> Iterator[Item]:
    held_out = {passage.group for fold in folds for passage in fold.held_out}
    return (item for item in corpus.items if item.group in held_out)


def _split_notes(folds: Sequence[Fold]) -> Iterator[str]:
    tested = sum(len(fold.held_out) for fold in folds)
    yield (
        f"{tested} passages in {len(folds)} folds, each tested by a model trained on the other "
        f"folds; {len(folds[0].validation)} passages only validate and are no part of the results"
    )


def _manifest(job: FinetuneJob, corpus: Corpus, folds: Sequence[Fold]) -> dict[str, Any]:
    where = {p.group: fold.number for fold in folds for p in fold.held_out}
    split = where | {p.group: VALIDATION for p in folds[0].validation}
    recipe = job.recipe.as_dict()
    del recipe["loss"]
    return {
        "level": "word",
        "command": FINETUNE,
        "corpus": corpus_facts(corpus, job.corpus, job.encoding),
        "models": [job.model],
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


def _leave(fold: int) -> None:
    """The model stays as it is for every fold."""


class _Session:
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
        from aleatoric.engine.live import LiveModel

        opened = open_model(self._job.model, self._job.loading)
        assert isinstance(opened, LiveModel)  # check_specs let only live models pass
        return opened

    @cached_property
    def _tunable(self) -> Tunable:
        from aleatoric.training.trainable import make_tunable

        recipe = self._job.recipe
        return make_tunable(self._live.lm, recipe.train, recipe.lora_rank, recipe.seed)

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
            self._tunable.reset()  # what cannot be trained is told before hours are spent
        self._draw(base, self._live, lambda: {"fluency": self._fluency(_leave)})
        self._draw_best_temperature(f"{base} temperature")
        for loss in self._job.losses:
            self._draw_tuned(f"{base} {loss}-tuned", loss)

    def _draw_best_temperature(self, name: str) -> None:
        if not self._job.temperatures or self._store.meta(f"done {name}"):
            return
        chosen = self._temperatures()
        decoders = {number: f"temperature={value:g}" for number, value in chosen.items()}
        listed = ",".join(decoders[number] for number in sorted(decoders))
        model = self._folded(name, f"best of {len(self._job.temperatures)} on training", decoders)
        told = {"temperatures": chosen}
        self._draw(name, model, lambda: told | {"fluency": self._fluency(_leave, chosen)}, listed)

    def _temperatures(self) -> dict[int, float]:
        """Each fold's best temperature on the passages it trains on."""
        from aleatoric.training.temperatures import best_temperature, distances
        from aleatoric.words.exact import Search

        self._tunable.reset()
        items = [item for _, item, _ in self._store.walk()]
        search = Search(tolerance=self._job.tolerance, failed=self._job.choices.failed)
        grid = self._job.temperatures
        shown: Iterable[float] = self._track(grid, len(grid), "temperatures")
        found = {
            value: distances(self._live.lm, items, value, search, self._vocabulary)
            for value in shown
        }
        means = {f"{value:g}": sum(own.values()) / len(own) for value, own in found.items()}
        self._keep("grid", means)
        return {fold.number: best_temperature(fold, found) for fold in self._folds}

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
        from aleatoric.training.finetune import train_fold

        recipe = self._job.recipe_of(loss)
        trees = self._trees if recipe.human_share > 0 else {}
        folder = self._store.path / TRAINING / loss / f"fold-{fold.number}"
        every, track = self._job.save_every, self._track
        return train_fold(self._tunable, fold, recipe, trees, folder, every, track)

    def _folded(
        self,
        label: str,
        version: str,
        decoders: Mapping[int, str],
        ready: Callable[[int], None] = _leave,
    ) -> WordModel:
        from aleatoric.engine.folded import FoldedModel

        return FoldedModel(self._live, label, version, self._fold_of, ready, decoders)

    def _fluency(
        self, ready: Callable[[int], None], temperatures: Mapping[int, float] | None = None
    ) -> dict[str, Any]:
        """The loss of the held-out passages under each fold's own model, pooled over tokens."""
        from aleatoric.training.texts import mean_nll, predicted, text_row

        total, tokens = 0.0, 0
        for fold in self._folds:
            ready(fold.number)
            rows = [text_row(self._live.lm, passage) for passage in fold.held_out]
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
        waiting = self._stopping.before_each(store.waiting(name))
        left = store.n_items - store.n_items_with_draws(name)
        ask = Ask("ancestral", 0, job.recipe.seed, job.tolerance, job.choices)
        shown = self._shown(waiting, left, name)
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
