"""k-means on few points of many dimensions.

A context has a few hundred words with vectors of a few hundred dimensions, and up to two thirds as
many clusters as words: a library's k-means spends seconds a context there. Everything k-means needs
is in the matrix of inner products: distances to a chosen point are its rows, distances to a mean
are averages over them, and no step touches the vectors again. Seeding is greedy k-means++, for all
restarts at once, and the best restart is taken, as in scikit-learn, against which it is tested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Floats

Labels = NDArray[np.int64]
N_INIT = 20
MAX_ITER = 400


@dataclass(frozen=True)
class Clustering:
    """The cluster of each point, and the sum of squared distances to the cluster means."""

    labels: Labels
    sse: float


@dataclass(frozen=True)
class Points:
    """Points by their inner products alone."""

    products: Floats
    squares: Floats
    """Squared norms."""
    distances: Floats
    """Squared distances."""

    @classmethod
    def of(cls, vectors: Floats) -> Points:
        """Inner products of vectors, a row each.

        >>> Points.of(np.array([[0.0], [3.0]])).distances.tolist()
        [[0.0, 9.0], [9.0, 0.0]]
        """
        # Centred first: the distances are the same, the rounding errors smaller.
        centred = vectors - vectors.mean(axis=0)
        products = centred @ centred.T
        squares = np.diag(products).copy()
        distances = np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0)
        return cls(products, squares, distances)


def kmeans(points: Points, k: int, rng: np.random.Generator, n_init: int = N_INIT) -> Clustering:
    """The best of `n_init` restarts of k-means.

    >>> points = Points.of(np.array([[0.0], [0.1], [5.0], [5.1]]))
    >>> found = kmeans(points, 2, np.random.default_rng(0))
    >>> bool(found.labels[0] == found.labels[1] != found.labels[2]), round(found.sse, 3)
    (True, 0.01)
    """
    centres = _seeds(points, k, rng, n_init)
    # Each point to its nearest seed, for every restart.
    starts = points.distances[:, centres].argmin(axis=2).T
    return min((_settled(points, labels) for labels in starts), key=lambda one: one.sse)


def _settled(points: Points, labels: Labels) -> Clustering:
    """Points move to their nearest mean until none does."""
    for _ in range(MAX_ITER):
        labels, moved, sse = _step(points, labels)
        if (moved == labels).all():
            break
        labels = moved
    return Clustering(labels, sse)


def _step(points: Points, labels: Labels) -> tuple[Labels, Labels, float]:
    """Labels counted from 0 without gaps, those of the nearest means, and the SSE before the move.

    A cluster that ran empty is gone: it only makes its restart worse.
    """
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    sizes = np.diff(starts, append=len(labels))
    # Sums over the members of each cluster, by points that stand side by side.
    to_means = np.add.reduceat(points.products[order], starts, axis=0) / sizes[:, None]
    place = np.repeat(np.arange(len(sizes)), sizes)
    norms = np.add.reduceat(to_means[place, order], starts) / sizes
    compact = np.empty_like(labels)
    compact[order] = place
    moved = (norms[:, None] - 2 * to_means).argmin(axis=0)
    return compact, moved, float(points.squares.sum() - norms @ sizes)


def _seeds(points: Points, k: int, rng: np.random.Generator, n_init: int) -> Labels:
    """Greedy k-means++: of a few candidates drawn by squared distance, the one that helps most."""
    n, trials = len(points.squares), 2 + int(np.log(k))
    chosen = np.empty((n_init, k), dtype=np.int64)
    chosen[:, 0] = rng.integers(n, size=n_init)
    nearest = points.distances[chosen[:, 0]]
    for c in range(1, k):
        candidates = _drawn(nearest, trials, rng)
        after = np.minimum(points.distances[candidates], nearest[:, None, :])
        best = after.sum(axis=2).argmin(axis=1)
        rows = np.arange(n_init)
        chosen[:, c], nearest = candidates[rows, best], after[rows, best]
    return chosen


def _drawn(weights: Floats, trials: int, rng: np.random.Generator) -> Labels:
    """Indices drawn with probability proportional to the weights of each row."""
    cumulative = weights.cumsum(axis=1)
    at = rng.random((len(weights), trials)) * cumulative[:, -1:]
    below = (cumulative[:, None, :] <= at[:, :, None]).sum(axis=2)
    # All weights 0: every point is a seed already, and any will do.
    drawn: Labels = np.minimum(below, weights.shape[1] - 1)
    return drawn
