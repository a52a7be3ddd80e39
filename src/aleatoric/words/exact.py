"""Exact probabilities of given words as the first word of a model's continuation.

Every token sequence that begins one of the words is followed, most massive first: other cases,
other segmentations, leading newlines and punctuation, apostrophes and hyphens that may or may not
belong to the word. What is not followed is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aleatoric.decoding import Decoder
from aleatoric.words.bounds import WordProbabilities
from aleatoric.words.digest import Reader
from aleatoric.words.frontier import ROOT, Entry, follow, root
from aleatoric.words.lm import TreeLM
from aleatoric.words.machine import DONE, LEAD, Lead
from aleatoric.words.passages import Passage, encode_contexts, packs_of, passages_of
from aleatoric.words.targets import Targets
from aleatoric.words.tree import Limits, Tree
from aleatoric.words.vocabulary import Ids, Vocabulary

Failed = Literal["reject", "outcome"]
Floats = NDArray[np.float64]
LOOSE = 32
"""How many tokens that lead nowhere in particular are looked at for each node."""


@dataclass(frozen=True, slots=True)
class Question:
    """A context and the words whose probabilities are asked.

    With `weights`, people's probabilities of the words, the search goes where the total variation
    distance is still open, and leaves alone what cannot change it.
    """

    context: str
    words: tuple[str, ...]
    weights: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """How far to look: until the bounds are `tolerance` apart, or `nodes` tokens are run.

    The bounds are those of the total variation distance for a question with weights, and the mass
    left open for one without.
    """

    tolerance: float = 0.02
    nodes: int = 200
    failed: Failed = "reject"


@dataclass(slots=True)
class Progress:
    """The search of one context."""

    targets: Targets
    span: tuple[int, int]
    weights: tuple[float, ...]
    found: list[float]
    entries: list[Entry] = field(default_factory=list)
    dust: float = 0.0
    failed: float = 0.0
    nodes: int = 0
    lead_plan: Plan | None = None

    @property
    def open(self) -> float:
        """The mass not yet decided."""
        return self.dust + sum(entry.mass for entry in self.entries)

    def worths(self) -> list[float]:
        """How much each entry can still change the overlap with people, then the dust."""
        lacks = [max(0.0, p - q) for p, q in zip(self.weights, self.found, strict=True)]
        everything = sum(lacks)
        worths = []
        for entry in self.entries:
            through = self.targets.through[entry.word] if entry.word else None
            lack = everything if through is None else sum(lacks[i] for i in through)
            worths.append(min(entry.mass, lack))
        return [*worths, min(self.dust, everything)]


@dataclass(frozen=True, slots=True)
class Plan:
    """The tokens of a node that matter, and where each leads: a folded word or a word's index."""

    tokens: Ids
    leads: list[str | int]


def exact(
    lm: TreeLM,
    questions: Sequence[Question],
    *,
    decoder: Decoder | None = None,
    lead: Lead = "skip",
    search: Search | None = None,
    limits: Limits | None = None,
    vocabulary: Vocabulary | None = None,
) -> list[WordProbabilities]:
    """For each question the probability of each word, with bounds, in the order given."""
    limits = limits or Limits()
    vocabulary = vocabulary or Vocabulary(lm.pieces, lead)
    search = search or Search()
    encoded = encode_contexts(lm, [q.context for q in questions])
    answers: dict[int, WordProbabilities] = {}
    for pack in packs_of(passages_of(encoded), limits.contexts_at_once(lm)):
        reader = Reader(lm, vocabulary, decoder or Decoder())
        answers.update(_answer(lm, pack, questions, search, reader, limits))
    return [answers[i] for i in range(len(questions))]


