"""Where exact word probabilities were found in the token tree, to recompute them with gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from aleatoric.nextword import tree as trees
from aleatoric.nextword.exact import SMALL, Asking, PlannedTokens, Question, Search, Searches
from aleatoric.nextword.tree import TokenPassage, Tree
from aleatoric.nextword.vocabulary import ENTRY, Entries, LogitReader, Vocabulary
from aleatoric.types import Floats, Ints

if TYPE_CHECKING:
    from aleatoric.models.plain import LanguageModel


NO_WORD = -1
"""Instead of a word: the text ends without one."""
TokenTrie = Mapping[int, Any]
"""Token -> the trie of the tokens after it."""


@dataclass(frozen=True, eq=False)
class Trace:
    """The word probabilities of some contexts, as sums over the nodes of a tree.

    A row is a context (rows 0..contexts-1) or a node below it. Node i has the token `tokens[i]` and
    the parent row `parents[i]`, which comes before it. The mass of row `step_rows[j]` times the
    share of its token `step_tokens[j]` belongs to word `step_words[j]`; the mass of `end_rows[j]`
    times the share of all tokens that end a word by table `end_tables[j]` to `end_words[j]`.
    """

    passages: tuple[TokenPassage, ...]
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
    """The row of each word's context; words are in the order of the questions."""


def trace(
    lm: LanguageModel,
    questions: Sequence[Question],
    vocabulary: Vocabulary,
    search: Search | None = None,
) -> Trace:
    """Search the words' probabilities as `exact` does, and record where they were found.

    The usual tokens of every word after a space are followed whatever their mass, because training
    may raise what is small now.
    """
    asking = Asking(questions, search or Search(), LogitReader(lm, vocabulary))
    encoded = trees.encode_contexts(lm, [question.context for question in questions])
    usual = [_usual_trie(lm, question.words) for question in questions]

    def work(pack: list[TokenPassage]) -> Iterator[tuple[int, Trace] | None]:
        tree = trees.tree_of(lm, pack)
        tries = [usual[i] for i in tree.spans()]
        tracer = Tracer(tries, tree, asking)
        yield from tracer.run()
        yield 0, tracer.trace()

    # A pack that does not fit into memory gives several traces.
    return _joined([part for _, part in trees.each_pack(lm, [trees.passages_of(encoded)], work)])


