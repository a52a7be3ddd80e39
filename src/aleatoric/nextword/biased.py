"""The biased estimator of the paper's App. A, and first tokens in place of words (App. D).

The support are the words of unbiased, nucleus and greedy samples, the original and people's words.
A word's weight is f(context, word) / f(context), the probability of its tokens after the context.

A token is written as its text and its number, such as `the #262`: a form that comparing words does
not change, and that tells tokens of the same letters apart.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aleatoric.errors import UsageError, quoted
from aleatoric.models.attention import send
from aleatoric.models.base import text_key
from aleatoric.models.decoding import Decoder, widened
from aleatoric.nextword.bounds import TopWords, WordProbabilities
from aleatoric.nextword.head import Head
from aleatoric.nextword.rules import TextRule, WordRule, normalise
from aleatoric.nextword.sampled import mc
from aleatoric.nextword.tree import ContextError, Tree, for_contexts
from aleatoric.types import Categorical, Draws, Item

if TYPE_CHECKING:
    from torch import Tensor

    from aleatoric.models.plain import LanguageModel


TOP_TOKENS = 500
"""Tokens per context that are kept besides people's; the others count by their mass."""
_NUMBER = re.compile(r" #(\d+)$")


def word_tokens(lm: LanguageModel, context: str, words: Sequence[str]) -> list[tuple[int, ...]]:
    """Tokenize words as they follow a context, after a space unless a chat's turn starts."""
    space = "" if lm.prompting.chat or context[-1:].isspace() else " "
    before, *whole = lm.encode_all([context, *(f"{context}{space}{word}" for word in words)])
    # Some tokenizers join the word with the end of the context.
    return [
        after[len(before) :] if after[: len(before)] == before else lm.continuation(space + word)
        for word, after in zip(words, whole, strict=True)
    ]


def token_name(lm: LanguageModel, token: int) -> str:
    """Return the form of a token in which it is saved and compared."""
    piece = lm.pieces[token]
    text = "<special>" if piece is None else piece.decode("utf-8", "replace").replace(" ", "␣")
    return normalise(f"{json.dumps(text, ensure_ascii=False)[1:-1]} #{token}")


def vocabulary_key(lm: LanguageModel) -> str:
    """Return a short hash of a vocabulary, for signatures."""
    return text_key("\n".join("" if piece is None else piece.hex() for piece in lm.pieces))


def with_first_tokens(lm: LanguageModel, item: Item, read: WordRule) -> Item:
    """Return an item whose answers and original are first tokens; one that has them stays.

    `read` returns the word of an original; answers are words already.
    """
    if all(map(_NUMBER.search, item.responses)):
        return item
    original = item.original and (read(item.original) or item.original)
    words = list(dict.fromkeys(filter(None, (*item.responses, original))))
    names: dict[str | None, str] = {}
    for word, tokens in zip(words, word_tokens(lm, item.context, words), strict=True):
        if not tokens:
            problem = f"the model's tokenizer reads nothing in {quoted(word)}"
            raise UsageError(f"item {quoted(item.id)}: {problem}; leave this answer out.")
        names[word] = token_name(lm, tokens[0])
    answers = tuple(map(names.__getitem__, item.responses))
    return replace(item, responses=answers, original=names.get(original))


def next_tokens(
    lm: LanguageModel,
    contexts: Sequence[str],
    people: Sequence[Categorical],
    decoder: Decoder | None = None,
) -> list[tuple[WordProbabilities, Head]]:
    """Return the probabilities of people's first tokens and of the likeliest tokens per context."""
    chosen = decoder or Decoder()

    def work(tree: Tree) -> Iterator[tuple[int, tuple[WordProbabilities, Head]]]:
        for indices, logits in tree.run_trunk():
            for i, row in zip(indices, chosen.probs(widened(logits)), strict=True):
                yield i, _read(lm, row.double().cpu(), people[i].support)

    return for_contexts(lm, contexts, work)


def _read(lm: LanguageModel, row: Tensor, names: tuple[str, ...]) -> tuple[WordProbabilities, Head]:
    """Read the tokens `names` and the likeliest ones off a distribution."""
    numbers = [int(name.rpartition("#")[2]) for name in names]
    asked = tuple(row[numbers].tolist())
    order = row.argsort(descending=True, stable=True)[: TOP_TOKENS + 1].tolist()
    probs, kept = row[order].tolist(), order[:TOP_TOKENS]
    words, shares = tuple(token_name(lm, token) for token in kept), tuple(probs[: len(kept)])
    head = Categorical(words, shares, max(0.0, 1.0 - sum(shares)), None)
    tops = TopWords(words, shares, shares, probs[-1] if len(order) > len(kept) else 0.0)
    found = WordProbabilities(names, asked, asked, asked, 0.0, 0.0, 0)
    return found, Head(head, tops, certified=True, failed=0.0, nodes=0)


