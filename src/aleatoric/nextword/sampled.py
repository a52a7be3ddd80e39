"""Monte Carlo next words: unbiased samples; those that have drawn the same tokens share a node."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.models.attention import Arrival, fetch, send
from aleatoric.models.decoding import Decoder, child, draw, rounding_of
from aleatoric.nextword.rules import DONE, LEAD, WORDLESS, Lead, compose
from aleatoric.nextword.tree import MOST_NEW_TOKENS, Limits, Tree, for_contexts
from aleatoric.nextword.vocabulary import Entry, LogitReader, TableKey, Vocabulary, follow
from aleatoric.rng import stream
from aleatoric.types import Draws, Ints

if TYPE_CHECKING:
    from aleatoric.models.hf import HFModel


@dataclass(frozen=True, slots=True)
class Prompt:
    """A context and the id of its item, from which its random numbers are derived."""

    id: str
    context: str


def mc(
    lm: HFModel,
    prompts: Sequence[Prompt],
    *,
    samples: int = 1000,
    first: int = 0,
    seed: int = 0,
    decoder: Decoder | None = None,
    lead: Lead = "skip",
    limits: Limits | None = None,
    vocabulary: Vocabulary | None = None,
) -> list[Draws]:
    """Draw and count `samples` first words per prompt, in the order given.

    A prompt's random numbers depend only on (seed, id, decoder) and the sample's number, so
    sampling can be continued later, at number `first`.
    """
    reader = LogitReader(lm, vocabulary or Vocabulary(lm.pieces, lead), decoder)
    sampler = WordSampler(reader, np.arange(first, first + samples), seed)

    def work(tree: Tree) -> Iterator[tuple[int, Draws] | None]:
        return sampler.walk(tree, [prompts[i].id for i in tree.spans()])

    return for_contexts(lm, [prompt.context for prompt in prompts], work, limits, "mc")


class WordStates:
    """Numbers every word state met so far; 0 is the state before any text.

    A state is (table of the next token, folded word so far, undecided joiner). The texts of all
    contexts pass through the same states, so a transition is computed once.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.end = len(vocabulary)
        """A token number that stands for all tokens that settle the outcome as it is."""
        self._states: list[tuple[TableKey, str, str]] = []
        self._numbers: dict[tuple[TableKey, str, str], int] = {}
        self._known: Ints = np.zeros(0, dtype=np.int64)
        self._next: Ints = np.zeros(0, dtype=np.int64)
        self._rows: dict[TableKey, int] = {}
        self._ends = np.zeros((0, len(vocabulary)), dtype=np.bool_)
        self.row_of = np.zeros(0, dtype=np.int64)
        """Per state a row of `_ends`; -1 for states that nothing can change any more."""
        self._number((LEAD, b""), "", "")
        self._complete()

    def shortened(self, states: Ints, tokens: Ints) -> Ints:
        """Replace tokens that settle the outcome without adding a letter by `end`."""
        return np.where(self._ends[self.row_of[states], tokens], self.end, tokens)

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """Return the states that follow, element by element."""
        steps = states * (self.end + 1) + tokens
        self._learn(steps)
        following: Ints = self._next[np.searchsorted(self._known, steps)]
        return following

    def word(self, state: int) -> str | None:
        """Return the word of a settled state, in the form in which words are compared."""
        key, word, _ = self._states[state]
        return compose(word) if key[0] == DONE else None

    def _learn(self, steps: Ints) -> None:
        """Compute the transitions not met before."""
        places = np.searchsorted(self._known, steps)
        is_known = np.append(self._known, -1)[places] == steps
        fresh = np.unique(steps[~is_known])
        if not len(fresh):
            return
        states = np.array([self._step(step) for step in fresh.tolist()], dtype=np.int64)
        self._complete()
        order = np.argsort(np.concatenate([self._known, fresh]), kind="stable")
        self._known = np.concatenate([self._known, fresh])[order]
        self._next = np.concatenate([self._next, states])[order]

    def _step(self, step: int) -> int:
        number, token = divmod(step, self.end + 1)
        key, word, joiner = self._states[number]
        if token == self.end:
            return self._number((WORDLESS if key[0] == LEAD else DONE, b""), word, "")
        entry = Entry(key=key, word=word, joiner=joiner)
        following = follow(entry, self.vocabulary.table(key), token, 0.0)
        if following.key[0] >= DONE:
            return self._number((following.key[0], b""), following.word, "")
        return self._number(following.key, following.word, following.joiner)

    def _number(self, key: TableKey, word: str, joiner: str) -> int:
        number = self._numbers.setdefault((key, word, joiner), len(self._states))
        if number == len(self._states):
            self._states.append((key, word, joiner))
        return number

    def _complete(self) -> None:
        """Find the rows of `_ends` of new states."""
        keys = [key for key, _, _ in self._states[len(self.row_of) :]]
        rows = [-1 if key[0] >= DONE else self._row(key) for key in keys]
        self.row_of = np.concatenate([self.row_of, np.array(rows, dtype=np.int64)])

    def _row(self, key: TableKey) -> int:
        if key not in self._rows:
            row = np.zeros((1, self.end), dtype=np.bool_)
            row[0, self.vocabulary.table(key).ends] = True
            self._rows[key] = len(self._ends)
            self._ends = np.concatenate([self._ends, row])
        return self._rows[key]


