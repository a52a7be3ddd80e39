"""Fine-tuning on one fold: batches of passages, epoch by epoch, resumable at any saved step.

The same seed on the same CPU gives the same weights, whether or not training was interrupted: the
order of the passages and all random numbers of a step depend on the seed, the fold and the step.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from aleatoric.errors import (
    AleatoricError,
    DataError,
    MissingExtraError,
    ModelError,
    StorageError,
    UsageError,
)
from aleatoric.models.base import is_out_of_memory
from aleatoric.models.hf import HFModel
from aleatoric.registry import Track, quietly
from aleatoric.rng import stream
from aleatoric.tuning.losses import (
    Row,
    WordTree,
    mean_nll,
    soft_label_losses,
    text_losses,
    text_rows,
    tree_logits,
    word_probabilities,
)
from aleatoric.tuning.recipe import PAPER, Fold, Passage, Recipe, block_count

if TYPE_CHECKING:
    from torch import Tensor


_FACTS = "facts"
_FULL_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


@dataclass(frozen=True, eq=False)
class Saved:
    """Named tensors, and what is to be known of them."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix/`, without it."""
        start = f"{prefix}/"
        return {
            name.removeprefix(start): value
            for name, value in self.tensors.items()
            if name.startswith(start)
        }


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any] | None = None
) -> None:
    """Write tensors beside their place and move them there, so that no half file is ever seen."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    beside = path.with_name(f".{path.name}.part")
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(plain, beside, {_FACTS: json.dumps(dict(facts or {}))})
        _sync(beside)
        os.replace(beside, path)
    except (OSError, SafetensorError) as error:
        raise unwritten(path, error) from None
    finally:
        with suppress(OSError):  # gone where all went well
            beside.unlink()


def unwritten(path: Path, error: Exception) -> AleatoricError:
    """What the disk said while weights were written, as one sentence.

    >>> print(unwritten(Path("w"), ValueError("No space left on device (os error 28)")))
    w: the disk is full; make room and repeat the command.
    """
    told = _OS_ERROR.search(str(error))  # safetensors tells the number in its sentence alone
    number = error.errno if isinstance(error, OSError) else told and int(told[1])
    if number in _FULL_DISKS:
        return StorageError(f"{path}: the disk is full", "make room and repeat the command")
    return UsageError(f"{path}: cannot be written ({error}); choose another place.")


def load_tensors(path: Path, device: str = "cpu") -> Saved:
    """What `save_tensors` wrote; a damaged file is refused."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt", device=device) as file:
            facts = json.loads((file.metadata() or {}).get(_FACTS, "{}"))
            return Saved({name: file.get_tensor(name) for name in file.keys()}, facts)  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        fix = "remove it, and what it holds is made again"
        raise DataError.at(path, None, f"is damaged ({error})", fix) from None


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


CHECKPOINT, TRAINED = "checkpoint.safetensors", "trained.safetensors"
Trees = Mapping[str, WordTree]
"""Passages' word trees by group; those of passages without a soft-label loss may be missing."""


@dataclass(frozen=True)
class Epoch:
    """How a model stands after an epoch; 0 is before training. Losses are in nats.

    `train_loss` is the mean over the epoch's steps of what was minimised, `validation_loss` the
    same loss on the validation passages; the others are means over tokens (nll) and contexts.
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
    """The kept weights, from which epoch they are, and the way to them."""

    weights: dict[str, Tensor]
    kept: int
    history: tuple[Epoch, ...]


@dataclass(frozen=True)
class Progress:
    """Where training stands: whole epochs are in the history, `batches` are done of the next."""

    batches: int = 0
    steps: int = 0
    loss: float = 0.0
    kept: int = 0
    history: tuple[Epoch, ...] = ()


def train_fold(
    model: Tunable,
    fold: Fold,
    recipe: Recipe,
    trees: Trees,
    folder: Path,
    save_every: int = 0,
    track: Track[int] = quietly,
) -> Trained:
    """The model of a fold: read from `folder` if it is there, else trained from where it stopped.

    A checkpoint is written after every epoch, and after every `save_every` steps.
    """
    identity = _identity(model, fold, recipe)
    if (folder / TRAINED).exists():
        return _read_trained(folder / TRAINED, identity)
    with _same_every_time(model.lm), _told_memory(f"{recipe.loss}, fold {fold.number}"):
        training = _Training(model, fold, recipe, trees, folder, identity)
        trained = training.run(save_every, track)
    facts = {"identity": identity, "kept": trained.kept}
    history = {"history": [asdict(epoch) for epoch in trained.history]}
    save_tensors(folder / TRAINED, trained.weights, facts | history)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return trained


def _read_trained(path: Path, identity: Mapping[str, Any]) -> Trained:
    saved = load_tensors(path)
    check_identity(path, saved, identity)
    history = tuple(Epoch(**epoch) for epoch in saved.facts["history"])
    return Trained(saved.tensors, saved.facts["kept"], history)


def _identity(model: Tunable, fold: Fold, recipe: Recipe) -> dict[str, Any]:
    """What must be the same for saved weights to be these."""
    sides = {"train": fold.train, "validation": fold.validation}
    passages = {name: [_passage_mark(p) for p in own] for name, own in sides.items()}
    return {"recipe": recipe.as_dict(), "fold": fold.number} | model_identity(model) | passages


def model_identity(model: Tunable) -> dict[str, Any]:
    """What tells a model's weights before training, those that train and the others."""
    return {"model": model.digest, "base": model.base_digest}


