"""What a search needs of next-token distributions, read on the device and fetched at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aleatoric.decoding import Decoder
from aleatoric.transfer import fetch, send
from aleatoric.types import Floats
from aleatoric.words.lm import TreeLM
from aleatoric.words.machine import LEAD
from aleatoric.words.vocabulary import Ids, Vocabulary

if TYPE_CHECKING:
    from torch import Tensor


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


@dataclass(frozen=True, slots=True)
class Branches:
    """What follows one node: the ending share, and the likeliest tokens that do not end it.

    `stems` are the shares of all tokens that do not end it, by their stem; only before a word.
    """

    ends: float
    tokens: Ids
    shares: Floats
    stems: Floats


class Reader:
    """Turns logits into digests under a decoder. Nodes name their tables by number."""

    def __init__(self, lm: TreeLM, vocabulary: Vocabulary, decoder: Decoder) -> None:
        self.vocabulary = vocabulary
        self.decoder = decoder
        self._device = lm.device
        self._columns = np.zeros(0, dtype=np.int64)
        self._ends: Tensor | None = None
        self._loose: dict[int, Tensor] = {}
        self._stems: dict[int, Tensor] = {}

    def log_probs(self, logits: Any) -> Tensor:
        """Next-token log-probabilities under the decoder, in float32 at least."""
        return self.decoder.log_probs(_wide(logits))

    def probabilities(self, logits: Any) -> Tensor:
        """Next-token probabilities under the decoder."""
        return self.decoder.probs(_wide(logits))

    def log_probs_of(self, logits: Any, tokens: Sequence[Ids]) -> list[Floats]:
        """For each row the log-probabilities of its tokens."""
        counts = [len(row) for row in tokens]
        rows = np.repeat(np.arange(len(tokens)), counts)
        flat = _at(self.log_probs(logits), rows, np.concatenate(tokens)).double().cpu().numpy()
        return np.split(flat, np.cumsum(counts)[:-1])

    def read(
        self, logits: Any, tables: Ids, rows: Ids, tokens: Ids, k: int
    ) -> Callable[[], Digest]:
        """The digest of nodes with the given tables, and of planned tokens in the given rows.

        The work is queued on the device; calling the result waits for it.
        """
        import torch

        probs = self.probabilities(logits)
        loose_tokens, loose, rest = self._read_loose(probs, tables, k)
        parts = [self._ends_of(probs, tables), _at(probs, rows, tokens), loose.flatten(), rest]
        shares, numbers = fetch(torch.cat(parts)), fetch(loose_tokens)
        cuts = np.cumsum([len(part) for part in parts])[:-1]

        def arrive() -> Digest:
            ends, planned, flat, left = np.split(shares().astype(np.float64), cuts)
            return Digest(ends, planned, numbers(), flat.reshape(-1, k), left)

        return arrive

    def branches(self, logits: Any, tables: Ids, k: int) -> list[Branches]:
        """What follows each row: its ending share, and its k likeliest tokens that do not end."""
        probs = self.probabilities(logits)
        ends = self._ends_of(probs, tables)
        assert self._ends is not None
        stems: list[Floats] = [np.zeros(0)] * len(tables)
        for number in np.unique(tables).tolist():
            places = np.flatnonzero(tables == number)
            rows = _on(probs, places)
            open_ = 1.0 - self._ends[:, int(self._columns[number])].to(probs.dtype)
            probs[rows] *= open_
            if self.vocabulary.numbered(number).key[0] == LEAD:
                for place, sums in zip(places, self._stem_sums(probs[rows], number), strict=True):
                    stems[place] = sums
        top = probs.topk(min(k, probs.shape[-1]), -1)
        columns = ends.double(), top.indices, top.values.double()
        rows_ = zip(*(column.cpu().numpy() for column in columns), stems, strict=True)
        return [Branches(float(end), *row) for end, *row in rows_]

    def _stem_sums(self, probs: Tensor, number: int) -> Floats:
        """The share of the tokens of each stem, per row."""
        if number not in self._stems:
            self._stems[number] = send(self.vocabulary.numbered(number).stems.numbers, self._device)
        count = len(self.vocabulary.numbered(number).stems.letters)
        sums = probs.new_zeros((len(probs), count)).index_add_(1, self._stems[number], probs)
        found: Floats = sums.double().cpu().numpy()
        return found

    def _ends_of(self, probs: Tensor, tables: Ids) -> Tensor:
        """The ending share of each row: one product with the tables' masks."""
        self._register(tables)
        assert self._ends is not None
        by_table = probs @ self._ends.to(probs.dtype)
        return by_table.gather(1, _on(probs, self._columns[tables])[:, None])[:, 0]

    def _register(self, tables: Ids) -> None:
        """Make the masks of tables met for the first time; `_columns` says where each is."""
        import torch

        missing = int(tables.max(initial=-1)) + 1 - len(self._columns)
        self._columns = np.pad(self._columns, (0, max(missing, 0)), constant_values=-1)
        fresh = [n for n in np.unique(tables).tolist() if self._columns[n] < 0]
        if not fresh:
            return
        masks = torch.zeros((len(self.vocabulary), len(fresh)), device=self._device)
        for column, number in enumerate(fresh):
            ends = self.vocabulary.numbered(number).ends
            masks[send(ends, self._device), column] = 1.0
        known = 0 if self._ends is None else self._ends.shape[1]
        self._columns[fresh] = np.arange(known, known + len(fresh))
        self._ends = masks if self._ends is None else torch.cat([self._ends, masks], 1)

    def _read_loose(self, probs: Tensor, tables: Ids, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """The k likeliest loose tokens of each row, their shares, and the share of the others."""
        import torch

        tokens = torch.zeros((len(tables), k), dtype=torch.long, device=probs.device)
        shares = probs.new_zeros((len(tables), k))
        rest = probs.new_zeros(len(tables))
        for number in np.unique(tables).tolist():
            rows, loose = _on(probs, np.flatnonzero(tables == number)), self._loose_of(number)
            part = probs[rows[:, None], loose[None, :]]
            top = part.topk(min(k, len(loose)), -1)
            tokens[rows, : top.values.shape[1]] = loose[top.indices]
            shares[rows, : top.values.shape[1]] = top.values
            rest[rows] = (part.sum(-1) - top.values.sum(-1)).clamp_min(0.0)
        return tokens, shares, rest

    def _loose_of(self, number: int) -> Tensor:
        if number not in self._loose:
            self._loose[number] = send(self.vocabulary.numbered(number).loose, self._device)
        return self._loose[number]


def _wide(logits: Any) -> Any:
    import torch

    return logits if logits.dtype == torch.float64 else logits.float()


def _on(like: Tensor, values: Ids) -> Tensor:
    """`values` on the device of `like`."""
    return send(values, like.device)


def _at(table: Tensor, rows: Ids, columns: Ids) -> Tensor:
    """The entries of a table at the given rows and columns."""
    return table[_on(table, rows), _on(table, columns)]
