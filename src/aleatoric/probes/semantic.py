"""How far apart two texts are in their meaning: 1 - cosine of their sentence embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.nlp.encoders import Encoder, VectorCache, encode_once
from aleatoric.probes.base import Block
from aleatoric.probes.tools import Tools
from aleatoric.types import Floats


@dataclass(frozen=True)
class Semantic:
    """1 - cosine, between 0 (one direction) and 2 (opposite ones); 1 is unrelated."""

    encoder: Encoder
    cache: VectorCache
    facts: Mapping[str, str]
    name: str = "semantic"
    bounds: tuple[float, float] = (0.0, 2.0)

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """Block by block the distances; a text of white space alone has no meaning: NaN."""
        texts = list(dict.fromkeys(text for block in blocks for text in block.texts))
        units = self._units(texts)
        row = {text: i for i, text in enumerate(texts)}
        return [_distances(units, [row[text] for text in block.texts]) for block in blocks]

    def _units(self, texts: list[str]) -> Floats:
        """Vectors of length 1, a row a text; NaN where a text has none."""
        said = [i for i, text in enumerate(texts) if text.strip()]
        vectors = encode_once(self.encoder, [texts[i] for i in said], self.cache)
        units = np.full((len(texts), vectors.shape[1]), np.nan)
        with np.errstate(invalid="ignore"):  # a vector of zeros has no direction
            length = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
            units[said] = vectors / length
        return units


def open_semantic(argument: str, tools: Tools) -> Semantic:
    """`semantic`: 1 - cosine of sentence embeddings."""
    if argument:
        raise UsageError("the probe semantic takes no number; write semantic.")
    return Semantic(tools.encoder, tools.cache, {"encoder": tools.encoder.label})


def _distances(units: Floats, rows: list[int]) -> Floats:
    own = units[rows]
    found: Floats = np.clip(1 - own @ own.T, 0.0, 2.0)
    # The same text twice is no distance apart, whatever rounding says; NaN stays.
    same = np.equal.outer(rows, rows)
    found[same & ~np.isnan(found)] = 0.0
    return found