Tokens = tuple[int, ...]
Place = tuple[int, Tokens]
"""A context by its index, and tokens after it."""
NUCLEUS_SAMPLES = 100
NUCLEI = (0.7, 0.8, 0.9)


def biased(
    lm: LanguageModel, items: Sequence[Item], rule: TextRule, samples: int = 1000, seed: int = 0
) -> list[Draws]:
    """Return the log-probabilities of the words of each item's support, not yet renormalized."""
    contexts = [item.context for item in items]
    pairs = zip(contexts, support_of(lm, items, rule, samples, seed), strict=True)
    tokens = [dict(zip(words, word_tokens(lm, c, words), strict=True)) for c, words in pairs]
    scores = log_probs_of(lm, contexts, [set(filter(None, r.values())) for r in tokens])
    return [
        Draws(item.id, {}, logprobs={word: found[row] for word, row in rows.items() if row})
        for item, rows, found in zip(items, tokens, scores, strict=True)
    ]


def support_of(
    lm: LanguageModel, items: Sequence[Item], rule: TextRule, samples: int, seed: int
) -> list[list[str]]:
    """Return the words of each item's support, in the case in which they were written."""
    plan = [(Decoder(), samples), (Decoder(greedy=True), 1)]
    plan += [(Decoder(top_p=p), NUCLEUS_SAMPLES) for p in NUCLEI]
    supports = [dict.fromkeys((*item.responses, rule.cut(item.original or ""))) for item in items]
    for decoder, number in plan:
        how: dict[str, Any] = {"seed": seed, "decoder": decoder, "rule": rule}
        for words, drawn in zip(supports, mc(lm, items, samples=number, **how), strict=True):
            words |= dict.fromkeys(drawn.counts)
    return [list(filter(None, words)) for words in supports]


def log_probs_of(
    lm: LanguageModel, contexts: Sequence[str], sequences: Sequence[Collection[Tokens]]
) -> list[dict[Tokens, float]]:
    """Return the log-probability of each token sequence after its context."""

    def work(tree: Tree) -> Iterator[tuple[int, dict[Tokens, float]]]:
        following = _following(tree, sequences)
        scores: dict[Place, float] = {}
        nodes: dict[Place, int] = {}
        for indices, logits in tree.run_trunk():
            _read_pieces([(i, ()) for i in indices], logits, following, scores)
        for depth in range(1, max(len(tokens) for _, tokens in following) + 1):
            level = sorted(place for place in following if len(place[1]) == depth)
            spans = np.array([tree.spans()[i] for i, _ in level])
            parents = np.array([nodes.get((i, tokens[:-1]), -1) for i, tokens in level])
            tokens = np.array([tokens[-1] for _, tokens in level])
            for part, numbers, logits in tree.extend(spans, parents, tokens):
                nodes |= zip(level[part], numbers.tolist(), strict=True)
                _read_pieces(level[part], logits, following, scores)
        for i in tree.spans():
            yield i, {row: scores[i, row] for row in sequences[i]}

    return for_contexts(lm, contexts, work)


def _following(tree: Tree, sequences: Sequence[Collection[Tokens]]) -> dict[Place, list[int]]:
    """Return the tokens that follow each beginning of a sequence, in order."""
    following: dict[Place, set[int]] = defaultdict(set)
    for i, (start, stop) in tree.spans().items():
        for row in sequences[i]:
            if len(row) > 1 + tree.window - (stop - start):
                raise ContextError(i, "a word does not fit the model's window; shorten the context")
            for length, token in enumerate(row):
                following[i, row[:length]].add(token)
    return {place: sorted(tokens) for place, tokens in following.items()}


def _read_pieces(
    places: Sequence[Place],
    logits: Tensor,
    following: Mapping[Place, Sequence[int]],
    scores: dict[Place, float],
) -> None:
    """Add the log-probabilities of the tokens that follow some places."""
    pairs = [(row, token) for row, place in enumerate(places) for token in following[place]]
    rows, tokens = (send(np.array(column), logits.device) for column in zip(*pairs, strict=True))
    steps = widened(logits).log_softmax(-1)[rows, tokens].double().cpu().tolist()
    for (row, token), step in zip(pairs, steps, strict=True):
        context, before = places[row]
        scores[context, (*before, token)] = scores.get((context, before), 0.0) + step
