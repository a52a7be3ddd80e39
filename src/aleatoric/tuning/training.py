"""Fine-tuning on an objective: batches of examples, epoch by epoch, resumable at any saved step.

The order of the examples and all random numbers depend on the seed, the fold and the step only.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from aleatoric.data import files
from aleatoric.errors import DataError, ModelError, ModelUsageError, StorageError, UsageError, needs
from aleatoric.models.base import is_out_of_memory
from aleatoric.registry import Track, quietly
from aleatoric.rng import stream
from aleatoric.runs.disk import FULL_DISKS
from aleatoric.tuning.losses import PassageObjective, Trees
from aleatoric.tuning.recipe import PAPER, FinetuneJob, Fold, TrainingJob, block_count

if TYPE_CHECKING:
    from aleatoric.tuning.text_pairs import TextObjective

    Objective = PassageObjective | TextObjective

_FACTS = "facts"
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True, eq=False)
class Saved:
    """Named tensors and facts about them."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors whose names begin with `prefix/`, without it."""
        parts = ((name.partition("/"), value) for name, value in self.tensors.items())
        return {rest: value for (first, slash, rest), value in parts if slash and first == prefix}


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any] | None = None
) -> None:
    """Write tensors to a temporary file and move it into place, so that no file is partial."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.written_whole(path) as unfinished:
            save_file(plain, unfinished, {_FACTS: json.dumps(dict(facts or {}))})
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())
    except (OSError, SafetensorError) as error:
        raise unwritten(path, error) from None


def unwritten(path: Path, error: Exception) -> StorageError | UsageError:
    """Return the error for weights that could not be written.

    >>> print(unwritten(Path("w"), ValueError("No space left on device (os error 28)")))
    w: the disk is full; make room and repeat the command.
    """
    match = _OS_ERROR.search(str(error))  # safetensors gives the number only in its message
    number = error.errno if isinstance(error, OSError) else match and int(match[1])
    if number in FULL_DISKS:
        return StorageError(f"{path}: the disk is full", "make room and repeat the command")
    return UsageError(f"{path}: cannot be written ({error}); choose another place.")


def load_tensors(path: Path) -> Saved:
    """Read what `save_tensors` wrote; a damaged file is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt", device="cpu") as file:
            facts = json.loads((file.metadata() or {}).get(_FACTS, "{}"))
            return Saved({name: file.get_tensor(name) for name in file.keys()}, facts)  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        fix = "remove it, and what it holds is made again"
        raise DataError.at(path, None, f"is damaged ({error})", fix) from None


CHECKPOINT, TRAINED = "checkpoint.safetensors", "trained.safetensors"


@dataclass(frozen=True)
class Epoch:
    """Losses after an epoch, in nats; epoch 0 is before training.

    `train_loss` is the mean of the minimized loss over the steps of the epoch, `validation_loss`
    the same loss on the validation passages; the others are means over tokens (nll) and contexts.
    """

    number: int
    steps: int
    train_loss: float | None
    validation_loss: float
    train_nll: float
    validation_nll: float
    validation_human: float | None


@dataclass(frozen=True, eq=False)
class Trained:
    """The kept weights, the epoch they are from, and the losses of all epochs."""

    weights: dict[str, Tensor]
    kept: int
    history: tuple[Epoch, ...]


def curve_facts(trained: Mapping[Any, Trained]) -> dict[str, dict[Any, Any]]:
    """Return the losses of all epochs and the kept epochs, by fold."""
    curves = {number: [asdict(epoch) for epoch in each.history] for number, each in trained.items()}
    return {"curves": curves, "kept": {number: each.kept for number, each in trained.items()}}


@dataclass(frozen=True)
class TrainingState:
    """The state of training: finished epochs, and the `batches` done of the next."""

    batches: int = 0
    steps: int = 0
    loss: float = 0.0
    kept: int = 0
    history: tuple[Epoch, ...] = ()


def train_fold(
    model: Tunable,
    fold: Fold,
    job: FinetuneJob,
    trees: Trees,
    folder: Path,
    track: Track[int] = quietly,
) -> Trained:
    """Return the trained model of a fold, read from `folder`, or trained from its checkpoint."""
    return train(model, PassageObjective(model.lm, fold, job, trees), job, folder, track)


