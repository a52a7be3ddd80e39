"""Monte Carlo next words: unbiased samples; those that have drawn the same tokens share a node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from aleatoric.models.attention import Arrival, fetch, send
from aleatoric.models.decoding import Decoder, child, draw, rounding_of
from aleatoric.nextword.rules import (
    DONE,
    LEAD,
    MOST_NEW_TOKENS,
    WORDLESS,
    Lead,
    TextRule,
    compose,
    decode,
)
from aleatoric.nextword.tree import Tree, for_contexts
from aleatoric.nextword.vocabulary import (
    Entry,
    LogitReader,
    TableKey,
    Vocabulary,
    follow,
    vocabulary_of,
)
from aleatoric.rng import stream
from aleatoric.types import Bools, Draws, Ints, Item

if TYPE_CHECKING:
    from aleatoric.models.plain import LanguageModel


def mc(
    lm: LanguageModel,
    items: Sequence[Item],
    *,
    samples: int = 1000,
    first: int = 0,
    seed: int = 0,
    decoder: Decoder | None = None,
    lead: Lead = "skip",
    rule: TextRule | None = None,
) -> list[Draws]:
    """Draw and count `samples` first words per item, in the order given.

    An item's random numbers depend only on (seed, id, decoder) and the sample's number, so
    sampling can be continued later, at number `first`. By default words are those of the corrected
    rule, in the form in which they are compared; a `rule` cuts them as they are.
    """
    reader = LogitReader(lm, vocabulary_of(lm.pieces, lead), decoder)
    states = TextStates(lm.pieces, rule) if rule else WordStates(reader.vocabulary)
    numbers = np.arange(first, first + samples)

    def work(tree: Tree) -> Iterator[tuple[int, Draws] | None]:
        ids = [items[i].id for i in tree.spans()]
        streams = (stream(seed, "mc", item_id, str(reader.decoder)) for item_id in ids)
        keys = [rng.integers(-(1 << 63), (1 << 63) - 1, endpoint=True) for rng in streams]
        walks = WordWalks(tree, reader, states, np.array(keys, dtype=np.int64))
        yield from walks.run(numbers)
        for index, item_id, found in zip(tree.spans(), ids, walks.words(), strict=True):
            words = sorted((word, n) for word, n in found.items() if word is not None)
            yield index, Draws(item_id, dict(words), found[None])

    return for_contexts(lm, [item.context for item in items], work, "mc")


class SampleStates(ABC):
    """Numbers every state of a text met so far; 0 is the state before any text.

    The texts of all contexts pass through the same states, so a transition is computed once.
    """

    most_depth = MOST_NEW_TOKENS
    """The depth of the last token that is drawn."""

    def __init__(self, n_tokens: int, *first: Any) -> None:
        self.end = n_tokens
        """A token number that stands for all tokens that settle the outcome as it is."""
        self._states: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._next: dict[int, int] = {}
        self.row_of = np.zeros(0, dtype=np.int64)
        """Per state a row of a table of tokens; -1 if nothing can change the outcome any more."""
        self._number(*first)
        self._complete()

    def shortened(self, states: Ints, tokens: Ints) -> Ints:
        """Replace tokens that settle the outcome as it is by `end`, if they are known."""
        return tokens

    def after(self, states: Ints, tokens: Ints) -> Ints:
        """Return the states that follow, element by element."""
        steps = (states * (self.end + 1) + tokens).tolist()
        fresh = dict.fromkeys(steps).keys() - self._next.keys()
        self._next |= {step: self._step(*divmod(step, self.end + 1)) for step in fresh}
        self._complete()
        return np.fromiter(map(self._next.__getitem__, steps), np.int64, len(steps))

    def _number(self, *state: Any) -> int:
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def _complete(self) -> None:
        """Extend `row_of` to new states."""
        rows = [self._row(*state) for state in self._states[len(self.row_of) :]]
        self.row_of = np.concatenate([self.row_of, np.array(rows, dtype=np.int64)])

    @abstractmethod
    def word(self, state: int) -> str | None:
        """Return the word of a state in which a text has ended."""

    @abstractmethod
    def _step(self, number: int, token: int) -> int:
        """Return the number of the state after a token."""

    @abstractmethod
    def _row(self, *state: Any) -> int:
        """Return the entry of `row_of` of a new state."""


class TextStates(SampleStates):
    """States that are whole texts, for any word rule: (bytes so far, whether the text has ended).

    For a user-defined rule, which cuts texts elsewhere, a text counts as its word.
    """

    def __init__(self, pieces: Sequence[bytes | None], rule: TextRule) -> None:
        self._pieces, self._rule, self.most_depth = pieces, rule, rule.tokens - 1
        super().__init__(len(pieces), b"", False)

    def word(self, state: int) -> str | None:
        """Return the word of a text, without an incomplete last character."""
        return self._rule.cut(decode(self._states[state][0])[0])

    def _step(self, number: int, token: int) -> int:
        text, piece = self._states[number][0], self._pieces[token]
        return self._number(text, True) if piece is None else self._number(text + piece, False)

    def _row(self, text: bytes, is_ended: bool) -> int:
        return -1 if is_ended or self._rule.is_settled(decode(text)[0]) else 0


class WordStates(SampleStates):
    """States of the corrected rule: (table of the next token, folded word, undecided joiner)."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._rows: dict[TableKey, int] = {}
        self._ends = np.zeros((0, len(vocabulary)), dtype=np.bool_)
        super().__init__(len(vocabulary), (LEAD, b""), "", "")

    def shortened(self, states: Ints, tokens: Ints) -> Ints:
        """Replace tokens that settle the outcome without adding a letter by `end`."""
        return np.where(self._ends[self.row_of[states], tokens], self.end, tokens)

    def word(self, state: int) -> str | None:
        """Return the word of a state as far as it goes, in the form in which words are compared."""
        key, word, _ = self._states[state]
        return None if key[0] in (LEAD, WORDLESS) else compose(word)

    def _step(self, number: int, token: int) -> int:
        key, word, joiner = self._states[number]
        if token == self.end:
            return self._number((WORDLESS if key[0] == LEAD else DONE, b""), word, "")
        entry = Entry(key=key, word=word, joiner=joiner)
        following = follow(entry, self.vocabulary.table(key), token, 0.0)
        if following.key[0] >= DONE:
            return self._number((following.key[0], b""), following.word, "")
        return self._number(following.key, following.word, following.joiner)

    def _row(self, key: TableKey, *_: str) -> int:
        """Return the row of `_ends` of a state."""
        if key[0] < DONE and key not in self._rows:
            row = np.zeros((1, self.end), dtype=np.bool_)
            row[0, self.vocabulary.table(key).ends] = True
            self._rows[key] = len(self._ends)
            self._ends = np.concatenate([self._ends, row])
        return self._rows.get(key, -1)


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
        nodes, samples = slice(low, high), slice(first, last)
        of_nodes = self.walk[nodes], self.state[nodes], self.parent[nodes], self.token[nodes]
        return SampleLevel(*of_nodes, self.sample[samples], self.node[samples] - low)

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