def _passage_mark(passage: Passage) -> str:
    said = "\0".join(f"{i.id}\0{i.context}\0{i.responses}\0{i.original}" for i in passage.items)
    return f"{passage.group}:{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def check_identity(path: Path, saved: Saved, identity: Mapping[str, Any]) -> None:
    """Refuse saved weights that are of another training, or of another model."""
    known = saved.facts.get("identity", {})
    for name, value in identity.items():
        # Weights of the first version tell only of those parameters that train.
        if known.get(name) == value or (name == "base" and name not in known):
            continue
        if name in ("model", "base"):
            problem = "was trained from another base model (its weights differ)"
            raise UsageError(f"{path}: {problem}; use that model again, or move the file away.")
        raise UsageError(f"{path}: is of another training (its {name} differs); move it away.")


class _Training:
    """A model on its way through the epochs of one fold."""

    def __init__(
        self,
        model: Tunable,
        fold: Fold,
        recipe: Recipe,
        trees: Trees,
        folder: Path,
        identity: Mapping[str, Any],
    ) -> None:
        self._model, self._fold, self._recipe, self._trees = model, fold, recipe, trees
        self._network, self._device = model.lm.model, model.lm.device
        self._path, self._identity = folder / CHECKPOINT, identity
        self._rows: dict[str, list[Row]] = {
            p.group: text_rows(model.lm, p) for p in (*fold.train, *fold.validation)
        }
        self._steps = recipe.steps(len(fold.train))
        recipe.check_warmup(self._steps)
        model.reset()
        self._optimiser = torch.optim.AdamW(
            model.parameters.values(),
            lr=recipe.rate,
            eps=recipe.epsilon,
            weight_decay=recipe.weight_decay,
        )
        self._best: dict[str, Tensor] = {}
        self._state = Progress()

    def run(self, save_every: int, track: Track[int]) -> Trained:
        """All epochs, or as many as early stopping leaves."""
        if self._path.exists():
            self._restore()
        else:
            self._end_epoch(None)
        left = range(self._state.steps, self._steps)
        for step in track(left, len(left), f"{self._recipe.loss}, fold {self._fold.number}"):
            if self._has_waited():
                break
            self._advance()
            if not self._state.batches or (save_every and (step + 1) % save_every == 0):
                self._save()
        weights = self._best if self._recipe.patience else self._model.weights()
        self._model.load(weights)
        return Trained(weights, self._state.kept, self._state.history)

    def _has_waited(self) -> bool:
        """Whether the validation loss has not fallen for as many epochs as patience lasts."""
        state, patience = self._state, self._recipe.patience
        done = len(state.history) - 1
        return patience is not None and not state.batches and done - state.kept >= patience

    def _advance(self) -> None:
        """One step, and the end of the epoch where it is the last one."""
        batches = self._batches(len(self._state.history))
        loss = self._step(batches[self._state.batches])
        state = self._state
        self._state = replace(
            state, batches=state.batches + 1, steps=state.steps + 1, loss=state.loss + loss
        )
        if self._state.batches == len(batches):
            self._end_epoch(self._state.loss / len(batches))

    def _batches(self, epoch: int) -> list[list[Passage]]:
        """The passages of an epoch, in an order that depends on seed, fold and epoch alone."""
        train, size = self._fold.train, self._recipe.batch
        order = stream(self._recipe.seed, "passages", self._fold.number, epoch)
        passages = [train[i] for i in order.permutation(len(train))]
        return [passages[low : low + size] for low in range(0, len(passages), size)]

    def _step(self, batch: Sequence[Passage]) -> float:
        for group in self._optimiser.param_groups:
            group["lr"] = self._recipe.rate_at(self._state.steps + 1, self._steps)
        self._network.train()
        torch.manual_seed(self._seed_of_step())
        self._optimiser.zero_grad()
        loss = float(sum(part for part in self._backward(batch)))
        self._check_finite(loss, "the training loss", self._state.steps + 1)
        if self._recipe.clip_norm:
            clip_grad_norm_(self._model.parameters.values(), self._recipe.clip_norm)
        self._optimiser.step()
        return loss

    def _check_finite(self, loss: float, what: str, step: int) -> None:
        """Stop where a loss is no number any more: no step from there leads anywhere."""
        if math.isfinite(loss):
            return
        state, recipe = self._state, self._recipe
        epoch = f"epoch {len(state.history)}, step {step}"
        fix = f"begin another run with --rate below {recipe.rate:g}, --clip-norm 1 or --warmup"
        if not state.history:
            epoch, fix = "before training", "use another model or other texts"
        place = f"{recipe.loss}, fold {self._fold.number}, {epoch}"
        raise UsageError(f"{place}: {what} is {loss}; {fix}.")

    def _seed_of_step(self) -> int:
        keys = ("step", self._fold.number, self._state.steps)
        return int(stream(self._recipe.seed, *keys).integers(2**31))

    def _backward(self, batch: Sequence[Passage]) -> Iterator[Tensor]:
        """Add up the gradients of a batch, a passage's tree at a time: memory stays small."""
        share = self._recipe.human_share
        if share < 1:
            for part in text_losses(self._network, self._rows_of(batch), self._recipe.batch):
                yield _back((1 - share) * part)
        if share > 0:
            trees = [self._trees[passage.group] for passage in batch]
            contexts = sum(tree.contexts for tree in trees)
            for tree in trees:
                yield _back(share * human_losses(self._network, tree).sum() / contexts)

    def _rows_of(self, passages: Sequence[Passage]) -> list[Row]:
        return [row for passage in passages for row in self._rows[passage.group]]

    def _end_epoch(self, train_loss: float | None) -> None:
        state, number = self._state, len(self._state.history)
        epoch = self._measured(number, train_loss)
        losses = [past.validation_loss for past in state.history]
        better = not losses or epoch.validation_loss < min(losses)
        kept = number if better or self._recipe.patience is None else state.kept
        if self._recipe.patience and better:
            self._best = self._model.weights()
        history = (*state.history, epoch)
        self._state = Progress(0, state.steps, 0.0, kept, history)

    def _measured(self, number: int, train_loss: float | None) -> Epoch:
        share, sides = self._recipe.human_share, (self._fold.train, self._fold.validation)
        train, validation = (mean_nll(self._network, self._rows_of(side)) for side in sides)
        trees = [self._trees[p.group] for p in self._fold.validation if p.group in self._trees]
        human = mean_human_loss(self._network, trees) if trees else None
        known = {"training texts": train, "validation texts": validation, "answers": human or 0.0}
        for name, loss in known.items():
            self._check_finite(loss, f"the loss of the {name}", self._state.steps)
        loss = (1 - share) * validation + share * (human or 0.0)
        return Epoch(number, self._state.steps, train_loss, loss, train, validation, human)

    def _save(self) -> None:
        weights = {f"weights/{name}": own for name, own in self._model.parameters.items()}
        best = {f"best/{name}": own for name, own in self._best.items()}
        moments = {
            f"{kind}/{name}": value
            for name, own in self._model.parameters.items()
            for kind, value in self._optimiser.state.get(own, {}).items()
        }
        facts = {"identity": self._identity, "state": asdict(self._state)}
        save_tensors(self._path, weights | best | moments, facts)

    def _restore(self) -> None:
        saved = load_tensors(self._path)
        check_identity(self._path, saved, self._identity)
        self._model.load(saved.part("weights"))
        self._best = {name: own.to(self._device) for name, own in saved.part("best").items()}
        for kind in ("step", "exp_avg", "exp_avg_sq"):
            for name, value in saved.part(kind).items():
                own = self._model.parameters[name]
                # AdamW keeps its count of steps on the CPU.
                placed = value if kind == "step" else value.to(own.device)
                self._optimiser.state[own][kind] = placed
        state = saved.facts["state"]
        history = tuple(Epoch(**epoch) for epoch in state.pop("history"))
        self._state = Progress(**state, history=history)