def train(
    model: Tunable,
    objective: Objective,
    job: TrainingJob,
    folder: Path,
    track: Track[int] = quietly,
) -> Trained:
    """Return the trained model of an objective, from `folder` or trained from its checkpoint."""
    identity = _identity(model, objective, job)
    if (folder / TRAINED).exists():
        saved = load_tensors(folder / TRAINED)
        check_identity(folder / TRAINED, saved, identity)
        epochs = tuple(Epoch(**epoch) for epoch in saved.facts["history"])
        return Trained(saved.tensors, saved.facts["kept"], epochs)
    with _deterministic(model.lm), _reporting_memory(objective.place):
        trained = _Training(model, objective, job, folder / CHECKPOINT).run(track)
    history = [asdict(epoch) for epoch in trained.history]
    facts = {"identity": identity, "kept": trained.kept, "history": history}
    save_tensors(folder / TRAINED, trained.weights, facts)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return trained


def _identity(model: Tunable, objective: Objective, job: TrainingJob) -> dict[str, Any]:
    """Return what must be equal for saved weights to belong to this training."""
    return {"recipe": job.recipe} | model_identity(model) | dict(objective.identity)


def model_identity(model: Tunable) -> dict[str, Any]:
    """Return digests of the weights before training: those that train, and the others."""
    return {"model": model.digest, "base": model.base_digest}


def check_identity(path: Path, saved: Saved, identity: Mapping[str, Any]) -> None:
    """Refuse saved weights of another training, or of another model."""
    saved_identity = saved.facts.get("identity", {})
    for name, value in identity.items():
        # Weights of the first version only identify the parameters that train.
        if saved_identity.get(name) == value or (name == "base" and name not in saved_identity):
            continue
        if name in ("model", "base"):
            problem = "was trained from another base model (its weights differ)"
            raise UsageError(f"{path}: {problem}; use that model again, or move the file away.")
        raise UsageError(f"{path}: is of another training (its {name} differs); move it away.")


