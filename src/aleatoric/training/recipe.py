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
MOST = 1e30
"""AdamW's numbers must fit single precision, with room for its corrections."""


@dataclass(frozen=True)
class Recipe:
    """How one model is trained.

    `loss` is the text's own next tokens, people's distributions, or both: `mix` of the latter and
    the rest of the former. `patience` stops training after so many epochs without a lower
    validation loss and keeps the best weights; without it the last ones are kept. `tolerance` is
    how far the search for the words' token sequences goes, as the exact estimator's does.
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
        check_trainable(self.train)
        self._check_numbers()

    def _check_numbers(self) -> None:
        _check(_is_number(self.mix) and self.mix <= 1, f"--mix {self.mix} is no share; use 0 to 1")
        for name in ("rate", "epsilon"):
            value = getattr(self, name)
            good = _is_number(value) and 0 < value <= MOST
            _check(good, f"--{name} {value} is no number above 0; use {_DEFAULTS[name]:g}, say")
        for name in ("weight_decay", "clip_norm", "tolerance"):
            value = getattr(self, name)
            _check(_is_number(value), f"{_option(name)} {value} is no number from 0 up")
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            good = type(value) is int and value >= least
            _check(good, f"{_option(name)} {value} is no whole number from {least} up")
        _check_patience(self.patience)

    def check_warmup(self, steps: int) -> None:
        """Refuse a warmup that so many steps never leave: the full rate would not be reached.

        >>> Recipe(warmup=5).check_warmup(6)
        """
        fix = f"use 0 to {steps - 1}, or more --epochs" if steps > 1 else "use 0"
        problem = f"--warmup {self.warmup} does not end within the {steps} steps of training"
        _check(not self.warmup or self.warmup < steps, f"{problem}; {fix}")

    def steps(self, passages: int) -> int:
        """How many steps training on so many passages takes.

        >>> Recipe(batch=5, epochs=10).steps(31)
        70
        """
        return self.epochs * math.ceil(passages / self.batch)

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


_DEFAULTS = {"rate": Recipe.rate, "epsilon": Recipe.epsilon}
_COUNTS = {"batch": 1, "epochs": 1, "lora_rank": 1, "warmup": 0}
"""What is counted in whole numbers -> the least of it."""


def _option(name: str) -> str:
    """What a setting is called on the command line.

    >>> _option("weight_decay")
    '--weight-decay'
    """
    return f"--{name.replace('_', '-')}"


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number from 0 up."""
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def _check_patience(patience: Any) -> None:
    good = patience is None or (type(patience) is int and patience >= 1)
    _check(good, f"--patience {patience} is no whole number from 1 up; leave it out not to stop")


def _check(good: bool, problem: str) -> None:
    if not good:
        raise UsageError(f"{problem}.")
