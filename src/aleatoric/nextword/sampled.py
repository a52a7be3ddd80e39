"""Monte Carlo first words: unbiased samples in which shared beginnings are run once.

Every sample of a context walks down the tree of tokens until its word has ended. Samples that have
drawn the same tokens share a node, so a thousand samples cost some hundred nodes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.models.attention import Arrival, fetch, send
from aleatoric.models.decoding import Decoder
from aleatoric.models.sampling import child, draw, rounding_of
from aleatoric.nextword.digest import Reader
from aleatoric.nextword.tree import (
    MOST_NEW_TOKENS,
    Limits,
    Passage,
    Tree,
    TreeLM,
    each_pack,
    encode_contexts,
    packs_of,
    passages_of,
)
from aleatoric.nextword.vocabulary import (
    DONE,
    FAILED,
    LEAD,
    Entry,
    Key,
    Lead,
    Vocabulary,
    compose,
    follow,
    root,
)
from aleatoric.rng import stream
from aleatoric.types import Draws, Ints


@dataclass(frozen=True, eq=False)
class Aside:
    """Samples of one depth: their walk, their number in it, their word's state, their tokens."""

    walk: Ints
    sample: Ints
    state: Ints
    tokens: tuple[tuple[int, ...], ...]

    @classmethod
    def none(cls) -> Aside:
        """No samples.

        >>> len(Aside.none())
        0
        """
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, empty, empty, ())

    def __len__(self) -> int:
        return len(self.walk)

    def __add__(self, other: Aside) -> Aside:
        return Aside(
            np.concatenate([self.walk, other.walk]),
            np.concatenate([self.sample, other.sample]),
            np.concatenate([self.state, other.state]),
            self.tokens + other.tokens,
        )

    def texts(self) -> tuple[list[tuple[int, ...]], Ints]:
        """The different texts, and which of them each sample has."""
        numbers = {tokens: number for number, tokens in enumerate(dict.fromkeys(self.tokens))}
        return list(numbers), np.array([numbers[t] for t in self.tokens], dtype=np.int64)

    def going_on(self, going: NDArray[np.bool_], state: Ints, drawn: Ints) -> Aside:
        """Some of the samples, one token later."""
        tokens = [
            (*self.tokens[i], token)
            for i, token in zip(np.flatnonzero(going).tolist(), drawn[going].tolist(), strict=True)
        ]
        return Aside(self.walk[going], self.sample[going], state[going], tuple(tokens))


State = tuple[Key, str, str]
"""The table of the next token, the folded word so far, and an undecided joiner."""


