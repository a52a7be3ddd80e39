"""What a search needs of next-token distributions, read on the device and fetched at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..decoding import Decoder
from .lm import TreeLM
from .vocabulary import Ids, Key, Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
LOOSE = 32
"""How many loose tokens of a node are looked at one by one, the most likely ones."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Shares of the next-token mass of each node (a row each).

    `ends`: the tokens that settle the outcome. `planned`: the planned tokens. `loose`: the most
    likely loose tokens and their shares, `loose_total` the share of all loose ones.
    """

    ends: list[float]
    planned: list[Floats]
    loose: list[tuple[Ids, Floats]]
    loose_total: list[float]


class Reader:
    """Turns logits into digests under a decoder."""

    def __init__(self, lm: TreeLM, vocabulary: Vocabulary, decoder: Decoder) -> None:
        self.vocabulary = vocabulary
        self.decoder = decoder
        self._device = lm.device
        self._masks: dict[Key, tuple[Tensor, Tensor]] = {}

    def probabilities(self, logits: Any) -> Tensor:
        """Next-token probabilities under the decoder, in float32 at least."""
        import torch

        wide = logits if logits.dtype == torch.float64 else logits.float()
        return self.decoder.log_probs(wide).exp()

    def read(self, logits: Any, keys: Sequence[Key], planned: Sequence[Ids]) -> Digest:
        """The digest of nodes with the given logits, tables and planned tokens."""
        probs = self.probabilities(logits)
        shares = self._planned(probs, planned)
        ends: list[float] = [0.0] * len(keys)
        totals: list[float] = [0.0] * len(keys)
        empty = (np.zeros(0, dtype=np.int64), np.zeros(0))
        loose: list[tuple[Ids, Floats]] = [empty] * len(keys)
        for key in dict.fromkeys(keys):
            rows = np.flatnonzero([k == key for k in keys])
            end, total, ids, top = self._by_table(probs, key, rows)
            for place, row in enumerate(rows.tolist()):
                ends[row], totals[row] = end[place], total[place]
                loose[row] = (ids[place], top[place])
        return Digest(ends, shares, loose, totals)

    def _planned(self, probs: Tensor, planned: Sequence[Ids]) -> list[Floats]:
        import torch

        counts = [len(tokens) for tokens in planned]
        rows = torch.as_tensor(np.repeat(np.arange(len(planned)), counts), device=probs.device)
        tokens = torch.as_tensor(np.concatenate(planned), device=probs.device)
        flat = probs[rows, tokens].double().cpu().numpy()
        return np.split(flat, np.cumsum(counts)[:-1])

    def _by_table(self, probs: Tensor, key: Key, rows: Ids) -> tuple[Any, Any, Any, Any]:
        import torch

        ends, loose = self._tensors(key)
        part = probs[torch.as_tensor(rows, device=probs.device)]
        end = part @ ends.to(part.dtype)
        open_part = part[:, loose]
        top = open_part.topk(min(LOOSE, len(loose)), -1)
        fetched = (end, open_part.sum(-1), loose[top.indices], top.values)
        return tuple(x.cpu().numpy() for x in fetched)  # type: ignore[return-value]

    def _tensors(self, key: Key) -> tuple[Tensor, Tensor]:
        import torch

        if key not in self._masks:
            table = self.vocabulary.table(key)
            ends = torch.zeros(len(self.vocabulary), device=self._device)
            ends[torch.as_tensor(table.ends, device=self._device)] = 1.0
            self._masks[key] = (ends, torch.as_tensor(table.loose, device=self._device))
        return self._masks[key]
