"""First tokens in place of words, for people and models (the paper's App. D).

A token is written as its text and its number, such as `the #262`: a form that comparing words does
not change, and that tells tokens of the same letters apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from aleatoric.errors import UsageError, quoted
from aleatoric.models.base import text_key
from aleatoric.models.decoding import Decoder, widened
from aleatoric.nextword.bounds import TopWords, WordProbabilities
from aleatoric.nextword.head import Head
from aleatoric.nextword.packs import for_contexts
from aleatoric.nextword.rules import WordRule, normalise
from aleatoric.nextword.tree import Limits, Tree
from aleatoric.types import Categorical, Item

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
    *,
    decoder: Decoder | None = None,
    limits: Limits | None = None,
) -> list[tuple[WordProbabilities, Head]]:
    """Return the probabilities of people's first tokens and of the likeliest tokens per context."""
    chosen = decoder or Decoder()

    def work(tree: Tree) -> Iterator[tuple[int, tuple[WordProbabilities, Head]]]:
        for indices, logits in tree.run_trunk():
            for i, row in zip(indices, chosen.probs(widened(logits)), strict=True):
                yield i, _read(lm, row.double().cpu(), people[i].support)

    return for_contexts(lm, contexts, work, limits)


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
