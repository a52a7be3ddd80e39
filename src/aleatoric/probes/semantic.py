"""Distances between sentence embeddings: 1 minus their cosine, and their Euclidean distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.probes.base import Block, NegativeType
from aleatoric.probes.encoders import SentenceEncoder, VectorCache, embedded
from aleatoric.probes.tools import Tools
from aleatoric.types import Floats


@dataclass(frozen=True)
class Embedding:
    """A distance between the embeddings of two texts; undefined for texts of white space only."""

    encoder: SentenceEncoder
    cache: VectorCache | None
    facts: Mapping[str, str]
    name: str

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """Distances per block; each distinct text of all blocks is embedded once."""
        texts = list(dict.fromkeys(text for block in blocks for text in block.texts))
        vectors = self.prepared(embedded(self.encoder, texts, self.cache))
        row = {text: i for i, text in enumerate(texts)}
        return [self._matrix(vectors, [row[text] for text in block.texts]) for block in blocks]

    def _matrix(self, vectors: Floats, rows: list[int]) -> Floats:
        distances = self.between(vectors[rows])
        # The distance of a text to itself is exactly 0, without rounding; NaN stays.
        distances[np.equal.outer(rows, rows) & ~np.isnan(distances)] = 0.0
        return distances

    def prepared(self, vectors: Floats) -> Floats:
        """The vectors to compare."""
        return vectors

    def between(self, vectors: Floats) -> Floats:
        """The distances between all rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class Semantic(Embedding):
    """1 - cosine of sentence embeddings: 0 for the same direction, 2 for opposite ones.

    It is half the squared distance of unit vectors, so that the energy distance compares mean
    directions only.
    """

    name: str = "semantic"
    bounds: tuple[float, float] = (0.0, 2.0)
    negative_type: NegativeType = "yes"

    def prepared(self, vectors: Floats) -> Floats:
        """Unit vectors; a vector of zeros has no direction."""
        with np.errstate(invalid="ignore"):
            units: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return units

    def between(self, vectors: Floats) -> Floats:
        """1 minus the cosines of unit vectors."""
        distances: Floats = np.clip(1 - vectors @ vectors.T, 0.0, 2.0)
        return distances


@dataclass(frozen=True)
class Euclidean(Embedding):
    """The Euclidean distance of sentence embeddings, as the encoder gives them.

    The energy distance is then 0 only for two equal distributions of embeddings.
    """

    name: str = "euclidean"
    bounds: tuple[float, float] = (0.0, float("inf"))
    negative_type: NegativeType = "strict"

    def between(self, vectors: Floats) -> Floats:
        """The lengths of the differences."""
        from scipy.spatial.distance import cdist  # a slow import

        distances: Floats = cdist(vectors, vectors)
        return distances


def open_semantic(argument: str, tools: Tools) -> Semantic:
    """`semantic`: 1 - cosine of sentence embeddings; `semantic@LABEL` by another encoder."""
    return Semantic(*_parts("semantic", argument, tools))


def open_euclidean(argument: str, tools: Tools) -> Euclidean:
    """`euclidean`: Euclidean distance of sentence embeddings; `euclidean@LABEL` as `semantic`."""
    return Euclidean(*_parts("euclidean", argument, tools))


def _parts(
    kind: str, argument: str, tools: Tools
) -> tuple[SentenceEncoder, VectorCache | None, Mapping[str, str], str]:
    if argument and not argument.startswith("@"):
        raise UsageError(f"the probe {kind} takes no number; write {kind}.")
    encoder = tools.encoder_named(argument.removeprefix("@"))
    return encoder, tools.cache, {"encoder": encoder.label}, f"{kind}{argument}"
