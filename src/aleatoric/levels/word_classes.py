"""Classes of words by part of speech or by meaning, for TVD_syn and TVD_sem (§5, App. G).

On the few words of one context, the k-means here is about 20 times as fast as scikit-learn's, as it
computes all inner products only once.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric.data import files
from aleatoric.errors import DataError, MissingExtraError, UsageError, quoted
from aleatoric.levels.word_scoring import Abstraction, Answered, pair_of
from aleatoric.nextword.answers import human_counts
from aleatoric.probes import encoders
from aleatoric.probes.taggers import Tagger
from aleatoric.rng import stream
from aleatoric.types import FAILED, Choices, Floats, Item

Labels = NDArray[np.int64]
N_INIT = 20
MAX_ITER = 400
Embedder = Callable[[Sequence[str]], Mapping[str, Floats]]
"""Words -> vectors; a word without a vector is left out."""
UNKNOWN = "\0no vector"
"""The common class of words without a vector."""
LEAST_GAIN = 0.05
_NO_ARGUMENT = "the embedder {0} takes no argument; write --embedder {0}."
MOST_WORDS = 4000
"""Limit per context, because k-means needs time and memory quadratic in the words."""


def by_tag(tagger: Tagger) -> Abstraction:
    """Return classes by the universal part-of-speech tag in context, for TVD_syn."""

    def classes(item: Item, words: Sequence[str]) -> dict[str, str]:
        real = [word for word in words if word != FAILED]
        return _and_failed(dict(zip(real, tagger(item.context, real), strict=True)), words)

    return classes


def by_cluster(embedder: Embedder, seed: int) -> Abstraction:
    """Return classes by k-means clusters of standardized word vectors, for TVD_sem."""

    def classes(item: Item, words: Sequence[str]) -> dict[str, str]:
        real = [word for word in words if word != FAILED]
        vectors = embedder(real)
        # Sorted, because clusters must not depend on the order of the words.
        usable = sorted(word for word in real if word in vectors)
        if len(usable) > MOST_WORDS:
            raise UsageError(
                f"item {quoted(item.id)}: {len(usable):,} different words are too many to cluster "
                f"for tvd_sem, which takes {MOST_WORDS:,}; leave out --metric tvd_sem."
            )
        labels = cluster([vectors[word] for word in usable], stream(seed, "clusters", item.id))
        class_of = {word: f"cluster {label}" for word, label in zip(usable, labels, strict=True)}
        return _and_failed({word: class_of.get(word, UNKNOWN) for word in real}, words)

    return classes


def on_joint_support(
    abstraction: Abstraction, answered: Sequence[Answered], choices: Choices
) -> Abstraction:
    """Classify the words of people and of all systems together: clusters depend on all words."""
    answers = {item.id: (item, systems) for item, systems in answered}

    @cache
    def classes_of(item_id: str) -> Mapping[str, str]:
        item, systems = answers[item_id]
        support = dict.fromkeys(human_counts(item.responses))
        for rows in systems.values():
            for pair in pair_of(item, rows, choices):
                support |= dict.fromkeys(pair.model.support)
        return abstraction(item, list(support))

    return lambda item, words: classes_of(item.id)


def cluster(vectors: Sequence[Floats], rng: np.random.Generator) -> list[int]:
    """Cluster standardized vectors; up to two are not clustered, as in the paper."""
    if len(vectors) <= 2:
        return list(range(len(vectors)))
    points = np.array(vectors, dtype=np.float64)
    spread = points.std(axis=0)
    # Every dimension has mean 0 and standard deviation 1; a constant one is 0.
    scaled = gram((points - points.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
    clusterings = [kmeans(scaled, k, rng) for k in candidates(len(vectors))]
    labels: list[int] = chosen(clusterings).labels.tolist()
    return labels


def candidates(k_max: int) -> range:
    """Return the numbers of clusters to try for `k_max` > 2 words, as in App. G."""
    return range(2, k_max, max(1, k_max // 3))


def chosen(clusterings: Sequence[Clustering], least_gain: float = LEAST_GAIN) -> Clustering:
    """Select a clustering by SSE: the first whose successor lowers it by less than 5%, or the last.

    The rule is that of the paper's code, on squared errors as the paper describes them (the code
    sums plain distances). It mostly selects the largest k: clusters of one or two words.
    """
    for clustering, following in pairwise(clusterings):
        if clustering.sse - following.sse < least_gain * clustering.sse:
            return clustering
    return clusterings[-1]


def _and_failed(classes: dict[str, str], words: Sequence[str]) -> dict[str, str]:
    """Add a class for failed draws if they are kept as an outcome."""
    return classes | {FAILED: FAILED} if FAILED in words else classes


class Clustering(NamedTuple):
    """The cluster of each point, and the sum of squared distances to the cluster means."""

    labels: Labels
    sse: float


class Gram(NamedTuple):
    """Inner products of points, their squared norms and their squared distances."""

    products: Floats
    squares: Floats
    distances: Floats


def gram(vectors: Floats) -> Gram:
    """Return the Gram matrix of centered row vectors, and the distances that follow from it."""
    # Centering keeps the distances and reduces rounding errors.
    centered = vectors - vectors.mean(axis=0)
    products = centered @ centered.T
    squares = np.diag(products).copy()
    return Gram(products, squares, np.maximum(squares[:, None] + squares - 2 * products, 0.0))


def kmeans(points: Gram, k: int, rng: np.random.Generator, n_init: int = N_INIT) -> Clustering:
    """Return the best of `n_init` restarts of k-means."""
    centers = _seeds(points, k, rng, n_init)
    # Each point to its nearest seed, for every restart.
    starts = points.distances[:, centers].argmin(axis=2).T
    return min((_converged(points, labels) for labels in starts), key=lambda result: result.sse)


def _converged(points: Gram, labels: Labels) -> Clustering:
    """Assign points to their nearest mean until none moves."""
    for _ in range(MAX_ITER):
        labels, moved, sse = _step(points, labels)
        if (moved == labels).all():
            break
        labels = moved
    return Clustering(labels, sse)


def _step(points: Gram, labels: Labels) -> tuple[Labels, Labels, float]:
    """Return labels without empty clusters, those of the nearest means, and the SSE before."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    sizes = np.diff(starts, append=len(labels))
    # Sums over the members of each cluster, which are adjacent in this order.
    to_means = np.add.reduceat(points.products[order], starts, axis=0) / sizes[:, None]
    place = np.repeat(np.arange(len(sizes)), sizes)
    norms = np.add.reduceat(to_means[place, order], starts) / sizes
    compact = np.empty_like(labels)
    compact[order] = place
    moved = (norms[:, None] - 2 * to_means).argmin(axis=0)
    return compact, moved, float(points.squares.sum() - norms @ sizes)