@dataclass(frozen=True, eq=False)
class SampleLevel:
    """The unsettled nodes of one depth, and the samples at them.

    Per node: the context's row, the word's state, the parent node and the token. Per sample, in the
    order of nodes: its number within the context and its node.
    """

    walk: Ints
    state: Ints
    parent: Ints
    token: Ints
    sample: Ints
    node: Ints

    def part(self, low: int, high: int) -> SampleLevel:
        """Nodes low..high-1 with their samples."""
        first, last = np.searchsorted(self.node, [low, high])
        walk, state, parent, token = (
            column[low:high] for column in (self.walk, self.state, self.parent, self.token)
        )
        sample, node = self.sample[first:last], self.node[first:last] - low
        return SampleLevel(walk, state, parent, token, sample, node)

    @classmethod
    def joined(cls, parts: Sequence[SampleLevel]) -> SampleLevel:
        """Concatenate levels."""
        counts = np.cumsum([0, *(len(part.token) for part in parts)])
        nodes = [part.node + shift for part, shift in zip(parts, counts[:-1], strict=True)]
        walk, state, parent, token, sample = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("walk", "state", "parent", "token", "sample")
        )
        return cls(walk, state, parent, token, sample, np.concatenate(nodes))


@dataclass(frozen=True, eq=False)
class Aside:
    """Samples of one depth that are run by themselves: context row, number, state, tokens."""

    walk: Ints
    sample: Ints
    state: Ints
    tokens: tuple[tuple[int, ...], ...]

    def __add__(self, other: Aside) -> Aside:
        return Aside(
            np.concatenate([self.walk, other.walk]),
            np.concatenate([self.sample, other.sample]),
            np.concatenate([self.state, other.state]),
            self.tokens + other.tokens,
        )


_NO_SAMPLES = Aside(*(np.zeros(0, dtype=np.int64),) * 3, ())


@dataclass(frozen=True, eq=False)
class Walks:
    """The walks of a tree's contexts, as arrays, and their outcomes so far.

    `spans` are the contexts' columns of the trunk, `depths` the deepest tokens allowed, `keys` the
    keys of the random numbers. `outcomes` are (context rows, states, counts) of samples that have
    ended, `asides` the samples, by depth, that are run by themselves.
    """

    spans: Ints
    depths: Ints
    keys: Ints
    outcomes: list[tuple[Ints, Ints, Ints]]
    asides: dict[int, Aside]


