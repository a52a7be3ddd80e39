"""How far apart two texts are in their grammar: n-grams of part-of-speech tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aleatoric.probes.base import Block
from aleatoric.probes.reading import Reader
from aleatoric.probes.tools import Tools, order_of
from aleatoric.types import Floats


@dataclass(frozen=True)
class Syntactic:
    """N-grams of universal part-of-speech tags."""

    order: int
    reader: Reader
    facts: Mapping[str, str]
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def name(self) -> str:
        """syntactic-1, syntactic-2, ..."""
        return f"syntactic-{self.order}"

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """Block by block the distances; NaN between two texts without n-grams."""
        return self.reader.read(blocks).syntactic(self.order)


def open_syntactic(argument: str, tools: Tools) -> Syntactic:
    """`syntactic-N`: n-grams of order N of part-of-speech tags."""
    order = order_of("syntactic", argument)
    facts = {"tokeniser": tools.tokeniser.label, "tagger": tools.tagger.label}
    facts["tags"] = getattr(tools.tagger, "tagset", "the tagger's own")
    return Syntactic(order, tools.reader, facts)
