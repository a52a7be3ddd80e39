"""TVD beyond exact words: classes of words by part of speech or by meaning (§5, App. G)."""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.data import files
from aleatoric.errors import DataError, MissingExtraError, UsageError, quoted
from aleatoric.levels.word_scoring import Abstraction, Answered, pair_of
from aleatoric.nextword.answers import human_counts
from aleatoric.probes import encoders
from aleatoric.probes.taggers import Tagger
from aleatoric.rng import stream
from aleatoric.types import FAILED, Choices, Draws, Floats, Item

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


Table = dict[str, NDArray[np.float32]]


def read_vectors(path: Path) -> Table:
    """Every word of a file with its vector; of a word given twice the first counts."""
    if not os.path.isfile(path):
        raise DataError.at(path, None, "is no file", "give a word2vec or GloVe file")
    try:
        with files.open_binary(path) as file:
            table = _read_binary(file, path) if _is_binary(path) else _read_text(path)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError.at(path, None, f"cannot be read ({error})", "get the file again") from None
    if not table:
        raise DataError.at(path, None, "holds no vector", "give a word2vec or GloVe file")
    return table


def _is_binary(path: Path) -> bool:
    return ".bin" in path.suffixes


def _read_text(path: Path) -> Table:
    """A word and its numbers a line; word2vec's first line, a count and a size, is skipped."""
    table: Table = {}
    size: int | None = None
    for (_, line), text in files.read_lines(path):
        parts = text.rstrip("\r\n ").split(" ")
        if line == 1 and len(parts) == 2 and all(_is_count(part) for part in parts):
            size = int(parts[1])
            continue
        if parts == [""]:
            continue
        size = size or len(parts) - 1
        # GloVe's largest files have words with spaces in them: the vector is what ends the line.
        word = " ".join(parts[:-size])
        if not word or len(parts) <= size:
            found = f"has {len(parts) - 1} numbers after its word, not {size}"
            raise DataError.at(path, line, found, "give every word the same number of them")
        table.setdefault(word, _numbers(parts[-size:], path, line))
    return table


def _numbers(parts: list[str], path: Path, line: int) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # what overflows is infinite, and refused below
            vector = np.array(parts, dtype=np.float32)
    except ValueError:
        bad = next(part for part in parts if not _is_number(part))
        problem = f"{quoted(bad, 40)} is no number"
        raise DataError.at(path, line, problem, "write a word and its numbers a line") from None
    if not len(vector) or not np.isfinite(vector).all():
        raise DataError.at(path, line, "holds no finite vector", "leave such a word out")
    return vector


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) < 12


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_binary(file: IO[bytes], path: Path) -> Table:
    """word2vec's binary form: a line with count and size, then word, space, float32s."""
    header = file.readline(100).split()
    if len(header) != 2 or not all(part.isdigit() for part in header):
        fix = "give word2vec's binary form, or name a text file .txt"
        raise DataError.at(path, 1, "does not begin with a count and a size", fix)
    count, size = (int(part) for part in header)
    if not 0 < size <= 100_000:
        raise DataError.at(path, 1, f"a vector of {size} numbers is not usable", "check the file")
    return dict(_binary_entries(file, path, count, size))


def _binary_entries(
    file: IO[bytes], path: Path, count: int, size: int
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for number in range(1, count + 1):
        word = _binary_word(file)
        raw = file.read(4 * size)
        if word is None or len(raw) < 4 * size:
            problem = f"ends within vector {number} of {count}"
            raise DataError.at(path, None, problem, "get the whole file")
        vector = np.frombuffer(raw, dtype="<f4")
        if np.isfinite(vector).all():
            yield word, vector


def _binary_word(file: IO[bytes]) -> str | None:
    """The bytes up to a space; `None` at the end of the file. A newline may lead."""
    letters = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte or len(letters) > 10_000:
            return None
        letters += byte
    return letters.decode("utf-8", errors="replace").lstrip("\n")


class Remembering:
    """An encoder that works out each word once.

    >>> embedder = Remembering(lambda words: np.array([[float(len(w))] for w in words]))
    >>> {word: v.tolist() for word, v in embedder(["a", "bcd"]).items()}
    {'a': [1.0], 'bcd': [3.0]}
    """

    def __init__(self, encode: Callable[[list[str]], NDArray[Any]]) -> None:
        self._encode = encode
        # float32 halves what a large run remembers.
        self._known: dict[str, NDArray[np.float32]] = {}

    def __call__(self, words: Sequence[str]) -> Mapping[str, Floats]:
        """A vector for every word."""
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        if new:
            vectors = np.asarray(self._encode(new), dtype=np.float32)
            self._known |= zip(new, vectors, strict=True)
        return {word: self._known[word].astype(np.float64) for word in words}


def minilm(argument: str = "") -> Embedder:
    """The sentence encoder all-MiniLM-L6-v2 on single words; ships with the extra `nlp`."""
    _no_argument("minilm", argument)
    return Remembering(encoders.minilm().encode)


def wordllama(argument: str = "") -> Embedder:
    """WordLlama's static vectors (256 dimensions); ships with the extra `nlp`, loads offline."""
    _no_argument("wordllama", argument)
    try:
        import wordllama as package
    except ModuleNotFoundError:
        raise MissingExtraError("wordllama", "nlp") from None
    with _wordllama_cache(Path(package.__file__).parent) as cache:
        model = package.WordLlama.load(cache_dir=cache, disable_download=True)
    return Remembering(model.embed)


def vectors(argument: str = "") -> Embedder:
    """Vectors of a word2vec or GloVe file: `vectors:FILE`, text or .bin, plain or gzip."""
    if not argument:
        raise UsageError("vectors needs a file; write --embedder vectors:FILE.")
    table = read_vectors(Path(argument))
    return lambda words: _looked_up(table, words)


def _looked_up(
    table: Mapping[str, NDArray[np.float32]], words: Sequence[str]
) -> Mapping[str, Floats]:
    """Answers are case-folded, and a file may know a word only with a capital."""
    found: dict[str, Floats] = {}
    for word in words:
        variants = (word, word.capitalize(), word.upper())
        vector = next((table[v] for v in variants if v in table), None)
        if vector is not None:
            found[word] = vector.astype(np.float64)
    return found


def _no_argument(name: str, argument: str) -> None:
    if argument:
        raise UsageError(f"the embedder {name} takes no argument; write --embedder {name}.")


@contextmanager
def _wordllama_cache(package: Path) -> Iterator[Path]:
    """A folder laid out as WordLlama's download cache, from the files of its own package.

    Its loader looks for the tokenizer only there, though the package ships it.
    """
    with tempfile.TemporaryDirectory() as folder:
        tokenizers = Path(folder) / "tokenizers"
        tokenizers.mkdir()
        for file in (package / "tokenizers").glob("*.json"):
            shutil.copy(file, tokenizers)
        yield Path(folder)
