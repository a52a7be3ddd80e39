"""What a search needs of next-token distributions, read on the device and fetched at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.models.attention import fetch, send
from aleatoric.models.decoding import Decoder
from aleatoric.nextword.tree import TreeLM
from aleatoric.nextword.vocabulary import LEAD, Ids, Vocabulary
from aleatoric.types import Categorical, Floats, Ints

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


@dataclass(frozen=True, slots=True)
class Bounds:
    """A number known to lie in [low, high]; `value` is the best single guess.

    >>> round(Bounds(0.2, 0.25, 0.3).gap, 6)
    0.1
    """

    low: float
    value: float
    high: float

    @property
    def gap(self) -> float:
        """How far the bounds are apart."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class WordProbabilities:
    """Probabilities of asked words as the first word of a model's continuation.

    `low[i]` ≤ probability of `words[i]` ≤ `high[i]`. `open` is the mass that the search left
    undecided, `failed` the probability that the text holds no word (already divided out of the
    words' probabilities where failed draws are rejected), `nodes` the tokens run for it.
    """

    words: tuple[str, ...]
    low: tuple[float, ...]
    value: tuple[float, ...]
    high: tuple[float, ...]
    open: float
    failed: float
    nodes: int

    def categorical(self) -> Categorical:
        """The best guess as a distribution; `rest` is the mass of all other words."""
        return Categorical(self.words, self.value, max(0.0, 1.0 - sum(self.value)), None)

    def tvd(self, human: Mapping[str, float]) -> Bounds:
        """Total variation distance to `human`, whose support must be among `words`.

        TVD = 1 - Σ min(p, q), so it falls as the words' probabilities grow.
        """
        p = [human.get(word, 0.0) for word in self.words]
        least = _overlap(p, self.low)
        most = min(_overlap(p, self.high), least + self.open)
        total = sum(p)
        return Bounds(total - most, total - _overlap(p, self.value), total - least)

    def log_loss(self, human: Mapping[str, float]) -> tuple[float, float | None]:
        """Bounds of people's log loss; the upper one is `None` where it is infinite."""
        p = np.array([human.get(word, 0.0) for word in self.words])
        given = p > 0
        low, high = (np.array(q)[given] for q in (self.low, self.high))
        if not (high > 0).all():
            return math.inf, None
        least = -float((p[given] * np.log(np.minimum(high, 1.0))).sum())
        if not (low > 0).all():
            return least, None
        return least, -float((p[given] * np.log(low)).sum())


@dataclass(frozen=True, eq=False)
class Masses:
    """Known lower and upper bounds of word probabilities that sum to 1 with those of all others.

    `human` are people's probabilities of the same words; `unseen` bounds the probability of any
    word that is not among these.
    """

    human: Floats
    low: Floats
    high: Floats
    unseen: float

    def agreements(self) -> dict[str, tuple[float, float]]:
        """Bounds of M = Σq², of C = Σpq, and of M - 2C.

        Let q = low + x. The mass x that is still open falls on words with room for it, so that
        Σq² = Σlow² + Σx(low + q) is at most Σlow² + Σx(low + high), with x where that is largest.

        >>> known = Masses(np.array([1.0]), np.array([0.5]), np.array([0.5]), 0.1)
        >>> {name: (low, round(high, 6)) for name, (low, high) in known.agreements().items()}
        {'M': (0.25, 0.3), 'C': (0.5, 0.5), 'M-2C': (-0.75, -0.7)}
        """
        p, low, high = self.human, self.low, self.high
        own, cross = float((low * low).sum()), float((p * low).sum())
        apart = own - 2 * cross
        return {
            "M": (own, own + self._most(low + high, self.unseen)),
            "C": (cross, cross + self._most(p, 0.0)),
            "M-2C": (
                apart - self._most(2 * (p - low), 0.0),
                apart + self._most(low + high - 2 * p, self.unseen),
            ),
        }

    def _most(self, worth: Floats, unseen: float) -> float:
        """The largest Σ x·worth, with the open mass on these words or on unseen ones."""
        better = np.flatnonzero(worth > unseen)
        order = better[np.argsort(-worth[better], kind="stable")]
        left = max(0.0, 1.0 - float(self.low.sum()))
        room = np.maximum(self.high[order] - self.low[order], 0.0)
        taken = np.minimum(room, np.maximum(left - (np.cumsum(room) - room), 0.0))
        return float((taken * worth[order]).sum() + (left - taken.sum()) * unseen)


def _overlap(p: list[float], q: tuple[float, ...]) -> float:
    return sum(min(a, b) for a, b in zip(p, q, strict=True))


Page = tuple[int, Branches]
"""A node's number, and what follows it."""


class Notebook:
    """Pages by (context, node before, token); nodes with less mass than `least` get none."""

    def __init__(self, reader: Reader, branch: int, least: float = 0.0) -> None:
        self._reader = reader
        self._branch = branch
        self._least = least
        self._pages: dict[tuple[int, int, int], Page] = {}

    def note(self, nodes: NDArray[Any], numbers: Ints, logits: Any) -> None:
        """Write down nodes, given as entries of a search, that have just been run."""
        rows = np.flatnonzero(nodes["mass"] >= self._least)
        if not len(rows):
            return
        chosen = logits if len(rows) == len(nodes) else logits[rows]
        read = self._reader.branches(chosen, nodes["table"][rows], self._branch)
        pages = zip(numbers[rows].tolist(), read, strict=True)
        names = zip(
            *(nodes[rows][name].tolist() for name in ("owner", "parent", "token")), strict=True
        )
        for name, page in zip(names, pages, strict=True):
            self._pages[name] = page

    def find(self, context: int, parent: int, token: int) -> Page | None:
        """What is written of a node."""
        return self._pages.get((context, parent, token))