def _answer(
    lm: TreeLM,
    pack: list[Passage],
    questions: Sequence[Question],
    search: Search,
    reader: Reader,
    limits: Limits,
) -> Iterator[tuple[int, WordProbabilities]]:
    tree = Tree(lm, pack, limits)
    running = {}
    for index, span in tree.spans().items():
        question = questions[index]
        targets, count = Targets(question.words), len(question.words)
        weights = question.weights or (1.0,) * count
        running[index] = Progress(targets, span, weights, [0.0] * count)
    for indices, logits in tree.run_trunk():
        roots = [(running[i], root()) for i in indices]
        _take(reader, roots, logits, search)
    while True:
        chosen = [(p, e) for p in running.values() for e in _choose(p, search)]
        if not chosen:
            break
        _expand(tree, reader, chosen, search)
    for index, progress in running.items():
        yield index, summarise(progress, search.failed)


def _choose(progress: Progress, search: Search) -> list[Entry]:
    """The entries to run next: the largest, so many that the others fall below the tolerance."""
    worths = progress.worths()
    left = sum(worths)
    if left <= search.tolerance:
        return []
    order = sorted(range(len(progress.entries)), key=worths.__getitem__, reverse=True)
    taken: list[int] = []
    for place in order[: max(search.nodes - progress.nodes, 0)]:
        if left <= search.tolerance:
            break
        left -= worths[place]
        taken.append(place)
    chosen = [progress.entries[place] for place in taken]
    for place in sorted(taken, reverse=True):
        del progress.entries[place]
    progress.nodes += len(chosen)
    return chosen


def _expand(
    tree: Tree, reader: Reader, chosen: list[tuple[Progress, Entry]], search: Search
) -> None:
    spans = np.array([progress.span for progress, _ in chosen], dtype=np.int64)
    parents = np.array([entry.parent for _, entry in chosen], dtype=np.int64)
    tokens = np.array([entry.token for _, entry in chosen], dtype=np.int64)
    for part, numbers, logits in tree.extend(spans, parents, tokens):
        for (_, entry), number in zip(chosen[part], numbers.tolist(), strict=True):
            entry.number = number
        _take(reader, chosen[part], logits, search)


def _take(
    reader: Reader, nodes: list[tuple[Progress, Entry]], logits: object, search: Search
) -> None:
    """Read the next-token distributions of nodes into their searches."""
    plans = [plan_for(reader.vocabulary, progress, entry) for progress, entry in nodes]
    keys = [entry.key for _, entry in nodes]
    digest = reader.read(logits, keys, [plan.tokens for plan in plans], LOOSE)
    mass = np.array([entry.mass for _, entry in nodes])
    least = search.tolerance * 1e-3
    planned = digest.planned * np.repeat(mass, [len(plan.leads) for plan in plans])
    loose = digest.loose * mass[:, None]
    _settle_ends(nodes, digest.ends * mass)
    _follow_planned(reader, nodes, plans, planned, least)
    _follow_loose(reader, nodes, digest.loose_tokens, loose, least)
    for (progress, _), dust in zip(nodes, (digest.loose_rest * mass).tolist(), strict=True):
        progress.dust += dust


def plan_for(vocabulary: Vocabulary, progress: Progress, entry: Entry) -> Plan:
    """The tokens after which the text may still become a word asked for."""
    if entry.key == ROOT:
        if progress.lead_plan is None:
            progress.lead_plan = _plan(vocabulary, progress.targets, entry)
        return progress.lead_plan
    return _plan(vocabulary, progress.targets, entry)


def _plan(vocabulary: Vocabulary, targets: Targets, entry: Entry) -> Plan:
    table = vocabulary.table(entry.key)
    found: list[Ids] = []
    leads: list[str | int] = []
    base = entry.base
    for letters in targets.after(base):
        tokens = table.grows.get(letters)
        if tokens is not None:
            found.append(tokens)
            leads.extend([base + letters] * len(tokens))
    for letters, index in targets.closing(base):
        tokens = table.closes.get(letters)
        if tokens is not None:
            found.append(tokens)
            leads.extend([index] * len(tokens))
    return Plan(np.concatenate(found) if found else np.zeros(0, dtype=np.int64), leads)


