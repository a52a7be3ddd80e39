"""Exact probabilities of given words as the first word of a model's continuation.

Every token sequence that starts one of the words is followed, largest mass first, in any case and
segmentation; the mass that is not followed is bounded. Many contexts are searched side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric.errors import UsageError
from aleatoric.models.decoding import Decoder
from aleatoric.nextword.beginnings import Beginnings, Cells, TokenPlans
from aleatoric.nextword.bounds import WordProbabilities
from aleatoric.nextword.rules import LEAD, Lead, fold
from aleatoric.nextword.tree import Tree, for_contexts
from aleatoric.nextword.vocabulary import (
    ENTRY,
    Digest,
    Entries,
    LogitReader,
    NodeCache,
    vocabulary_of,
)
from aleatoric.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from aleatoric.models.plain import LanguageModel


SPELLINGS = 8
"""Rounds in which words without any probability are spelled out; some cannot be."""
LOSS = 0.1
"""Log loss is searched until its bounds are so many nats apart."""
LOSS_WAVE = 8
"""Tokens per round that only log loss needs."""
SMALL = 1e-3
"""A continuation is not followed below this share of the tolerance."""


@dataclass(frozen=True, slots=True)
class Question:
    """A context and the words whose probabilities are wanted.

    With `weights`, the human probabilities of the words, the search only follows what can still
    change the total variation distance.
    """

    context: str
    words: tuple[str, ...]
    weights: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """Stopping rule: stop when the bounds are `tolerance` apart, or after `nodes` tokens.

    The bounds are those of the total variation distance for a question with weights, and the open
    mass for one without. With `every_word`, at least one spelling of every word is run, so that
    every probability has a lower bound above 0. At most `wave` tokens per context run per round: a
    small wave reaches deeper with the same number of nodes, and takes more rounds. While a context
    has fewer than `loss_nodes` nodes, the search also goes on until the bounds of the log loss of
    its weights are `LOSS` apart.
    """

    tolerance: float = 0.02
    nodes: int = 200
    failed: Literal["reject", "outcome"] = "reject"
    every_word: bool = False
    wave: int = 10**9
    loss_nodes: int = 0

    def __post_init__(self) -> None:
        if not self.tolerance >= 0:  # nor NaN
            raise UsageError(f"the tolerance {self.tolerance:g} must be at least 0, such as 0.02.")


def exact(
    lm: LanguageModel,
    questions: Sequence[Question],
    *,
    decoder: Decoder | None = None,
    lead: Lead = "skip",
    search: Search | None = None,
) -> list[WordProbabilities]:
    """Return the probability of each word of each question, with bounds, in the order given."""
    vocabulary = vocabulary_of(lm.pieces, lead)
    asking = Asking(questions, search or Search(), LogitReader(lm, vocabulary, decoder))
    contexts = [question.context for question in questions]
    return for_contexts(lm, contexts, lambda tree: Searches(tree, asking).found())


class Asking:
    """Questions with the words of all of them numbered together, and how they are answered."""

    def __init__(self, questions: Sequence[Question], goal: Search, reader: LogitReader) -> None:
        self.questions, self.goal, self.reader = questions, goal, reader
        words = dict.fromkeys(word for question in questions for word in question.words)
        self.numbers = {word: number for number, word in enumerate(words)}
        self.beginnings = Beginnings(list(words))
        self.plans = TokenPlans(reader.vocabulary, self.beginnings)


class PlannedTokens(NamedTuple):
    """Tokens that matter to a batch: first `growing` that lead to a cell, then word endings."""

    rows: Ints
    tokens: Ints
    cells: Ints
    growing: int


class Searches:
    """The searches of a tree's contexts: words found, mass still open, entries to run.

    The words of all contexts are concatenated; a word's place is its index there. Mass that is too
    small to follow is summed per cell as `_dust`. Every node that is run is added to the cache.
    """

    def __init__(self, tree: Tree, asking: Asking, cache: NodeCache | None = None) -> None:
        spans = tree.spans()
        questions = [asking.questions[index] for index in spans]
        self._tree, self._reader, self._asking = tree, asking.reader, asking
        self._goal, self._cache, self._count, self._rounds = asking.goal, cache, len(spans), 0
        self._spans = np.array(list(spans.values()), dtype=np.int64)
        self._room = tree.window - (self._spans[:, 1] - self._spans[:, 0])
        self._words = [question.words for question in questions]
        self._owner = np.repeat(np.arange(self._count), [len(words) for words in self._words])
        numbers = [asking.numbers[word] for words in self._words for word in words]
        self._word = np.array(numbers, dtype=np.int64)
        weights = [question.weights or (1.0,) * len(question.words) for question in questions]
        self._weights = np.array([x for row in weights for x in row], dtype=np.float64)
        self._cells = Cells.of(asking.beginnings, self._word, self._owner, self._count)
        self._found = np.zeros(len(self._word))
        self._dust, self._failed = np.zeros(len(self._cells)), np.zeros(self._count)
        self._nodes = np.zeros(self._count, dtype=np.int64)
        self._entries: Entries = np.zeros(0, dtype=ENTRY)
        self._resting: list[Entries] = []
        """Remaining entries of finished contexts."""

    def found(self) -> Iterator[tuple[int, WordProbabilities] | None]:
        """Yield (question, answer), and `None` while it waits for the device."""
        yield from self.run()
        yield from zip(self._tree.spans(), self.answers(), strict=True)

    def run(self) -> Iterator[None]:
        """Run the contexts, then the entries that are chosen, until none is chosen."""
        owner = {index: place for place, index in enumerate(self._tree.spans())}
        for indices, logits in self._tree.run_trunk():
            batch = np.zeros(len(indices), dtype=ENTRY)
            batch["owner"], batch["mass"] = [owner[i] for i in indices], 1.0
            start = self._cells.find(batch["owner"], np.zeros_like(batch["owner"]))
            batch["table"], batch["cell"], batch["base"] = LEAD, start, start
            batch["parent"] = batch["token"] = -1
            yield from self.take(batch, batch["parent"].copy(), logits)
        while len(chosen := self.choose()):
            spans = self._spans[chosen["owner"]]
            nodes = self._tree.extend(spans, chosen["parent"], chosen["token"])
            for part, numbers, logits in nodes:
                yield from self.take(chosen[part], numbers, logits)

    def choose(self) -> Entries:
        """Choose the largest entries of each context, until the others are below the tolerances."""
        self._rounds += 1
        # Words without any probability come first, and may take more nodes than `goal.nodes`.
        taken = self._only_ways()
        room = np.clip(self._goal.nodes - self._nodes, 0, self._goal.wave)
        taken |= self._useful(*self._overlap_worths(), self._goal.tolerance, room, taken)
        if self._goal.loss_nodes:
            room = np.clip(self._goal.loss_nodes - self._nodes, 0, LOSS_WAVE)
            taken |= self._useful(*self._loss_worths(), LOSS, room, taken)
        chosen: Entries = self._entries[taken]
        counts = np.bincount(chosen["owner"], minlength=self._count)
        others = self._entries[~taken]
        going = counts[others["owner"]] > 0
        self._entries = others[going]
        self._resting.append(others[~going])
        self._nodes += counts
        return chosen

    def _overlap_worths(self) -> tuple[Floats, Floats]:
        """How much each entry, and everything open in each context, can change the overlap."""
        lack = self._sums_through(np.maximum(0.0, self._weights - self._found))
        worths = np.minimum(self._entries["mass"], lack[self._entries["cell"]])
        dust = _by(self._cells.owner, np.minimum(self._dust, lack), self._count)
        return worths, dust + _by(self._entries["owner"], worths, self._count)

    def _loss_worths(self) -> tuple[Floats, Floats]:
        """How much each entry, and everything open in each context, can change the log loss.

        Without an entry, the log of a word's upper bound falls by at least mass / upper bound.
        """
        most = np.maximum(self._most(), 1e-300)
        worth = self._sums_through(self._weights / most)
        known = self._found > 0
        gaps = np.where(known, self._weights * np.log(most / np.where(known, self._found, 1.0)), 0)
        worths = self._entries["mass"] * worth[self._entries["cell"]]
        return worths, _by(self._owner, gaps, self._count)

    def _useful(
        self, worths: Floats, totals: Floats, tolerance: float, room: Ints, taken: Bools
    ) -> Bools:
        """Mark each context's best entries, after those taken, until the tolerance remains."""
        order = np.lexsort((-worths, ~taken, self._entries["owner"]))
        owners = self._entries["owner"][order]
        sizes = np.bincount(owners, minlength=self._count)
        rank = np.arange(len(owners)) - (np.cumsum(sizes) - sizes)[owners]
        table = np.zeros((self._count, max(int(sizes.max(initial=0)), 1)))
        table[owners, rank] = worths[order]
        remaining = totals[:, None] - (np.cumsum(table, axis=1) - table)
        useful = np.zeros_like(taken)
        useful[order] = (remaining[owners, rank] > tolerance) & (rank < room[owners])
        return useful

    def _only_ways(self) -> Bools:
        """Per word without any probability yet, mark the entry that is nearest to spelling it."""
        chosen = np.zeros(len(self._entries), dtype=np.bool_)
        if not self._goal.every_word or self._rounds > SPELLINGS:
            return chosen
        entries = self._entries
        reached = np.where(entries["base"] >= 0, entries["base"], entries["cell"])
        letters = self._asking.beginnings.lengths[self._cells.beginning[reached]]
        # Only the nearest entry at a cell can be chosen: memory grows with the words' letters,
        # not with entries times words.
        nearest = np.sort(_last_by(entries["cell"], letters, entries["mass"]))
        which, places = self._cells.through.take(entries["cell"][nearest])
        lacking = self._found[places] == 0
        which, places = nearest[which[lacking]], places[lacking]
        chosen[which[_last_by(places, letters[which], entries["mass"][which])]] = True
        return chosen

    def take(self, batch: Entries, numbers: Ints, logits: Any) -> Iterator[None]:
        """Read the next-token distributions of entries that have become the nodes `numbers`.

        Yields once, while the device works.
        """
        plan = self._plan(batch)
        arrive = self._reader.read(logits, batch["table"], plan.rows, plan.tokens)
        if self._cache is not None:
            self._cache.add(batch, numbers, logits)
        yield
        digest = arrive()
        # The tokens that end the word as it is so far.
        ended, leading = digest.ends * batch["mass"], self._cells.beginning[batch["cell"]] == 0
        self._failed += _by(batch["owner"][leading], ended[leading], self._count)
        self._find(batch["cell"][~leading], ended[~leading])
        grown = self._follow_planned(batch, numbers, plan, digest.planned)
        loose = self._follow_loose(batch, numbers, digest)
        self._settle(batch["cell"], digest.loose_rest * batch["mass"])
        self._entries = np.concatenate([self._entries, grown, *loose])

    def _plan(self, batch: Entries) -> PlannedTokens:
        """The tokens after which a text may still become one of the words."""
        # (row, cell) for each cell that the text of a row can still reach.
        open_ = np.flatnonzero(batch["base"] >= 0)
        base = self._cells.beginning[batch["base"][open_]]
        fresh = open_[base == 0]
        which, cells = self._cells.of_context.take(batch["owner"][fresh])
        rows, further = self._further(batch, open_[base > 0])
        rows, cells = np.concatenate([fresh[which], rows]), np.concatenate([cells, further])
        tables, bases = batch["table"][rows], self._cells.beginning[batch["base"][rows]]
        targets, plans = self._cells.beginning[cells], self._asking.plans
        grow, on = plans.tokens("grows", tables, bases, targets)
        whole = np.flatnonzero(self._cells.completes[cells] >= 0)
        close, end = plans.tokens("closes", tables[whole], bases[whole], targets[whole])
        steps = np.concatenate([grow, whole[close]])
        return PlannedTokens(rows[steps], np.concatenate([on, end]), cells[steps], len(grow))

    def _further(self, batch: Entries, rows: Ints) -> tuple[Ints, Ints]:
        """The cells on the way to the words that go through the rows' cells, each once."""
        beginnings = self._asking.beginnings
        which, places = self._cells.through.take(batch["base"][rows])
        step, path = beginnings.paths.take(self._word[places])
        row = rows[which[step]]
        least = beginnings.lengths[self._cells.beginning[batch["base"][row]]]
        on = beginnings.lengths[path] >= least
        cells = self._cells.find(batch["owner"][row[on]], path[on])
        size = len(self._cells)
        row, cell = np.divmod(np.unique(row[on] * size + cells), size)
        return row, cell

    def _find(self, cells: Ints, masses: Floats) -> None:
        """Count the mass of texts whose word is the one at a cell."""
        places = self._cells.completes[cells]
        good = places >= 0
        self._found += _by(places[good], masses[good], len(self._found))

    def _follow_planned(
        self, batch: Entries, numbers: Ints, plan: PlannedTokens, shares: Floats
    ) -> Entries:
        """Count complete words and return the entries that lead on to others."""
        masses = shares * batch["mass"][plan.rows]
        large = self._drop_small(plan.cells, masses, self._needed(plan.cells))
        closing = large & (np.arange(len(masses)) >= plan.growing)
        self._find(plan.cells[closing], masses[closing])
        on = np.flatnonzero(large & ~closing)
        rows, tokens, cells = plan.rows[on], plan.tokens[on], plan.cells[on]
        tables, joins = self._effects(batch["table"][rows], tokens)
        children = self._children(batch[rows], numbers[rows], tokens, masses[on])
        children["table"], children["cell"], children["base"] = tables, cells, cells
        return self._kept(children, joins)

    def _needed(self, cells: Ints) -> Bools:
        """Mark cells on the way to words without any probability, if all must have some."""
        if not self._goal.every_word:
            return np.zeros(len(cells), dtype=np.bool_)
        needed: Bools = self._sums_through(self._found == 0)[cells] > 0
        return needed

    def _sums_through(self, values: NDArray[Any]) -> Floats:
        """Per cell, the sum of `values` over the words that go through it."""
        which, places = self._cells.through.take(np.arange(len(self._cells)))
        return _by(which, values[places], len(self._cells))

    def _drop_small(self, cells: Ints, masses: Floats, needed: Bools) -> Bools:
        """Mark the masses worth following; the others become dust."""
        small = (masses <= self._goal.tolerance * SMALL) & ~(needed & (masses > 0))
        self._settle(cells[small], masses[small])
        return ~small

    def _settle(self, cells: Ints, masses: Floats) -> None:
        """Count mass that is not followed; it may still become any word through its cell."""
        self._dust += _by(cells, masses, len(self._cells))

    def _effects(self, tables: Ints, tokens: Ints) -> tuple[Ints, Ints]:
        """The table and the undecided joiner after each token."""
        after, joins = np.zeros_like(tokens), np.zeros_like(tokens)
        for number in np.unique(tables).tolist():
            rows = tables == number
            after[rows] = self._reader.vocabulary.after(number)[tokens[rows]]
            joins[rows] = self._reader.vocabulary.numbered(number).joins[tokens[rows]]
        return after, joins

    def _children(self, parents: Entries, numbers: Ints, tokens: Ints, masses: Floats) -> Entries:
        """One entry below each of `parents`, with its word unchanged."""
        children = parents.copy()
        children["depth"] += 1
        children["parent"], children["token"], children["mass"] = numbers, tokens, masses
        return children

    def _kept(self, children: Entries, joins: Ints) -> Entries:
        """Children with their joiners, without those that cannot become a word."""
        marked = joins > 0
        beginning = self._cells.beginning[children["cell"]]
        joined = self._asking.beginnings.joined[beginning, joins]
        base = self._cells.find(children["owner"], joined)
        children["base"] = np.where(marked, base, children["base"])
        whole = self._cells.completes[children["cell"]] >= 0
        fits = children["depth"] <= self._room[children["owner"]]
        self._settle(children["cell"][~fits], children["mass"][~fits])
        kept: Entries = children[fits & (~marked | whole | (base >= 0))]
        return kept

    def _follow_loose(self, batch: Entries, numbers: Ints, digest: Digest) -> list[Entries]:
        """Entries after the likeliest loose tokens, whose letters alone do not determine a cell."""
        masses = digest.loose * batch["mass"][:, None]
        cells = np.broadcast_to(batch["cell"][:, None], masses.shape)
        needed = self._needed(np.maximum(batch["base"], 0)) & (batch["base"] >= 0)
        rows, columns = np.nonzero(self._drop_small(cells, masses, needed[:, None]))
        tokens = digest.loose_tokens[rows, columns]
        children = self._children(batch[rows], numbers[rows], tokens, masses[rows, columns])
        kept = []
        for number in np.unique(children["table"]).tolist():
            group = children[children["table"] == number]
            silent = self._reader.vocabulary.numbered(number).silent[group["token"]]
            kept += [self._silent(group[silent]), self._lettered(group[~silent])]
        return kept

    def _silent(self, children: Entries) -> Entries:
        """Children after tokens without letters: the word is unchanged, or has ended."""
        children["table"], joins = self._effects(children["table"], children["token"])
        ended = children["table"] < 0
        self._find(children["cell"][ended], children["mass"][ended])
        return self._kept(children[~ended], joins[~ended])

    def _lettered(self, children: Entries) -> Entries:
        """Children after tokens with marks, or with letters and part of a character: rare."""
        tables, joins = self._effects(children["table"], children["token"])
        cells = np.array([self._spell(child) for child in children], dtype=np.int64)
        children["table"], children["cell"], children["base"] = tables, cells, cells
        ended, reached = tables < 0, cells >= 0
        self._find(cells[ended & reached], children["mass"][ended & reached])
        going = ~ended & reached
        return self._kept(children[going], joins[going])

    def _spell(self, child: Any) -> int:
        """The cell after one token with letters, -1 for none."""
        if child["base"] < 0:
            return -1
        beginnings, cells = self._asking.beginnings, self._cells
        before = beginnings.letters[cells.beginning[child["base"]]]
        table = self._reader.vocabulary.numbered(int(child["table"]))
        number = beginnings.find(fold(before + table.added[child["token"]]))
        return int(cells.find(np.array([int(child["owner"])]), np.array([number]))[0])

    def answers(self) -> list[WordProbabilities]:
        """Return the bounds that the searches have reached, one answer per context."""
        self._entries = np.concatenate([*self._resting, self._entries])
        self._resting = []
        entries, guess, most = self._entries, self._found.copy(), self._most()
        places = self._cells.completes[entries["cell"]]
        whole = places >= 0
        guess += _by(places[whole], entries["mass"][whole], len(guess))
        open_ = _by(self._cells.owner, self._dust, self._count)
        open_ += _by(entries["owner"], entries["mass"], self._count)
        scales = self._scales()
        columns = [x / scales[0][self._owner] for x in (self._found, guess)]
        columns.append(np.minimum(1.0, most / scales[1][self._owner]))
        opens = np.minimum(1.0, open_ / scales[1]).tolist()
        starts = np.searchsorted(self._owner, np.arange(self._count + 1)).tolist()
        results = []
        for place, words in enumerate(self._words):
            part = slice(starts[place], starts[place + 1])
            low, value, high = (tuple(column[part].tolist()) for column in columns)
            failed, nodes = float(self._failed[place]), int(self._nodes[place])
            results.append(WordProbabilities(words, low, value, high, opens[place], failed, nodes))
        return results

    def _most(self) -> Floats:
        """Per word, its mass and all open mass that may still become it."""
        cells, entries = self._cells, self._entries
        open_ = self._dust + _by(entries["cell"], entries["mass"], len(cells))
        which, through = cells.through.take(np.arange(len(cells)))
        return self._found + _by(through, open_[which], len(self._found))

    def _scales(self) -> tuple[Floats, Floats]:
        """The most and the least mass that texts with a word can have."""
        if self._goal.failed != "reject":
            return np.ones(self._count), np.ones(self._count)
        open_ = self._dust + _by(self._entries["cell"], self._entries["mass"], len(self._cells))
        leading = self._cells.beginning == 0
        may_fail = _by(self._cells.owner[leading], open_[leading], self._count)
        most = np.maximum(1.0 - self._failed, 1e-12)
        return most, np.maximum(1.0 - self._failed - may_fail, 1e-12)


def _last_by(owners: Ints, *keys: NDArray[Any]) -> Ints:
    """Per owner, the row that is last in the order of the keys, the first key leading.

    >>> _last_by(np.array([0, 0, 1]), np.array([2, 3, 1])).tolist()
    [1, 2]
    """
    order = np.lexsort((*reversed(keys), owners))
    last = np.append(np.diff(owners[order]) > 0, True)[: len(order)]
    rows: Ints = order[last]
    return rows


def _by(owners: Ints, masses: Floats, count: int) -> Floats:
    return np.bincount(owners.ravel(), masses.ravel(), count).astype(np.float64)