class _Training:
    """The training on one objective."""

    def __init__(
        self, model: Tunable, objective: Objective, job: TrainingJob, checkpoint: Path
    ) -> None:
        self._model, self._objective, self._job = model, objective, job
        self._network, self._device = model.lm.model, model.lm.device
        self._path, self._identity = checkpoint, _identity(model, objective, job)
        self._steps = job.steps(objective.size)
        job.check_warmup(self._steps)
        model.reset()
        adamw: Any = {"lr": job.rate, "eps": job.epsilon, "weight_decay": job.weight_decay}
        self._optimiser = torch.optim.AdamW(model.parameters.values(), **adamw)
        self._best: dict[str, Tensor] = {}
        self._state = TrainingState()

    def run(self, track: Track[int]) -> Trained:
        """Train all epochs, or until early stopping; a checkpoint is written after every epoch."""
        if self._path.exists():
            self._restore()
        else:
            self._end_epoch(None)
        steps, save_every = range(self._state.steps, self._steps), self._job.save_every
        for step in track(steps, len(steps), self._objective.place):
            # The validation loss has not decreased for `patience` epochs.
            late, patience = len(self._state.history) - 1 - self._state.kept, self._job.patience
            if patience is not None and not self._state.batches and late >= patience:
                break
            self._advance()
            if not self._state.batches or (save_every and (step + 1) % save_every == 0):
                self._save()
        weights = self._best if self._job.patience else self._model.weights()
        self._model.load(weights)
        return Trained(weights, self._state.kept, self._state.history)

    def _advance(self) -> None:
        batches = self._batches(len(self._state.history))
        loss = self._step(batches[self._state.batches])
        state = self._state
        self._state = replace(
            state, batches=state.batches + 1, steps=state.steps + 1, loss=state.loss + loss
        )
        if self._state.batches == len(batches):
            self._end_epoch(self._state.loss / len(batches))

    def _batches(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch; their order depends on seed, fold and epoch only."""
        size, names = self._job.batch, self._objective.streams
        order = stream(self._job.seed, "passages", *names, epoch).permutation(self._objective.size)
        return [order[low : low + size].tolist() for low in range(0, len(order), size)]

    def _step(self, batch: list[int]) -> float:
        for group in self._optimiser.param_groups:
            group["lr"] = self._job.rate_at(self._state.steps + 1, self._steps)
        self._network.train()
        names = (*self._objective.streams, self._state.steps)
        torch.manual_seed(int(stream(self._job.seed, "step", *names).integers(2**31)))
        self._optimiser.zero_grad()
        # Gradients accumulate part by part, which saves memory.
        loss = float(sum(map(_back, self._objective.losses(self._network, batch))))
        self._check_finite(loss, "the training loss", self._state.steps + 1)
        if self._job.clip_norm:
            clip_grad_norm_(self._model.parameters.values(), self._job.clip_norm)
        self._optimiser.step()
        return loss

    def _check_finite(self, loss: float, what: str, step: int) -> None:
        if math.isfinite(loss):
            return
        state, job = self._state, self._job
        epoch = f"epoch {len(state.history)}, step {step}"
        fix = f"begin another run with --rate below {job.rate:g}, --clip-norm 1 or --warmup"
        if not state.history:
            epoch, fix = "before training", "use another model or other texts"
        raise UsageError(f"{self._objective.place}, {epoch}: {what} is {loss}; {fix}.")

    def _end_epoch(self, train_loss: float | None) -> None:
        state, number = self._state, len(self._state.history)
        epoch = self._measured(number, train_loss)
        before = [past.validation_loss for past in state.history]
        better = not before or epoch.validation_loss < min(before)
        kept = number if better or self._job.patience is None else state.kept
        if self._job.patience and better:
            self._best = self._model.weights()
        self._state = TrainingState(0, state.steps, 0.0, kept, (*state.history, epoch))

    def _measured(self, number: int, train_loss: float | None) -> Epoch:
        losses = self._objective.measured(self._network)
        by_name = {"training": losses.train_nll, "validation": losses.validation_nll}
        by_name = {f"{side} texts": loss for side, loss in by_name.items()}
        for name, loss in (by_name | {"answers": losses.validation_human or 0.0}).items():
            self._check_finite(loss, f"the loss of the {name}", self._state.steps)
        return Epoch(number, self._state.steps, train_loss, *losses)

    def _save(self) -> None:
        tensors = {f"best/{name}": parameter for name, parameter in self._best.items()}
        for name, parameter in self._model.parameters.items():
            moments = self._optimiser.state.get(parameter, {})
            tensors |= {f"{kind}/{name}": value for kind, value in moments.items()}
            tensors[f"weights/{name}"] = parameter
        facts = {"identity": self._identity, "state": asdict(self._state)}
        save_tensors(self._path, tensors, facts)

    def _restore(self) -> None:
        saved = load_tensors(self._path)
        check_identity(self._path, saved, self._identity)
        self._model.load(saved.part("weights"))
        best = saved.part("best").items()
        self._best = {name: parameter.to(self._device) for name, parameter in best}
        for kind in ("step", "exp_avg", "exp_avg_sq"):
            for name, value in saved.part(kind).items():
                parameter = self._model.parameters[name]
                # AdamW keeps its count of steps on the CPU.
                placed = value if kind == "step" else value.to(parameter.device)
                self._optimiser.state[parameter][kind] = placed
        state = saved.facts["state"]
        history = tuple(Epoch(**epoch) for epoch in state.pop("history"))
        self._state = TrainingState(**state, history=history)


def _back(loss: Tensor) -> Tensor:
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


@contextmanager
def _deterministic(lm: Any) -> Iterator[None]:
    """Use deterministic algorithms on the CPU; torch's settings are restored afterwards."""
    before = torch.are_deterministic_algorithms_enabled()
    on_cpu = str(lm.device) == "cpu"
    with torch.random.fork_rng():
        torch.use_deterministic_algorithms(before or on_cpu)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before)
            lm.model.eval()


