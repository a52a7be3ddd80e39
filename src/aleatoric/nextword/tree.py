"""Tree pass: many continuations of many contexts in few forward passes.

The tokens of one or more passages are run once, packed one after another. Continuations are nodes
of a tree: each attends to its own passage up to its context, and to its ancestors. Keys and values
are kept, so that no token is run twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.models.attention import KV, Tiles, joined_kv, send
from aleatoric.models.base import gpu_memory, recover_memory
from aleatoric.types import Ints

if TYPE_CHECKING:
    from torch import Tensor

    from aleatoric.models.hf import HFModel


ROOM = 8
"""Tokens that must fit in the window after a context: the longest word considered."""
MOST_NEW_TOKENS = 64
"""A sampled text whose word has not ended after so many tokens counts as having no word."""
NODE = np.dtype([(name, np.int64) for name in ("block", "column", "parent", "depth", "token")])
TOKENS = 4096
"""Upper bound of the tokens of several passages that are run together."""
_EMPTY_CONTEXT = (
    "a context is empty and the model gets no beginning-of-text token; "
    "use --bos add (bos='add' in Python) or leave the item out."
)


@dataclass(frozen=True, slots=True)
class TokenPassage:
    """A token sequence and the contexts that are prefixes of it: (index, number of tokens)."""

    tokens: tuple[int, ...]
    contexts: tuple[tuple[int, int], ...]


def passages_of(contexts: Sequence[tuple[int, ...]]) -> list[TokenPassage]:
    """Return the fewest sequences that have the given contexts as prefixes, by tokens."""
    order = sorted(range(len(contexts)), key=lambda i: (contexts[i], i), reverse=True)
    groups: list[list[int]] = []
    for i in order:  # in sorted order, a prefix comes right before its continuations
        longest = contexts[groups[-1][0]] if groups else ()
        if groups and longest[: len(contexts[i])] == contexts[i]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return [
        TokenPassage(contexts[group[0]], tuple((i, len(contexts[i])) for i in reversed(group)))
        for group in groups
    ]


class ContextError(UsageError):
    """A context that a model cannot continue; `place` is its index among the contexts."""

    def __init__(self, place: int, problem: str) -> None:
        super().__init__(problem)
        self.place = place


def encode_contexts(lm: HFModel, contexts: Sequence[str]) -> list[tuple[int, ...]]:
    """Tokenize contexts; raise `ContextError` for an empty or over-long one."""
    encoded = lm.encode_all(contexts)
    for place, (context, tokens) in enumerate(zip(contexts, encoded, strict=True)):
        if not tokens:
            raise ContextError(place, _EMPTY_CONTEXT)
        if len(tokens) + ROOM > lm.window:
            excerpt = context if len(context) <= 40 else f"{context[:37]}..."
            raise ContextError(
                place,
                f"the context {excerpt!r} has {len(tokens)} tokens, and with {ROOM} for a word it "
                f"does not fit the model's window of {lm.window}; shorten it.",
            )
    lm.check_length(min(lm.window, MOST_NEW_TOKENS + max(map(len, encoded), default=0)))
    return encoded


def packs_of(
    passages: Sequence[TokenPassage], size: int, tokens: int = TOKENS
) -> list[list[TokenPassage]]:
    """Group passages into packs of at least `size` contexts and, if several, at most `tokens`."""
    packs: list[list[TokenPassage]] = []
    n_contexts, length = size, 0
    for passage in passages:
        if n_contexts >= size or length + len(passage.tokens) > tokens:
            packs.append([])
            n_contexts, length = 0, 0
        packs[-1].append(passage)
        n_contexts += len(passage.contexts)
        length += len(passage.tokens)
    return packs


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is run at once; 0 chooses by device.

    `nodes` is the number of tokens per forward pass, `memory` bounds their logits in bytes, `pack`
    is the number of contexts whose trees grow together.
    """

    nodes: int = 0
    memory: int = 0
    pack: int = 0

    def contexts_at_once(self, lm: HFModel, estimator: Literal["exact", "mc"] = "exact") -> int:
        """Return the contexts whose trees grow together: fewer if each has a large tree."""
        on_gpu = 2816 if estimator == "exact" else 1344
        return self.pack or (48 if _on_cpu(lm) else on_gpu)


