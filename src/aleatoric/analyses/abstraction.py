"""TVD beyond exact words: classes of words by part of speech or by meaning (§5, App. G)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from aleatoric.analyses.kmeans import Clustering, Points, kmeans
from aleatoric.errors import UsageError
from aleatoric.nlp.taggers import Tagger
from aleatoric.showing import quoted
from aleatoric.streams import stream
from aleatoric.types import FAILED, Choices, Draws, Floats, Item
from aleatoric.words.distributions import human_counts
from aleatoric.words.scoring import Abstraction, Answered, pair_of

Embedder = Callable[[Sequence[str]], Mapping[str, Floats]]
"""Words -> vectors; a word without a vector is left out."""

UNKNOWN = "\0no vector"
"""The one class of all words without a vector."""

LEAST_GAIN = 0.05
MOST_WORDS = 4000
"""k-means holds all distances between the words of a context: time and memory grow with their
square."""


def by_tag(tagger: Tagger) -> Abstraction:
    """Classes by the universal tag of the word, tagged in its context: TVD_syn.

    >>> classes = by_tag(lambda context, words: ["NOUN" for _ in words])
    >>> classes(Item("1:2", "1", "the", ("dog",)), ["dog", "cat"])
    {'dog': 'NOUN', 'cat': 'NOUN'}
    """

    def classes(item: Item, words: Sequence[str]) -> dict[str, str]:
        real = [word for word in words if word != FAILED]
        return _and_failed(dict(zip(real, tagger(item.context, real), strict=True)), words)

    return classes


def by_cluster(embedder: Embedder, seed: int) -> Abstraction:
    """Classes by k-means clusters of the words' standardised vectors: TVD_sem.

    >>> vectors = {"dog": np.array([1.0, 0.9]), "cat": np.array([0.9, 1.0])}
    >>> vectors["run"] = np.array([-1.0, -1.0])
    >>> classes = by_cluster(lambda words: {w: vectors[w] for w in words if w in vectors}, seed=0)
    >>> found = classes(Item("1:2", "1", "the", ("dog",)), ["dog", "cat", "run", "xyz"])
    >>> found["dog"] == found["cat"], found["dog"] == found["run"], found["xyz"] == UNKNOWN
    (True, False, True)
    """

    def classes(item: Item, words: Sequence[str]) -> dict[str, str]:
        real = [word for word in words if word != FAILED]
        vectors = embedder(real)
        # In the order of the alphabet: the same words form the same clusters in whatever order.
        known = sorted(word for word in real if word in vectors)
        if len(known) > MOST_WORDS:
            raise UsageError(
                f"item {quoted(item.id)}: {len(known):,} different words are too many to cluster "
                f"for tvd_sem, which takes {MOST_WORDS:,}; leave out --metric tvd_sem."
            )
        labels = cluster([vectors[word] for word in known], stream(seed, "clusters", item.id))
        named = {word: f"cluster {label}" for word, label in zip(known, labels, strict=True)}
        return _and_failed({word: named.get(word, UNKNOWN) for word in real}, words)

    return classes


def on_joint_support(
    abstraction: Abstraction, answered: Sequence[Answered], choices: Choices
) -> Abstraction:
    """Classes of all words of an item at once: those of its people and of every system.

    Clusters depend on the words that are clustered together. With the joint support every system
    and the oracle are compared on the same clusters.

    >>> from aleatoric.types import Draws
    >>> together = lambda item, words: {word: " ".join(sorted(words)) for word in words}
    >>> item = Item("1:2", "1", "the", ("dog", "cat"))
    >>> answered = [(item, {"a": [Draws("1:2", {"Cow": 1})], "b": [Draws("1:2", {"emu": 1})]})]
    >>> on_joint_support(together, answered, Choices())(item, ["dog"])
    {'dog': 'cat cow dog emu', 'cat': 'cat cow dog emu', 'cow': 'cat cow dog emu', \
'emu': 'cat cow dog emu'}
    """
    systems_of = {item.id: systems for item, systems in answered}
    known: dict[str, Mapping[str, str]] = {}

    def classes(item: Item, words: Sequence[str]) -> Mapping[str, str]:
        if item.id not in known:
            known[item.id] = abstraction(item, _joint_support(item, systems_of[item.id], choices))
        return known[item.id]

    return classes


def _joint_support(
    item: Item, systems: Mapping[str, Sequence[Draws]], choices: Choices
) -> list[str]:
    """People's words, then those of every system, each once."""
    pairs = [pair for rows in systems.values() for pair in pair_of(item, rows, choices)]
    words = [*human_counts(item.responses), *(w for pair in pairs for w in pair.model.support)]
    return list(dict.fromkeys(words))


def cluster(vectors: Sequence[Floats], rng: np.random.Generator) -> list[int]:
    """The clusters of vectors after standardisation, as many as `chosen` says.

    With one or two vectors each is a cluster of its own, as in the paper.

    >>> cluster([np.array([0.0, 1.0]), np.array([1.0, 0.0])], np.random.default_rng(0))
    [0, 1]
    """
    if len(vectors) <= 2:
        return list(range(len(vectors)))
    points = Points.of(standardised(np.array(vectors, dtype=np.float64)))
    found = [kmeans(points, k, rng) for k in candidates(len(vectors))]
    return [int(label) for label in chosen(found).labels]


def candidates(k_max: int) -> range:
    """The numbers of clusters tried for `k_max` > 2 words: App. G's range(2, k_max, k_max // 3).

    >>> list(candidates(3)), list(candidates(7)), list(candidates(300))
    ([2], [2, 4, 6], [2, 102, 202])
    """
    return range(2, k_max, max(1, k_max // 3))


def chosen(found: Sequence[Clustering], least_gain: float = LEAST_GAIN) -> Clustering:
    """The selection "by SSE": the first k whose successor lowers it by less than 5%, else the last.

    The paper does not print its rule; this is the one of its published code, on squared errors
    as the paper describes them (the code sums plain distances). With three widely spaced
    candidates it mostly takes the largest: clusters of one or two words.

    >>> a, b, c = (Clustering(np.array([i]), sse) for i, sse in enumerate((10.0, 6.0, 5.9)))
    >>> chosen([a, b, c]) is b, chosen([a, b]) is b
    (True, True)
    """
    for one, following in pairwise(found):
        if one.sse - following.sse < least_gain * one.sse:
            return one
    return found[-1]


def standardised(vectors: Floats) -> Floats:
    """Every dimension with mean 0 and standard deviation 1; one that never varies stays 0.

    >>> standardised(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    spread = vectors.std(axis=0)
    scaled: Floats = (vectors - vectors.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scaled


def _and_failed(classes: dict[str, str], words: Sequence[str]) -> dict[str, str]:
    """A failed draw, where kept as an outcome, is in no class of words but its own."""
    return classes | {FAILED: FAILED} if FAILED in words else classes
