"""Tree pass: many continuations of many contexts in few forward passes.

The tokens of one or more passages are run once, packed one after another. Continuations are nodes
of a tree: each attends to its own passage up to its context, and to its ancestors. Keys and values
are kept, so that no token is run twice. Where a tree pass does not hold, `PlainTree` gives the same
by plain forward passes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from aleatoric.errors import UsageError, quoted
from aleatoric.models.attention import KV, Tiles, columns_of, dense_mask, joined_kv, send
from aleatoric.models.base import gpu_memory, pages, recover_memory
from aleatoric.nextword.rules import MOST_NEW_TOKENS
from aleatoric.types import Ints

if TYPE_CHECKING:
    from torch import Tensor

    from aleatoric.models.plain import LanguageModel, State


ROOM = 8
"""Tokens that must fit in the window after a context: the longest word considered."""
PLAIN_CONTEXTS = 64
"""Contexts whose states are kept together in plain passes."""


@dataclass(frozen=True, slots=True)
class TokenPassage:
    """A token sequence and the contexts that are prefixes of it: (index, number of tokens)."""

    tokens: tuple[int, ...]
    contexts: tuple[tuple[int, int], ...]


def contexts_at_once(lm: LanguageModel, estimator: Literal["exact", "mc"] = "exact") -> int:
    """Return the contexts whose trees grow together: fewer if each has a large tree."""
    on_gpu = 2816 if estimator == "exact" else 1344
    return lm.limits.pack or (48 if on_cpu(lm) else on_gpu)


def on_cpu(lm: LanguageModel) -> bool:
    """Whether a model runs without an accelerator."""
    return str(lm.device) == "cpu"


class Tree:
    """The tree over a pack of passages. Nodes are numbered as they are added."""

    def __init__(self, lm: LanguageModel, passages: Sequence[TokenPassage]) -> None:
        self.lm, self.passages, self.window = lm, passages, lm.window
        nodes = lm.limits.nodes or (256 if on_cpu(lm) else 4096)
        self.memory = lm.limits.memory or (1 << 30 if on_cpu(lm) else gpu_memory(lm.device) // 8)
        # Logits and working copies stay below `memory`.
        self.room = max(1, min(nodes, self.memory // (16 * len(lm.pieces))))
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
        columns = np.arange(self._width)
        starts = np.repeat(self._starts, [len(passage.tokens) for passage in self.passages])
        keep = np.array([column for _, column in last], dtype=np.int64)
        # Every token attends to its own passage up to itself.
        sight = self._sight(*_causal(starts), self._width)
        logits, self._trunk = self._forward(self._ids, columns - starts, sight, None, keep)
        for low in range(0, len(last), self.room):
            part = last[low : low + self.room]
            yield [index for index, _ in part], logits[low : low + self.room]

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
        depth = 1 + (chains >= 0).sum(1)
        positions = spans[:, 1] - spans[:, 0] + depth - 1
        # Every node attends to its context, its ancestors and itself.
        ancestors = np.where(chains >= 0, self._width + np.searchsorted(used, chains), -1)
        past, count = self._width + len(used), len(tokens)
        others = np.column_stack([ancestors, past + np.arange(count)])
        sight = self._sight(spans, others, past + count)
        logits, fresh = self._forward(tokens, positions, sight, self._past(used), None)
        self._blocks.append(fresh)
        return self._add(parents, tokens, depth), logits

    def _add(self, parents: Ints, tokens: Ints, depth: Ints) -> Ints:
        """Number new nodes, whose keys and values are the last block."""
        nodes = np.zeros(len(parents), dtype=NODE)
        nodes["block"], nodes["column"] = len(self._blocks) - 1, np.arange(len(parents))
        nodes["parent"], nodes["depth"], nodes["token"] = parents, depth, tokens
        self._nodes = np.concatenate([self._nodes, nodes])
        return np.arange(len(self._nodes) - len(nodes), len(self._nodes))

    def _chains(self, parents: Ints) -> Ints:
        """The ancestors of each new node, one row per node, filled up with -1."""
        rows = [parents]
        while ((last := rows[-1]) >= 0).any():
            rows.append(np.where(last >= 0, self._nodes["parent"][last], -1))
        return np.stack(rows[:-1] or [parents], axis=1)

    def _sight(self, spans: Ints, others: Ints, width: int) -> Tensor | Tiles:
        """Every token attends to a span of columns and to others, of `width` columns."""
        if self.lm.tiled:
            return Tiles.of(spans, others, self.lm.device)
        return dense_mask(spans, others, width, self.lm.device)

    def _past(self, used: Ints) -> KV | None:
        """Keys and values of the trunk and of the given nodes, in ascending order."""
        if not len(used):
            return self._trunk
        assert self._trunk is not None
        blocks = self._nodes["block"][used]
        selected = (
            columns_of(self._blocks[block], self._nodes["column"][used[blocks == block]])
            for block in np.unique(blocks)
        )
        return joined_kv([self._trunk, *selected])

    def keep_of_last(self, nodes: Ints) -> None:
        """Keep only `nodes` of the part added last: the others must not become parents."""
        self._blocks[-1] = columns_of(self._blocks[-1], self._nodes["column"][nodes])
        self._nodes["column"][nodes] = np.arange(len(nodes))

    def apart(self, texts: Sequence[tuple[int, ...]]) -> Tensor:
        """Return the next-token logits of token sequences, each as if it were run by itself.

        The batch changes the last bits of a text's logits. Here every forward pass has one of a
        few fixed shapes, in which the bits of a row do not depend on the other rows.
        """
        import torch

        slots, step = (1, 1) if on_cpu(self.lm) else (16, 64)
        lengths = np.array([-(-len(text) // step) * step for text in texts])
        by_place: dict[int, Tensor] = {}
        for length in np.unique(lengths).tolist():
            same = np.flatnonzero(lengths == length)
            for low in range(0, len(same), slots):
                places = same[low : low + slots].tolist()
                logits = self._in_slots([texts[i] for i in places], slots, length)
                by_place |= zip(places, logits, strict=False)
        return torch.stack([by_place[place] for place in range(len(texts))])

    def text(self, span: tuple[int, int], node: int) -> tuple[int, ...]:
        """Return all tokens of a context up to a node below it (-1: the context alone)."""
        path: list[int] = []
        while node >= 0:
            path.append(int(self._nodes["token"][node]))
            node = int(self._nodes["parent"][node])
        return (*self._ids[span[0] : span[1]].tolist(), *path[::-1])

    def _in_slots(self, rows: list[tuple[int, ...]], slots: int, length: int) -> Tensor:
        """Run sequences side by side, in a shape that does not depend on how many there are."""
        ids = np.zeros((slots, length), dtype=np.int64)
        last = np.zeros(slots, dtype=np.int64)
        for slot, row in enumerate(rows):
            ids[slot, : len(row)], last[slot] = row, len(row) - 1
        starts = np.repeat(np.arange(slots) * length, length)
        mask = dense_mask(*_causal(starts), len(starts), self.lm.device)
        positions = np.tile(np.minimum(np.arange(length), self.window - 1), slots)
        keep = np.arange(slots) * length + last
        return self._forward(ids.ravel(), positions, mask, None, keep)[0]

    def _forward(
        self, ids: Ints, positions: Ints, sight: Tensor | Tiles, past: KV | None, keep: Ints | None
    ) -> tuple[Tensor, KV]:
        kept = None if keep is None else send(keep, self.lm.device)
        tokens, places = (send(x, self.lm.device) for x in (ids, positions))
        return self.lm.forward(tokens, places, sight, past, kept)


class PlainTree(Tree):
    """A tree whose nodes are rows of plain forward passes; each continues a copy of its context."""

    def __init__(self, lm: LanguageModel, passages: Sequence[TokenPassage]) -> None:
        super().__init__(lm, passages)
        self.window = lm.positions
        self._states: dict[tuple[int, int], State] = {}
        """The columns of a context -> the model's state after it."""
        longest = max(len(passage.tokens) for passage in passages)
        lm.plain.check(longest + MOST_NEW_TOKENS, self.window)

    def run_trunk(self) -> Iterator[tuple[list[int], Tensor]]:
        """Run the passages; yield, in parts, context indices and their next-token logits."""
        import torch

        for passage, start in zip(self.passages, self._starts.tolist(), strict=True):
            stops = sorted({stop for _, stop in passage.contexts})
            ran = dict(zip(stops, self.lm.plain.contexts(passage.tokens, stops), strict=True))
            self._states |= {(start, start + stop): state for stop, (_, state) in ran.items()}
            for part in pages(passage.contexts, self.room):
                yield [i for i, _ in part], torch.stack([ran[stop][0] for _, stop in part])

    def _extend(self, spans: Ints, parents: Ints, tokens: Ints) -> tuple[Ints, Tensor]:
        nodes = zip(parents.tolist(), tokens.tolist(), strict=True)
        paths = [(*self.text((0, 0), parent), token) for parent, token in nodes]
        states = (self._states[start, stop] for start, stop in spans.tolist())
        logits = self.lm.plain.after([*zip(states, paths, strict=True)], self.memory)
        depths = np.array([len(path) for path in paths])
        return self._add(parents, tokens, depths), logits

    def keep_of_last(self, nodes: Ints) -> None:
        """Do nothing: nodes have no keys and values."""

    def apart(self, texts: Sequence[tuple[int, ...]]) -> Tensor:
        """Return the next-token logits of token sequences, each run by itself."""
        return self.lm.plain.alone(texts)