def _joined(parts: Sequence[Trace]) -> Trace:
    """Concatenate traces of different contexts: their contexts, then their nodes by depth."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([part.depths for part in parts]), kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = sum(len(part.contexts) for part in parts) + np.arange(len(order))
    moved: list[Trace] = []
    context = node = word = 0
    for part in parts:
        moved.append(_moved(part, context, place[node : node + len(part.owners)], word))
        context, node = context + len(part.contexts), node + len(part.owners)
        word += len(part.word_contexts)
    columns = [[getattr(part, column.name) for part in moved] for column in fields(Trace)]
    passages, contexts = (tuple(chain(*column)) for column in columns[:2])
    joined = Trace(passages, contexts, *map(np.concatenate, columns[2:]))
    by_depth = {n: getattr(joined, n)[order] for n in ("owners", "parents", "tokens", "depths")}
    return replace(joined, **by_depth)


def _moved(part: Trace, contexts: int, nodes: Ints, words: int) -> Trace:
    """A trace with its contexts and words numbered from these on, and its nodes in new rows."""
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


def _usual_trie(lm: LanguageModel, words: Sequence[str]) -> TokenTrie:
    """The usual tokens of words after a space, and without it if the space is its own token."""
    trie: dict[int, Any] = {}
    for word in words:
        paths = [lm.continuation(f" {word}")]
        if not (lm.pieces[paths[0][0]] or b"").strip():
            paths.append(lm.continuation(word))
        for tokens in paths:
            node = trie
            for token in tokens:
                node = node.setdefault(token, {})
    return trie


class Tracer(Searches):
    """Searches that record what they run and count; `tries` are run whatever their mass."""

    def __init__(self, tries: Sequence[TokenTrie], tree: Tree, asking: Asking) -> None:
        super().__init__(tree, asking)
        self._usual = {(owner, -1): trie for owner, trie in enumerate(tries)}
        """(context, node) -> the usual tokens after it that are not run yet."""
        self._begun: list[tuple[Ints, Entries]] = []
        self._run: list[tuple[Ints, Entries]] = []
        self._steps: list[Entries] = []
        self._pending_usual: list[Entries] = []
        """Usual tokens that are to be run next."""

    def choose(self) -> Entries:
        """Choose the usual tokens first, then what the search would choose."""
        chosen: Entries = np.concatenate([*self._pending_usual, super().choose()])
        self._pending_usual = []
        return chosen

    def take(self, batch: Entries, numbers: Ints, logits: Any) -> Iterator[None]:
        """Record nodes, continue as every search does, and keep the usual tokens after them."""
        (self._run if (numbers >= 0).all() else self._begun).append((numbers, batch))
        usual_codes = self._move_on(batch, numbers)
        before = len(self._entries)
        yield from super().take(batch, numbers, logits)
        fresh = self._entries[before:]
        usual = np.isin(self._codes(fresh["owner"], fresh["parent"], fresh["token"]), usual_codes)
        small = ~usual & (fresh["mass"] <= self._goal.tolerance * SMALL)
        self._pending_usual.append(fresh[usual])
        # An entry too small to follow still counts if it is at a complete word.
        self._steps.append(fresh[small & (self._cells.completes[fresh["cell"]] >= 0)])
        self._entries = np.concatenate([self._entries[:before], fresh[~usual & ~small]])

    def _move_on(self, batch: Entries, numbers: Ints) -> Ints:
        """The codes of the usual tokens after nodes that are usual themselves."""
        owners, parents, tokens = (batch[name].tolist() for name in ("owner", "parent", "token"))
        steps: list[tuple[int, int, int]] = []
        for place, number in enumerate(numbers.tolist()):
            owner = owners[place]
            if number >= 0:
                after = self._usual.get((owner, parents[place]), {}).get(tokens[place], {})
                self._usual[owner, number] = after
            steps += [(owner, number, token) for token in self._usual[owner, number]]
        return self._codes(*np.array(steps, dtype=np.int64).reshape(-1, 3).T)

    def _codes(self, owners: Ints, parents: Ints, tokens: Ints) -> Ints:
        """One number for (context, node, token); nodes belong to one context each."""
        rows = np.where(parents >= 0, parents + self._count, owners)
        return rows * len(self._reader.vocabulary) + tokens

    def _drop_small(self, owners: Ints, masses: Floats, needed: Any = False) -> Any:
        # Training may raise any mass above 0.
        return masses > 0.0

    def _follow_planned(
        self, batch: Entries, numbers: Ints, plan: PlannedTokens, shares: Floats
    ) -> Entries:
        rows, tokens, cells = (column[plan.growing :] for column in plan[:3])
        closed = self._children(batch[rows], numbers[rows], tokens, np.zeros(len(rows)))
        closed["cell"] = cells
        self._steps.append(closed)
        return super()._follow_planned(batch, numbers, plan, shares)

    def _silent(self, children: Entries) -> Entries:
        self._steps.append(children[self._effects(children["table"], children["token"])[0] < 0])
        return super()._silent(children)

    def _lettered(self, children: Entries) -> Entries:
        ended = children[self._effects(children["table"], children["token"])[0] < 0]
        ended["cell"] = [self._spell(child) for child in ended]
        self._steps.append(ended[ended["cell"] >= 0])
        return super()._lettered(children)

    def trace(self) -> Trace:
        """Return the trace; entries left open at a complete word count as that word."""
        numbers, nodes = _stacked(self._run)
        order = np.argsort(nodes["depth"], kind="stable")
        # Nodes are numbered as they are run, and sorted by depth.
        rows = np.zeros(len(numbers), dtype=np.int64)
        rows[numbers[order]] = self._count + np.arange(len(numbers))
        nodes = nodes[order]
        steps = np.concatenate([*self._steps, *self._resting, self._entries])
        steps = steps[self._cells.completes[steps["cell"]] >= 0]
        return Trace(
            tuple(self._tree.passages),
            tuple(self._tree.spans()),
            nodes["owner"],
            _rows(rows, nodes["owner"], nodes["parent"]),
            nodes["token"],
            nodes["depth"],
            _rows(rows, steps["owner"], steps["parent"]),
            steps["token"],
            self._cells.completes[steps["cell"]],
            *self._ended(rows),
            self._owner,
        )

    def _ended(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Row, table and word of every node where tokens may end a word or the text."""
        numbers, nodes = _stacked([*self._begun, *self._run])
        leading = self._cells.beginning[nodes["cell"]] == 0
        words = np.where(leading, NO_WORD, self._cells.completes[nodes["cell"]])
        counts = leading | (words >= 0)
        node_rows = _rows(rows, nodes["owner"], numbers)
        return node_rows[counts], nodes["table"][counts], words[counts]


def _rows(rows: Ints, owners: Ints, numbers: Ints) -> Ints:
    return np.where(numbers >= 0, rows[numbers] if len(rows) else numbers, owners)


def _stacked(parts: Sequence[tuple[Ints, Entries]]) -> tuple[Ints, Entries]:
    """The numbers and the entries of nodes that were run in parts."""
    none = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=ENTRY))
    numbers, entries = (np.concatenate(column) for column in zip(none, *parts, strict=True))
    return numbers, entries
