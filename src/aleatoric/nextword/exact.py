"""Exact probabilities of given words as the first word of a model's continuation.

Every token sequence that begins one of the words is followed, most massive first: other cases,
other segmentations, leading newlines and punctuation, apostrophes and hyphens that may or may not
belong to the word. What is not followed is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Literal

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.models.decoding import Decoder
from aleatoric.nextword.beginnings import Beginnings, Plans
from aleatoric.nextword.digest import Notebook, Reader, WordProbabilities
from aleatoric.nextword.searches import ENTRY, SMALL, Asked, Entries, Plan, Searches
from aleatoric.nextword.tree import (
    Limits,
    Passage,
    Tree,
    TreeLM,
    each_pack,
    encode_contexts,
    packs_of,
    passages_of,
)
from aleatoric.nextword.vocabulary import Lead, Vocabulary
from aleatoric.types import Floats, Ints

Failed = Literal["reject", "outcome"]


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
    left open for one without. With `every_word`, at least one spelling of every word is run, so
    that every probability has a lower bound above 0.
    """

    tolerance: float = 0.02
    nodes: int = 200
    failed: Failed = "reject"
    every_word: bool = False

    def __post_init__(self) -> None:
        if not self.tolerance >= 0:  # nor NaN
            raise UsageError(f"a tolerance of {self.tolerance:g} is none; use 0.02, say.")


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
    limits, search = limits or Limits(), search or Search()
    vocabulary = vocabulary or Vocabulary(lm.pieces, lead)
    reader = Reader(lm, vocabulary, decoder or Decoder())
    asking = Asking(questions, vocabulary)
    encoded = encode_contexts(lm, [q.context for q in questions])
    packs = packs_of(passages_of(encoded), limits.contexts_at_once(lm))
    answers = dict(
        each_pack(lm, packs, lambda pack: answer(Tree(lm, pack, limits), reader, asking, search))
    )
    return [answers[i] for i in range(len(questions))]


class Asking:
    """Questions with the words of all of them numbered together."""

    def __init__(self, questions: Sequence[Question], vocabulary: Vocabulary) -> None:
        self.questions = questions
        words = dict.fromkeys(word for question in questions for word in question.words)
        self._numbers = {word: number for number, word in enumerate(words)}
        self.beginnings = Beginnings(list(words))
        self.plans = Plans(vocabulary, self.beginnings)

    def about(self, indices: Sequence[int]) -> Asked:
        """What some of the questions ask, as arrays."""
        chosen = [self.questions[i] for i in indices]
        return Asked.of(
            [[self._numbers[word] for word in question.words] for question in chosen],
            [question.weights or (1.0,) * len(question.words) for question in chosen],
            self.beginnings,
        )


def answer(
    tree: Tree, reader: Reader, asking: Asking, search: Search, notebook: Notebook | None = None
) -> Iterator[tuple[int, WordProbabilities] | None]:
    """Search the continuations of a pack's contexts; gives each question's answer.

    Gives `None` where it waits for the device. A notebook is told of every node that is run.
    """
    spans = tree.spans()
    asked, places = asking.about(list(spans)), list(spans.values())
    searches = Searches(asked, places, asking, reader, search, tree.lm.window, notebook)
    yield from work_through(tree, searches)
    words = [asking.questions[index].words for index in spans]
    yield from zip(spans, searches.answers(words), strict=True)


def work_through(tree: Tree, searches: Searches) -> Iterator[None]:
    """Run the contexts of a tree, and then what the searches choose, until they choose nothing."""
    owner = {index: place for place, index in enumerate(tree.spans())}
    for indices, logits in tree.run_trunk():
        yield from searches.begin([owner[i] for i in indices], logits)
    while len(chosen := searches.choose()):
        for part, numbers, logits in tree.extend(
            searches.spans[chosen["owner"]], chosen["parent"], chosen["token"]
        ):
            yield from searches.take(chosen[part], numbers, logits)


NO_WORD = -1
"""In place of a word: the text ends without one."""
Branches = Mapping[int, Any]
"""Token -> the branches behind it: token sequences with common beginnings, once each."""


@dataclass(frozen=True, eq=False)
class Trace:
    """The probabilities of some contexts' words, as sums over the nodes of a tree.

    A row is a context (rows 0..contexts-1) or a node behind it. Node i hangs with token `tokens[i]`
    from row `parents[i]`, which comes before it. The mass of a row times the share of
    `step_tokens[j]` after `step_rows[j]` belongs to word `step_words[j]`; to `end_words[j]`
    belongs, of `end_rows[j]`, the share of all tokens that end a word by the table `end_tables[j]`.
    """

    passages: tuple[Passage, ...]
    contexts: tuple[int, ...]
    """The questions, in the order of the rows."""
    owners: Ints
    parents: Ints
    tokens: Ints
    depths: Ints
    step_rows: Ints
    step_tokens: Ints
    step_words: Ints
    end_rows: Ints
    end_tables: Ints
    end_words: Ints
    word_contexts: Ints
    """The row of each word's context; words stand in the order of the questions'."""