def _causal(starts: Ints) -> tuple[Ints, Ints]:
    """The spans from `starts` to each token itself, and no other columns."""
    return np.stack([starts, 1 + np.arange(len(starts))], 1), np.full((len(starts), 1), -1)


def passages_of(contexts: Sequence[tuple[int, ...]]) -> list[TokenPassage]:
    """Return the fewest sequences that have the given contexts as prefixes, by tokens."""
    groups: list[list[int]] = []
    # In sorted order, a prefix comes right before its continuations.
    for i in sorted(range(len(contexts)), key=lambda i: (contexts[i], i), reverse=True):
        if groups and contexts[groups[-1][0]][: len(contexts[i])] == contexts[i]:
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


def encode_contexts(lm: LanguageModel, contexts: Sequence[str]) -> list[tuple[int, ...]]:
    """Tokenize contexts; raise `ContextError` for an empty or over-long one."""
    encoded = lm.encode_all(contexts)
    for place, (context, tokens) in enumerate(zip(contexts, encoded, strict=True)):
        if not tokens:
            problem = "a context is empty and the model gets no beginning-of-text token"
            if context.strip():
                problem = f"the model's tokenizer drops all characters of {quoted(context, 40)}"
            fix = "use --bos add (bos='add' in Python) or leave the item out"
            raise ContextError(place, f"{problem}; {fix}.")
        if len(tokens) + ROOM > lm.positions:
            excerpt = context if len(context) <= 40 else f"{context[:37]}..."
            raise ContextError(
                place,
                f"the context {excerpt!r} has {len(tokens)} tokens, and with {ROOM} for a word it "
                f"does not fit the model's window of {lm.positions}; shorten it.",
            )
    return encoded


