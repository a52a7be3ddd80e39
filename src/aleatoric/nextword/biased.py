"""The biased estimator of the paper's App. A: word probabilities renormalized over a support.

The support are the words of unbiased, nucleus and greedy samples, the original and people's words.
A word's weight is f(context, word) / f(context), the probability of its tokens after the context.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aleatoric.models.attention import send
from aleatoric.models.decoding import Decoder, widened
from aleatoric.nextword.first_token import word_tokens
from aleatoric.nextword.packs import ContextError, for_contexts
from aleatoric.nextword.rules import TextRule
from aleatoric.nextword.sampled import Prompt, mc
from aleatoric.nextword.tree import Limits, Tree
from aleatoric.types import Draws, Item

if TYPE_CHECKING:
    from torch import Tensor

    from aleatoric.models.plain import LanguageModel

Tokens = tuple[int, ...]
Place = tuple[int, Tokens]
"""A context by its index, and tokens after it."""
NUCLEUS_SAMPLES = 100
NUCLEI = (0.7, 0.8, 0.9)


def biased(
    lm: LanguageModel,
    items: Sequence[Item],
    rule: TextRule,
    *,
    samples: int = 1000,
    seed: int = 0,
    limits: Limits | None = None,
) -> list[Draws]:
    """Return the log-probabilities of the words of each item's support, not yet renormalized."""
    contexts = [item.context for item in items]
    pairs = zip(contexts, support_of(lm, items, rule, samples, seed, limits), strict=True)
    tokens = [dict(zip(words, word_tokens(lm, c, words), strict=True)) for c, words in pairs]
    scores = log_probs_of(lm, contexts, [set(filter(None, r.values())) for r in tokens], limits)
    return [
        Draws(item.id, {}, logprobs={word: found[row] for word, row in rows.items() if row})
        for item, rows, found in zip(items, tokens, scores, strict=True)
    ]


def support_of(
    lm: LanguageModel,
    items: Sequence[Item],
    rule: TextRule,
    samples: int,
    seed: int,
    limits: Limits | None = None,
) -> list[list[str]]:
    """Return the words of each item's support, in the case in which they were written."""
    prompts = [Prompt(item.id, item.context) for item in items]
    plan = [(Decoder(), samples), (Decoder(greedy=True), 1)]
    plan += [(Decoder(top_p=p), NUCLEUS_SAMPLES) for p in NUCLEI]
    supports = [dict.fromkeys((*item.responses, rule.cut(item.original or ""))) for item in items]
    for decoder, number in plan:
        how: dict[str, Any] = {"seed": seed, "decoder": decoder, "limits": limits, "rule": rule}
        for words, drawn in zip(supports, mc(lm, prompts, samples=number, **how), strict=True):
            words |= dict.fromkeys(drawn.counts)
    return [list(filter(None, words)) for words in supports]


def log_probs_of(
    lm: LanguageModel,
    contexts: Sequence[str],
    sequences: Sequence[Collection[Tokens]],
    limits: Limits | None = None,
) -> list[dict[Tokens, float]]:
    """Return the log-probability of each token sequence after its context."""

    def work(tree: Tree) -> Iterator[tuple[int, dict[Tokens, float]]]:
        following = _following(tree, sequences)
        scores: dict[Place, float] = {}
        nodes: dict[Place, int] = {}
        for indices, logits in tree.run_trunk():
            _read([(i, ()) for i in indices], logits, following, scores)
        for depth in range(1, max(len(tokens) for _, tokens in following) + 1):
            level = sorted(place for place in following if len(place[1]) == depth)
            spans = np.array([tree.spans()[i] for i, _ in level])
            parents = np.array([nodes.get((i, tokens[:-1]), -1) for i, tokens in level])
            tokens = np.array([tokens[-1] for _, tokens in level])
            for part, numbers, logits in tree.extend(spans, parents, tokens):
                nodes |= zip(level[part], numbers.tolist(), strict=True)
                _read(level[part], logits, following, scores)
        for i in tree.spans():
            yield i, {row: scores[i, row] for row in sequences[i]}

    return for_contexts(lm, contexts, work, limits)


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


def _read(
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