def _seeds(points: Gram, k: int, rng: np.random.Generator, n_init: int) -> Labels:
    """Choose seeds by greedy k-means++: the best of a few candidates drawn by squared distance."""
    n, trials = len(points.squares), 2 + int(np.log(k))
    chosen = np.empty((n_init, k), dtype=np.int64)
    chosen[:, 0] = rng.integers(n, size=n_init)
    nearest = points.distances[chosen[:, 0]]
    rows = np.arange(n_init)
    for c in range(1, k):
        candidates = _drawn(nearest, trials, rng)
        after = np.minimum(points.distances[candidates], nearest[:, None, :])
        best = after.sum(axis=2).argmin(axis=1)
        chosen[:, c], nearest = candidates[rows, best], after[rows, best]
    return chosen


def _drawn(weights: Floats, trials: int, rng: np.random.Generator) -> Labels:
    """Draw indices with probability proportional to the weights of each row."""
    cumulative = weights.cumsum(axis=1)
    at = rng.random((len(weights), trials)) * cumulative[:, -1:]
    below = (cumulative[:, None, :] <= at[:, :, None]).sum(axis=2)
    # If all weights are 0, every point is a seed already: any index will do.
    drawn: Labels = np.minimum(below, weights.shape[1] - 1)
    return drawn


WordVectors = dict[str, NDArray[np.float32]]


def read_vectors(path: Path) -> WordVectors:
    """Read a word2vec or GloVe file; of repeated words the first is used."""
    if not os.path.isfile(path):
        raise DataError.at(path, None, "is not a file", "give a word2vec or GloVe file")
    try:
        with files.open_binary(path) as file:
            table = _read_binary(file, path) if ".bin" in path.suffixes else _read_text(path)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError.at(path, None, f"cannot be read ({error})", "get the file again") from None
    if not table:
        raise DataError.at(path, None, "holds no vector", "give a word2vec or GloVe file")
    return table