class States:
    """Every word state met so far has a number; 0 is the state before any text.

    Texts of all contexts pass through the same states (" many" leads to one state everywhere), so
    a transition is worked out once.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.end = len(vocabulary)
        """A token number that stands for all tokens that settle the outcome as it is."""
        self._states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._known: Ints = np.zeros(0, dtype=np.int64)
        self._next: Ints = np.zeros(0, dtype=np.int64)
        self._rows: dict[Key, int] = {}
        self._ends = np.zeros((0, len(vocabulary)), dtype=np.bool_)
        self._row_of = np.zeros(0, dtype=np.int64)
        self._words: list[str | None] = []
        start = root()
        self._number((start.key, start.word, start.joiner))
        self._complete()

    def __len__(self) -> int:
        return len(self._states)

    def ending(self, states: Ints, tokens: Ints) -> NDArray[np.bool_]:
        """Where a token settles the outcome of its state without adding a letter."""
        found: NDArray[np.bool_] = self._ends[self._row_of[states], tokens]
        return found

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """The states that follow, token by token."""
        steps = states * (self.end + 1) + tokens
        self._learn(steps)
        found: Ints = self._next[np.searchsorted(self._known, steps)]
        return found

    def settled(self, states: Ints) -> NDArray[np.bool_]:
        """Which states nothing can change any more."""
        found: NDArray[np.bool_] = self._row_of[states] < 0
        return found

    def word(self, state: int) -> str | None:
        """The word of a settled state, in the form in which words are compared."""
        return self._words[state]

    def _learn(self, steps: Ints) -> None:
        """Work out the transitions not met before."""
        places = np.searchsorted(self._known, steps)
        known = np.append(self._known, -1)[places] == steps
        fresh = np.unique(steps[~known])
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
            return self._number(_ended(key, word))
        here = Entry(0.0, -1, -1, key, word, joiner)
        there = follow(here, self.vocabulary.table(key), token, 0.0)
        if there.key[0] >= DONE:
            return self._number(((there.key[0], b""), there.word, ""))
        return self._number((there.key, there.word, there.joiner))

    def _number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._words.append(compose(state[1]) if state[0][0] == DONE else None)
        return number

    def _complete(self) -> None:
        """Find the rows of `_ends` of new states; -1 for settled ones."""
        keys = [key for key, _, _ in self._states[len(self._row_of) :]]
        rows = [-1 if key[0] >= DONE else self._row(key) for key in keys]
        self._row_of = np.concatenate([self._row_of, np.array(rows, dtype=np.int64)])

    def _row(self, key: Key) -> int:
        if key not in self._rows:
            row = np.zeros((1, self.end), dtype=np.bool_)
            row[0, self.vocabulary.table(key).ends] = True
            self._rows[key] = len(self._ends)
            self._ends = np.concatenate([self._ends, row])
        return self._rows[key]


def _ended(key: Key, word: str) -> State:
    """The text ends: the word so far stands, and without a word there is none."""
    return ((FAILED if key[0] == LEAD else DONE, b""), word, "")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A context and the item's name, from which its random numbers are derived."""

    id: str
    context: str


@dataclass(frozen=True, eq=False)
class Walks:
    """The contexts of a pack, as arrays.

    Where each lies in the trunk, the deepest token allowed, and the key of its random numbers.
    """

    spans: Ints
    depths: Ints
    keys: Ints


@dataclass(frozen=True, slots=True)
class Level:
    """The unsettled nodes of one depth, and the samples at them.

    For nodes the walk, the word's state, the node before and the token; for samples their number
    within the walk and their node, in the order of nodes.
    """

    walk: Ints
    state: Ints
    parent: Ints
    token: Ints
    sample: Ints
    node: Ints

    def of_samples(self, chosen: Ints) -> Level:
        """The same nodes with some of the samples."""
        return replace(self, sample=self.sample[chosen], node=self.node[chosen])

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
    first: int = 0,
    seed: int = 0,
    decoder: Decoder | None = None,
    lead: Lead = "skip",
    limits: Limits | None = None,
    vocabulary: Vocabulary | None = None,
) -> list[Draws]:
    """`samples` first words of each prompt, counted, in the order given.

    A prompt's random numbers come from (seed, id, decoder) and the sample's number alone, so that
    sampling can go on later: at number `first`.
    """
    limits = limits or Limits()
    vocabulary = vocabulary or Vocabulary(lm.pieces, lead)
    sampler = Sampler(Reader(lm, vocabulary, decoder or Decoder()), samples, seed, first)
    encoded = encode_contexts(lm, [prompt.context for prompt in prompts])
    packs = packs_of(passages_of(encoded), limits.contexts_at_once(lm, "mc"))
    found = dict(each_pack(lm, packs, lambda pack: _walk(lm, pack, prompts, sampler, limits)))
    return [found[i] for i in range(len(prompts))]


def _walk(
    lm: TreeLM, pack: list[Passage], prompts: Sequence[Prompt], sampler: Sampler, limits: Limits
) -> Iterator[tuple[int, Draws] | None]:
    tree = Tree(lm, pack, limits)
    spans = tree.spans()
    walks = _start(lm, [prompts[i] for i in spans], list(spans.values()), sampler)
    place = {index: row for row, index in enumerate(spans)}
    done = Done([], {})
    parts = []
    for indices, logits in tree.run_trunk():
        roots = _roots([place[i] for i in indices], sampler.numbers)
        arrive = sampler.draw(walks, roots, logits, 0)
        yield None
        parts.append(sampler.step(tree, walks, roots, arrive(), roots.parent, 0, done))
    level, depth = _under_context(_joined(parts)), 1
    while len(level.token):
        level = yield from _deepen(tree, sampler, walks, level, depth, done)
        depth += 1
    yield from sampler.walk_aside(tree, walks, done)
    names = [prompts[i].id for i in spans]
    yield from zip(spans, sampler.count(names, done.outcomes), strict=True)