class WordSampler:
    """Draws the next token of every sample of given nodes until all words have ended."""

    def __init__(self, reader: LogitReader, numbers: Ints, seed: int) -> None:
        self._reader, self._numbers, self._seed = reader, numbers, seed
        self._states = WordStates(reader.vocabulary)

    def walk(self, tree: Tree, item_ids: Sequence[str]) -> Iterator[tuple[int, Draws] | None]:
        """Sample the contexts of a tree; yields `None` while it waits for the device."""
        spans = tree.spans()
        columns = np.array(list(spans.values()), dtype=np.int64)
        depths = np.minimum(MOST_NEW_TOKENS, tree.lm.window - (columns[:, 1] - columns[:, 0]))
        names = ((self._seed, "mc", item_id, str(self._reader.decoder)) for item_id in item_ids)
        ends = (-(1 << 63), (1 << 63) - 1)
        keys = [stream(*name).integers(*ends, endpoint=True) for name in names]
        walks = Walks(columns, depths, np.array(keys, dtype=np.int64), [], {})
        place = {index: row for row, index in enumerate(spans)}
        parts, n_samples = [], len(self._numbers)
        for indices, logits in tree.run_trunk():
            count = len(indices)
            none = np.full(count, -1, dtype=np.int64)
            sample, node = np.tile(self._numbers, count), np.repeat(np.arange(count), n_samples)
            rows = np.array([place[i] for i in indices])
            roots = SampleLevel(rows, np.zeros(count, np.int64), none, none, sample, node)
            arrive = self._draw(walks, roots, logits, 0)
            yield None
            parts.append(self._step(tree, walks, roots, arrive(), roots.parent, 0))
        level, depth = SampleLevel.joined(parts), 1
        level = replace(level, parent=np.full_like(level.parent, -1))
        while len(level.token):
            level = yield from self._deepen(tree, walks, level, depth)
            depth += 1
        yield from self._walk_aside(tree, walks)
        yield from zip(spans, self._counted(item_ids, walks), strict=True)

    def _deepen(
        self, tree: Tree, walks: Walks, level: SampleLevel, depth: int
    ) -> Generator[None, None, SampleLevel]:
        """Run the nodes of a level and draw their samples' next tokens."""
        parts = [level.part(0, 0)]
        nodes = tree.extend(walks.spans[level.walk], level.parent, level.token)
        for part, numbers, logits in nodes:
            portion = level.part(part.start, part.stop)
            arrive = self._draw(walks, portion, logits, depth)
            yield
            below = self._step(tree, walks, portion, arrive(), numbers, depth)
            parents = numbers[below.parent]
            tree.keep_of_last(np.unique(parents))
            parts.append(replace(below, parent=parents))
        return SampleLevel.joined(parts)

    def _draw(self, walks: Walks, level: SampleLevel, logits: Any, depth: int) -> Arrival:
        """Draw the next token of every sample; the work is queued on the device."""
        probabilities = self._reader.probabilities(logits)
        # The key of a sample does not depend on the batch.
        keys = child(child(walks.keys, depth)[level.walk[level.node]], level.sample)
        rows, numbers = (send(x, probabilities.device) for x in (level.node, keys))
        return fetch(draw(probabilities, rows, numbers, rounding_of(logits)))

    def _step(
        self, tree: Tree, walks: Walks, level: SampleLevel, drawn: Ints, numbers: Ints, depth: int
    ) -> SampleLevel:
        """Return the nodes below the drawn tokens; a node's parent is its place in `level`.

        Samples that have ended, and those whose draw rounding could have changed, go to `walks`.
        `numbers` are the level's nodes in the tree.
        """
        close = np.flatnonzero(drawn < 0)
        if len(close):
            nodes = level.node[close]
            walk = level.walk[nodes]
            places = zip(walks.spans[walk].tolist(), numbers[nodes].tolist(), strict=True)
            texts = tuple(tree.text((start, stop), node) for (start, stop), node in places)
            aside = Aside(walk, level.sample[close], level.state[nodes], texts)
            walks.asides[depth] = walks.asides.get(depth, _NO_SAMPLES) + aside
            sure = drawn >= 0
            level = replace(level, sample=level.sample[sure], node=level.node[sure])
            drawn = drawn[sure]
        tokens = self._states.shortened(level.state[level.node], drawn)
        wide = self._states.end + 1
        pairs, which = np.unique(level.node * wide + tokens, return_inverse=True)
        parent, token = np.divmod(pairs, wide)
        state, walk = self._states.after(level.state[parent], token), level.walk[parent]
        counts = np.bincount(which, minlength=len(pairs))
        closed = self._close(walks, walk, state, counts, depth)
        return _below(level, parent, token, state, ~closed, which)

    def _close(
        self, walks: Walks, walk: Ints, state: Ints, counts: Ints, depth: int
    ) -> NDArray[np.bool_]:
        """Record the outcomes of samples that have ended; return which have."""
        closed = (self._states.row_of[state] < 0) | (depth >= walks.depths[walk])
        walks.outcomes.append((walk[closed], state[closed], counts[closed]))
        return closed

    def _walk_aside(self, tree: Tree, walks: Walks) -> Iterator[None]:
        """Sample the texts whose draws were in doubt to their ends, each by itself."""
        samples, depth = _NO_SAMPLES, 0
        while len(samples.walk) or depth <= max(walks.asides, default=-1):
            samples = samples + walks.asides.get(depth, _NO_SAMPLES)
            if len(samples.walk):
                samples = yield from self._step_aside(tree, walks, samples, depth)
            depth += 1

    def _step_aside(
        self, tree: Tree, walks: Walks, samples: Aside, depth: int
    ) -> Generator[None, None, Aside]:
        texts = {tokens: number for number, tokens in enumerate(dict.fromkeys(samples.tokens))}
        rows = np.array([texts[tokens] for tokens in samples.tokens], dtype=np.int64)
        probabilities = self._reader.probabilities(tree.apart(list(texts)))
        device = probabilities.device
        keys = child(child(walks.keys, depth)[samples.walk], samples.sample)
        arrive = fetch(draw(probabilities, send(rows, device), send(keys, device)))
        yield
        drawn = arrive()
        state = self._states.after(samples.state, self._states.shortened(samples.state, drawn))
        going = ~self._close(walks, samples.walk, state, np.ones_like(state), depth)
        open_samples = zip(np.flatnonzero(going).tolist(), drawn[going].tolist(), strict=True)
        tokens = tuple((*samples.tokens[i], token) for i, token in open_samples)
        return Aside(samples.walk[going], samples.sample[going], state[going], tokens)

    def _counted(self, item_ids: Sequence[str], walks: Walks) -> Iterator[Draws]:
        walk, state, count = map(np.concatenate, zip(*walks.outcomes, strict=True))
        order = np.argsort(walk, kind="stable")
        starts = np.searchsorted(walk[order], np.arange(len(item_ids) + 1)).tolist()
        states, counts = state[order].tolist(), count[order].tolist()
        for item_id, low, high in zip(item_ids, starts[:-1], starts[1:], strict=True):
            words: dict[str, int] = {}
            failed = 0
            for number, samples in zip(states[low:high], counts[low:high], strict=True):
                word = self._states.word(number)
                if word is None:
                    failed += samples
                else:
                    words[word] = words.get(word, 0) + samples
            yield Draws(item_id, dict(sorted(words.items())), failed)


def _below(
    level: SampleLevel, parent: Ints, token: Ints, state: Ints, open_: Any, which: Ints
) -> SampleLevel:
    """The level of the (node, token) pairs that stay open, with the samples at them."""
    going = open_[which]
    renumbered = np.cumsum(open_) - 1
    node, sample = renumbered[which[going]], level.sample[going]
    order = np.argsort(node, kind="stable")
    walk = level.walk[parent[open_]]
    return SampleLevel(walk, state[open_], parent[open_], token[open_], sample[order], node[order])