def trace(
    lm: TreeLM,
    questions: Sequence[Question],
    vocabulary: Vocabulary,
    search: Search | None = None,
    limits: Limits | None = None,
) -> Trace:
    """Search the words' probabilities as `exact` does, and write down where they were found.

    The usual tokens of every word after a space are followed whatever their mass: training may
    raise what is small now.
    """
    limits, search = limits or Limits(), search or Search()
    reader = Reader(lm, vocabulary, Decoder())
    asking = Asking(questions, vocabulary)
    passages = passages_of(encode_contexts(lm, [question.context for question in questions]))
    usual = [_branches(lm, question.words) for question in questions]

    def work(pack: list[Passage]) -> Iterator[tuple[int, Trace] | None]:
        tree = Tree(lm, pack, limits)
        spans = tree.spans()
        asked, places = asking.about(list(spans)), list(spans.values())
        searches = Tracer(asked, places, asking, reader, search, lm.window)
        searches.follow_always([usual[index] for index in spans])
        yield from work_through(tree, searches)
        yield 0, searches.trace(tuple(pack), tuple(spans))

    # What memory cannot hold at once comes in several traces.
    return joined([found for _, found in each_pack(lm, [passages], work)])


def joined(parts: Sequence[Trace]) -> Trace:
    """Traces of different contexts as one: their contexts, then their nodes by depth."""
    if len(parts) == 1:
        return parts[0]
    total = sum(len(part.contexts) for part in parts)
    order = np.argsort(np.concatenate([part.depths for part in parts]), kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = total + np.arange(len(order))
    contexts = _starts([len(part.contexts) for part in parts])
    nodes = _starts([len(part.owners) for part in parts])
    words = _starts([len(part.word_contexts) for part in parts])
    moved = [
        _moved(part, int(context), place[node : node + len(part.owners)], int(word))
        for part, context, node, word in zip(parts, contexts, nodes, words, strict=True)
    ]
    found = _appended(moved)
    by_depth = [getattr(found, name)[order] for name in ("owners", "parents", "tokens", "depths")]
    owners, parents, tokens, depths = by_depth
    return replace(found, owners=owners, parents=parents, tokens=tokens, depths=depths)


def _starts(lengths: Sequence[int]) -> Ints:
    return np.cumsum([0, *lengths[:-1]])


def _moved(part: Trace, contexts: int, nodes: Ints, words: int) -> Trace:
    """A trace with its contexts and words numbered from these on, its nodes by their new rows."""
    rows = np.concatenate([contexts + np.arange(len(part.contexts)), nodes])
    return replace(
        part,
        owners=part.owners + contexts,
        parents=rows[part.parents],
        step_rows=rows[part.step_rows],
        step_words=part.step_words + words,
        end_rows=rows[part.end_rows],
        end_words=np.where(part.end_words == NO_WORD, NO_WORD, part.end_words + words),
        word_contexts=part.word_contexts + contexts,
    )


def _appended(parts: Sequence[Trace]) -> Trace:
    """Traces behind one another, field by field."""
    columns = [[getattr(part, own.name) for part in parts] for own in fields(Trace)]
    (passages, contexts), arrays = columns[:2], columns[2:]
    tuples = (tuple(chain(*passages)), tuple(chain(*contexts)))
    return Trace(*tuples, *(np.concatenate(values) for values in arrays))


def _branches(lm: TreeLM, words: Sequence[str]) -> Branches:
    found: dict[int, Any] = {}
    for word in words:
        for tokens in _usual_tokens(lm, word):
            here = found
            for token in tokens:
                here = here.setdefault(token, {})
    return found


def _usual_tokens(lm: TreeLM, word: str) -> Iterator[tuple[int, ...]]:
    """A word's tokens after a space, and without one where the space is a token of its own."""
    spaced = lm.continuation(f" {word}")
    yield spaced
    if not (lm.pieces[spaced[0]] or b"").strip():
        yield lm.continuation(word)


class Tracer(Searches):
    """Searches that write down what they run and count."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._usual: dict[tuple[int, int], Branches] = {}
        """(context, node) -> the usual branches behind it that are not run yet."""
        self._begun: list[tuple[Ints, Entries]] = []
        self._run: list[tuple[Ints, Entries]] = []
        self._steps: list[Entries] = []
        self._waiting: list[Entries] = []
        """Usual tokens that are to be run next."""

    def follow_always(self, branches: Sequence[Branches]) -> None:
        """Token sequences behind each context that are run whatever their mass."""
        self._usual = {(owner, -1): own for owner, own in enumerate(branches)}

    def choose(self) -> Entries:
        """The usual tokens first, then what the search would choose."""
        chosen: Entries = np.concatenate([*self._waiting, super().choose()])
        self._waiting = []
        return chosen

    def take(self, batch: Entries, numbers: Ints, logits: Any) -> Iterator[None]:
        """Write nodes down, go on as every search does, and keep the usual tokens behind them."""
        (self._run if (numbers >= 0).all() else self._begun).append((numbers, batch))
        wanted = self._move_on(batch, numbers)
        before = len(self._entries)
        yield from super().take(batch, numbers, logits)
        fresh = self._entries[before:]
        usual = np.isin(self._codes(fresh["owner"], fresh["parent"], fresh["token"]), wanted)
        small = ~usual & (fresh["mass"] <= self._goal.tolerance * SMALL)
        self._waiting.append(fresh[usual])
        # What is too small to be followed still counts where it stands at a whole word.
        self._steps.append(fresh[small & (self._cells.completes[fresh["cell"]] >= 0)])
        self._entries = np.concatenate([self._entries[:before], fresh[~usual & ~small]])

    def _move_on(self, batch: Entries, numbers: Ints) -> Ints:
        """The codes of the usual tokens behind nodes that are usual themselves."""
        owners, parents, tokens = (batch[name].tolist() for name in ("owner", "parent", "token"))
        found: list[tuple[int, int, int]] = []
        for place, number in enumerate(numbers.tolist()):
            owner = owners[place]
            if number >= 0:
                behind = self._usual.get((owner, parents[place]), {}).get(tokens[place], {})
                self._usual[owner, number] = behind
            found += [(owner, number, token) for token in self._usual[owner, number]]
        return self._codes(*np.array(found, dtype=np.int64).reshape(-1, 3).T)

    def _codes(self, owners: Ints, parents: Ints, tokens: Ints) -> Ints:
        """One number for (context, node, token); nodes belong to one context each."""
        rows = np.where(parents >= 0, parents + self._count, owners)
        return rows * len(self._reader.vocabulary) + tokens

    def _drop_small(self, owners: Ints, masses: Floats, needed: Any = False) -> Any:
        # Nothing is too small to be raised by training; no mass at all is no continuation.
        return masses > 0.0

    def _follow_planned(self, batch: Entries, numbers: Ints, plan: Plan, shares: Floats) -> Entries:
        rows = plan.rows[plan.growing :]
        closed = self._children(
            batch[rows], numbers[rows], plan.tokens[plan.growing :], np.zeros(len(rows))
        )
        closed["cell"] = plan.cells[plan.growing :]
        self._steps.append(closed)
        return super()._follow_planned(batch, numbers, plan, shares)

    def _silent(self, children: Entries) -> Entries:
        tables, _ = self._effects(children["table"], children["token"])
        self._steps.append(children[tables < 0])
        return super()._silent(children)

    def _lettered(self, children: Entries) -> Entries:
        tables, _ = self._effects(children["table"], children["token"])
        ended = children[tables < 0]
        ended["cell"] = [self._spell(child) for child in ended]
        self._steps.append(ended[ended["cell"] >= 0])
        return super()._lettered(children)

    def trace(self, passages: tuple[Passage, ...], contexts: tuple[int, ...]) -> Trace:
        """What was found, with what was left open at a whole word counted to it."""
        nodes = _entries([batch for _, batch in self._run])
        order = np.argsort(nodes["depth"], kind="stable")
        rows = self._row_numbers(order)
        nodes = nodes[order]
        steps = _entries([*self._steps, *self._resting, self._entries])
        steps = steps[self._cells.completes[steps["cell"]] >= 0]
        end_rows, end_tables, end_words = self._ended(rows)
        return Trace(
            passages,
            contexts,
            nodes["owner"],
            _rows(rows, nodes["owner"], nodes["parent"]),
            nodes["token"],
            nodes["depth"],
            _rows(rows, steps["owner"], steps["parent"]),
            steps["token"],
            self._cells.completes[steps["cell"]],
            end_rows,
            end_tables,
            end_words,
            self._asked.owner,
        )

    def _row_numbers(self, order: Ints) -> Ints:
        """The row of each node: nodes are numbered as they are run, and stand by depth."""
        numbers = _joined([numbers for numbers, _ in self._run])
        rows = np.zeros(len(numbers), dtype=np.int64)
        rows[numbers[order]] = self._count + np.arange(len(numbers))
        return rows

    def _ended(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Row, table and word of every node where tokens may end a word or the text."""
        batches = [*self._begun, *self._run]
        nodes = _entries([batch for _, batch in batches])
        leading = self._cells.beginning[nodes["cell"]] == 0
        words = np.where(leading, NO_WORD, self._cells.completes[nodes["cell"]])
        counts = leading | (words >= 0)
        found = _rows(rows, nodes["owner"], _joined([numbers for numbers, _ in batches]))
        return found[counts], nodes["table"][counts], words[counts]


def _rows(rows: Ints, owners: Ints, numbers: Ints) -> Ints:
    """The rows of nodes; -1 stands for the context itself."""
    own = rows[numbers] if len(rows) else numbers
    return np.where(numbers >= 0, own, owners)


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _entries(parts: Sequence[Entries]) -> Entries:
    found: Entries = np.concatenate([np.zeros(0, dtype=ENTRY), *parts])
    return found
