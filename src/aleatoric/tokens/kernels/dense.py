"""Sums over every class at every token: the only pass that looks at whole rows class by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.tokens.kernels.columns import Floats

LOWEST = -24.0
"""Natural logarithm of the probability that the lowest cell begins at; smaller ones join it."""
_SLACK = 1e-6


@dataclass(frozen=True)
class RowSums:
    """`cells` is (3, cells, classes): counts, probabilities, hits by cell of equal ratio.

    The probabilities of at least `upper` stand one by one, with their class and whether it is y.
    """

    cells: Floats
    upper_probs: Floats
    upper_classes: NDArray[np.int64]
    upper_correct: Floats


def of_rows(values: Any, targets: NDArray[np.int64], n_cells: int, upper: float) -> RowSums:
    """The sums of rows of logits or log-probabilities, on the device that holds them.

    >>> found = of_rows(np.log(np.array([[0.75, 0.25]])), np.array([1]), 4, 0.5)
    >>> found.cells[:, 3].round(6).tolist(), found.upper_classes.tolist()
    ([[1.0, 1.0], [0.75, 0.25], [0.0, 1.0]], [0])
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
    tables = [
        torch.bincount(place.ravel(), minlength=n_cells * width).double(),
        torch.bincount(place.ravel(), probs.ravel().double(), minlength=n_cells * width),
        torch.bincount(hits, minlength=n_cells * width).double(),
    ]
    # A little below the limit: the caller places what is near it by its own rule.
    row, column = (probs >= upper * (1 - _SLACK)).nonzero(as_tuple=True)
    correct = column == wanted[row]
    return RowSums(
        torch.stack(tables).view(3, n_cells, width).cpu().numpy(),
        probs[row, column].double().cpu().numpy(),
        column.cpu().numpy(),
        correct.double().cpu().numpy(),
    )
