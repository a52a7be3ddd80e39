"""The head of a model's next-word distribution: likely words and the mode, with bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from aleatoric.models.attention import fetch, send
from aleatoric.models.decoding import child, draw
from aleatoric.nextword.bounds import TopWords, WordProbabilities, agreement_bounds
from aleatoric.nextword.rules import DONE, LEAD, MOST_NEW_TOKENS, WORDLESS, compose, fold
from aleatoric.nextword.tree import Tree
from aleatoric.nextword.vocabulary import Branches, Entry, LogitReader, NodeCache, follow
from aleatoric.rng import stream
from aleatoric.types import Categorical

OpenWords = tuple[Mapping[str | None, float], ...]
"""Independent estimates of the open probability per word; `None` is that of no word."""
RARE = 1e-4
"""Least mass of a continuation if only some dozens of them are run."""


@dataclass(frozen=True, slots=True)
class HeadSearch:
    """Stopping rule of the expansion.

    `until="mass"` stops when at most `tolerance` of the mass is open. `until="distance"` searches
    the mode with part of the nodes, and then continues until the bounds of the squared distance to
    people are `tolerance` apart. `nodes` bounds the tokens run per context, `wave` those run per
    round, `branch` the continuations of a node that are considered.
    """

    tolerance: float = 0.05
    until: Literal["mass", "distance"] = "mass"
    nodes: int = 400
    wave: int = 32
    branch: int = 256


@dataclass(frozen=True, slots=True)
class Head:
    """The likely words, most likely first. Probabilities are conditional on there being a word.

    `words` are lower bounds with the open mass as `rest`, `tops` the same with upper bounds;
    `certified` means that no other word can be likelier than the first.
    """

    words: Categorical
    tops: TopWords
    certified: bool
    failed: float
    nodes: int
    open_words: OpenWords = ()
    """Estimates of where open mass leads to, in the same units; with `until="distance"` only."""


Through = Mapping[str, float]
"""Per prefix and word, the unfinished mass that could still become it or continue from it."""
Known = tuple[WordProbabilities, Mapping[str, float]]
"""Probabilities of people's words from another search, and the human probabilities."""


@dataclass(slots=True)
class Growth:
    """The expansion of one context."""

    context: int
    span: tuple[int, int]
    room: int
    found: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    entries: list[Entry] = field(default_factory=list)
    lumps: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """First letters -> mass of which nothing else is known."""
    failed: float = 0.0
    nodes: int = 0
    known: Known | None = None

    @property
    def open(self) -> float:
        """The undecided mass."""
        return sum(self.lumps.values()) + sum(entry.mass for entry in self.entries)


def grow(
    tree: Tree,
    reader: LogitReader,
    search: HeadSearch,
    cache: NodeCache,
    known: Mapping[int, Known] | None = None,
) -> Iterator[tuple[int, Head]]:
    """Yield (context, head) for a tree's contexts; nodes in the cache are not run again.

    The cache must hold the contexts; `known`, by context, is what `until="distance"` needs.
    """
    spans, window = tree.spans(), tree.window
    growths = [
        Growth(place, (start, stop), window - (stop - start), known=(known or {}).get(index))
        for place, (index, (start, stop)) in enumerate(spans.items())
    ]
    chosen = [(growth, Entry()) for growth in growths]
    while chosen:
        fresh = []
        for growth, entry in chosen:
            if node := cache.find(growth.context, entry.parent, entry.token):
                entry.number, after = node
                _absorb(reader, growth, entry, after, search)
            else:
                fresh.append((growth, entry))
        _expand(tree, reader, fresh, search)
        chosen = [(g, e) for g in growths for e in _choose(g, search)]
    open_words: list[OpenWords] = [()] * len(growths)
    if search.until == "distance":
        open_words = sampled_words(tree, reader, growths)
    for index, growth, sampled in zip(spans, growths, open_words, strict=True):
        yield index, _summary(growth, sampled)


def _choose(growth: Growth, search: HeadSearch) -> list[Entry]:
    remaining, count = growth.open, 0
    useful = _useful(growth, search)
    for entry in useful[: min(search.wave, search.nodes - growth.nodes)]:
        if remaining <= search.tolerance * (1 - growth.failed) and search.until != "distance":
            break
        remaining -= entry.mass
        count += 1
    taken = set(map(id, useful[:count]))
    growth.entries = [entry for entry in growth.entries if id(entry) not in taken]
    growth.nodes += count
    return useful[:count]


def _useful(growth: Growth, search: HeadSearch) -> list[Entry]:
    """The entries that matter to the goal, in order; none if it is reached."""
    if search.until != "distance":
        # Probabilities are conditional on there being a word.
        is_open = growth.open > search.tolerance * (1 - growth.failed)
        return sorted(growth.entries if is_open else [], key=lambda entry: -entry.mass)
    through = dict(_mass_through(growth))
    if growth.nodes < search.nodes // 2 and (questioned := _in_question(growth, through)):
        return sorted(questioned, key=lambda entry: -entry.mass)
    return _by_distance(growth, search.tolerance, through)


