"""Everything that decides the weights of a fine-tuned model; the paper's settings by default."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from aleatoric.errors import UsageError
from aleatoric.training.trainable import PAPER, check_trainable

Loss = Literal["text", "human", "mixed"]
Schedule = Literal["constant", "linear", "cosine"]
LOSSES: tuple[str, ...] = get_args(Loss)
SCHEDULES: tuple[str, ...] = get_args(Schedule)


@dataclass(frozen=True)
class Recipe:
    """How one model is trained.

    `loss` is the text's own next tokens, people's distributions, or both: `mix` of the latter and
    the rest of the former. `patience` stops training after so many epochs without a lower
    validation loss and keeps the best weights; without it the last ones are kept.
    """

    loss: str = "text"
    mix: float = 0.5
    train: str = PAPER
    rate: float = 5e-4
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    batch: int = 5
    epochs: int = 10
    schedule: str = "constant"
    warmup: int = 0
    clip_norm: float = 0.0
    patience: int | None = None
    lora_rank: int = 8
    tolerance: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.loss in LOSSES, f"there is no loss {self.loss!r}; use {', '.join(LOSSES)}")
        known = ", ".join(SCHEDULES)
        _check(self.schedule in SCHEDULES, f"there is no schedule {self.schedule!r}; use {known}")
        _check(0 <= self.mix <= 1, f"--mix {self.mix:g} is no share; use 0 to 1")
        for name in ("rate", "epsilon", "tolerance"):
            value = getattr(self, name)
            good = math.isfinite(value) and value > 0
            _check(good, f"--{name} {value:g} must be a number above 0")
        for name in ("batch", "epochs", "lora_rank"):
            _check(getattr(self, name) >= 1, f"--{name.replace('_', '-')} must be 1 or more")
        check_trainable(self.train)

    @property
    def human_share(self) -> float:
        """How much of the loss is people's distributions.

        >>> Recipe(loss="human").human_share, Recipe(loss="text").human_share
        (1.0, 0.0)
        """
        return {"text": 0.0, "human": 1.0}.get(self.loss, self.mix)

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 1, of so many.

        >>> Recipe(schedule="linear", rate=1.0).rate_at(6, 10)
        0.5
        """
        if step <= self.warmup:
            return self.rate * step / self.warmup
        done = (step - 1 - self.warmup) / max(1, steps - self.warmup)
        if self.schedule == "linear":
            return self.rate * (1.0 - done)
        if self.schedule == "cosine":
            return self.rate * 0.5 * (1.0 + math.cos(math.pi * done))
        return self.rate

    def as_dict(self) -> dict[str, Any]:
        """For a run's manifest."""
        return asdict(self)


def _check(good: bool, problem: str) -> None:
    if not good:
        raise UsageError(f"{problem}.")
