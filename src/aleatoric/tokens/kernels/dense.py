"""Sums over every class at every token: the only pass that looks at whole rows class by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Floats

LOWEST = -24.0
"""Natural logarithm of the probability that the lowest cell begins at; smaller ones join it."""
_SLACK = 1e-6


@dataclass(frozen=True)
class RowSums:
    """Counts and probabilities, (cells, classes), by cell of equal ratio, and the hits' places.

    The probabilities of at least `upper` stand one by one, with their class and whether it is y.
    """

    counts: NDArray[np.int64]
    probs: Floats
    hits: NDArray[np.int64]
    """Where in the flat tables each reference token's own probability went."""
    upper_probs: Floats
    upper_classes: NDArray[np.int64]
    upper_correct: Floats


def of_rows(values: Any, targets: NDArray[np.int64], n_cells: int, upper: float) -> RowSums:
    """The sums of rows of logits or log-probabilities, on the device that holds them.

    >>> found = of_rows(np.log(np.array([[0.75, 0.25]])), np.array([1]), 4, 0.5)
    >>> found.counts[3].tolist(), found.probs[3].round(6).tolist(), found.hits.tolist()
    ([1, 1], [0.75, 0.25], [7])
    >>> found.upper_classes.tolist(), found.upper_correct.tolist()
    ([0], [0.0])
    """
    import torch

    logits = torch.as_tensor(values)
    wide = logits if logits.dtype == torch.float64 else logits.float()
    probs = wide.softmax(-1)
    width = probs.shape[1]
    cells = probs.log().div_(-LOWEST).add_(1).mul_(n_cells).clamp_(0, n_cells - 1).long()
    place = cells.mul_(width).add_(torch.arange(width, device=probs.device))
    wanted = torch.as_tensor(targets, device=probs.device)
    hits = place.gather(1, wanted[:, None])[:, 0]
    counts = torch.bincount(place.ravel(), minlength=n_cells * width)
    mass = torch.bincount(place.ravel(), probs.ravel().double(), minlength=n_cells * width)
    # A little below the limit: the caller places what is near it by its own rule.
    row, column = (probs >= upper * (1 - _SLACK)).nonzero(as_tuple=True)
    correct = column == wanted[row]
    return RowSums(
        counts.view(n_cells, width).cpu().numpy(),
        mass.view(n_cells, width).cpu().numpy(),
        hits.cpu().numpy(),
        probs[row, column].double().cpu().numpy(),
        column.cpu().numpy(),
        correct.double().cpu().numpy(),
    )
