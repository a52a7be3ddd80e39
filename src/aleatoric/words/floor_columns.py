"""What is saved an item for the floors of calibration errors, by name."""

from __future__ import annotations

from dataclasses import astuple, fields
from functools import cache
from itertools import product

import numpy as np

from aleatoric.inference.agreement import Parts
from aleatoric.inference.answers import MAJORITIES, Answers
from aleatoric.metrics.reduction import Chunk, Floats

REPLICATES = 2
TRUTHS = ("chao", "again")
"""Chao's estimate, and that of people drawn anew from it."""
SHARES = tuple(field.name for field in fields(Parts))
OF_MAJORITY = ("equal", "steps")


def column(kind: str, truth: str, number: int) -> str:
    """The name of a perfect model's answers.

    >>> column("confidence", "chao", 0)
    'floor_confidence_chao_0'
    """
    return f"floor_{kind}_{truth}_{number}"


@cache
def calibration_columns() -> tuple[str, ...]:
    """All columns of the calibration errors' floors, in the order of `saved_values`.

    >>> calibration_columns()[0], calibration_columns()[-1]
    ('floor_confidence_chao_0', 'floor_estimated_quarters')
    """
    numbers = range(REPLICATES)
    names = [column(*own) for own in product(("confidence", "original"), TRUTHS, numbers)]
    for target in MAJORITIES:
        names += [column(target, "chao", i) for i in numbers]
        names += [f"floor_{target}_{name}" for name in OF_MAJORITY]
    return (*names, *(f"floor_{name}" for name in SHARES))


def saved_values(answers: Answers) -> dict[str, float | None]:
    """An item's value of every column."""
    values = [*answers.confidence.ravel().tolist(), *answers.original.ravel().tolist()]
    for own in answers.majorities.values():
        values += [*own.right, *(getattr(own, name) for name in OF_MAJORITY)]
    return dict(zip(calibration_columns(), [*values, *astuple(answers.parts)], strict=True))


def stacked(chunk: Chunk, kind: str, truth: str) -> Floats:
    """The replicates of perfect models' answers, side by side."""
    return np.concatenate([chunk[column(kind, truth, i)] for i in range(REPLICATES)], axis=1)
