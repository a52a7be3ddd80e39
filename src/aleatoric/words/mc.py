"""Monte Carlo first words: unbiased samples in which shared beginnings are run once.

Every sample of a context walks down the tree of tokens until its word has ended. Samples that have
drawn the same tokens share a node, so a thousand samples cost some hundred nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.decoding import Decoder
from aleatoric.streams import stream
from aleatoric.types import Draws
from aleatoric.words.digest import Reader
from aleatoric.words.draw import draw, levels
from aleatoric.words.lm import TreeLM
from aleatoric.words.machine import Lead
from aleatoric.words.passages import Passage, encode_contexts, packs_of, passages_of
from aleatoric.words.states import Index, States
from aleatoric.words.tree import Limits, Tree
from aleatoric.words.vocabulary import Vocabulary

LONGEST = 64
"""Tokens after which a text that has not settled its word counts as without one."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A context and the item's name, from which its random numbers are derived."""

    id: str
    context: str


@dataclass(frozen=True, slots=True)
class Walk:
    """The samples of one context: where it lies in the trunk, and the deepest token allowed."""

    prompt: Prompt
    span: tuple[int, int]
    depth: int
    outcomes: Counter[int] = field(default_factory=Counter)
    """How many samples settled in each state."""


@dataclass(frozen=True, slots=True)
class Level:
    """The unsettled nodes of one depth, and the samples at them.

    For nodes the walk, the word's state, the node before and the token; for samples their number
    within the walk and their node, in the order of nodes.
    """

    walk: Index
    state: Index
    parent: Index
    token: Index
    sample: Index
    node: Index

    def part(self, low: int, high: int) -> Level:
        """Nodes low..high-1 with their samples."""
        first, last = np.searchsorted(self.node, [low, high])
        return Level(
            self.walk[low:high],
            self.state[low:high],
            self.parent[low:high],
            self.token[low:high],
            self.sample[first:last],
            self.node[first:last] - low,
        )


def mc(
    lm: TreeLM,
    prompts: Sequence[Prompt],
    *,
    samples: int = 1000,
    seed: int = 0,
    decoder: Decoder | None = None,
    lead: Lead = "skip",
    limits: Limits | None = None,
    vocabulary: Vocabulary | None = None,
) -> list[Draws]:
    """`samples` first words of each prompt, counted, in the order given.

    A prompt's random numbers come from (seed, id, decoder) alone.
    """
    limits = limits or Limits()
    vocabulary = vocabulary or Vocabulary(lm.pieces, lead)
    sampler = Sampler(Reader(lm, vocabulary, decoder or Decoder()), samples, seed)
    encoded = encode_contexts(lm, [prompt.context for prompt in prompts])
    found: dict[int, Draws] = {}
    for pack in packs_of(passages_of(encoded), limits.contexts_at_once(lm)):
        found.update(_walk(lm, pack, prompts, sampler, limits))
    return [found[i] for i in range(len(prompts))]


def _walk(
    lm: TreeLM, pack: list[Passage], prompts: Sequence[Prompt], sampler: Sampler, limits: Limits
) -> Iterator[tuple[int, Draws]]:
    tree = Tree(lm, pack, limits)
    spans = tree.spans()
    walks = [_start(lm, prompts[i], span) for i, span in spans.items()]
    place = {index: row for row, index in enumerate(spans)}
    parts = [
        sampler.step(walks, _roots([place[i] for i in indices], sampler.samples), logits, 0)
        for indices, logits in tree.run_trunk()
    ]
    level, depth = _under_context(_joined(parts)), 1
    while len(level.token):
        level = _deepen(tree, sampler, walks, level, depth)
        depth += 1
    for index, walk in zip(spans, walks, strict=True):
        yield index, sampler.count(walk)


def _start(lm: TreeLM, prompt: Prompt, span: tuple[int, int]) -> Walk:
    return Walk(prompt, span, min(LONGEST, lm.window - (span[1] - span[0])))


def _roots(walks: list[int], samples: int) -> Level:
    """The contexts themselves, with all samples."""
    count = len(walks)
    none = np.full(count, -1, dtype=np.int64)
    sample = np.tile(np.arange(samples), count)
    node = np.repeat(np.arange(count), samples)
    return Level(np.array(walks), np.zeros(count, np.int64), none, none, sample, node)


def _under_context(level: Level) -> Level:
    """The first tokens after a context have no node before them."""
    return replace(level, parent=np.full_like(level.parent, -1))


