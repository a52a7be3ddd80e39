"""Where continuations that a search left open lead to, estimated by sampling a few of them.

Bounds alone would make M too small: probability that is not assigned to a word adds nothing to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from aleatoric.models.attention import fetch, send
from aleatoric.models.decoding import child, draw
from aleatoric.nextword.rules import DONE, MOST_NEW_TOKENS, WORDLESS, compose
from aleatoric.nextword.tree import Tree
from aleatoric.nextword.vocabulary import Entry, LogitReader, follow
from aleatoric.rng import stream

HALVES = 2
SAMPLES = 4
"""Samples per half: each is the next word with its share of the open probability."""

OpenWords = tuple[Mapping[str | None, float], ...]
"""Independent estimates of the open probability per word; `None` is that of no word."""


class OpenContext(NamedTuple):
    """A context with its columns in the tree, the tokens that may follow, and what is open."""

    span: tuple[int, int]
    room: int
    entries: Sequence[Entry]


class Rollout(NamedTuple):
    """A sampled continuation: its context, its half, its share and the key of its randomness."""

    context: int
    half: int
    mass: float
    key: int
    entry: Entry


def sampled_words(
    tree: Tree, reader: LogitReader, contexts: Sequence[OpenContext]
) -> list[OpenWords]:
    """Return, per context, estimates of where the probability of its entries leads to.

    Random numbers depend on the tokens of a context only.
    """
    found: list[list[dict[str | None, float]]]
    found = [[defaultdict(float) for _ in range(HALVES)] for _ in contexts]
    rollouts = [r for place in range(len(contexts)) for r in _begun(tree, place, contexts[place])]
    for depth in range(MOST_NEW_TOKENS):
        rollouts = [*_settled(_extended(tree, reader, contexts, rollouts, depth), contexts, found)]
    return [tuple(halves) for halves in found]


def _begun(tree: Tree, place: int, context: OpenContext) -> Iterator[Rollout]:
    """Choose open entries by mass, systematically within each half."""
    shares = np.cumsum([entry.mass for entry in context.entries])
    if not len(shares):
        return
    rng = stream(0, "open words", str(tree.text(context.span, -1)))
    mass = float(shares[-1]) / SAMPLES
    for half, start in enumerate(rng.random(HALVES)):
        chosen = np.searchsorted(shares, mass * (np.arange(SAMPLES) + start), side="right")
        keys = rng.integers(-(1 << 63), (1 << 63) - 1, SAMPLES, endpoint=True).tolist()
        for number, key in zip(np.minimum(chosen, len(shares) - 1).tolist(), keys, strict=True):
            yield Rollout(place, half, mass, key, context.entries[number])


def _extended(
    tree: Tree,
    reader: LogitReader,
    contexts: Sequence[OpenContext],
    rollouts: Sequence[Rollout],
    depth: int,
) -> Iterator[Rollout]:
    """Run the last tokens of rollouts, once per node, and draw a token after each."""
    nodes: dict[tuple[int, int, int], list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        entry = rollout.entry
        nodes[rollout.context, entry.parent, entry.token].append(rollout)
    spans = np.array([contexts[place].span for place, *_ in nodes], np.int64).reshape(-1, 2)
    _, parents, tokens = np.array(list(nodes), dtype=np.int64).reshape(-1, 3).T
    at_node = list(nodes.values())
    for part, numbers, logits in tree.extend(spans, parents, tokens):
        pairs = [(row, r) for row, group in enumerate(at_node[part]) for r in group]
        keys = child(np.array([r.key for _, r in pairs], dtype=np.int64), depth)
        rows = np.array([row for row, _ in pairs], dtype=np.int64)
        probs = reader.probabilities(logits)
        drawn = fetch(draw(probs, send(rows, probs.device), send(keys, probs.device)))()
        for (row, rollout), token in zip(pairs, drawn.tolist(), strict=True):
            entry = rollout.entry
            entry.number = int(numbers[row])
            table = reader.vocabulary.table(entry.key)
            yield rollout._replace(entry=follow(entry, table, token, rollout.mass))


def _settled(
    rollouts: Iterable[Rollout],
    contexts: Sequence[OpenContext],
    found: Sequence[Sequence[dict[str | None, float]]],
) -> Iterator[Rollout]:
    """Count the words of rollouts that have ended, and yield the others."""
    for rollout in rollouts:
        entry = rollout.entry
        if entry.key[0] >= DONE:
            word = None if entry.key[0] == WORDLESS else compose(entry.word)
            found[rollout.context][rollout.half][word] += rollout.mass
        elif entry.depth <= contexts[rollout.context].room:
            yield rollout
