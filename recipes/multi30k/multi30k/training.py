"""Training a translation model by fairseq's recipe for IWSLT14.

Adam with decoupled weight decay, a linear warm-up and an inverse-square-root decline, label
smoothing, batches by tokens. The same seed on the same CPU gives the same weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from aleatoric.tuning.training import save_tensors
from multi30k.batches import Batch, make_batches, shuffled
from multi30k.data import TranslationData
from multi30k.model import Shape, TranslationModel
from multi30k.subwords import PAD
from multi30k.translate import bleu_of

Precision = Literal["fp32", "tf32", "bf16"]
Kept = Literal["loss", "bleu", "last"]
"""Which checkpoint: of the least validation loss, of the highest validation BLEU, or the last."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights; the defaults are fairseq's for IWSLT14.

    `limit_minutes` ends training after a whole epoch; the epochs done are in the history.
    """

    seed: int = 1
    epochs: int = 60
    max_tokens: int = 4096
    peak_rate: float = 5e-4
    warmup: int = 4000
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 1e-4
    label_smoothing: float = 0.1
    clip_norm: float = 0.0
    precision: Precision = "fp32"
    device: str = "cpu"
    limit_minutes: float | None = None


@dataclass(frozen=True)
class Validation:
    """Means over the target tokens of the validation set, each sentence's end included."""

    loss: float
    nll: float
    accuracy: float
    confidence: float


@dataclass(frozen=True)
class Epoch:
    """What one pass over the training data led to; seconds and steps count from the start."""

    number: int
    steps: int
    seconds: float
    train_loss: float
    validation: Validation
    bleu: float


@dataclass(frozen=True)
class Trained:
    """The weights that were kept, and the way to them."""

    history: tuple[Epoch, ...]
    weights: dict[Kept, dict[str, Tensor]]
    epochs: dict[Kept, int]


def learning_rate(step: int, peak: float, warmup: int) -> float:
    """The rate of the step-th update, counted from 1.

    >>> learning_rate(2000, 5e-4, 4000), learning_rate(16000, 5e-4, 4000)
    (0.00025, 0.00025)
    """
    return peak * min(step / warmup, math.sqrt(warmup / step))


def train(
    data: TranslationData,
    recipe: Recipe,
    shape: Shape | None = None,
    report: Callable[[Epoch], None] = lambda epoch: None,
) -> Trained:
    """Train a model from scratch; `report` is called after every epoch."""
    with _seeded(recipe):
        model = TranslationModel(len(data.source), len(data.target), shape).to(recipe.device)
        return _Training(model, data, recipe).run(report)


class _Training:
    """A model on its way through the epochs."""

    def __init__(self, model: TranslationModel, data: TranslationData, recipe: Recipe) -> None:
        self._model, self._data, self._recipe = model, data, recipe
        self._optimiser = torch.optim.AdamW(
            model.parameters(),
            betas=recipe.betas,
            weight_decay=recipe.weight_decay,
            fused=_on_gpu(recipe),
        )
        self._batches = make_batches(data.train, recipe.max_tokens, recipe.device)
        self._held_out = make_batches(data.validation, recipe.max_tokens, recipe.device)
        self._steps = 0
        self._started = time.monotonic()

    def run(self, report: Callable[[Epoch], None]) -> Trained:
        """All epochs, or as many as the time allows."""
        history: list[Epoch] = []
        kept = _Kept()
        while len(history) < self._recipe.epochs and self._has_time(history):
            history.append(self._epoch(len(history) + 1))
            kept.offer(self._model, history[-1])
            report(history[-1])
        return Trained(tuple(history), kept.weights, kept.epochs)

    def _has_time(self, history: Sequence[Epoch]) -> bool:
        limit = self._recipe.limit_minutes
        if limit is None or not history:
            return True
        # One more epoch must fit; the mean of those done is the estimate.
        return history[-1].seconds * (1 + 1 / len(history)) <= 60 * limit

    def _epoch(self, number: int) -> Epoch:
        self._model.train()
        total = torch.zeros((), device=self._recipe.device)
        for batch in shuffled(self._batches, self._recipe.seed, number):
            total += self._step(batch)
        validation = validate(self._model, self._held_out, self._recipe.label_smoothing)
        bleu = bleu_of(self._model, self._data.validation, self._data.target, self._recipe.device)
        seconds = time.monotonic() - self._started
        loss = total.item() / len(self._batches)
        return Epoch(number, self._steps, seconds, loss, validation, bleu)

    def _step(self, batch: Batch) -> Tensor:
        self._steps += 1
        for group in self._optimiser.param_groups:
            group["lr"] = learning_rate(self._steps, self._recipe.peak_rate, self._recipe.warmup)
        with _precision(self._recipe):
            logits = self._model(batch.source, batch.given)
            loss = smoothed_loss(logits, batch.wanted, self._recipe.label_smoothing)
            self._optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
        if self._recipe.clip_norm:
            clip_grad_norm_(self._model.parameters(), self._recipe.clip_norm)
        self._optimiser.step()
        return loss.detach()