class WordWalks:
    """The samples of a tree's contexts; tokens are drawn until the words of all of them have ended.

    `_spans` are the contexts' columns of the trunk, `_depths` the deepest tokens allowed, `_keys`
    the keys of the random numbers. `_outcomes` are (context rows, states, counts) of samples that
    have ended; `_asides` are, by depth, samples that are run by themselves: rows of (context,
    number, state), and the tokens of each.
    """

    def __init__(self, tree: Tree, reader: LogitReader, states: SampleStates, keys: Ints) -> None:
        self._tree, self._reader, self._states, self._keys = tree, reader, states, keys
        self._spans = np.array(list(tree.spans().values()), dtype=np.int64)
        room = tree.window - (self._spans[:, 1] - self._spans[:, 0])
        self._depths = np.minimum(states.most_depth, room)
        self._outcomes: list[tuple[Ints, Ints, Ints]] = []
        self._asides: dict[int, list[tuple[Ints, list[tuple[int, ...]]]]] = defaultdict(list)

    def run(self, numbers: Ints) -> Iterator[None]:
        """Draw the samples of these numbers per context; yields while it waits for the device."""
        place = {index: row for row, index in enumerate(self._tree.spans())}
        parts = []
        for indices, logits in self._tree.run_trunk():
            count = len(indices)
            none = np.full(count, -1, dtype=np.int64)
            sample, node = np.tile(numbers, count), np.repeat(np.arange(count), len(numbers))
            rows = np.array([place[i] for i in indices])
            roots = SampleLevel(rows, np.zeros(count, np.int64), none, none, sample, node)
            arrive = self._draw(roots, logits, 0)
            yield
            parts.append(self._step(roots, arrive(), roots.parent, 0))
        level, depth = SampleLevel.joined(parts), 1
        level = replace(level, parent=np.full_like(level.parent, -1))
        while len(level.token):
            level = yield from self._deepen(level, depth)
            depth += 1
        # Sample the texts whose draws were in doubt to their ends, each by itself.
        for depth in range(MOST_NEW_TOKENS + 1):
            if self._asides[depth]:
                yield from self._step_aside(depth)

    def _deepen(self, level: SampleLevel, depth: int) -> Generator[None, None, SampleLevel]:
        """Run the nodes of a level and draw their samples' next tokens."""
        parts = [level.part(0, 0)]
        nodes = self._tree.extend(self._spans[level.walk], level.parent, level.token)
        for part, numbers, logits in nodes:
            portion = level.part(part.start, part.stop)
            arrive = self._draw(portion, logits, depth)
            yield
            below = self._step(portion, arrive(), numbers, depth)
            parents = numbers[below.parent]
            self._tree.keep_of_last(np.unique(parents))
            parts.append(replace(below, parent=parents))
        return SampleLevel.joined(parts)

    def _draw(self, level: SampleLevel, logits: Any, depth: int) -> Arrival:
        """Draw the next token of every sample; the work is queued on the device."""
        probabilities = self._reader.probabilities(logits)
        # The key of a sample does not depend on the batch.
        keys = child(child(self._keys, depth)[level.walk[level.node]], level.sample)
        rows, numbers = (send(x, probabilities.device) for x in (level.node, keys))
        return fetch(draw(probabilities, rows, numbers, rounding_of(logits)))

    def _step(self, level: SampleLevel, drawn: Ints, numbers: Ints, depth: int) -> SampleLevel:
        """Return the nodes below the drawn tokens; a node's parent is its place in `level`.

        `numbers` are the level's nodes in the tree.
        """
        level, drawn = self._set_aside(level, drawn, numbers, depth)
        tokens = self._states.shortened(level.state[level.node], drawn)
        wide = self._states.end + 1
        pairs, which = np.unique(level.node * wide + tokens, return_inverse=True)
        parent, token = np.divmod(pairs, wide)
        state, walk = self._states.after(level.state[parent], token), level.walk[parent]
        counts = np.bincount(which, minlength=len(pairs))
        return _below(level, parent, token, state, ~self._close(walk, state, counts, depth), which)

    def _set_aside(
        self, level: SampleLevel, drawn: Ints, numbers: Ints, depth: int
    ) -> tuple[SampleLevel, Ints]:
        """Remove the samples whose draw rounding could have changed."""
        close, sure = np.flatnonzero(drawn < 0), drawn >= 0
        if len(close):
            nodes = level.node[close]
            walk = level.walk[nodes]
            places = zip(self._spans[walk].tolist(), numbers[nodes].tolist(), strict=True)
            texts = [self._tree.text((start, stop), node) for (start, stop), node in places]
            rows = np.column_stack([walk, level.sample[close], level.state[nodes]])
            self._asides[depth].append((rows, texts))
            level = replace(level, sample=level.sample[sure], node=level.node[sure])
        return level, drawn[sure]

    def _close(self, walk: Ints, state: Ints, counts: Ints, depth: int) -> Bools:
        """Record the outcomes of samples that have ended; return which have."""
        closed: Bools = (self._states.row_of[state] < 0) | (depth >= self._depths[walk])
        self._outcomes.append((walk[closed], state[closed], counts[closed]))
        return closed

    def _step_aside(self, depth: int) -> Iterator[None]:
        walk, sample, state = np.concatenate([rows for rows, _ in self._asides[depth]]).T
        texts = list(chain(*(texts for _, texts in self._asides[depth])))
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        rows = np.array([numbers[text] for text in texts], dtype=np.int64)
        probabilities = self._reader.probabilities(self._tree.apart(list(numbers)))
        device, keys = probabilities.device, child(child(self._keys, depth)[walk], sample)
        arrive = fetch(draw(probabilities, send(rows, device), send(keys, device)))
        yield
        drawn = arrive()
        state = self._states.after(state, self._states.shortened(state, drawn))
        going = np.flatnonzero(~self._close(walk, state, np.ones_like(state), depth))
        if len(going):
            rows = np.column_stack([walk, sample, state])[going]
            longer = [(*texts[i], token) for i, token in zip(going, drawn[going], strict=True)]
            self._asides[depth + 1].insert(0, (rows, longer))

    def words(self) -> list[Counter[str | None]]:
        """Count the words of each context; `None` are samples without a word."""
        counts: list[Counter[str | None]] = [Counter() for _ in self._keys]
        is_short = (self._depths < self._states.most_depth).tolist()
        for outcomes in self._outcomes:
            for row, state, count in zip(*(x.tolist() for x in outcomes), strict=True):
                # The model reads no further: nobody knows how the word would go on.
                is_cut = is_short[row] and self._states.row_of[state] >= 0
                counts[row][None if is_cut else self._states.word(state)] += count
        return counts


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
