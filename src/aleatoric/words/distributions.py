"""Human and model next-word distributions, from answers and from draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from aleatoric.types import FAILED, Categorical, Draws
from aleatoric.words.rules import WordRule, normalise


def human_counts(responses: Iterable[str]) -> dict[str, int]:
    """How many people gave each word, words compared by their normal form.

    >>> human_counts(["Are", "is", "are"])
    {'are': 2, 'is': 1}
    """
    counts: dict[str, int] = {}
    for response in responses:
        word = normalise(response)
        counts[word] = counts.get(word, 0) + 1
    return counts


def normalised_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts with the case variants of a word added up.

    >>> normalised_counts({"The": 1, "the": 2})
    {'the': 3}
    """
    # A model's thousand words are mostly ASCII: whole lists are folded at once where they are.
    text = "".join(counts)
    if text.isascii() and text == text.lower():
        return dict(counts)
    words = list(map(str.lower if text.isascii() else normalise, counts))
    if len(set(words)) == len(words):
        return dict(zip(words, counts.values(), strict=True))
    merged: dict[str, int] = {}
    for word, count in zip(words, counts.values(), strict=True):
        merged[word] = merged.get(word, 0) + count
    return merged


def model_distribution(draws: Draws, keep_failed: bool) -> Categorical | None:
    """The model's distribution over normal forms; `None` where no draw held a word.

    >>> model_distribution(Draws("1:2", {"The": 1, "the": 2}, failed=1), keep_failed=False)
    Categorical(support=('the',), probs=(1.0,), rest=0.0, n=3)
    """
    if draws.exact is not None:
        return draws.exact.words
    if draws.logprobs is not None:
        return renormalised(draws.logprobs)
    counts = normalised_counts(draws.counts)
    if keep_failed and draws.failed:
        counts[FAILED] = draws.failed
    return Categorical.from_counts(counts) if counts else None


def renormalised(logprobs: Mapping[str, float]) -> Categorical | None:
    """The biased estimator of the paper's App. A: softmax of log-probabilities over a support.

    Case variants of a word add up. Exact in the sense that no sampling noise is left, biased in
    that all mass outside the support is spread over it.

    >>> renormalised({"a": math.log(0.25), "A": math.log(0.25), "b": math.log(0.5)}).probs
    (0.5, 0.5)
    """
    if not logprobs:
        return None
    top = max(logprobs.values())
    weights: dict[str, float] = {}
    for word, logprob in logprobs.items():
        key = normalise(word)
        weights[key] = weights.get(key, 0.0) + math.exp(logprob - top)
    total = math.fsum(weights.values())
    return Categorical(tuple(weights), tuple(w / total for w in weights.values()))


def cut(draws: Draws, rule: WordRule) -> Draws:
    """Draws whose raw texts are cut to their first words; a text without a word has failed.

    >>> from aleatoric.words.rules import first_word
    >>> done = cut(Draws("1:2", {}, texts=(" a dog", "A cat", "...")), first_word)
    >>> done.counts, done.failed
    ({'a': 1, 'A': 1}, 1)
    """
    if not draws.texts:
        return draws
    counts, failed = dict(draws.counts), draws.failed
    for text in draws.texts:
        word = rule(text)
        if word is None:
            failed += 1
        else:
            counts[word] = counts.get(word, 0) + 1
    return replace(draws, counts=counts, failed=failed, texts=())


def pool(rows: Sequence[Draws]) -> Draws:
    """Several rows of one item as further samples of it: counts and failures add up.

    >>> pool([Draws("1:2", {"a": 1}), Draws("1:2", {"a": 2}, failed=1, row=1)]).counts
    {'a': 3}
    """
    first, *others = rows
    if not others or first.logprobs is not None:
        return first
    counts = dict(first.counts)
    for row in others:
        for word, count in row.counts.items():
            counts[word] = counts.get(word, 0) + count
    return replace(first, counts=counts, failed=sum(row.failed for row in rows))


def regroup(distribution: Categorical, classes: Mapping[str, str]) -> Categorical:
    """The distribution over classes of outcomes, such as parts of speech.

    >>> regroup(Categorical(("a", "b"), (0.25, 0.75)), {"a": "X", "b": "X"}).as_dict()
    {'X': 1.0}
    """
    mass: dict[str, float] = {}
    for word, probability in distribution.as_dict().items():
        name = classes[word]
        mass[name] = mass.get(name, 0.0) + probability
    return replace(distribution, support=tuple(mass), probs=tuple(mass.values()))
