"""The head of a model's next-word distribution: its likely words, mode and entropy, with bounds.

The tree of tokens is expanded in order of mass, until the mass of what is not run falls below a
tolerance, until no unfinished beginning can overtake the best finished word, or until the squared
distance to people is known closely enough.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.models.decoding import Decoder
from aleatoric.nextword.digest import Bounds, Branches, Masses, Notebook, Reader, WordProbabilities
from aleatoric.nextword.searches import ENTRY
from aleatoric.nextword.tree import (
    Limits,
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
    Lead,
    Stems,
    Vocabulary,
    compose,
    fold,
    follow,
    root,
)
from aleatoric.types import Categorical, Floats

LONGEST = 8
"""Tokens that a word is taken to have at most, for the upper bound of the entropy."""

SPLIT = 0.02
"""The least mass of a text before its word whose many unlikely tokens are grouped by letters."""
LEAST = 1e-6
"""The least mass of such a group."""
RARE = 1e-4
"""The least mass of a continuation where at most some dozens of them are run."""

WORTHWHILE = 0.002
"""The least mass on the way to the mode that is looked into."""


@dataclass(frozen=True, slots=True)
class HeadSearch:
    """How far to look.

    `until="mass"` stops when at most `tolerance` of the mass is open, `until="mode"` as soon as the
    mode is certain (or that). `until="distance"` looks for the mode with a quarter of the nodes,
    and then goes on until the bounds of the squared distance to people are `tolerance` apart.
    `nodes` bounds the tokens run for a context, `wave` those run before looking again, `branch` the
    continuations looked at of one node.
    """

    tolerance: float = 0.05
    until: Literal["mass", "mode", "distance"] = "mass"
    nodes: int = 400
    wave: int = 32
    branch: int = 256

    @property
    def least(self) -> float:
        """The mass below which a continuation is not followed: it would never have its turn."""
        return self.tolerance * 1e-4 if self.until != "distance" else RARE


@dataclass(frozen=True, slots=True)
class Tops:
    """Finished words, likeliest first, with the bounds of their probabilities.

    `unseen` bounds the probability of any other word.
    """

    words: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    unseen: float


@dataclass(frozen=True, slots=True)
class Head:
    """The likely words, most likely first. Probabilities are given that there is a word.

    `words` are lower bounds with the open mass as `rest`, `tops` the same with upper bounds;
    `certified` says that no other word can be likelier than the first, `entropy` is in nats, its
    upper bound for words of at most eight more tokens.
    """

    words: Categorical
    tops: Tops
    certified: bool
    entropy: Bounds
    failed: float
    nodes: int

    @property
    def mode(self) -> str | None:
        """The likeliest word found."""
        return self.words.support[0] if self.words.support else None

    def top(self, k: int) -> tuple[tuple[str, float], ...]:
        """The k likeliest words with their (lower bounds of) probabilities."""
        return tuple(zip(self.words.support[:k], self.words.probs[:k], strict=True))


Through = Mapping[str, float]
"""For each beginning and word the unfinished mass that could still become it or go on."""
Known = tuple[WordProbabilities, Mapping[str, float]]
"""The probabilities of people's words as another search found them, and people's own."""


@dataclass(slots=True)
class Growth:
    """The expansion of one context: finished words, unfinished entries, and lumps.

    A lump is mass known only by the letters it begins with.
    """

    context: int
    span: tuple[int, int]
    room: int
    found: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    entries: list[Entry] = field(default_factory=list)
    lumps: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    failed: float = 0.0
    nodes: int = 0
    known: Known | None = None

    @property
    def open(self) -> float:
        """The mass not yet decided."""
        return sum(self.lumps.values()) + sum(entry.mass for entry in self.entries)


def head(
    lm: TreeLM,
    contexts: Sequence[str],
    *,
    decoder: Decoder | None = None,
    lead: Lead = "skip",
    search: HeadSearch | None = None,
    limits: Limits | None = None,
    vocabulary: Vocabulary | None = None,
) -> list[Head]:
    """The head of the next-word distribution of each context, in the order given."""
    limits, search = limits or Limits(), search or HeadSearch()
    vocabulary = vocabulary or Vocabulary(lm.pieces, lead)
    reader = Reader(lm, vocabulary, decoder or Decoder())
    packs = packs_of(passages_of(encode_contexts(lm, contexts)), limits.contexts_at_once(lm))
    heads = dict(each_pack(lm, packs, lambda pack: _heads(Tree(lm, pack, limits), reader, search)))
    return [heads[i] for i in range(len(contexts))]


def _heads(tree: Tree, reader: Reader, search: HeadSearch) -> Iterator[tuple[int, Head]]:
    owner = {index: place for place, index in enumerate(tree.spans())}
    notebook = Notebook(reader, search.branch)
    for indices, logits in tree.run_trunk():
        roots = np.zeros(len(indices), dtype=ENTRY)
        roots["owner"] = [owner[i] for i in indices]
        roots["mass"], roots["parent"], roots["token"] = 1.0, -1, -1
        notebook.note(roots, roots["parent"], logits)
    yield from grow(tree, reader, search, notebook)


def grow(
    tree: Tree,
    reader: Reader,
    search: HeadSearch,
    notebook: Notebook,
    known: Mapping[int, Known] | None = None,
) -> Iterator[tuple[int, Head]]:
    """The heads of a tree's contexts; what the notebook holds is not run again.

    The notebook must hold the contexts themselves. `known`, by context, is what
    `until="distance"` compares with.
    """
    spans = tree.spans()
    window = tree.lm.window
    growths = [
        Growth(place, (start, stop), window - (stop - start), known=(known or {}).get(index))
        for place, (index, (start, stop)) in enumerate(spans.items())
    ]
    chosen = [(growth, root()) for growth in growths]
    while chosen:
        fresh = [(g, e) for g, e in chosen if not _recall(reader, notebook, g, e, search)]
        _expand(tree, reader, fresh, search)
        chosen = [(g, e) for g in growths for e in _choose(g, search)]
    for index, growth in zip(spans, growths, strict=True):
        yield index, summarise(growth, len(reader.vocabulary))


def _recall(
    reader: Reader, notebook: Notebook, growth: Growth, entry: Entry, search: HeadSearch
) -> bool:
    """Take what is written of a node; whether anything is."""
    page = notebook.find(growth.context, entry.parent, entry.token)
    if page is None:
        return False
    entry.number = page[0]
    _absorb(reader, growth, entry, page[1], search)
    return True


def _choose(growth: Growth, search: HeadSearch) -> list[Entry]:
    """The entries to run next: those that matter most."""
    left, count = growth.open, 0
    useful = _useful(growth, search)
    for entry in useful[: min(search.wave, search.nodes - growth.nodes)]:
        if left <= search.tolerance and search.until != "distance":
            break
        left -= entry.mass
        count += 1
    chosen = useful[:count]
    taken = set(map(id, chosen))
    growth.entries = [entry for entry in growth.entries if id(entry) not in taken]
    growth.nodes += count
    return chosen


def _useful(growth: Growth, search: HeadSearch) -> list[Entry]:
    """The entries that matter to what is searched for, in order; none where it is found."""
    if search.until != "distance":
        if growth.open <= search.tolerance:
            return []
        if search.until == "mass":
            return _by_mass(growth.entries)
        return _by_mass(_in_question(growth, dict(_mass_through(growth))))
    through = dict(_mass_through(growth))
    if growth.nodes < search.nodes // 2 and (questioned := _in_question(growth, through)):
        return _by_mass(questioned)
    return _by_distance(growth, search.tolerance, through)


def _by_mass(entries: Sequence[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.mass, reverse=True)


def _by_distance(growth: Growth, tolerance: float, through: Through) -> list[Entry]:
    """The entries by how far they can change the squared distance; none where it is known."""
    if growth.known is None:
        return []
    found, people = growth.known
    tops = _tops(growth, through)
    low, high = masses(tops, found, people).agreements()["M-2C"]
    if high - low <= tolerance:
        return []
    stakes: dict[str, float] = defaultdict(float)
    for word, least, most in zip(tops.words, tops.low, tops.high, strict=True):
        folded = fold(word)
        for stop in range(len(folded) + 1):
            stakes[folded[:stop]] = max(stakes[folded[:stop]], least + most)
    worths = [-entry.mass * max(stakes[entry.word], entry.mass) for entry in growth.entries]
    return [growth.entries[i] for i in np.argsort(worths, kind="stable")]


def masses(tops: Tops, found: WordProbabilities, people: Mapping[str, float]) -> Masses:
    """What two searches of one context know together."""
    low = dict(zip(tops.words, tops.low, strict=True))
    high = dict(zip(tops.words, tops.high, strict=True))
    for word, at_least, at_most in zip(found.words, found.low, found.high, strict=True):
        low[word] = max(low.get(word, 0.0), at_least)
        high[word] = max(min(high.get(word, 1.0), at_most), low[word])
    human, least, most = (
        np.array([own.get(word, 0.0) for word in low]) for own in (people, low, high)
    )
    return Masses(human, least, most, tops.unseen)


def _tops(growth: Growth, through: Through) -> Tops:
    """The finished words with the bounds of their probabilities, given that there is a word."""
    unfinished = {*growth.lumps, *(entry.word for entry in growth.entries)}
    unseen = max((through[word] for word in unfinished), default=0.0)
    leading = growth.lumps.get("", 0.0) + sum(e.mass for e in growth.entries if not e.word)
    most = max(1.0 - growth.failed, 1e-12)
    least = max(most - leading, 1e-12)
    ranked = sorted((-m / most, compose(w), through[w] + m) for w, m in growth.found.items() if m)
    return Tops(
        tuple(word for _, word, _ in ranked),
        tuple(-low for low, _, _ in ranked),
        tuple(min(1.0, high / least) for _, _, high in ranked),
        min(1.0, unseen / least),
    )


def _in_question(growth: Growth, through: Through) -> list[Entry]:
    """The entries that matter to the mode: on the way to the best word, and to its rival.

    Those of the rival only while running all of them could make the mode certain.
    """
    if not growth.found:
        return growth.entries
    best, rival, most = _rivals(growth, through)
    own = [e for e in growth.entries if best.startswith(e.word) and e.mass > WORTHWHILE]
    others = [e for e in growth.entries if rival.startswith(e.word) and e not in own]
    lead = most - growth.found[best]
    decisive = 0 < lead <= sum(e.mass for e in [*own, *others])
    return [*own, *others] if decisive else own


def _expand(
    tree: Tree, reader: Reader, chosen: list[tuple[Growth, Entry]], search: HeadSearch
) -> None:
    spans = np.array([growth.span for growth, _ in chosen], dtype=np.int64).reshape(-1, 2)
    parents = np.array([entry.parent for _, entry in chosen], dtype=np.int64)
    tokens = np.array([entry.token for _, entry in chosen], dtype=np.int64)
    number = reader.vocabulary.number
    tables = np.array([number(entry.key) for _, entry in chosen], dtype=np.int64)
    for part, numbers, logits in tree.extend(spans, parents, tokens):
        read = reader.branches(logits, tables[part], search.branch)
        for (growth, entry), number, after in zip(chosen[part], numbers, read, strict=True):
            entry.number = int(number)
            _absorb(reader, growth, entry, after, search)


def _absorb(
    reader: Reader, growth: Growth, entry: Entry, after: Branches, search: HeadSearch
) -> None:
    """Put the continuations of a node into the expansion of its context."""
    _settle(growth, entry.key[0], entry.word, entry.mass * after.ends)
    masses = after.shares * entry.mass
    large = masses > search.least
    table = reader.vocabulary.table(entry.key)
    tokens, followed = after.tokens[large], masses[large]
    for token, mass in zip(tokens.tolist(), followed.tolist(), strict=True):
        _add(growth, follow(entry, table, token, mass))
    left = max(0.0, entry.mass * (1.0 - after.ends) - float(followed.sum()))
    if len(after.stems) and entry.mass >= SPLIT:
        left -= _split(growth, table.stems, entry.mass * after.stems, tokens, followed)
    growth.lumps[entry.word] += max(0.0, left)


def _split(
    growth: Growth, stems: Stems, all_: Floats, tokens: NDArray[np.int64], followed: Floats
) -> float:
    """Lumps of the tokens that were not followed, by their stems; gives the mass that they have."""
    rest = all_ - np.bincount(stems.numbers[tokens], followed, len(all_))
    some = np.flatnonzero(rest > LEAST)
    for number, mass in zip(some.tolist(), rest[some].tolist(), strict=True):
        letters = stems.letters[number]
        growth.lumps[letters if mass > RARE else letters[:1]] += mass
    return float(rest[some].sum())


def _settle(growth: Growth, mode: int, word: str, mass: float) -> None:
    if mode in (LEAD, FAILED):
        growth.failed += mass
    else:
        growth.found[word] += mass


def _add(growth: Growth, child: Entry) -> None:
    if child.key[0] in (DONE, FAILED):
        _settle(growth, child.key[0], child.word, child.mass)
    elif child.depth > growth.room:
        growth.lumps[child.word] += child.mass
    else:
        growth.entries.append(child)


def _certified(growth: Growth, through: Through) -> bool:
    """Whether no word can reach more mass than the best finished one has."""
    if not growth.found:
        return False
    best, _, most = _rivals(growth, through)
    return growth.found[best] >= most


def _rivals(growth: Growth, through: Through) -> tuple[str, str, float]:
    """The best finished word, the word that could have most mass of all others, and that mass."""
    best = max(growth.found, key=lambda word: growth.found[word])
    rival, most = "", 0.0
    for word, unfinished in through.items():
        mass = unfinished + growth.found.get(word, 0.0)
        if word != best and mass > most:
            rival, most = word, mass
    return best, rival, most


def _mass_through(growth: Growth) -> Iterator[tuple[str, float]]:
    """For each beginning and word the unfinished mass that could still become it or go on."""
    standing: dict[str, float] = defaultdict(float, growth.lumps)
    for entry in growth.entries:
        standing[entry.word] += entry.mass
    above: list[tuple[str, float]] = []  # the beginnings of the word at hand, shortest first
    for word in sorted({*standing, *growth.found}):
        while above and not word.startswith(above[-1][0]):
            above.pop()
        mass = standing.get(word, 0.0) + (above[-1][1] if above else 0.0)
        above.append((word, mass))
        yield word, mass


def summarise(growth: Growth, vocabulary: int) -> Head:
    """The head that an expansion has reached."""
    through = dict(_mass_through(growth))
    tops = _tops(growth, through)
    rest = max(0.0, 1.0 - sum(tops.low))
    return Head(
        Categorical(tops.words, tops.low, rest, None),
        tops,
        _certified(growth, through),
        entropy_bounds(tops.low, rest, vocabulary),
        growth.failed,
        growth.nodes,
    )


def entropy_bounds(probs: Sequence[float], rest: float, vocabulary: int) -> Bounds:
    """Bounds in nats of the entropy of a distribution known but for `rest` of its mass.

    Least where the rest falls on the likeliest word, most where it spreads over all words of
    `LONGEST` tokens. The guess spreads it like the part that is known.

    >>> entropy_bounds((0.5, 0.5), 0.0, 10).gap
    0.0
    """
    known = _entropy(probs)
    if not probs:
        return Bounds(0.0, 0.0, LONGEST * math.log(vocabulary))
    low = known - _entropy(probs[:1]) + _entropy((probs[0] + rest,))
    spread = _entropy((rest,)) + rest * LONGEST * math.log(vocabulary)
    total = 1.0 - rest
    inner = known / total + math.log(total) if total > 0 else 0.0
    guess = known + _entropy((rest,)) + rest * max(inner, 0.0)
    return Bounds(low, max(low, guess), max(known + spread, low))


def _entropy(probs: Sequence[float]) -> float:
    return -sum(p * math.log(p) for p in probs if p > 0)
