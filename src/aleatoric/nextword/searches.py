"""The searches of many contexts side by side, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from aleatoric.nextword.beginnings import Beginnings, Cells, Plans
from aleatoric.nextword.digest import Digest, Notebook, Reader, WordProbabilities
from aleatoric.nextword.vocabulary import LEAD, Ragged, fold
from aleatoric.types import Floats, Ints

Entries = NDArray[Any]
"""Continuations seen but not yet run, one a row."""
ENTRY = np.dtype(
    [
        ("owner", np.int64),  # the context
        ("mass", np.float64),
        ("parent", np.int64),  # the node it hangs from, -1 for the context itself
        ("token", np.int64),
        ("depth", np.int64),  # tokens after the context
        ("table", np.int64),  # what the next token does to the word
        ("cell", np.int64),  # the word so far
        ("base", np.int64),  # the word and an undecided joiner, -1 where no word goes on so
    ]
)
LOOSE = 32
"""How many tokens that lead nowhere in particular are looked at for each node."""
SPELLINGS = 8
"""Rounds in which words without any probability are spelt: some can never be."""
SMALL = 1e-3
"""The share of the tolerance below which a continuation is not followed."""


class Goal(Protocol):
    """How far to look: see `exact.Search`."""

    @property
    def tolerance(self) -> float: ...  # noqa: D102
    @property
    def nodes(self) -> int: ...  # noqa: D102
    @property
    def failed(self) -> str: ...  # noqa: D102
    @property
    def every_word(self) -> bool: ...  # noqa: D102


class Names(Protocol):
    """The beginnings of all words asked about, and the tokens between them."""

    beginnings: Beginnings
    plans: Plans


@dataclass(frozen=True, eq=False)
class Asked:
    """The words that contexts ask about: a word has a place, contexts lie one after another.

    `owner[i]` is the context of place i, `weights[i]` people's probability of its word.
    """

    owner: Ints
    words: Ints
    weights: Floats
    cells: Cells

    @classmethod
    def of(
        cls,
        words: Sequence[Sequence[int]],
        weights: Sequence[Sequence[float]],
        beginnings: Beginnings,
    ) -> Asked:
        """For each context its words, as places in `beginnings`, with their weights."""
        rows = Ragged.of([np.array(row, dtype=np.int64) for row in words])
        owner = np.repeat(np.arange(len(words)), np.diff(rows.starts))
        flat = np.array([x for row in weights for x in row], dtype=np.float64)
        return cls(owner, rows.values, flat, Cells.of(beginnings, rows.values, owner, len(words)))


@dataclass(frozen=True, eq=False)
class Plan:
    """Tokens that matter to a batch: those that lead on to a cell, then those that end a word."""

    rows: Ints
    tokens: Ints
    cells: Ints
    growing: int


class Searches:
    """The searches of a pack of contexts: what is found, what is open, what is left."""

    def __init__(
        self,
        asked: Asked,
        spans: Sequence[tuple[int, int]],
        names: Names,
        reader: Reader,
        goal: Goal,
        window: int,
        notebook: Notebook | None = None,
    ) -> None:
        self._notebook = notebook
        self.spans = np.array(spans, dtype=np.int64)
        self._room = window - (self.spans[:, 1] - self.spans[:, 0])
        """Tokens that fit behind each context."""
        self._asked, self._cells = asked, asked.cells
        self._names, self._reader, self._goal = names, reader, goal
        self._count = len(spans)
        self._found = np.zeros(len(asked.words))
        self._dust = np.zeros(self._count)
        self._failed = np.zeros(self._count)
        self._nodes = np.zeros(self._count, dtype=np.int64)
        self._rounds = 0
        self._entries: Entries = np.zeros(0, dtype=ENTRY)
        self._resting: list[Entries] = []
        """What is left of contexts that are done."""

    def begin(self, owners: Sequence[int], logits: Any) -> Iterator[None]:
        """Read the next-token distributions of the contexts themselves."""
        batch = np.zeros(len(owners), dtype=ENTRY)
        batch["owner"], batch["mass"], batch["table"] = owners, 1.0, LEAD
        start = self._cells.find(batch["owner"], np.zeros_like(batch["owner"]))
        batch["cell"] = batch["base"] = start
        batch["parent"] = batch["token"] = -1
        yield from self.take(batch, np.full(len(owners), -1, dtype=np.int64), logits)

    def choose(self) -> Entries:
        """The entries to run next: the largest, so many that the others fall below the tolerance.

        Every context's sums are its own, so that the company it is in cannot change them.
        """
        self._rounds += 1
        worths, dust = self._worths()
        forced = self._only_ways()
        order = np.lexsort((-worths, ~forced, self._entries["owner"]))
        owners = self._entries["owner"][order]
        sizes = np.bincount(owners, minlength=self._count)
        rank = np.arange(len(owners)) - (np.cumsum(sizes) - sizes)[owners]
        table = np.zeros((self._count, max(int(sizes.max(initial=0)), 1)))
        table[owners, rank] = worths[order]
        left = (table.sum(1) + dust)[:, None] - (np.cumsum(table, axis=1) - table)
        room = np.maximum(self._goal.nodes - self._nodes, 0)
        # Words without any probability come first, and may have more nodes than the others.
        wanted = (left[owners, rank] > self._goal.tolerance) & (rank < room[owners])
        taken = wanted | forced[order]
        chosen: Entries = self._entries[order[taken]]
        counts = np.bincount(chosen["owner"], minlength=self._count)
        left_over = self._entries[order[~taken]]
        going = counts[left_over["owner"]] > 0
        self._entries = left_over[going]
        self._resting.append(left_over[~going])
        self._nodes += counts
        return chosen

    def _only_ways(self) -> NDArray[np.bool_]:
        """For each word without any probability yet, the entry that is nearest to spelling it."""
        chosen = np.zeros(len(self._entries), dtype=np.bool_)
        if not self._goal.every_word or self._rounds > SPELLINGS:
            return chosen
        entries = self._entries
        reached = np.where(entries["base"] >= 0, entries["base"], entries["cell"])
        letters = self._names.beginnings.lengths[self._cells.beginning[reached]]
        # Of the entries at one cell only the nearest can be chosen: memory grows with the words'
        # letters, not with entries times words.
        nearest = np.sort(_last_by(entries["cell"], letters, entries["mass"]))
        which, places = self._cells.through.take(entries["cell"][nearest])
        lacking = self._found[places] == 0
        which, places = nearest[which[lacking]], places[lacking]
        chosen[which[_last_by(places, letters[which], entries["mass"][which])]] = True
        return chosen

    def _worths(self) -> tuple[Floats, Floats]:
        """How much each entry, and each context's dust, can still change the overlap."""
        lacks = np.maximum(0.0, self._asked.weights - self._found)
        everything = np.bincount(self._asked.owner, lacks, self._count)
        lack = self._sums_through(lacks)[self._entries["cell"]]
        return np.minimum(self._entries["mass"], lack), np.minimum(self._dust, everything)

    def take(self, batch: Entries, numbers: Ints, logits: Any) -> Iterator[None]:
        """Read the next-token distributions of entries that have become the nodes `numbers`.

        Gives way once, while the device works.
        """
        plan = self._plan(batch)
        arrive = self._reader.read(logits, batch["table"], plan.rows, plan.tokens, LOOSE)
        if self._notebook is not None:
            self._notebook.note(batch, numbers, logits)
        yield
        digest = arrive()
        self._settle_ends(batch, digest.ends * batch["mass"])
        grown = self._follow_planned(batch, numbers, plan, digest.planned)
        loose = self._follow_loose(batch, numbers, digest)
        self._dust += _by(batch["owner"], digest.loose_rest * batch["mass"], self._count)
        self._entries = np.concatenate([self._entries, grown, *loose])

    def _plan(self, batch: Entries) -> Plan:
        """The tokens after which a text may still become a word asked for."""
        rows, cells = self._ahead(batch)
        tables, bases = batch["table"][rows], self._cells.beginning[batch["base"][rows]]
        targets = self._cells.beginning[cells]
        grow, on = self._names.plans.tokens("grows", tables, bases, targets)
        whole = np.flatnonzero(self._cells.completes[cells] >= 0)
        close, end = self._names.plans.tokens("closes", tables[whole], bases[whole], targets[whole])
        steps = np.concatenate([grow, whole[close]])
        return Plan(rows[steps], np.concatenate([on, end]), cells[steps], len(grow))

    def _ahead(self, batch: Entries) -> tuple[Ints, Ints]:
        """(row, cell) for each cell that the text of a row can still reach."""
        open_ = np.flatnonzero(batch["base"] >= 0)
        base = self._cells.beginning[batch["base"][open_]]
        fresh, going = open_[base == 0], open_[base > 0]
        which, cells = self._cells.of_context.take(batch["owner"][fresh])
        rows, further = self._further(batch, going)
        return np.concatenate([fresh[which], rows]), np.concatenate([cells, further])

    def _further(self, batch: Entries, rows: Ints) -> tuple[Ints, Ints]:
        """The cells on the way to the words that go through the rows' cells, each once."""
        names = self._names.beginnings
        which, places = self._cells.through.take(batch["base"][rows])
        step, path = names.paths.take(self._asked.words[places])
        row = rows[which[step]]
        least = names.lengths[self._cells.beginning[batch["base"][row]]]
        on = names.lengths[path] >= least
        cells = self._cells.find(batch["owner"][row[on]], path[on])
        size = len(self._cells)
        row, cell = np.divmod(np.unique(row[on] * size + cells), size)
        return row, cell

    def _settle_ends(self, batch: Entries, masses: Floats) -> None:
        """The tokens that end the word where it stands."""
        leading = self._cells.beginning[batch["cell"]] == 0
        self._failed += _by(batch["owner"][leading], masses[leading], self._count)
        self._find(batch["cell"][~leading], masses[~leading])

    def _find(self, cells: Ints, masses: Floats) -> None:
        """Count the mass of texts whose word is what stands at a cell."""
        places = self._cells.completes[cells]
        good = places >= 0
        self._found += _by(places[good], masses[good], len(self._found))

    def _follow_planned(self, batch: Entries, numbers: Ints, plan: Plan, shares: Floats) -> Entries:
        """The tokens on the way to a word: complete words are counted, beginnings kept."""
        masses = shares * batch["mass"][plan.rows]
        large = self._drop_small(batch["owner"][plan.rows], masses, self._needed(plan.cells))
        closing = large & (np.arange(len(masses)) >= plan.growing)
        self._find(plan.cells[closing], masses[closing])
        on = np.flatnonzero(large & ~closing)
        rows, tokens, cells = plan.rows[on], plan.tokens[on], plan.cells[on]
        tables, joins = self._effects(batch["table"][rows], tokens)
        children = self._children(batch[rows], numbers[rows], tokens, masses[on])
        children["table"], children["cell"], children["base"] = tables, cells, cells
        return self._kept(children, joins)

    def _needed(self, cells: Ints) -> NDArray[np.bool_]:
        """The cells on the way to words without any probability yet, where all must be found."""
        if not self._goal.every_word:
            return np.zeros(len(cells), dtype=np.bool_)
        needed: NDArray[np.bool_] = self._sums_through(self._found == 0)[cells] > 0
        return needed

    def _sums_through(self, values: NDArray[Any]) -> Floats:
        """For each cell the sum of `values` over the words that go through it."""
        which, places = self._cells.through.take(np.arange(len(self._cells)))
        return _by(which, values[places], len(self._cells))

    def _drop_small(
        self, owners: Ints, masses: Floats, needed: NDArray[np.bool_] | bool = False
    ) -> NDArray[np.bool_]:
        """Which masses are worth following; the others become dust."""
        small = (masses <= self._goal.tolerance * SMALL) & ~(needed & (masses > 0))
        self._dust += _by(owners[small], masses[small], self._count)
        return ~small

    def _effects(self, tables: Ints, tokens: Ints) -> tuple[Ints, Ints]:
        """The table and the undecided joiner after each token."""
        after, joins = np.zeros_like(tokens), np.zeros_like(tokens)
        for number in np.unique(tables).tolist():
            here = tables == number
            after[here] = self._reader.vocabulary.after(number)[tokens[here]]
            joins[here] = self._reader.vocabulary.numbered(number).joins[tokens[here]]
        return after, joins

    def _children(self, parents: Entries, numbers: Ints, tokens: Ints, masses: Floats) -> Entries:
        """One entry below each of `parents`, whose word stands as it did."""
        children = parents.copy()
        children["depth"] += 1
        children["parent"], children["token"], children["mass"] = numbers, tokens, masses
        return children

    def _kept(self, children: Entries, joins: Ints) -> Entries:
        """Children with their joiners, but for those of which no word can come."""
        marked = joins > 0
        beginning = self._cells.beginning[children["cell"]]
        joined = self._names.beginnings.joined[beginning, joins]
        base = self._cells.find(children["owner"], joined)
        children["base"] = np.where(marked, base, children["base"])
        whole = self._cells.completes[children["cell"]] >= 0
        fits = children["depth"] <= self._room[children["owner"]]
        self._dust += _by(children["owner"][~fits], children["mass"][~fits], self._count)
        kept: Entries = children[fits & (~marked | whole | (base >= 0))]
        return kept

    def _follow_loose(self, batch: Entries, numbers: Ints, digest: Digest) -> list[Entries]:
        """The likeliest tokens whose letters do not tell where they lead."""
        masses = digest.loose * batch["mass"][:, None]
        owners = np.broadcast_to(batch["owner"][:, None], masses.shape)
        needed = self._needed(np.maximum(batch["base"], 0)) & (batch["base"] >= 0)
        rows, columns = np.nonzero(self._drop_small(owners, masses, needed[:, None]))
        tokens = digest.loose_tokens[rows, columns]
        children = self._children(batch[rows], numbers[rows], tokens, masses[rows, columns])
        kept = []
        for number in np.unique(children["table"]).tolist():
            here = children[children["table"] == number]
            silent = self._reader.vocabulary.numbered(number).silent[here["token"]]
            kept += [self._silent(here[silent]), self._lettered(here[~silent])]
        return kept

    def _silent(self, children: Entries) -> Entries:
        """Children after tokens without letters: the word stands, or has ended."""
        tables, joins = self._effects(children["table"], children["token"])
        done = tables < 0
        self._find(children["cell"][done], children["mass"][done])
        children["table"] = tables
        return self._kept(children[~done], joins[~done])

    def _lettered(self, children: Entries) -> Entries:
        """Children after tokens with marks, or letters and part of a character: rare."""
        tables, joins = self._effects(children["table"], children["token"])
        cells = np.array([self._spell(child) for child in children], dtype=np.int64)
        children["table"], children["cell"], children["base"] = tables, cells, cells
        done, reached = tables < 0, cells >= 0
        self._find(cells[done & reached], children["mass"][done & reached])
        going = ~done & reached
        return self._kept(children[going], joins[going])

    def _spell(self, child: Any) -> int:
        """The cell after one token with letters, -1 for none."""
        if child["base"] < 0:
            return -1
        names, cells = self._names.beginnings, self._cells
        before = names.letters[cells.beginning[child["base"]]]
        table = self._reader.vocabulary.numbered(int(child["table"]))
        return self._cell_of(int(child["owner"]), fold(before + table.added[child["token"]]))

    def _cell_of(self, owner: int, letters: str) -> int:
        number = self._names.beginnings.find(letters)
        return int(self._cells.find(np.array([owner]), np.array([number]))[0])

    def answers(self, words: Sequence[tuple[str, ...]]) -> list[WordProbabilities]:
        """The bounds that the searches have reached, context by context."""
        self._entries = np.concatenate([*self._resting, self._entries])
        self._resting = []
        entries, cells = self._entries, self._cells
        guess, most = self._found.copy(), self._found + self._dust[self._asked.owner]
        places = cells.completes[entries["cell"]]
        whole = places >= 0
        guess += _by(places[whole], entries["mass"][whole], len(guess))
        which, through = cells.through.take(np.arange(len(cells)))
        most += _by(through, _by(entries["cell"], entries["mass"], len(cells))[which], len(most))
        open_ = self._dust + _by(entries["owner"], entries["mass"], self._count)
        scales = self._scales()
        starts = np.searchsorted(self._asked.owner, np.arange(self._count + 1))
        columns = [x / scales[0][self._asked.owner] for x in (self._found, guess)]
        columns.append(np.minimum(1.0, most / scales[1][self._asked.owner]))
        rows = [[column[low:high].tolist() for column in columns] for low, high in _pairs(starts)]
        opens = np.minimum(1.0, open_ / scales[1]).tolist()
        facts = zip(words, rows, opens, self._failed.tolist(), self._nodes.tolist(), strict=True)
        return [
            WordProbabilities(own, tuple(low), tuple(value), tuple(high), left, failed, nodes)
            for own, (low, value, high), left, failed, nodes in facts
        ]

    def _scales(self) -> tuple[Floats, Floats]:
        """The most and the least mass that texts with a word can have."""
        if self._goal.failed != "reject":
            return np.ones(self._count), np.ones(self._count)
        leading = self._cells.beginning[self._entries["cell"]] == 0
        may_fail = self._dust + _by(
            self._entries["owner"][leading], self._entries["mass"][leading], self._count
        )
        most = np.maximum(1.0 - self._failed, 1e-12)
        return most, np.maximum(1.0 - self._failed - may_fail, 1e-12)


def _pairs(starts: Ints) -> list[tuple[int, int]]:
    return list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))


def _last_by(owners: Ints, *keys: NDArray[Any]) -> Ints:
    """For each owner the row that is last in the order of the keys, the first key leading.

    >>> _last_by(np.array([0, 0, 1]), np.array([2, 3, 1])).tolist()
    [1, 2]
    """
    order = np.lexsort((*reversed(keys), owners))
    last = np.append(np.diff(owners[order]) > 0, True)[: len(order)]
    found: Ints = order[last]
    return found


def _by(owners: Ints, masses: Floats, count: int) -> Floats:
    """Sums of masses by owner."""
    sums: Floats = np.bincount(owners.ravel(), masses.ravel(), count).astype(np.float64)
    return sums
