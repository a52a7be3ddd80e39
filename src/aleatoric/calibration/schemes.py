"""Schemes: the distribution P̃ over which the expectation of e-ECE is taken.

The paper states no temperature for the e-ECE of its tables, so there P̃ = P (`ancestral`); e-ECE_p
uses top-p .8 and e-ECE_k top-k 100. The ECE of a generation scheme in its Table 1 is the form with
one draw from P̃ (`samples=1`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from aleatoric.errors import UsageError, quoted
from aleatoric.models.decoding import Decoder
from aleatoric.rng import stream
from aleatoric.types import Floats

Uniforms = Sequence[Floats | None]
"""(tokens, samples) numbers in [0, 1) for each sampled scheme; `None` for other schemes."""
_NAMES = {"ancestral": "e_ece", "top_p=0.8": "e_ece_p", "top_k=100": "e_ece_k"}


@dataclass(frozen=True, slots=True)
class Scheme:
    """A decoder that defines P̃, and the form of the expectation: the whole space, or some draws."""

    decoder: Decoder = field(default_factory=Decoder)
    samples: int = 0
    """Draws from P̃ per token; 0 takes the expectation over the whole output space."""

    def __post_init__(self) -> None:
        if self.samples < 0:
            raise UsageError("scheme: samples must be a whole number from 1 up.")

    @classmethod
    def parse(cls, text: str) -> Scheme:
        """The scheme that `text` names: a decoder, and `samples=K` for the form with K draws."""
        parts = [part.strip() for part in text.split(",")]
        counts = [part.partition("=")[2] for part in parts if part.startswith("samples=")]
        rest = ",".join(part for part in parts if not part.startswith("samples="))
        # isdecimal: "²" is a digit but not a number; the length: int() refuses thousands of digits.
        good = all(count.isdecimal() and len(count) < 10 and int(count) for count in counts)
        if len(counts) > 1 or not good:
            raise UsageError(
                f"scheme {quoted(text, 80)}: samples must be one whole number from 1 up."
            )
        return cls(Decoder.parse(rest or "ancestral"), int(counts[0]) if counts else 0)

    def __str__(self) -> str:
        return f"{self.decoder},samples={self.samples}" if self.samples else str(self.decoder)

    @property
    def metric(self) -> str:
        """The calibration error under this scheme: e_ece, e_ece_p, e_ece[temperature=0.5], ..."""
        if self.samples == 1:
            return f"ece[{self.decoder}]"
        return _NAMES.get(str(self), f"e_ece[{self}]")


EXPECTED = tuple(map(Scheme.parse, ("ancestral", "top_p=0.8", "top_k=100")))
"""e_ece, e_ece_p and e_ece_k: the paper's Table 2."""
MAX_OPEN = 1000


class GroupDraws:
    """Uniform numbers from one stream per (scheme, group), continued across chunks.

    A group that returns after `MAX_OPEN` others restarts its stream.
    """

    def __init__(self, seed: int, scheme: str, samples: int) -> None:
        self._seed, self._scheme, self._samples = seed, scheme, samples
        self._open: OrderedDict[str, np.random.Generator] = OrderedDict()
        self._before: dict[str, Any] = {}

    def numbers(self, groups: Sequence[str]) -> Floats:
        """(tokens, samples) uniform numbers in [0, 1)."""
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        self._before = {
            group: self._open[group].bit_generator.state if group in self._open else None
            for group in dict.fromkeys(groups)
        }
        runs = [(group, len(list(run))) for group, run in groupby(groups)]
        parts = [self._stream(group).random((size, self._samples)) for group, size in runs]
        return np.concatenate(parts) if parts else np.zeros((0, self._samples))

    def _stream(self, group: str) -> np.random.Generator:
        if group not in self._open:
            self._open[group] = stream(self._seed, "token draws", self._scheme, group)
        self._open.move_to_end(group)
        return self._open[group]

    def undo(self) -> None:
        """Restore the streams to before the last numbers: their chunk was refused."""
        for group, state in self._before.items():
            if state is None:
                self._open.pop(group, None)
            else:
                self._open[group].bit_generator.state = state
