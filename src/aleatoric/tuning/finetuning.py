"""`aleatoric finetune`: train a model on people's answers, fold by fold, and test it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.data.opening import open_corpus
from aleatoric.errors import UsageError
from aleatoric.levels.base import Monitor, Opening
from aleatoric.levels.word import NextWords
from aleatoric.levels.word_scoring import pair_of
from aleatoric.metrics.agreement import log_loss, sq_distance
from aleatoric.models.base import Ask, WordModel
from aleatoric.nextword.answers import Reading, ReadItems
from aleatoric.nextword.exact import Search
from aleatoric.nextword.live import FoldedModel, by_fold
from aleatoric.nextword.vocabulary import vocabulary_of
from aleatoric.runs.engine import Engine, open_model
from aleatoric.runs.run import Store
from aleatoric.runs.tables import BASE_WEIGHTS, FINETUNING
from aleatoric.tuning import recipe as recipes
from aleatoric.tuning.recipe import SCORES, Fold, FoldPassage, fold_folder
from aleatoric.tuning.recipe import FinetuneJob as FinetuneJob
from aleatoric.types import Corpus, Item

if TYPE_CHECKING:
    from aleatoric.models.hf import HFModel
    from aleatoric.nextword.live import LiveModel
    from aleatoric.tuning.losses import WordTree
    from aleatoric.tuning.training import Trained, Tunable


_FEW = 5


def folds_of(job: FinetuneJob, corpus: Corpus) -> list[Fold]:
    """Return the folds of a corpus by the job's split; a leak is refused."""
    passages = recipes.passages_of(corpus.items)
    if job.split in recipes.SPLITS:
        groups = [passage.group for passage in passages]
        chosen = recipes.assign(groups, job.split, job.folds, job.validation, job.seed)
        return recipes.make_folds(passages, chosen)
    assigned = recipes.read_assignment(Path(job.split))
    unknown = sorted(assigned.keys() - {passage.group for passage in passages})
    if unknown:
        raise UsageError(
            f"{job.split}: names the group {unknown[0]!r}, which {job.corpus} does not have; "
            "correct or remove its row."
        )
    return recipes.make_folds([p for p in passages if p.group in assigned], assigned)


def _split_notes(corpus: Corpus, folds: Sequence[Fold]) -> Iterator[str]:
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
            f"split and are left out: {', '.join(f'{name:.40}' for name in left_out[:_FEW])}"
            + (f" and {len(left_out) - _FEW} more" if len(left_out) > _FEW else "")
        )