def _start(
    lm: TreeLM, prompts: Sequence[Prompt], spans: Sequence[tuple[int, int]], sampler: Sampler
) -> Walks:
    lengths = [stop - start for start, stop in spans]
    depths = [min(MOST_NEW_TOKENS, lm.window - length) for length in lengths]
    keys = [sampler.key(prompt) for prompt in prompts]
    return Walks(*(np.array(x, dtype=np.int64) for x in (spans, depths, keys)))


def _roots(walks: list[int], numbers: Ints) -> Level:
    """The contexts themselves, with all samples."""
    count = len(walks)
    none = np.full(count, -1, dtype=np.int64)
    sample = np.tile(numbers, count)
    node = np.repeat(np.arange(count), len(numbers))
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


def _deepen(
    tree: Tree,
    sampler: Sampler,
    walks: Walks,
    level: Level,
    depth: int,
    done: Done,
) -> Generator[None, None, Level]:
    """Run the nodes of a level and draw their samples' next tokens."""
    parts = [level.part(0, 0)]
    for part, numbers, logits in tree.extend(walks.spans[level.walk], level.parent, level.token):
        here = level.part(part.start, part.stop)
        arrive = sampler.draw(walks, here, logits, depth)
        yield
        below = sampler.step(tree, walks, here, arrive(), numbers, depth, done)
        parents = numbers[below.parent]
        tree.keep_of_last(np.unique(parents))
        parts.append(replace(below, parent=parents))
    return _joined(parts)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """How many samples of a walk have come to an end in a state."""

    walk: Ints
    state: Ints
    count: Ints


@dataclass(frozen=True, eq=False)
class Done:
    """What the walks of a pack have come to: ends, and by depth the samples that step aside."""

    outcomes: list[Outcomes]
    asides: dict[int, Aside]