class _Kept:
    """The best weights so far by each criterion."""

    def __init__(self) -> None:
        self.weights: dict[Kept, dict[str, Tensor]] = {}
        self.epochs: dict[Kept, int] = {}
        self._best: dict[Kept, float] = {}

    def offer(self, model: TranslationModel, epoch: Epoch) -> None:
        """Keep the model where it is the best so far; it always is the last."""
        scores: dict[Kept, float] = {"loss": -epoch.validation.loss, "bleu": epoch.bleu}
        scores["last"] = epoch.number
        better = [kind for kind in scores if scores[kind] > self._best.get(kind, -1e30)]
        weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
        for kind in better:
            self._best[kind] = scores[kind]
            self.weights[kind], self.epochs[kind] = weights, epoch.number


def smoothed_loss(logits: Tensor, wanted: Tensor, smoothing: float) -> Tensor:
    """Mean cross-entropy over the tokens that are not padding, with label smoothing."""
    return functional.cross_entropy(
        logits.float().flatten(0, 1),
        wanted.flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
    )


def validate(model: TranslationModel, batches: Sequence[Batch], smoothing: float) -> Validation:
    """Teacher-forced means over all real target tokens of the batches, in float32."""
    model.eval()
    with torch.inference_mode():
        sums = sum(_sums(model, batch, smoothing) for batch in batches)
    assert isinstance(sums, Tensor)
    *means, _ = (sums / sums[-1]).tolist()
    return Validation(*means)


def _sums(model: TranslationModel, batch: Batch, smoothing: float) -> Tensor:
    """Summed loss, negative log-likelihood, hits and confidence, and the number of tokens."""
    real = batch.wanted != PAD
    logits, wanted = model(batch.source, batch.given)[real], batch.wanted[real]
    loss = functional.cross_entropy(logits, wanted, label_smoothing=smoothing, reduction="sum")
    nll = functional.cross_entropy(logits, wanted, reduction="sum")
    confidence, predicted = logits.softmax(-1).max(-1)
    parts = [loss, nll, (predicted == wanted).sum(), confidence.sum(), real.sum()]
    return torch.stack([part.double() for part in parts])


def save(weights: dict[str, Tensor], path: Path) -> None:
    """Write weights as safetensors."""
    save_tensors(path, weights)


def load(path: Path, data: TranslationData, shape: Shape | None = None) -> TranslationModel:
    """The model whose weights `save` wrote."""
    from safetensors.torch import load_file

    return restored(load_file(path), data, shape)


def restored(
    weights: dict[str, Tensor], data: TranslationData, shape: Shape | None = None
) -> TranslationModel:
    """A model with these weights, on their device, ready to be scored."""
    model = TranslationModel(len(data.source), len(data.target), shape)
    model.load_state_dict(weights)
    return model.to(next(iter(weights.values())).device).eval()


def _on_gpu(recipe: Recipe) -> bool:
    return recipe.device.startswith("cuda")


@contextmanager
def _seeded(recipe: Recipe) -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        yield


@contextmanager
def _precision(recipe: Recipe) -> Iterator[None]:
    """Matrix products as the recipe says; outside, validation and scoring stay in float32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if recipe.precision == "tf32" else "highest")
    try:
        with torch.autocast(
            recipe.device.partition(":")[0], torch.bfloat16, enabled=recipe.precision == "bf16"
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