def _joined(parts: Sequence[Level]) -> Level:
    """Levels one after another as one."""
    counts = np.cumsum([0, *(len(part.token) for part in parts)])
    nodes = [part.node + shift for part, shift in zip(parts, counts[:-1], strict=True)]
    walk, state, parent, token, sample = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("walk", "state", "parent", "token", "sample")
    )
    return Level(walk, state, parent, token, sample, np.concatenate(nodes))


def _deepen(tree: Tree, sampler: Sampler, walks: list[Walk], level: Level, depth: int) -> Level:
    """Run the nodes of a level and draw their samples' next tokens."""
    spans = np.array([walk.span for walk in walks], dtype=np.int64)[level.walk]
    parts = [level.part(0, 0)]
    for part, numbers, logits in tree.extend(spans, level.parent, level.token):
        here = level.part(part.start, part.stop)
        below = sampler.step(walks, here, logits, depth)
        parents = numbers[below.parent]
        tree.keep_of_last(np.unique(parents))
        parts.append(replace(below, parent=parents))
    return _joined(parts)


class Sampler:
    """Draws the next token of every sample of given nodes."""

    def __init__(self, reader: Reader, samples: int, seed: int) -> None:
        self.reader = reader
        self.samples = samples
        self.seed = seed
        self.states = States(reader.vocabulary)

    def step(self, walks: Sequence[Walk], level: Level, logits: Any, depth: int) -> Level:
        """Draw once for every sample; count those that settle, give the nodes below.

        A node's parent is its place in `level`.
        """
        tokens = self._tokens(walks, level, logits, depth)
        tokens[self.states.ending(level.state[level.node], tokens)] = self.states.end
        wide = self.states.end + 1
        pairs, which = np.unique(level.node * wide + tokens, return_inverse=True)
        parent, token = np.divmod(pairs, wide)
        state = self.states.after(level.state[parent], token)
        deepest = np.array([walk.depth for walk in walks])[level.walk[parent]]
        closed = self.states.settled(state) | (depth >= deepest)
        self._record(walks, level.walk[parent], state, closed, np.bincount(which))
        return _below(level, parent, token, state, ~closed, which)

    def _tokens(self, walks: Sequence[Walk], level: Level, logits: Any, depth: int) -> Index:
        import torch

        probabilities = self.reader.probabilities(logits)
        device = probabilities.device
        rows = torch.as_tensor(level.node, device=device)
        uniforms = torch.as_tensor(self._uniforms(walks, level, depth), device=device)
        drawn: Index = draw(probabilities, rows, uniforms).cpu().numpy()
        return drawn

    def _uniforms(self, walks: Sequence[Walk], level: Level, depth: int) -> NDArray[np.float32]:
        """The numbers of each sample at this depth: a property of the sample, not of the batch."""
        present, place = np.unique(level.walk[level.node], return_inverse=True)
        numbers = np.stack([self._of_prompt(walks[w].prompt, depth) for w in present.tolist()])
        found: NDArray[np.float32] = numbers[place, level.sample]
        return found

    def _of_prompt(self, prompt: Prompt, depth: int) -> NDArray[np.float32]:
        rng = stream(self.seed, "mc", prompt.id, str(self.reader.decoder), depth)
        width = levels(len(self.reader.vocabulary))
        return rng.random((self.samples, width), dtype=np.float32)

    def _record(
        self,
        walks: Sequence[Walk],
        walk: Index,
        state: Index,
        closed: NDArray[np.bool_],
        counts: Index,
    ) -> None:
        rows = zip(*(x[closed].tolist() for x in (walk, state, counts)), strict=True)
        for index, number, count in rows:
            walks[index].outcomes[number] += count

    def count(self, walk: Walk) -> Draws:
        """The words of a walk's samples, and how many samples have none."""
        words: Counter[str | None] = Counter()
        done = self.states.settled(np.array(list(walk.outcomes), dtype=np.int64))
        for (state, count), settled in zip(walk.outcomes.items(), done.tolist(), strict=True):
            words[self.states.word(state) if settled else None] += count
        failed = words.pop(None, 0)
        return Draws(walk.prompt.id, {w: words[w] for w in sorted(w for w in words if w)}, failed)


def _below(
    level: Level,
    parent: Index,
    token: Index,
    state: Index,
    open_: NDArray[np.bool_],
    which: Index,
) -> Level:
    """The level of the pairs that stay open, with the samples at them."""
    going = open_[which]
    renumbered = np.cumsum(open_) - 1
    node, sample = renumbered[which[going]], level.sample[going]
    order = np.argsort(node, kind="stable")
    walk = level.walk[parent[open_]]
    return Level(walk, state[open_], parent[open_], token[open_], sample[order], node[order])
