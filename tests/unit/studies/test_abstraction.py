"""Word classes: tags, clusters, and the k-means implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from aleatoric.levels.word_classes import (
    UNKNOWN,
    Clustering,
    by_cluster,
    by_tag,
    candidates,
    chosen,
    cluster,
    gram,
    kmeans,
)
from aleatoric.types import FAILED, Item

ITEM = Item("1:2", "1", "They saw the", ("dog",))


def random_vectors(words: Sequence[str]) -> Mapping[str, NDArray[np.float64]]:
    return {word: np.random.default_rng(len(word)).normal(size=5) for word in words}


@pytest.mark.parametrize(("n", "k"), [(30, 2), (60, 12), (60, 40), (12, 11)])
def test_k_means_is_as_good_as_scikit_learn(n: int, k: int) -> None:
    vectors = np.random.default_rng(n + k).normal(size=(n, 20))
    found = kmeans(gram(vectors), k, np.random.default_rng(0))
    theirs = KMeans(k, n_init=20, max_iter=400, random_state=0).fit(vectors)
    assert found.sse <= 1.02 * theirs.inertia_
    assert len(set(found.labels.tolist())) == k
    means = np.array([vectors[found.labels == label].mean(axis=0) for label in range(k)])
    assert found.sse == pytest.approx(((vectors - means[found.labels]) ** 2).sum())


def test_k_means_finds_known_clusters() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 10)
    vectors = 20 * np.eye(4)[truth] + rng.normal(size=(40, 4))
    found = kmeans(gram(vectors), 4, rng).labels
    assert len(set(zip(truth.tolist(), found.tolist(), strict=True))) == 4


def test_k_means_handles_identical_points() -> None:
    found = kmeans(gram(np.ones((6, 3))), 3, np.random.default_rng(0))
    assert found.sse == pytest.approx(0.0)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8])
def test_clustering_of_few_words(n: int) -> None:
    vectors = list(np.random.default_rng(n).normal(size=(n, 4)))
    labels = cluster(vectors, np.random.default_rng(0))
    assert len(labels) == n
    if n <= 2:
        assert len(set(labels)) == n


def test_candidate_numbers_of_clusters_match_paper() -> None:
    for k_max in range(3, 50):
        assert list(candidates(k_max)) == list(range(2, k_max, k_max // 3))


def test_selection_stops_where_sse_stops_decreasing() -> None:
    def of(*errors: float) -> list[Clustering]:
        return [Clustering(np.array([i]), sse) for i, sse in enumerate(errors)]

    assert chosen(of(10.0, 9.6, 1.0)).labels[0] == 0
    assert chosen(of(10.0, 9.0, 8.0)).labels[0] == 2
    assert chosen(of(10.0)).labels[0] == 0
    assert chosen(of(0.0, 0.0)).labels[0] == 1


def test_words_without_a_vector_share_a_class() -> None:
    known = random_vectors(["a", "bb", "ccc", "dddd"])
    classes = by_cluster(lambda words: {w: known[w] for w in words if w in known}, seed=0)
    found = classes(ITEM, ["a", "x", "bb", "y", "ccc", FAILED])
    assert found["x"] == found["y"] == UNKNOWN
    assert found[FAILED] == FAILED
    assert UNKNOWN not in {found["a"], found["bb"], found["ccc"]}


def test_clusters_do_not_depend_on_the_order_of_words() -> None:
    classes = by_cluster(random_vectors, seed=0)
    words = [letter * n for n, letter in enumerate("abcdefgh", 1)]
    assert classes(ITEM, words) == classes(ITEM, words[::-1])


def test_words_are_tagged_in_context() -> None:
    asked = []

    def tagger(context: str, words: Sequence[str]) -> list[str]:
        asked.append((context, list(words)))
        return ["NOUN"] * len(words)

    assert by_tag(tagger)(ITEM, ["dog", FAILED]) == {"dog": "NOUN", FAILED: FAILED}
    assert asked == [("They saw the", ["dog"])]