def _on_cpu(lm: HFModel) -> bool:
    return str(lm.device) == "cpu"


class Tree:
    """The tree over a pack of passages. Nodes are numbered as they are added."""

    def __init__(self, lm: HFModel, passages: Sequence[TokenPassage], limits: Limits) -> None:
        self.lm = lm
        self.passages = passages
        nodes = limits.nodes or (256 if _on_cpu(lm) else 4096)
        memory = limits.memory or (1 << 30 if _on_cpu(lm) else gpu_memory(lm.device) // 8)
        # Logits and working copies stay below `memory`.
        self.room = max(1, min(nodes, memory // (16 * len(lm.pieces))))
        lengths = [len(passage.tokens) for passage in passages]
        self._starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
        self._trunk: KV | None = None
        self._ids = np.concatenate([np.array(p.tokens, dtype=np.int64) for p in passages])
        self._width = len(self._ids)
        self._blocks: list[KV] = []
        self._nodes = np.zeros(0, dtype=NODE)

    def spans(self) -> dict[int, tuple[int, int]]:
        """Map each context's index to its columns of the trunk: (start, stop)."""
        return {
            index: (int(start), int(start) + length)
            for passage, start in zip(self.passages, self._starts, strict=True)
            for index, length in passage.contexts
        }

    def run_trunk(self) -> Iterator[tuple[list[int], Tensor]]:
        """Run the passages; yield, in parts, context indices and their next-token logits."""
        last = [(index, stop - 1) for index, (_, stop) in self.spans().items()]
        positions = np.concatenate([np.arange(len(p.tokens)) for p in self.passages])
        keep = np.array([column for _, column in last], dtype=np.int64)
        logits, self._trunk = self._forward(self._ids, positions, self._trunk_sight(), None, keep)
        for low in range(0, len(last), self.room):
            part = last[low : low + self.room]
            yield [index for index, _ in part], logits[low : low + self.room]

    def _trunk_sight(self) -> Tensor | Tiles:
        """Every token attends to its own passage up to itself."""
        lengths = [len(p.tokens) for p in self.passages]
        if self.lm.tiled:
            spans = np.stack([np.repeat(self._starts, lengths), 1 + np.arange(self._width)], 1)
            return Tiles.of(spans, np.full((self._width, 1), -1), self.lm.device)
        passage = send(np.repeat(np.arange(len(self._starts)), lengths), self.lm.device)
        return (passage[:, None] == passage[None, :]).tril()

    def extend(
        self, spans: Ints, parents: Ints, tokens: Ints
    ) -> Iterator[tuple[slice, Ints, Tensor]]:
        """Add nodes; yield, in parts, (which of them, their numbers, next-token logits).

        `spans` holds the (start, stop) of each node's context, `parents` the node before it or -1.
        A part that does not fit into memory is halved.
        """
        low = 0
        while low < len(tokens):
            part = slice(low, min(low + self.room, len(tokens)))
            try:
                numbers, logits = self._extend(spans[part], parents[part], tokens[part])
            except Exception as error:
                recover_memory(error, self.room == 1, "node", "a shorter context")
                self.room //= 2
                continue
            yield part, numbers, logits
            low = part.stop

    def _extend(self, spans: Ints, parents: Ints, tokens: Ints) -> tuple[Ints, Tensor]:
        chains = self._chains(parents)
        used = np.unique(chains[chains >= 0])
        depth = 1 + (
            np.where(parents >= 0, self._nodes["depth"][parents], 0) if len(used) else 0 * parents
        )
        positions = spans[:, 1] - spans[:, 0] + depth - 1
        sight = self._sight(spans, chains, used)
        logits, fresh = self._forward(tokens, positions, sight, self._past(used), None)
        nodes = np.zeros(len(parents), dtype=NODE)
        nodes["block"], nodes["column"] = len(self._blocks), np.arange(len(parents))
        nodes["parent"], nodes["depth"], nodes["token"] = parents, depth, tokens
        self._blocks.append(fresh)
        self._nodes = np.concatenate([self._nodes, nodes])
        return np.arange(len(self._nodes) - len(nodes), len(self._nodes)), logits

    def _chains(self, parents: Ints) -> Ints:
        """The ancestors of each new node, one row per node, filled up with -1."""
        rows = [parents]
        while (rows[-1] >= 0).any():
            last = rows[-1]
            rows.append(np.where(last >= 0, self._nodes["parent"][last], -1))
        return np.stack(rows[:-1] or [parents], axis=1)

    def _sight(self, spans: Ints, chains: Ints, used: Ints) -> Tensor | Tiles:
        """Every node attends to its context, its ancestors (all in `used`) and itself."""
        import torch

        device = self.lm.device
        count, past = len(spans), self._width + len(used)
        if self.lm.tiled:
            columns = np.where(chains >= 0, self._width + np.searchsorted(used, chains), -1)
            return Tiles.of(spans, np.column_stack([columns, past + np.arange(count)]), device)
        mask = torch.zeros((count, past + count), dtype=torch.bool, device=device)
        bounds = send(spans, device)
        trunk = torch.arange(self._width, device=device)
        mask[:, : self._width] = (trunk >= bounds[:, :1]) & (trunk < bounds[:, 1:])
        rows, places = np.nonzero(chains >= 0)
        ancestors = self._width + np.searchsorted(used, chains[rows, places])
        # A Python bool would be copied to the device, and wait for all work queued there.
        true = torch.ones((), dtype=torch.bool, device=device)
        mask.index_put_((send(rows, device), send(ancestors, device)), true)
        mask[:, past:].fill_diagonal_(True)
        return mask

    def _past(self, used: Ints) -> KV | None:
        """Keys and values of the trunk and of the given nodes, in ascending order."""
        if not len(used):
            return self._trunk
        assert self._trunk is not None
        blocks = self._nodes["block"][used]
        selected = (
            _columns(self._blocks[block], self._nodes["column"][used[blocks == block]])
            for block in np.unique(blocks)
        )
        return joined_kv([self._trunk, *selected])

    def keep_of_last(self, nodes: Ints) -> None:
        """Keep only the keys and values of `nodes` of the part added last.

        The other nodes of the part must not become parents.
        """
        self._blocks[-1] = _columns(self._blocks[-1], self._nodes["column"][nodes])
        self._nodes["column"][nodes] = np.arange(len(nodes))

    def apart(self, texts: Sequence[tuple[int, ...]]) -> Tensor:
        """Return the next-token logits of token sequences, each as if it were run by itself.

        The batch changes the last bits of a text's logits. Here every forward pass has one of a
        few fixed shapes, in which the bits of a row do not depend on the other rows.
        """
        import torch

        slots, step = (1, 1) if _on_cpu(self.lm) else (16, 64)
        lengths = np.array([-(-len(text) // step) * step for text in texts])
        order = np.argsort(lengths, kind="stable")
        by_place: list[Tensor] = [None] * len(texts)  # type: ignore[list-item]
        for length in np.unique(lengths).tolist():
            same = order[lengths[order] == length]
            for low in range(0, len(same), slots):
                places = same[low : low + slots].tolist()
                logits = self._in_slots([texts[i] for i in places], slots, length)
                for place, row in zip(places, logits, strict=False):
                    by_place[place] = row
        return torch.stack(by_place)

    def text(self, span: tuple[int, int], node: int) -> tuple[int, ...]:
        """Return all tokens of a context up to a node below it (-1: the context alone)."""
        path: list[int] = []
        while node >= 0:
            path.append(int(self._nodes["token"][node]))
            node = int(self._nodes["parent"][node])
        return (*self._ids[span[0] : span[1]].tolist(), *path[::-1])

    def _in_slots(self, rows: list[tuple[int, ...]], slots: int, length: int) -> Tensor:
        """Run sequences side by side, in a shape that does not depend on how many there are."""
        import torch

        ids = np.zeros((slots, length), dtype=np.int64)
        last = np.zeros(slots, dtype=np.int64)
        for slot, row in enumerate(rows):
            ids[slot, : len(row)], last[slot] = row, len(row) - 1
        owner = torch.arange(slots, device=self.lm.device).repeat_interleave(length)
        mask = (owner[:, None] == owner[None, :]).tril()
        positions = np.tile(np.minimum(np.arange(length), self.lm.window - 1), slots)
        keep = np.arange(slots) * length + last
        return self._forward(ids.ravel(), positions, mask, None, keep)[0]

    def _forward(
        self, ids: Ints, positions: Ints, sight: Tensor | Tiles, past: KV | None, keep: Ints | None
    ) -> tuple[Tensor, KV]:
        kept = None if keep is None else send(keep, self.lm.device)
        tokens, places = (send(x, self.lm.device) for x in (ids, positions))
        return self.lm.forward(tokens, places, sight, past, kept)


Answer = TypeVar("Answer")
_Turn = tuple[list[TokenPassage], Iterator[tuple[int, Answer] | None], list[tuple[int, Answer]]]
"""A pack, the work on it, and its answers so far."""


def for_contexts(
    lm: HFModel,
    contexts: Sequence[str],
    work: Callable[[Tree], Iterator[tuple[int, Answer] | None]],
    limits: Limits | None = None,
    estimator: Literal["exact", "mc"] = "exact",
) -> list[Answer]:
    """Return the answer of `work` per context, in the order given; see `each_pack`."""
    limits = limits or Limits()
    passages = passages_of(encode_contexts(lm, contexts))
    packs = packs_of(passages, limits.contexts_at_once(lm, estimator))
    answers = dict(each_pack(lm, packs, lambda pack: work(Tree(lm, pack, limits))))
    return [answers[i] for i in range(len(contexts))]


def each_pack(
    lm: HFModel,
    packs: Iterable[list[TokenPassage]],
    work: Callable[[list[TokenPassage]], Iterator[tuple[int, Answer] | None]],
) -> Iterator[tuple[int, Answer]]:
    """Yield the answers of `work` for all packs; a pack that does not fit into memory is halved.

    `work` yields `None` while it waits for the device; on a GPU two packs take turns meanwhile.
    """
    pending = list(packs)[::-1]
    alone: list[list[TokenPassage]] = []  # passages that did not fit beside another pack
    turns: deque[_Turn[Answer]] = deque()
    while pending or turns or alone:
        if not pending and not turns:
            pending.append(alone.pop())
        while pending and len(turns) < (1 if _on_cpu(lm) else 2):
            pack = pending.pop()
            turns.append((pack, work(pack), []))
        turn = pack, walk, answers = turns.popleft()
        try:
            answer = next(walk, _END)
        except Exception as error:
            middle = len(pack) // 2
            recover_memory(error, not middle and not turns, "passage", "shorter contexts")
            if middle:
                pending += [pack[middle:], pack[:middle]]
            else:
                alone.append(pack)
            continue
        if answer is _END:
            yield from answers
        elif answer is None:
            turns.append(turn)
        else:
            answers.append(answer)
            turns.appendleft(turn)


_END: Any = object()


def _columns(kv: KV, columns: Ints) -> KV:
    indices = send(columns, kv[0][0].device)
    return tuple((k[:, :, indices], v[:, :, indices]) for k, v in kv)