def _by_distance(growth: Growth, tolerance: float, through: Through) -> list[Entry]:
    """The entries by how much they can change the squared distance; none if it is known."""
    if growth.known is None:
        return []
    estimate, people = growth.known
    tops = _tops(growth, through)
    low, high = agreement_bounds(tops, estimate, people)["M-2C"]
    if high - low <= tolerance:
        return []
    stakes: dict[str, float] = defaultdict(float)
    for word, least, most in zip(tops.words, tops.low, tops.high, strict=True):
        folded = fold(word)
        for stop in range(len(folded) + 1):
            stakes[folded[:stop]] = max(stakes[folded[:stop]], least + most)
    worths = [-entry.mass * max(stakes[entry.word], entry.mass) for entry in growth.entries]
    return [growth.entries[i] for i in np.argsort(worths, kind="stable")]


def _tops(growth: Growth, through: Through) -> TopWords:
    """The finished words with bounds of their probabilities, conditional on there being a word."""
    unfinished = {*growth.lumps, *(entry.word for entry in growth.entries)}
    unseen = max((through[word] for word in unfinished), default=0.0)
    leading = growth.lumps.get("", 0.0) + sum(e.mass for e in growth.entries if not e.word)
    most = max(1.0 - growth.failed, 1e-12)
    least = max(most - leading, 1e-12)
    ranked = sorted((-m / most, compose(w), through[w] + m) for w, m in growth.found.items() if m)
    return TopWords(
        tuple(word for _, word, _ in ranked),
        tuple(-low for low, _, _ in ranked),
        tuple(min(1.0, high / least) for _, _, high in ranked),
        min(1.0, unseen / least),
    )


def _in_question(growth: Growth, through: Through) -> list[Entry]:
    """The entries on the way to the best word, and to its rival.

    The rival's are included only while running all of them could make the mode certain.
    """
    if not growth.found:
        return growth.entries
    best, rival, most = _rivals(growth, through)
    towards_best = [e for e in growth.entries if best.startswith(e.word) and e.mass > 0.002]
    others = [e for e in growth.entries if rival.startswith(e.word) and e not in towards_best]
    both = [*towards_best, *others]
    decisive = 0 < most - growth.found[best] <= sum(e.mass for e in both)
    return both if decisive else towards_best


def _expand(
    tree: Tree, reader: LogitReader, chosen: list[tuple[Growth, Entry]], search: HeadSearch
) -> None:
    number = reader.vocabulary.number
    rows = [(*g.span, entry.parent, entry.token, number(entry.key)) for g, entry in chosen]
    *span, parents, tokens, tables = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    spans = np.stack(span, axis=1)
    for part, numbers, logits in tree.extend(spans, parents, tokens):
        branches = reader.branches(logits, tables[part], search.branch)
        for (growth, entry), number, after in zip(chosen[part], numbers, branches, strict=True):
            entry.number = int(number)
            _absorb(reader, growth, entry, after, search)


def _absorb(
    reader: LogitReader, growth: Growth, entry: Entry, after: Branches, search: HeadSearch
) -> None:
    _settle(growth, entry.key[0], entry.word, entry.mass * after.ends)
    masses = after.shares * entry.mass
    # A continuation with less mass would never be run.
    large = masses > (RARE if search.until == "distance" else search.tolerance * 1e-4)
    table = reader.vocabulary.table(entry.key)
    tokens, followed = after.tokens[large], masses[large]
    for token, mass in zip(tokens.tolist(), followed.tolist(), strict=True):
        child = follow(entry, table, token, mass)
        if child.key[0] >= DONE:
            _settle(growth, child.key[0], child.word, mass)
        elif child.depth > growth.room:
            growth.lumps[child.word] += mass
        else:
            growth.entries.append(child)
    remaining = max(0.0, entry.mass * (1.0 - after.ends) - float(followed.sum()))
    if len(after.stems) and entry.mass >= 0.02:
        # Lumps of the tokens that were not followed, by their stems.
        numbers, letters = table.stems
        by_stem = np.bincount(numbers[tokens], followed, len(after.stems))
        rest = entry.mass * after.stems - by_stem
        some = np.flatnonzero(rest > 1e-6)
        for number, mass in zip(some.tolist(), rest[some].tolist(), strict=True):
            growth.lumps[letters[number] if mass > RARE else letters[number][:1]] += mass
        remaining -= float(rest[some].sum())
    growth.lumps[entry.word] += max(0.0, remaining)