def human_losses(network: Any, tree: WordTree) -> Tensor:
    """Each context's soft-label loss."""
    return soft_label_losses(word_probabilities(tree_logits(network, tree), tree), tree)


def mean_human_loss(network: Any, trees: Sequence[WordTree]) -> float:
    """The mean soft-label loss over all contexts, without training."""
    network.eval()
    with torch.no_grad():
        total = sum(float(human_losses(network, tree).sum()) for tree in trees)
    return total / sum(tree.contexts for tree in trees)


def _back(loss: Tensor) -> Tensor:
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


@contextmanager
def _same_every_time(lm: Any) -> Iterator[None]:
    """On the CPU only algorithms that give the same bits again; leaves torch as it was."""
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
def _told_memory(place: str) -> Iterator[None]:
    """Too little memory, told in a sentence; the last checkpoint stays."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        fix = "begin another run with a smaller --batch, --train last-1-block or --train lora"
        raise ModelError(f"{place}: out of memory; {fix}.") from error


LORA_SCALE = 2
"""How much low-rank additions count: peft's alpha over the rank."""


@dataclass(frozen=True, eq=False)
class Tunable:
    """A model with the parameters that train, and their values before any training."""

    lm: HFModel
    parameters: Mapping[str, Any]
    initial: Mapping[str, Tensor]

    def weights(self) -> dict[str, Tensor]:
        """Copies of the parameters as they are now."""
        return {name: own.detach().clone() for name, own in self.parameters.items()}

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Put weights in place."""
        if weights.keys() != self.parameters.keys():
            raise ModelError("these weights belong to other parameters than those that train.")
        for name, own in self.parameters.items():
            own.data.copy_(weights[name])

    def reset(self) -> None:
        """Back to the model before training."""
        self.load(self.initial)

    @cached_property
    def digest(self) -> str:
        """What tells the parameters that train, as they were before, from any other's."""
        return _digest(self.initial)

    @cached_property
    def base_digest(self) -> str:
        """What tells the parameters that stay as they are from any other's."""
        return _digest(
            {name: own for name, own in _kept(self.lm.model) if name not in self.initial}
        )


