"""Monte Carlo first words: unbiased samples in which shared beginnings are run once.

Every sample of a context walks down the tree of tokens until its word has ended. Samples that have
drawn the same tokens share a node, so a thousand samples cost some hundred nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..decoding import Decoder
from ..streams import stream
from ..types import Draws
from .digest import Reader
from .draw import draw, levels
from .lm import TreeLM
from .machine import FAILED, Lead, State, advance
from .passages import Passage, encode_contexts, packs_of, passages_of
from .rules import normalise
from .tree import Limits, Tree
from .vocabulary import Vocabulary

Index = NDArray[np.int64]
LONGEST = 64
"""Tokens after which a text that has not settled its word counts as without one."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A context and the item's name, from which its random numbers are derived."""

    id: str
    context: str


@dataclass(slots=True)
class Walk:
    """The samples of one context: their counted words, and the deepest token allowed."""

    prompt: Prompt
    span: tuple[int, int]
    depth: int
    counts: Counter[str] = field(default_factory=Counter)
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """A token sequence that some samples have drawn and that has not settled their word."""

    walk: Walk
    state: State
    parent: int
    token: int
    samples: Index


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
    walks = {i: _start(lm, prompts[i], span) for i, span in tree.spans().items()}
    everyone = np.arange(sampler.samples)
    nodes: list[Node] = []
    for indices, logits in tree.run_trunk():
        roots = [Node(walks[i], State(), -1, -1, everyone) for i in indices]
        nodes += sampler.step(roots, np.full(len(roots), -1), logits, 0)
    depth = 1
    while nodes:
        nodes = list(_deepen(tree, sampler, _within(nodes, depth), depth))
        depth += 1
    for i, walk in walks.items():
        yield i, Draws(walk.prompt.id, dict(sorted(walk.counts.items())), walk.failed)


def _start(lm: TreeLM, prompt: Prompt, span: tuple[int, int]) -> Walk:
    return Walk(prompt, span, min(LONGEST, lm.window - (span[1] - span[0])))


def _within(nodes: list[Node], depth: int) -> list[Node]:
    """The nodes that may still grow; the samples of the others are without a word."""
    for node in nodes:
        if depth > node.walk.depth:
            node.walk.failed += len(node.samples)
    return [node for node in nodes if depth <= node.walk.depth]


def _deepen(tree: Tree, sampler: Sampler, nodes: list[Node], depth: int) -> Iterator[Node]:
    """Run the nodes and draw their samples' next tokens."""
    spans = np.array([node.walk.span for node in nodes], dtype=np.int64).reshape(-1, 2)
    parents = np.array([node.parent for node in nodes], dtype=np.int64)
    tokens = np.array([node.token for node in nodes], dtype=np.int64)
    for part, numbers, logits in tree.extend(spans, parents, tokens):
        children = sampler.step(nodes[part], numbers, logits, depth)
        tree.keep_of_last(np.unique([child.parent for child in children]).astype(np.int64))
        yield from children


class Sampler:
    """Draws the next token of every sample of given nodes."""

    def __init__(self, reader: Reader, samples: int, seed: int) -> None:
        self.reader = reader
        self.samples = samples
        self.seed = seed
        self._ends: dict[tuple[int, bytes], NDArray[np.bool_]] = {}
        self._opening: dict[int, State] = {}

    def step(self, nodes: Sequence[Node], numbers: Index, logits: object, depth: int) -> list[Node]:
        """Draw once for every sample; count the words that end, give the nodes that go on."""
        tokens = self._tokens(nodes, logits, depth)
        children: list[Node] = []
        low = 0
        for node, number in zip(nodes, numbers.tolist(), strict=True):
            high = low + len(node.samples)
            children += self._settle(node, number, tokens[low:high])
            low = high
        return children

    def _tokens(self, nodes: Sequence[Node], logits: object, depth: int) -> Index:
        import torch

        probabilities = self.reader.probabilities(logits)
        counts = [len(node.samples) for node in nodes]
        device = probabilities.device
        rows = torch.as_tensor(np.repeat(np.arange(len(nodes)), counts), device=device)
        uniforms = torch.as_tensor(self._uniforms(nodes, depth), device=device)
        drawn: Index = draw(probabilities, rows, uniforms).cpu().numpy()
        return drawn

    def _uniforms(self, nodes: Sequence[Node], depth: int) -> NDArray[np.float32]:
        """The numbers of each sample at this depth: a property of the sample, not of the batch."""
        parts = []
        made: dict[int, NDArray[np.float32]] = {}
        for node in nodes:
            if id(node.walk) not in made:
                made[id(node.walk)] = self._of_prompt(node.walk.prompt, depth)
            parts.append(made[id(node.walk)][node.samples])
        return np.concatenate(parts)

    def _of_prompt(self, prompt: Prompt, depth: int) -> NDArray[np.float32]:
        rng = stream(self.seed, "mc", prompt.id, str(self.reader.decoder), depth)
        width = levels(len(self.reader.vocabulary))
        return rng.random((self.samples, width), dtype=np.float32)

    def _settle(self, node: Node, number: int, tokens: Index) -> list[Node]:
        ends = self._ending(node.state)[tokens]
        _count(node.walk, advance(node.state, None), int(ends.sum()))
        if ends.all():
            return []
        open_tokens, open_samples = tokens[~ends], node.samples[~ends]
        children = []
        for token in np.unique(open_tokens).tolist():
            samples = open_samples[open_tokens == token]
            state = advance(node.state, self.reader.vocabulary.pieces[token], self._lead)
            if state.settled:
                _count(node.walk, state, len(samples))
            else:
                children.append(Node(node.walk, state, number, token, samples))
        return children

    @property
    def _lead(self) -> Lead:
        return self.reader.vocabulary.lead

    def _ending(self, state: State) -> NDArray[np.bool_]:
        """Which tokens settle the outcome without adding a letter."""
        key = (state.mode, state.pending)
        if key not in self._ends:
            mask = np.zeros(len(self.reader.vocabulary), dtype=np.bool_)
            mask[self.reader.vocabulary.table(key).ends] = True
            self._ends[key] = mask
        return self._ends[key]


def _count(walk: Walk, state: State, samples: int) -> None:
    if not samples:
        return
    if state.mode == FAILED:
        walk.failed += samples
    else:
        walk.counts[normalise(state.word)] += samples
