"""What fine-tuning minimizes: the losses of passages and people's words, in batches of examples."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import Tensor

from aleatoric.tuning import losses
from aleatoric.tuning.losses import TokenRow, WordTree
from aleatoric.tuning.recipe import FinetuneJob, Fold, FoldPassage

if TYPE_CHECKING:
    from aleatoric.models.hf import HFModel

Trees = Mapping[str, WordTree]
"""Word trees by group; missing for passages without a soft-label loss."""


class Measured(NamedTuple):
    """Losses of the whole validation part, and of training texts, in nats."""

    validation_loss: float
    """The minimized loss."""
    train_nll: float
    validation_nll: float
    validation_human: float | None = None


class Objective(Protocol):
    """Examples and their losses."""

    @property
    def place(self) -> str:
        """What is trained, for messages and progress."""

    @property
    def streams(self) -> Sequence[int]:
        """What distinguishes its random numbers from those of other objectives of a run."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """What must be equal for saved weights to belong to it."""

    @property
    def size(self) -> int:
        """The number of training examples."""

    def losses(self, network: Any, batch: Sequence[int]) -> Iterator[Tensor]:
        """Yield the mean loss of some training examples, as parts to be added up."""

    def measured(self, network: Any) -> Measured:
        """Return losses without training."""


class PassageObjective:
    """The next tokens of the passages of a fold, and people's distributions of next words."""

    def __init__(self, lm: HFModel, fold: Fold, job: FinetuneJob, trees: Trees) -> None:
        self._fold, self._job, self._trees = fold, job, trees
        self._rows: dict[str, list[TokenRow]] = {
            p.group: losses.text_rows(lm, p) for p in (*fold.train, *fold.validation)
        }
        self.place, self.streams = f"{job.loss}, fold {fold.number}", (fold.number,)
        self.size = len(fold.train)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The fold and digests of its passages."""
        sides = {"train": self._fold.train, "validation": self._fold.validation}
        digests = {name: [_passage_digest(p) for p in side] for name, side in sides.items()}
        return {"fold": self._fold.number} | digests

    def losses(self, network: Any, batch: Sequence[int]) -> Iterator[Tensor]:
        """Yield the loss of texts, then that of people's words tree by tree."""
        passages, share = [self._fold.train[i] for i in batch], self._job.human_share
        if share < 1:
            for part in losses.text_losses(network, self._rows_of(passages), self._job.batch):
                yield (1 - share) * part
        if share > 0:
            trees = [self._trees[passage.group] for passage in passages]
            contexts = sum(tree.contexts for tree in trees)
            for tree in trees:
                yield share * losses.human_losses(network, tree).sum() / contexts

    def measured(self, network: Any) -> Measured:
        """Return losses of all training and validation passages."""
        share, sides = self._job.human_share, (self._fold.train, self._fold.validation)
        train, validation = (losses.mean_nll(network, self._rows_of(side)) for side in sides)
        trees = [self._trees[p.group] for p in self._fold.validation if p.group in self._trees]
        human = losses.mean_human_loss(network, trees) if trees else None
        loss = (1 - share) * validation + share * (human or 0.0)
        return Measured(loss, train, validation, human)

    def _rows_of(self, passages: Sequence[FoldPassage]) -> list[TokenRow]:
        return [row for passage in passages for row in self._rows[passage.group]]


def _passage_digest(passage: FoldPassage) -> str:
    text = "\0".join(f"{i.id}\0{i.context}\0{i.responses}\0{i.original}" for i in passage.items)
    return f"{passage.group}:{hashlib.sha256(text.encode()).hexdigest()[:12]}"