class Sampler:
    """Draws the next token of every sample of given nodes."""

    def __init__(self, reader: Reader, samples: int, seed: int, first: int = 0) -> None:
        self.reader = reader
        self.numbers = np.arange(first, first + samples)
        self.seed = seed
        self.states = States(reader.vocabulary)

    def key(self, prompt: Prompt) -> int:
        """The key of a prompt's random numbers."""
        rng = stream(self.seed, "mc", prompt.id, str(self.reader.decoder))
        return int(rng.integers(-(1 << 63), (1 << 63) - 1, endpoint=True))

    def draw(self, walks: Walks, level: Level, logits: Any, depth: int) -> Arrival:
        """Draw the next token of every sample; the work is queued on the device."""
        probabilities = self.reader.probabilities(logits)
        device = probabilities.device
        rows, keys = (send(x, device) for x in (level.node, self._keys(walks, level, depth)))
        return fetch(draw(probabilities, rows, keys, rounding_of(logits)))

    def step(
        self,
        tree: Tree,
        walks: Walks,
        level: Level,
        drawn: Ints,
        numbers: Ints,
        depth: int,
        done: Done,
    ) -> Level:
        """The nodes below the drawn tokens; a node's parent is its place in `level`.

        Samples that have settled, and those whose draw rounding could have changed, go to `done`.
        `numbers` are the level's nodes in the tree.
        """
        close = np.flatnonzero(drawn < 0)
        if len(close):
            aside = _aside(tree, walks, level.of_samples(close), numbers)
            done.asides[depth] = done.asides.get(depth, Aside.none()) + aside
            sure = np.flatnonzero(drawn >= 0)
            level, drawn = level.of_samples(sure), drawn[sure]
        tokens = self._shortened(level.state[level.node], drawn)
        wide = self.states.end + 1
        pairs, which = np.unique(level.node * wide + tokens, return_inverse=True)
        parent, token = np.divmod(pairs, wide)
        state, walk = self.states.after(level.state[parent], token), level.walk[parent]
        closed = self.states.settled(state) | (depth >= walks.depths[walk])
        counts = np.bincount(which, minlength=len(pairs))
        done.outcomes.append(Outcomes(walk[closed], state[closed], counts[closed]))
        return _below(level, parent, token, state, ~closed, which)

    def _shortened(self, states: Ints, drawn: Ints) -> Ints:
        """Tokens, one number for all that settle the outcome as it is."""
        return np.where(self.states.ending(states, drawn), self.states.end, drawn)

    def walk_aside(self, tree: Tree, walks: Walks, done: Done) -> Iterator[None]:
        """Walk the samples that stepped aside to their ends, each by itself."""
        here, depth = Aside.none(), 0
        while len(here) or depth <= max(done.asides, default=-1):
            here = here + done.asides.get(depth, Aside.none())
            if len(here):
                here = yield from self._step_aside(tree, walks, here, depth, done)
            depth += 1

    def _step_aside(
        self, tree: Tree, walks: Walks, here: Aside, depth: int, done: Done
    ) -> Generator[None, None, Aside]:
        texts, rows = here.texts()
        probabilities = self.reader.probabilities(tree.apart(texts))
        device = probabilities.device
        keys = child(child(walks.keys, depth)[here.walk], here.sample)
        arrive = fetch(draw(probabilities, send(rows, device), send(keys, device)))
        yield
        drawn = arrive()
        state = self.states.after(here.state, self._shortened(here.state, drawn))
        closed = self.states.settled(state) | (depth >= walks.depths[here.walk])
        ones = np.ones(int(closed.sum()), dtype=np.int64)
        done.outcomes.append(Outcomes(here.walk[closed], state[closed], ones))
        return here.going_on(~closed, state, drawn)

    def _keys(self, walks: Walks, level: Level, depth: int) -> Ints:
        """The key of each sample at this depth: a property of the sample, not of the batch."""
        of_walk = child(walks.keys, depth)
        found: Ints = child(of_walk[level.walk[level.node]], level.sample)
        return found

    def count(self, names: Sequence[str], outcomes: Sequence[Outcomes]) -> Iterator[Draws]:
        """The words of each walk's samples, and how many samples have none."""
        walk, state, count = (
            np.concatenate([getattr(part, name) for part in outcomes])
            for name in ("walk", "state", "count")
        )
        order = np.argsort(walk, kind="stable")
        starts = np.searchsorted(walk[order], np.arange(len(names) + 1)).tolist()
        states, counts = state[order].tolist(), count[order].tolist()
        for name, low, high in zip(names, starts[:-1], starts[1:], strict=True):
            yield self._counted(name, states[low:high], counts[low:high])

    def _counted(self, name: str, states: list[int], counts: list[int]) -> Draws:
        words: dict[str | None, int] = {}
        for state, count in zip(states, counts, strict=True):
            word = self.states.word(state)
            words[word] = words.get(word, 0) + count
        failed = words.pop(None, 0)
        return Draws(name, dict(sorted(words.items(), key=_word)), failed)  # type: ignore[arg-type]


def _aside(tree: Tree, walks: Walks, level: Level, numbers: Ints) -> Aside:
    """The samples of a level with their whole texts."""
    walk = level.walk[level.node]
    nodes = numbers[level.node].tolist()
    spans = walks.spans[walk].tolist()
    texts = [tree.text(tuple(span), node) for span, node in zip(spans, nodes, strict=True)]
    return Aside(walk, level.sample, level.state[level.node], tuple(texts))


def _word(item: tuple[str | None, int]) -> str:
    return item[0] or ""


def _below(
    level: Level,
    parent: Ints,
    token: Ints,
    state: Ints,
    open_: NDArray[np.bool_],
    which: Ints,
) -> Level:
    """The level of the pairs that stay open, with the samples at them."""
    going = open_[which]
    renumbered = np.cumsum(open_) - 1
    node, sample = renumbered[which[going]], level.sample[going]
    order = np.argsort(node, kind="stable")
    walk = level.walk[parent[open_]]
    return Level(walk, state[open_], parent[open_], token[open_], sample[order], node[order])