@contextmanager
def _reporting_memory(place: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        fix = "begin another run with a smaller --batch, --train last-1-block or --train lora"
        raise ModelUsageError(f"{place}: out of memory; {fix}.") from error


LORA_SCALE = 2
"""Scale of low-rank additions: peft's alpha over the rank."""


@dataclass(frozen=True, eq=False)
class Tunable:
    """A model with the parameters that train, and their values before any training."""

    lm: Any
    """A loaded model with its tokenizer, of the word or the text level."""
    parameters: Mapping[str, Any]
    initial: Mapping[str, Tensor]

    def weights(self) -> dict[str, Tensor]:
        """Return copies of the present parameters."""
        return {name: parameter.detach().clone() for name, parameter in self.parameters.items()}

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Copy weights into the parameters."""
        if weights.keys() != self.parameters.keys():
            raise ModelError("these weights belong to other parameters than those that train.")
        for name, parameter in self.parameters.items():
            parameter.data.copy_(weights[name])

    def reset(self) -> None:
        """Restore the model before training."""
        self.load(self.initial)

    @cached_property
    def digest(self) -> str:
        """A digest of the initial values of the parameters that train."""
        return digest_of(self.initial)

    @cached_property
    def base_digest(self) -> str:
        """A digest of all other saved parameters and buffers; tied ones count once."""
        model = self.lm.model
        saved = model.state_dict().keys() - self.initial.keys()
        tensors = chain(model.named_parameters(), model.named_buffers())
        return digest_of({name: parameter.detach() for name, parameter in tensors if name in saved})


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of named tensors."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        flat = value.cpu().contiguous().flatten()
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def make_tunable(lm: Any, which: str = PAPER, rank: int = 8, seed: int = 0) -> Tunable:
    """Make parameters trainable: `last-2-blocks`, `all` or `lora`.

    A block is one layer of the transformer, in an encoder-decoder of the decoder; the norm and the
    head after the last one stay fixed.
    """
    for parameter in lm.model.parameters():
        parameter.requires_grad_(False)
    if which == "lora":
        _add_lora(lm.model, rank, seed)
    elif which == "all":
        lm.model.requires_grad_(True)
    else:
        for block in _last_blocks(lm.model, block_count(which)):
            block.requires_grad_(True)
    chosen = {name: p for name, p in lm.model.named_parameters() if p.requires_grad}
    return Tunable(lm, chosen, {name: p.detach().clone() for name, p in chosen.items()})


def _last_blocks(model: Any, count: int) -> list[Any]:
    config = model.config.get_text_config(decoder=True)
    layers = getattr(config, "num_decoder_layers", None) or config.num_hidden_layers
    if model.config.is_encoder_decoder:
        layers, model = getattr(config, "decoder_layers", None) or layers, model.get_decoder()
    lists = (part for part in model.modules() if isinstance(part, torch.nn.ModuleList))
    blocks = next((part for part in lists if len(part) == layers), None)
    if blocks is None:
        raise ModelError("the model's blocks cannot be identified; use --train all or lora.")
    if count > len(blocks):
        raise UsageError(f"--train last-{count}-blocks: the model has {len(blocks)}; use fewer.")
    return list(blocks[-count:])


def _add_lora(model: Any, rank: int, seed: int) -> None:
    """Add low-rank matrices to all linear layers; they start at zero."""
    config = lora_config(rank)
    from peft import inject_adapter_in_model

    with torch.random.fork_rng(), warnings.catch_warnings():
        # GPT-2's layers keep their weights transposed: peft corrects its setting and warns.
        warnings.filterwarnings("ignore", "fan_in_fan_out is set to False")
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model)


def lora_config(rank: int, **options: Any) -> Any:
    """Return peft's configuration: scale 2, no dropout, all linear layers except the head."""
    with needs("peft", "train"):
        from peft import LoraConfig
    defaults: dict[str, Any] = {"r": rank, "lora_alpha": LORA_SCALE * rank, "lora_dropout": 0.0}
    return LoraConfig(**defaults | {"bias": "none", "target_modules": "all-linear"} | options)