def packs_of(
    passages: Sequence[TokenPassage], size: int, tokens: int = 4096
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


Answer = TypeVar("Answer")
_Turn = tuple[list[TokenPassage], Iterator[tuple[int, Answer] | None], list[tuple[int, Answer]]]
"""A pack, the work on it, and its answers so far."""


def for_contexts(
    lm: LanguageModel,
    contexts: Sequence[str],
    work: Callable[[Tree], Iterator[tuple[int, Answer] | None]],
    estimator: Literal["exact", "mc"] = "exact",
) -> list[Answer]:
    """Return the answer of `work` per context, in the order given; see `each_pack`."""
    passages = passages_of(encode_contexts(lm, contexts))
    # How a passage is run must not depend on the passages beside it.
    by_pass: dict[bool, list[TokenPassage]] = {True: [], False: []}
    for passage in passages:
        by_pass[fits_tree(lm, passage)].append(passage)
    size = contexts_at_once(lm, estimator)
    plain_packs = packs_of(by_pass[False], min(size, PLAIN_CONTEXTS))
    packs = [*packs_of(by_pass[True], size), *plain_packs]
    answers = dict(each_pack(lm, packs, lambda pack: work(tree_of(lm, pack))))
    return [answers[i] for i in range(len(contexts))]


def fits_tree(lm: LanguageModel, passage: TokenPassage) -> bool:
    """Whether the continuations of a passage can be run in a tree pass."""
    length = len(passage.tokens)
    return length + ROOM <= lm.window and lm.in_tree(min(lm.window, length + MOST_NEW_TOKENS))


def tree_of(lm: LanguageModel, pack: Sequence[TokenPassage]) -> Tree:
    """Return the tree over a pack: in plain passes unless every passage fits a tree pass."""
    kind = Tree if all(fits_tree(lm, passage) for passage in pack) else PlainTree
    return kind(lm, pack)


def each_pack(
    lm: LanguageModel,
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
        while pending and len(turns) < (1 if on_cpu(lm) else 2):
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


NODE = np.dtype([(name, np.int64) for name in ("block", "column", "parent", "depth", "token")])
