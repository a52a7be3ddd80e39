"""What a search needs of next-token distributions, read on the device and fetched at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.decoding import Decoder
from aleatoric.words.lm import TreeLM
from aleatoric.words.vocabulary import Ids, Key, Vocabulary

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Digest:
    """Shares of the next-token mass of some nodes.

    `ends[i]` is the share of the tokens that settle node i's outcome, `planned` the shares of the
    planned tokens of all nodes one after another, `loose_tokens[i]` the likeliest loose tokens
    with `loose[i]` their shares, `loose_rest[i]` the share of the other loose ones.
    """

    ends: Floats
    planned: Floats
    loose_tokens: Ids
    loose: Floats
    loose_rest: Floats


class Reader:
    """Turns logits into digests under a decoder."""

    def __init__(self, lm: TreeLM, vocabulary: Vocabulary, decoder: Decoder) -> None:
        self.vocabulary = vocabulary
        self.decoder = decoder
        self._device = lm.device
        self._keys: dict[Key, int] = {}
        self._ends: Tensor | None = None
        self._loose: dict[Key, Tensor] = {}

    def log_probs(self, logits: Any) -> Tensor:
        """Next-token log-probabilities under the decoder, in float32 at least."""
        import torch

        wide = logits if logits.dtype == torch.float64 else logits.float()
        return self.decoder.log_probs(wide)

    def probabilities(self, logits: Any) -> Tensor:
        """Next-token probabilities under the decoder."""
        return self.log_probs(logits).exp()

    def log_probs_of(self, logits: Any, tokens: Sequence[Ids]) -> list[Floats]:
        """For each row the log-probabilities of its tokens."""
        flat = _at(self.log_probs(logits), tokens).double().cpu().numpy()
        return np.split(flat, np.cumsum([len(row) for row in tokens])[:-1])

    def read(self, logits: Any, keys: Sequence[Key], planned: Sequence[Ids], k: int) -> Digest:
        """The digest of nodes with the given logits, tables and planned tokens."""
        probs = self.probabilities(logits)
        loose_tokens, loose, rest = self._read_loose(probs, keys, k)
        parts = [self._ends_of(probs, keys), _at(probs, planned), loose.flatten(), rest]
        fetched = _fetch(parts)
        shape = tuple(loose.shape)
        return Digest(
            fetched[0],
            fetched[1],
            loose_tokens.cpu().numpy(),
            fetched[2].reshape(shape),
            fetched[3],
        )

    def branches(self, logits: Any, keys: Sequence[Key], k: int) -> tuple[Floats, Ids, Floats]:
        """Each row's ending share, its k likeliest tokens that do not end, and their shares."""
        probs = self.probabilities(logits)
        ends = self._ends_of(probs, keys)
        mask = self._end_columns(keys).T
        top = probs.masked_fill(mask.bool(), 0.0).topk(min(k, probs.shape[-1]), -1)
        return (
            ends.double().cpu().numpy(),
            top.indices.cpu().numpy(),
            top.values.double().cpu().numpy(),
        )

    def _ends_of(self, probs: Tensor, keys: Sequence[Key]) -> Tensor:
        """The ending share of each row: one product with the tables' masks."""
        import torch

        self._register(keys)
        assert self._ends is not None
        columns = torch.as_tensor([self._keys[key] for key in keys], device=probs.device)
        by_table = probs @ self._ends.to(probs.dtype)
        return by_table.gather(1, columns[:, None])[:, 0]

    def _end_columns(self, keys: Sequence[Key]) -> Tensor:
        assert self._ends is not None
        return self._ends[:, [self._keys[key] for key in keys]]

    def _register(self, keys: Sequence[Key]) -> None:
        import torch

        fresh = [key for key in dict.fromkeys(keys) if key not in self._keys]
        if not fresh:
            return
        masks = torch.zeros((len(self.vocabulary), len(fresh)), device=self._device)
        for column, key in enumerate(fresh):
            self._keys[key] = len(self._keys)
            masks[torch.as_tensor(self.vocabulary.table(key).ends), column] = 1.0
        self._ends = masks if self._ends is None else torch.cat([self._ends, masks], 1)

    def _read_loose(
        self, probs: Tensor, keys: Sequence[Key], k: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The k likeliest loose tokens of each row, their shares, and the share of the others."""
        import torch

        tokens = torch.zeros((len(keys), k), dtype=torch.long, device=probs.device)
        shares = probs.new_zeros((len(keys), k))
        rest = probs.new_zeros(len(keys))
        for key in dict.fromkeys(keys):
            rows = torch.as_tensor([i for i, other in enumerate(keys) if other == key])
            rows, loose = rows.to(probs.device), self._loose_of(key)
            part = probs[rows[:, None], loose[None, :]]
            top = part.topk(min(k, len(loose)), -1)
            tokens[rows, : top.values.shape[1]] = loose[top.indices]
            shares[rows, : top.values.shape[1]] = top.values
            rest[rows] = (part.sum(-1) - top.values.sum(-1)).clamp_min(0.0)
        return tokens, shares, rest

    def _loose_of(self, key: Key) -> Tensor:
        import torch

        if key not in self._loose:
            loose = self.vocabulary.table(key).loose
            self._loose[key] = torch.as_tensor(loose, device=self._device)
        return self._loose[key]


def _at(table: Tensor, tokens: Sequence[Ids]) -> Tensor:
    """The entries of each row at its tokens, one after another."""
    import torch

    rows = np.repeat(np.arange(len(tokens)), [len(row) for row in tokens])
    columns = np.concatenate(tokens)
    device = table.device
    return table[torch.as_tensor(rows, device=device), torch.as_tensor(columns, device=device)]


def _fetch(parts: Sequence[Tensor]) -> list[Floats]:
    """Several vectors brought from the device in one transfer."""
    import torch

    flat = torch.cat(list(parts)).double().cpu().numpy()
    return np.split(flat, np.cumsum([len(part) for part in parts])[:-1])
