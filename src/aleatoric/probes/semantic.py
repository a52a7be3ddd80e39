"""Distances between sentence embeddings: 1 minus their cosine, and their Euclidean distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.probes.base import ANY, Block, Distance
from aleatoric.probes.encoders import SentenceEncoder, VectorCache, embedded
from aleatoric.probes.tools import Tools
from aleatoric.types import Floats

Parts = tuple[SentenceEncoder, VectorCache | None, str]
"""The encoder, its cache, and how the name of a probe says which encoder it is."""
Between = Callable[[Floats], Floats]
"""Vectors -> the distances between all of them."""


def semantic(encoder: SentenceEncoder, cache: VectorCache | None, label: str = "") -> Distance:
    """1 - cosine of sentence embeddings: 0 for the same direction, 2 for opposite ones.

    It is half the squared distance of unit vectors, so that the energy distance compares mean
    directions only.
    """
    return _embedding(f"semantic{label}", encoder, cache, _cosines, (0.0, 2.0), "yes")


def euclidean(encoder: SentenceEncoder, cache: VectorCache | None, label: str = "") -> Distance:
    """The Euclidean distance of sentence embeddings, as the encoder gives them.

    The energy distance is then 0 only for two equal distributions of embeddings.
    """
    return _embedding(f"euclidean{label}", encoder, cache, _lengths, ANY, "strict")


def _cosines(vectors: Floats) -> Floats:
    with np.errstate(invalid="ignore"):  # a vector of zeros has no direction
        units: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.clip(1 - units @ units.T, 0.0, 2.0)


def _lengths(vectors: Floats) -> Floats:
    from scipy.spatial.distance import cdist  # a slow import

    return np.asarray(cdist(vectors, vectors))


def _embedding(
    name: str, encoder: SentenceEncoder, cache: VectorCache | None, between: Between, *about: Any
) -> Distance:
    """A distance between the embeddings of two texts; undefined for texts of white space only."""

    def matrices(blocks: Sequence[Block]) -> list[Floats]:
        # Each distinct text of all blocks is embedded once.
        texts = list(dict.fromkeys(text for block in blocks for text in block.texts))
        vectors, row = embedded(encoder, texts, cache), {text: i for i, text in enumerate(texts)}
        return [_matrix(vectors, [row[text] for text in b.texts], between) for b in blocks]

    bounds, negative_type = about
    return Distance(
        name, {"encoder": encoder.label}, matrices, bounds, True, negative_type, encoder.window
    )


def _matrix(vectors: Floats, rows: list[int], between: Between) -> Floats:
    distances = between(vectors[rows])
    # The distance of a text to itself is exactly 0, without rounding; NaN stays.
    distances[np.equal.outer(rows, rows) & ~np.isnan(distances)] = 0.0
    return distances


def open_semantic(argument: str, tools: Tools) -> Distance:
    """`semantic`: 1 - cosine of sentence embeddings; `semantic@LABEL` by another encoder."""
    return semantic(*_parts("semantic", argument, tools))


def open_euclidean(argument: str, tools: Tools) -> Distance:
    """`euclidean`: Euclidean distance of sentence embeddings; `euclidean@LABEL` as `semantic`."""
    return euclidean(*_parts("euclidean", argument, tools))


def _parts(kind: str, argument: str, tools: Tools) -> Parts:
    if argument and not argument.startswith("@"):
        raise UsageError(f"the probe {kind} takes no number; write {kind}.")
    return tools.encoder_named(argument.removeprefix("@")), tools.cache, argument
