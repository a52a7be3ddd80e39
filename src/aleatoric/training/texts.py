"""The text loss: the next token of the passages themselves, padding left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aleatoric.models.hf import HFModel
from aleatoric.training.folds import Passage

IGNORED = -100
Row = tuple[int, ...]


def text_rows(lm: HFModel, passage: Passage) -> list[Row]:
    """The tokens of a passage's texts, of each as many as the model takes.

    A text of one token has none to be predicted and is left out.
    """
    rows = (row[: lm.window] for row in lm.encode_all(passage.texts))
    return [row for row in rows if len(row) > 1]


def padded(rows: Sequence[Row], device: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, which of them are real, and what is to be predicted, padded on the right.

    >>> ids, real, wanted = padded([(5, 6), (7,)], "cpu")
    >>> ids.tolist(), wanted.tolist()
    ([[5, 6], [7, 0]], [[6, -100], [-100, -100]])
    """
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    real = torch.arange(width, device=device) < lengths[:, None]
    wanted = torch.full_like(ids, IGNORED)
    wanted[:, :-1] = torch.where(real[:, 1:], ids[:, 1:], IGNORED)
    return ids, real, wanted


def text_losses(model: Any, rows: Sequence[Row], batch: int) -> Iterator[Tensor]:
    """The mean negative log-likelihood of the rows' real tokens, in nats, part by part.

    The parts of `batch` rows add up to it: gradients of one can be taken before the next is run.
    """
    tokens = max(1, predicted(rows))
    return (_summed(model, part) / tokens for part in _parts(rows, batch))


def _parts(rows: Sequence[Row], batch: int) -> list[Sequence[Row]]:
    return [rows[low : low + batch] for low in range(0, len(rows), batch)]


def _summed(model: Any, rows: Sequence[Row], temperature: float = 1.0) -> Tensor:
    ids, real, wanted = padded(rows, model.device)
    logits = model(input_ids=ids, attention_mask=real.long(), use_cache=False).logits
    wide = (logits if logits.dtype == torch.float64 else logits.float()) / temperature
    return functional.cross_entropy(
        wide.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED, reduction="sum"
    )


def predicted(rows: Sequence[Row]) -> int:
    """How many tokens of the rows are predicted: all but the first of each.

    >>> predicted([(5, 6), (7,)])
    1
    """
    return sum(len(row) - 1 for row in rows)


def mean_nll(model: Any, rows: Sequence[Row], batch: int = 8, temperature: float = 1.0) -> float:
    """The mean negative log-likelihood of all predicted tokens, without training."""
    model.eval()
    with torch.no_grad():
        total = sum(_summed(model, part, temperature).double() for part in _parts(rows, batch))
    return float(total) / max(1, predicted(rows))