def _settle_ends(nodes: list[tuple[Progress, Entry]], masses: Floats) -> None:
    """The tokens that end the word where it stands."""
    for (progress, entry), mass in zip(nodes, masses.tolist(), strict=True):
        if entry.key[0] == LEAD:
            progress.failed += mass
        elif (index := progress.targets.folded.get(entry.word)) is not None:
            progress.found[index] += mass


def _follow_planned(
    reader: Reader,
    nodes: list[tuple[Progress, Entry]],
    plans: list[Plan],
    masses: Floats,
    least: float,
) -> None:
    """The tokens on the way to a word: complete words are counted, beginnings kept."""
    counts = [len(plan.leads) for plan in plans]
    starts = np.concatenate([[0], np.cumsum(counts)])
    owners = np.repeat(np.arange(len(nodes)), counts)
    small = np.where(masses > least, 0.0, masses)
    for (progress, _), dust in zip(nodes, _by_owner(small, owners, len(nodes)), strict=True):
        progress.dust += dust
    for place in np.flatnonzero(masses > least).tolist():
        owner = int(owners[place])
        within = place - int(starts[owner])
        _follow(reader, nodes[owner], plans[owner], within, float(masses[place]))


def _by_owner(values: Floats, owners: Ids, count: int) -> list[float]:
    return list(np.bincount(owners, values, count).tolist())


def _follow(
    reader: Reader, node: tuple[Progress, Entry], plan: Plan, within: int, mass: float
) -> None:
    progress, entry = node
    lead, token = plan.leads[within], int(plan.tokens[within])
    if isinstance(lead, int):
        progress.found[lead] += mass
        return
    table = reader.vocabulary.table(entry.key)
    key = (int(table.modes[token]), table.pending[token])
    _keep(progress, Entry(mass, entry.number, token, key, lead, table.joiners[token]))


def _follow_loose(
    reader: Reader,
    nodes: list[tuple[Progress, Entry]],
    tokens: Ids,
    masses: Floats,
    least: float,
) -> None:
    """The likeliest tokens whose letters do not tell where they lead."""
    small = np.where(masses > least, 0.0, masses).sum(-1)
    for (progress, _), dust in zip(nodes, small.tolist(), strict=True):
        progress.dust += dust
    for row, place in zip(*(x.tolist() for x in np.nonzero(masses > least)), strict=True):
        progress, entry = nodes[row]
        table = reader.vocabulary.table(entry.key)
        child = follow(entry, table, int(tokens[row, place]), float(masses[row, place]))
        if child.key[0] != DONE:
            _keep(progress, child)
        elif (index := progress.targets.folded.get(child.word)) is not None:
            progress.found[index] += child.mass


def _keep(progress: Progress, child: Entry) -> None:
    """Keep a continuation to run later, unless no word asked for can come of it."""
    targets = progress.targets
    if child.word not in targets.through:
        return
    if child.joiner and child.word not in targets.folded and child.base not in targets.through:
        return
    progress.entries.append(child)


def summarise(progress: Progress, failed: Failed) -> WordProbabilities:
    """The bounds that a search has reached."""
    targets = progress.targets
    guess = list(progress.found)
    most = [found + progress.dust for found in progress.found]
    may_fail = progress.dust
    for entry in progress.entries:
        if entry.word in targets.folded:
            guess[targets.folded[entry.word]] += entry.mass
        if entry.key[0] == LEAD:
            may_fail += entry.mass
        for index in targets.through.get(entry.word, ()):
            most[index] += entry.mass
    least_scale = 1.0 - progress.failed if failed == "reject" else 1.0
    most_scale = least_scale - (may_fail if failed == "reject" else 0.0)
    return WordProbabilities(
        targets.words,
        tuple(x / least_scale for x in progress.found),
        tuple(x / least_scale for x in guess),
        tuple(min(1.0, x / max(most_scale, 1e-12)) for x in most),
        min(1.0, progress.open / max(most_scale, 1e-12)),
        progress.failed,
        progress.nodes,
    )