def _read_text(path: Path) -> WordVectors:
    """Read one word and its numbers per line, skipping word2vec's header of count and size."""
    table: WordVectors = {}
    size: int | None = None
    for (_, line), text in files.read_lines(path):
        parts = text.rstrip("\r\n ").split(" ")
        if line == 1 and len(parts) == 2 and all(p.isdecimal() and len(p) < 12 for p in parts):
            size = int(parts[1])
            continue
        if parts == [""]:
            continue
        size = size or len(parts) - 1
        # GloVe's largest files have words with spaces: the vector is at the end of the line.
        word = " ".join(parts[:-size])
        if not word or len(parts) <= size:
            problem = f"has {len(parts) - 1} numbers after its word, not {size}"
            raise DataError.at(path, line, problem, "give every word the same number of them")
        table.setdefault(word, _numbers(parts[-size:], path, line))
    return table


def _numbers(parts: list[str], path: Path, line: int) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # an overflow is infinite, and refused below
            vector = np.array(parts, dtype=np.float32)
    except ValueError:
        bad = next(part for part in parts if not _is_number(part))
        problem = f"{quoted(bad, 40)} is not a number"
        raise DataError.at(path, line, problem, "write one word and its numbers per line") from None
    if not len(vector) or not np.isfinite(vector).all():
        raise DataError.at(path, line, "holds no finite vector", "leave such a word out")
    return vector


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False


def _read_binary(file: IO[bytes], path: Path) -> WordVectors:
    """Read word2vec's binary format: a line with count and size, then word, space, float32s."""
    header = file.readline(100).split()
    if len(header) != 2 or not all(part.isdigit() for part in header):
        fix = "give word2vec's binary form, or name a text file .txt"
        raise DataError.at(path, 1, "does not begin with a count and a size", fix)
    count, size = (int(part) for part in header)
    if not 0 < size <= 100_000:
        raise DataError.at(path, 1, f"a vector of {size} numbers is not usable", "check the file")
    table: WordVectors = {}
    for number in range(1, count + 1):
        word = _binary_word(file)
        raw = file.read(4 * size)
        if word is None or len(raw) < 4 * size:
            problem = f"ends within vector {number} of {count}"
            raise DataError.at(path, None, problem, "get the whole file")
        vector = np.frombuffer(raw, dtype="<f4")
        if np.isfinite(vector).all():
            table[word] = vector
    return table


def _binary_word(file: IO[bytes]) -> str | None:
    """Read up to a space, without a leading newline; `None` at the end of the file."""
    letters = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte or len(letters) > 10_000:
            return None
        letters += byte
    return letters.decode("utf-8", errors="replace").lstrip("\n")


class CachedEmbedder:
    """Encoder of words with a cache."""

    def __init__(self, encode: Callable[[list[str]], NDArray[Any]]) -> None:
        self._encode = encode
        # float32 halves the memory of a large run.
        self._cache: dict[str, NDArray[np.float32]] = {}

    def __call__(self, words: Sequence[str]) -> Mapping[str, Floats]:
        """Return the vector of every word."""
        new = [word for word in dict.fromkeys(words) if word not in self._cache]
        if new:
            self._cache |= zip(new, np.asarray(self._encode(new), dtype=np.float32), strict=True)
        return {word: self._cache[word].astype(np.float64) for word in words}


def minilm(argument: str = "") -> Embedder:
    """Open the sentence encoder all-MiniLM-L6-v2, from the extra `nlp`."""
    if argument:
        raise UsageError(_NO_ARGUMENT.format("minilm"))
    return CachedEmbedder(encoders.minilm().encode)


def wordllama(argument: str = "") -> Embedder:
    """Open WordLlama's static vectors (256 dimensions), from the extra `nlp`; works offline."""
    if argument:
        raise UsageError(_NO_ARGUMENT.format("wordllama"))
    try:
        import wordllama as package
    except ModuleNotFoundError:
        raise MissingExtraError("wordllama", "nlp") from None
    files = Path(package.__file__).parent / "tokenizers"
    with tempfile.TemporaryDirectory() as folder:
        # Like its download cache, where WordLlama's loader finds the tokenizer.
        shutil.copytree(files, Path(folder) / "tokenizers")
        model = package.WordLlama.load(cache_dir=Path(folder), disable_download=True)
    return CachedEmbedder(model.embed)


def vectors(argument: str = "") -> Embedder:
    """Open the vectors of a word2vec or GloVe file: `vectors:FILE`, text or .bin, maybe gzip."""
    if not argument:
        raise UsageError("vectors needs a file; write --embedder vectors:FILE.")
    table = read_vectors(Path(argument))

    def embed(words: Sequence[str]) -> Mapping[str, Floats]:
        # Answers are case-folded, but a file may have a word only with a capital.
        # The last form counts.
        both = ((word, form) for word in words for form in (word.upper(), word.capitalize(), word))
        return {word: table[form].astype(np.float64) for word, form in both if form in table}

    return embed
