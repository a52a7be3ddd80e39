"""Word vectors for TVD_sem: words in, vectors out; a word without a vector is left out."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.analyses.abstraction import Embedder
from aleatoric.analyses.vectors import read_vectors
from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.nlp import encoders
from aleatoric.types import Floats


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