class FinetuneSession:
    """Trains and queries the systems of a run, with the model loaded once."""

    def __init__(self, store: Store, job: FinetuneJob, folds: list[Fold], monitor: Monitor) -> None:
        self._store, self._job, self._folds = store, job, folds
        self._monitor = monitor
        self._fold_of = {p.group: fold.number for fold in folds for p in fold.held_out}
        self._facts: dict[str, Any] = store.meta(FINETUNING) or {}

    @cached_property
    def _live(self) -> LiveModel:
        from aleatoric.nextword.live import LiveModel

        model = open_model(self._job.model, self._job.loading)
        assert isinstance(model, LiveModel)  # check_specs only accepts live models
        return model

    @property
    def _lm(self) -> HFModel:
        from aleatoric.models.hf import HFModel

        lm = self._live.lm
        if not isinstance(lm, HFModel):
            fix = "use smollm2, hf:NAME or gguf:FILE"
            raise UsageError(f"{self._job.model}: only models of transformers train; {fix}.")
        return lm

    @cached_property
    def _tunable(self) -> Tunable:
        from aleatoric.tuning.training import make_tunable

        return make_tunable(self._lm, self._job.train, self._job.lora_rank, self._job.seed)

    @cached_property
    def _trees(self) -> dict[str, WordTree]:
        """The word trees of all passages, found once by the base model for all folds."""
        from aleatoric.tuning.losses import word_tree

        self._tunable.reset()
        passages = [*self._folds[0].validation, *(p for f in self._folds for p in f.held_out)]
        tracked: Iterable[FoldPassage] = self._monitor.checked(
            passages, len(passages), "word trees"
        )
        lm = self._lm
        vocabulary = vocabulary_of(lm.pieces, self._job.choices.lead)
        search = Search(tolerance=self._job.tolerance)
        return {p.group: word_tree(lm, p.items, vocabulary, search).to(lm.device) for p in tracked}

    def run(self) -> None:
        """Query the base model, the base at its best temperature, and the model of every loss."""
        base = self._live.label
        if not all(self._store.meta(f"done {base} {loss}-tuned") for loss in self._job.losses):
            self._check_base()  # refuses what cannot be trained before hours are spent
        self._draw(base, self._live, self._fluency)
        self._draw_best_temperature(f"{base} temperature")
        for loss in self._job.losses:
            self._draw_tuned(f"{base} {loss}-tuned", loss)

    def _check_base(self) -> None:
        weights = f"{self._tunable.digest} {self._tunable.base_digest}"
        saved = self._store.meta(BASE_WEIGHTS)
        if saved is None:
            self._store.set_meta(BASE_WEIGHTS, weights)
        elif saved != weights:
            problem = f"{self._store.path}: began with other weights of {self._job.model}"
            raise UsageError(f"{problem}; use those again, or start another run.")

    def _draw_best_temperature(self, name: str) -> None:
        if not self._job.grid or self._store.meta(f"done {name}"):
            return
        chosen, by_log_loss = self._temperatures()
        decoders = {number: f"temperature={value:g}" for number, value in chosen.items()}
        listed = ",".join(decoders[number] for number in sorted(decoders))
        version = f"best of {len(self._job.grid)} on training"
        model = FoldedModel(self._live, name, version, self._fold_of, decoders=decoders)
        facts = {"temperatures": chosen, "temperatures_by_log_loss": by_log_loss}
        self._draw(name, model, lambda: facts | self._fluency(temperatures=chosen), listed)

    def _temperatures(self) -> tuple[dict[int, float], dict[int, float]]:
        self._tunable.reset()
        items = [item for _, item, _ in self._store.walk()]
        ask = Ask("ancestral", 0, self._job.seed, self._job.tolerance, self._job.choices)
        grid = self._job.grid
        tracked: Iterable[float] = self._monitor.checked(grid, len(grid), "temperatures")
        results = {value: scores(self._live, items, value, ask) for value in tracked}
        means = {
            f"{value:g}": {name: _mean(by_item.values()) for name, by_item in by_score.items()}
            for value, by_score in results.items()
        }
        self._keep("grid", means)
        by_distance, by_log_loss = (
            {fold.number: best_temperature(fold, results, name) for fold in self._folds}
            for name in SCORES
        )
        return by_distance, by_log_loss

    def _draw_tuned(self, name: str, loss: str) -> None:
        from aleatoric.tuning.training import curve_facts

        if self._store.meta(f"done {name}"):
            return
        trained = {fold.number: self._train(fold, loss) for fold in self._folds}

        def ready(number: int) -> None:
            self._tunable.load(trained[number].weights)

        version = f"{self._live.version},{loss},{self._job.train},{len(trained)} folds"
        model = FoldedModel(self._live, name, version, self._fold_of, ready)
        self._draw(name, model, lambda: curve_facts(trained) | self._fluency(ready))
        self._tunable.reset()

    def _train(self, fold: Fold, loss: str) -> Trained:
        from aleatoric.tuning.training import TRAINED, train_fold

        job = replace(self._job, losses=(loss,))
        folder = fold_folder(self._store.path, loss, fold.number)
        # Building trees is slow, and a trained fold needs none.
        needed = job.human_share > 0 and not (folder / TRAINED).exists()
        trees = self._trees if needed else {}
        return train_fold(self._tunable, fold, job, trees, folder, self._monitor.checked)

    def _fluency(
        self,
        load_fold: Callable[[int], None] = lambda fold: None,
        temperatures: Mapping[int, float] | None = None,
    ) -> dict[str, Any]:
        """Return the mean loss of held-out tokens under their fold's model, and their number."""
        from aleatoric.tuning.losses import mean_nll, predicted, text_rows

        total, tokens = 0.0, 0
        for fold in self._folds:
            load_fold(fold.number)
            rows = [row for p in fold.held_out for row in text_rows(self._lm, p)]
            temperature = (temperatures or {}).get(fold.number, 1.0)
            nll = mean_nll(self._lm.model, rows, temperature=temperature)
            total += nll * predicted(rows)
            tokens += predicted(rows)
        return {"fluency": {"nll": total / max(1, tokens), "tokens": tokens}}

    def _draw(
        self, name: str, model: WordModel, extra: Callable[[], Any], decoder: str = "ancestral"
    ) -> None:
        """Save a system's distributions as they come, and then `extra` facts about it."""
        store, job = self._store, self._job
        if store.meta(f"done {name}"):
            return
        facts = {"model": f"{job.model}@{model.version}", "decoder": decoder}
        store.add_system(name, facts | {"estimator": model.estimator, "label": name})
        pending: Iterable[Item] = store.pending_items(name)
        if isinstance(model, FoldedModel):
            pending = by_fold(pending, self._fold_of)
        n_pending = store.n_items - store.n_items_with_draws(name)
        ask = Ask("ancestral", 0, job.seed, job.tolerance, job.choices)
        stopping = self._monitor.stopping
        tracked = self._monitor.track(stopping.before_each(pending), n_pending, name)
        with stopping.finishing():
            store.add_draws(name, model.draws(tracked, ask), whole=False)
        self._keep(name, dict(extra()))
        store.set_meta(f"done {name}", True)

    def _keep(self, name: str, facts: Any) -> None:
        self._facts[name] = facts
        self._store.set_meta(FINETUNING, self._facts)


