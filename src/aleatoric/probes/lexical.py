"""How far apart two texts are in their words: n-grams of lower-cased tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aleatoric.probes.base import Block
from aleatoric.probes.reading import Reader
from aleatoric.probes.tools import Tools, order_of
from aleatoric.types import Floats


@dataclass(frozen=True)
class Lexical:
    """N-grams of lower-cased tokens, punctuation kept."""

    order: int
    reader: Reader
    facts: Mapping[str, str]
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def name(self) -> str:
        """lexical-1, lexical-2, ..."""
        return f"lexical-{self.order}"

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """Block by block the distances; NaN between two texts without n-grams."""
        return self.reader.read(blocks).lexical(self.order)


def open_lexical(argument: str, tools: Tools) -> Lexical:
    """`lexical-N`: n-grams of order N of lower-cased tokens."""
    facts = {"tokeniser": tools.tokeniser.label, "case": "lower"}
    return Lexical(order_of("lexical", argument), tools.reader, facts)
