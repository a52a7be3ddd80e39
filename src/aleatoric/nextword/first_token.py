"""Human and model distributions of the first token of the next word (the paper's App. D)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from aleatoric.models.decoding import Decoder, widened
from aleatoric.nextword.packs import for_contexts
from aleatoric.nextword.tree import Limits, Tree
from aleatoric.types import Categorical

if TYPE_CHECKING:
    from aleatoric.models.plain import LanguageModel


def word_tokens(lm: LanguageModel, context: str, word: str) -> tuple[int, ...]:
    """Tokenize a word as it follows a context and a space."""
    before, after = lm.encode(context), lm.encode(f"{context} {word}")
    if after[: len(before)] == before:
        return after[len(before) :]
    return lm.continuation(f" {word}")


def first_token(
    lm: LanguageModel,
    contexts: Sequence[str],
    human: Sequence[Mapping[str, float]],
    *,
    decoder: Decoder | None = None,
    limits: Limits | None = None,
) -> list[tuple[Categorical, Categorical]]:
    """Return the human and the model distribution of the first token per context.

    Answers that share a first token add up. Outcomes are token ids, as text.
    """
    chosen = decoder or Decoder()
    answers: list[dict[int, float]] = []
    for context, words in zip(contexts, human, strict=True):
        shares: dict[int, float] = defaultdict(float)
        for word, share in words.items():
            shares[word_tokens(lm, context, word)[0]] += share
        answers.append(shares)

    def work(tree: Tree) -> Iterator[tuple[int, tuple[Categorical, Categorical]]]:
        for indices, logits in tree.run_trunk():
            for i, row in zip(indices, chosen.log_probs(widened(logits)), strict=True):
                support = tuple(map(str, answers[i]))
                scores = row[list(answers[i])].double().cpu().numpy()
                probs = tuple(np.exp(scores).tolist())
                people = Categorical(support, tuple(answers[i].values()), 0.0, None)
                yield i, (people, Categorical(support, probs, max(0.0, 1.0 - sum(probs)), None))

    return for_contexts(lm, contexts, work, limits)