def _mean(values: Collection[float]) -> float | None:
    """Return the mean; `None` if it is infinite or there are no values."""
    total = sum(values)
    return total / len(values) if values and math.isfinite(total) else None


Scores = Mapping[str, Mapping[str, float]]
"""Score -> item id -> value."""


def scores(model: WordModel, items: Sequence[Item], temperature: float, ask: Ask) -> Scores:
    """Return the squared distance and the log loss of each item at a temperature."""
    by_id = {item.id: item for item in items}
    results: dict[str, dict[str, float]] = {name: {} for name in SCORES}
    for draws in model.draws(items, replace(ask, decoder=f"temperature={temperature:g}")):
        for pair in pair_of(by_id[draws.item_id], [draws], ask.choices):
            values = sq_distance(pair), log_loss(pair.human, pair.model)
            for name, value in zip(SCORES, values, strict=True):
                results[name][draws.item_id] = math.inf if value is None else value
    return results


def best_temperature(fold: Fold, results: Mapping[float, Scores], score: str = SCORES[0]) -> float:
    """Return the temperature with the lowest mean score over the fold's training passages."""
    ids = [item.id for passage in fold.train for item in passage.items]
    return min(results, key=lambda value: sum(results[value][score].get(i, 0.0) for i in ids))


class Finetune(NextWords):
    """Next words of fine-tuned models: folds trained, each tested on passages it never saw.

    A run holds the base model, the base at its best temperature, and one pooled system per loss.
    """

    help = """Fine-tune a model on people's answers and test it on passages it never saw.

    Example: `aleatoric finetune --corpus provo --model smollm2 --loss human --out runs/tuned`
    """
    job_type = FinetuneJob
    model_kinds = ("language_models",)
    needs_out = True
    one_process = recipes.ONE_PROCESS
    packages = ("numpy", "scipy", "torch", "transformers")

    def check(self, job: FinetuneJob) -> None:
        """Refuse a job without exactly one model, and one for a cluster."""
        if len(job.models) != 1:
            raise UsageError("give one model to train, as --model smollm2.")
        super().check(job)

    def open(self, job: FinetuneJob) -> Corpus:
        """Open the corpus, with its answers read as words for training and evaluation alike."""
        corpus = open_corpus(job.corpus, job.encoding, job.table_options)
        read_items = ReadItems(corpus.items, Reading.of(job.choices))
        return replace(corpus, items=tuple(read_items), notes=(*corpus.notes, *read_items.notes()))

    def facts(self, job: FinetuneJob, corpus: Corpus) -> dict[str, Any]:
        """Return the fold of every passage, and how words are drawn and scored."""
        folds = folds_of(job, corpus)
        for fold in folds:
            job.check_warmup(job.steps(len(fold.train)))
        where = {p.group: fold.number for fold in folds for p in fold.held_out}
        return {
            "assignment": where | {p.group: recipes.VALIDATION for p in folds[0].validation},
            "choices": job.choices.as_dict(),
            "decoders": ["ancestral"],
            "samples": 0,
            "until": None,
            "estimator": "exact",
            "abstractions": [],
        }

    def save_items(self, store: Store, job: FinetuneJob, corpus: Corpus, monitor: Monitor) -> None:
        """Save the contexts that some fold's model is tested on."""
        folds = folds_of(job, corpus)
        held_out = {passage.group for fold in folds for passage in fold.held_out}
        store.add_items(item for item in corpus.items if item.group in held_out)
        store.set_meta("notes", [*corpus.notes, *_split_notes(corpus, folds)])

    def ask(
        self, store: Store, job: Any, spec: str, engine: Engine, corpus: Opening, monitor: Monitor
    ) -> None:
        """Train every fold with every loss, and save the next words of all systems."""
        FinetuneSession(store, job, folds_of(job, corpus()), monitor).run()