def _kept(model: Any) -> Iterator[tuple[str, Tensor]]:
    """All of a model that is written where it is saved, tied parameters once."""
    saved = model.state_dict().keys()
    for name, own in chain(model.named_parameters(), model.named_buffers()):
        if name in saved:
            yield name, own.detach()


def _digest(tensors: Mapping[str, Tensor]) -> str:

    found = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        found.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        flat = value.cpu().contiguous().flatten()
        found.update(flat.view(torch.uint8).numpy().data)
    return found.hexdigest()[:16]


def make_tunable(lm: HFModel, which: str = PAPER, rank: int = 8, seed: int = 0) -> Tunable:
    """Let the named parameters train: `last-2-blocks`, `all` or `lora`.

    A block is one layer of the transformer; the norm and the head behind the last one stay fixed.
    """
    for own in lm.model.parameters():
        own.requires_grad_(False)
    if which == "lora":
        _add_lora(lm.model, rank, seed)
    elif which == "all":
        lm.model.requires_grad_(True)
    else:
        for block in _last_blocks(lm.model, block_count(which)):
            block.requires_grad_(True)
    chosen = {name: own for name, own in lm.model.named_parameters() if own.requires_grad}
    return Tunable(lm, chosen, {name: own.detach().clone() for name, own in chosen.items()})


def _last_blocks(model: Any, count: int) -> list[Any]:
    blocks = next(_stacks(model), None)
    if blocks is None:
        raise ModelError("the model's blocks cannot be told apart; use --train all or lora.")
    if count > len(blocks):
        raise UsageError(f"--train last-{count}-blocks: the model has {len(blocks)}; use fewer.")
    return list(blocks[-count:])


def _stacks(model: Any) -> Iterator[Any]:
    """Lists of modules as long as the model has layers."""
    layers = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == layers:
            yield module


def _add_lora(model: Any, rank: int, seed: int) -> None:
    """Low-rank additions to all linear layers; they begin as nothing."""
    config = lora_config(rank)
    from peft import inject_adapter_in_model

    with torch.random.fork_rng(), warnings.catch_warnings():
        # GPT-2's layers keep their weights turned around: peft sees it, sets it right and says so.
        warnings.filterwarnings("ignore", "fan_in_fan_out is set to False")
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model)


def lora_config(rank: int, **more: Any) -> Any:
    """What peft must know of our additions: scale 2, no dropout, all linear layers but the head."""
    try:
        from peft import LoraConfig
    except ModuleNotFoundError:
        raise MissingExtraError("peft", "train") from None
    known: dict[str, Any] = {"r": rank, "lora_alpha": LORA_SCALE * rank, "lora_dropout": 0.0}
    return LoraConfig(**known | {"bias": "none", "target_modules": "all-linear"} | more)