def _settle(growth: Growth, mode: int, word: str, mass: float) -> None:
    if mode in (LEAD, WORDLESS):
        growth.failed += mass
    else:
        growth.found[word] += mass


def _rivals(growth: Growth, through: Through) -> tuple[str, str, float]:
    """The best finished word, the other word that could have most mass, and that mass."""
    best = max(growth.found, key=lambda word: growth.found[word])
    masses = {word: mass + growth.found.get(word, 0.0) for word, mass in through.items()}
    masses.pop(best, None)
    rival = max(masses, key=lambda word: masses[word], default="")
    return best, rival, masses.get(rival, 0.0)


def _mass_through(growth: Growth) -> Iterator[tuple[str, float]]:
    """Per prefix and word, the unfinished mass that could still become it or continue from it."""
    standing: dict[str, float] = defaultdict(float, growth.lumps)
    for entry in growth.entries:
        standing[entry.word] += entry.mass
    above: list[tuple[str, float]] = []  # the prefixes of the current word, shortest first
    for word in sorted({*standing, *growth.found}):
        while above and not word.startswith(above[-1][0]):
            above.pop()
        mass = standing.get(word, 0.0) + (above[-1][1] if above else 0.0)
        above.append((word, mass))
        yield word, mass


def _summary(growth: Growth, sampled: OpenWords) -> Head:
    through = dict(_mass_through(growth))
    tops = _tops(growth, through)
    words = Categorical(tops.words, tops.low, max(0.0, 1.0 - sum(tops.low)), None)
    certified = False
    if growth.found:
        best, _, most = _rivals(growth, through)
        certified = growth.found[best] >= most
    most = max(1.0 - growth.failed, 1e-12)
    open_words = tuple({word: mass / most for word, mass in half.items()} for half in sampled)
    return Head(words, tops, certified, growth.failed, growth.nodes, open_words)


# Where open continuations lead to, estimated by sampling a few of them ------------------------
# Bounds alone would make M too small: probability without a word adds nothing to it.

HALVES = 2
SAMPLES = 4
"""Samples per half: each is the next word with its share of the open probability."""


class Rollout(NamedTuple):
    """A sampled continuation: its context, its half, its share and the key of its randomness."""

    context: int
    half: int
    mass: float
    key: int
    entry: Entry


def sampled_words(tree: Tree, reader: LogitReader, growths: Sequence[Growth]) -> list[OpenWords]:
    """Return, per context, estimates of where the probability of its entries leads to.

    Random numbers depend on the tokens of a context only.
    """
    found: list[list[dict[str | None, float]]]
    found = [[defaultdict(float) for _ in range(HALVES)] for _ in growths]
    rollouts = [r for growth in growths for r in _begun(tree, growth)]
    for depth in range(MOST_NEW_TOKENS):
        rollouts = [*_settled(_extended(tree, reader, growths, rollouts, depth), growths, found)]
    return [tuple(halves) for halves in found]


def _begun(tree: Tree, growth: Growth) -> Iterator[Rollout]:
    """Choose open entries by mass, systematically within each half."""
    shares = np.cumsum([entry.mass for entry in growth.entries])
    if not len(shares):
        return
    rng = stream(0, "open words", str(tree.text(growth.span, -1)))
    mass = float(shares[-1]) / SAMPLES
    for half, start in enumerate(rng.random(HALVES)):
        chosen = np.searchsorted(shares, mass * (np.arange(SAMPLES) + start), side="right")
        keys = rng.integers(-(1 << 63), (1 << 63) - 1, SAMPLES, endpoint=True).tolist()
        for number, key in zip(np.minimum(chosen, len(shares) - 1).tolist(), keys, strict=True):
            yield Rollout(growth.context, half, mass, key, growth.entries[number])


def _extended(
    tree: Tree,
    reader: LogitReader,
    growths: Sequence[Growth],
    rollouts: Sequence[Rollout],
    depth: int,
) -> Iterator[Rollout]:
    """Run the last tokens of rollouts, once per node, and draw a token after each."""
    nodes: dict[tuple[int, int, int], list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        entry = rollout.entry
        nodes[rollout.context, entry.parent, entry.token].append(rollout)
    spans = np.array([growths[place].span for place, *_ in nodes], np.int64).reshape(-1, 2)
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
    growths: Sequence[Growth],
    found: Sequence[Sequence[dict[str | None, float]]],
) -> Iterator[Rollout]:
    """Count the words of rollouts that have ended, and yield the others.

    A word that does not end is cut, as that of a sampled text.
    """
    for rollout in rollouts:
        entry = rollout.entry
        if entry.key[0] >= DONE or entry.depth >= MOST_NEW_TOKENS:
            word = None if entry.key[0] in (LEAD, WORDLESS) else compose(entry.word)
            found[rollout.context][rollout.half][word] += rollout.mass
        elif entry.depth <= growths[rollout.context].room:
            yield rollout
