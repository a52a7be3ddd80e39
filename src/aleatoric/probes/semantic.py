"""Distances between sentence embeddings: 1 minus their cosine, and their Euclidean distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.probes.base import ANY, Block, Distance, NegativeType
from aleatoric.probes.encoders import SentenceEncoder, VectorCache, embedded
from aleatoric.probes.tools import Tools
from aleatoric.types import Floats


def semantic(encoder: SentenceEncoder, cache: VectorCache | None, label: str = "") -> Distance:
    """1 - cosine of sentence embeddings: 0 for the same direction, 2 for opposite ones.

    It is half the squared distance of unit vectors, so that the energy distance compares mean
    directions only.
    """

    def cosines(vectors: Floats) -> Floats:
        distances: Floats = np.clip(1 - vectors @ vectors.T, 0.0, 2.0)
        return distances

    return _embedding(f"semantic{label}", encoder, cache, cosines, _units, (0.0, 2.0), "yes")


def _units(vectors: Floats) -> Floats:
    """Unit vectors; a vector of zeros has no direction."""
    with np.errstate(invalid="ignore"):
        units: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units


def euclidean(encoder: SentenceEncoder, cache: VectorCache | None, label: str = "") -> Distance:
    """The Euclidean distance of sentence embeddings, as the encoder gives them.

    The energy distance is then 0 only for two equal distributions of embeddings.
    """

    def lengths(vectors: Floats) -> Floats:
        from scipy.spatial.distance import cdist  # a slow import

        distances: Floats = cdist(vectors, vectors)
        return distances

    return _embedding(f"euclidean{label}", encoder, cache, lengths, None, ANY, "strict")


def _embedding(
    name: str,
    encoder: SentenceEncoder,
    cache: VectorCache | None,
    between: Callable[[Floats], Floats],
    prepared: Callable[[Floats], Floats] | None,
    bounds: tuple[float, float],
    negative_type: NegativeType,
) -> Distance:
    """A distance between the embeddings of two texts; undefined for texts of white space only."""

    def matrices(blocks: Sequence[Block]) -> list[Floats]:
        # Each distinct text of all blocks is embedded once.
        texts = list(dict.fromkeys(text for block in blocks for text in block.texts))
        vectors = embedded(encoder, texts, cache)
        vectors = prepared(vectors) if prepared else vectors
        row = {text: i for i, text in enumerate(texts)}
        return [matrix(vectors, [row[text] for text in block.texts]) for block in blocks]

    def matrix(vectors: Floats, rows: list[int]) -> Floats:
        distances = between(vectors[rows])
        # The distance of a text to itself is exactly 0, without rounding; NaN stays.
        distances[np.equal.outer(rows, rows) & ~np.isnan(distances)] = 0.0
        return distances

    return Distance(name, {"encoder": encoder.label}, matrices, bounds, True, negative_type)


def open_semantic(argument: str, tools: Tools) -> Distance:
    """`semantic`: 1 - cosine of sentence embeddings; `semantic@LABEL` by another encoder."""
    return semantic(*_parts("semantic", argument, tools))


def open_euclidean(argument: str, tools: Tools) -> Distance:
    """`euclidean`: Euclidean distance of sentence embeddings; `euclidean@LABEL` as `semantic`."""
    return euclidean(*_parts("euclidean", argument, tools))


def _parts(
    kind: str, argument: str, tools: Tools
) -> tuple[SentenceEncoder, VectorCache | None, str]:
    if argument and not argument.startswith("@"):
        raise UsageError(f"the probe {kind} takes no number; write {kind}.")
    return tools.encoder_named(argument.removeprefix("@")), tools.cache, argument
