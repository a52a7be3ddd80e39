"""Which distribution P̃ the expectation of e-ECE is taken over.

The paper writes e-ECE for any P̃ made from the model's P by temperature, top-k or top-p. It names
no temperature for the e-ECE of its tables, so that P̃ = P (`ancestral`) over the whole output space;
e-ECE_p has top-p .8 and e-ECE_k top-k 100. The ECE of a generation scheme in its Table 1 is the
form with one draw from P̃ (`samples=1`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aleatoric.decoding import Decoder
from aleatoric.errors import UsageError
from aleatoric.showing import quoted

_NAMES = {"ancestral": "e_ece", "top_p=0.8": "e_ece_p", "top_k=100": "e_ece_k"}


@dataclass(frozen=True, slots=True)
class Scheme:
    """A decoder that makes P̃, and the form of the expectation: whole space, or so many draws.

    >>> str(Scheme.parse("top_p=0.80")), str(Scheme.parse("ancestral,samples=1"))
    ('top_p=0.8', 'ancestral,samples=1')
    """

    decoder: Decoder = field(default_factory=Decoder)
    samples: int = 0
    """Draws from P̃ a token; 0 takes the expectation over the whole output space."""

    def __post_init__(self) -> None:
        if self.samples < 0:
            raise UsageError("scheme: samples must be a whole number from 1 up.")

    @classmethod
    def parse(cls, text: str) -> Scheme:
        """The scheme that `text` names: a decoder, and `samples=K` for the form with K draws."""
        parts = [part.strip() for part in text.split(",")]
        counts = [part.partition("=")[2] for part in parts if part.startswith("samples=")]
        rest = ",".join(part for part in parts if not part.startswith("samples="))
        # isdecimal: "²" is a digit that is no number; the length: int() refuses thousands of them.
        good = all(own.isdecimal() and len(own) < 10 and int(own) for own in counts)
        if len(counts) > 1 or not good:
            raise UsageError(
                f"scheme {quoted(text, 80)}: samples must be one whole number from 1 up."
            )
        return cls(Decoder.parse(rest or "ancestral"), int(counts[0]) if counts else 0)

    def __str__(self) -> str:
        return f"{self.decoder},samples={self.samples}" if self.samples else str(self.decoder)

    @property
    def metric(self) -> str:
        """The name of the calibration error under this scheme.

        >>> [Scheme.parse(s).metric for s in ("ancestral", "top_p=0.8", "temperature=0.5")]
        ['e_ece', 'e_ece_p', 'e_ece[temperature=0.5]']
        >>> Scheme.parse("top_k=100,samples=1").metric, Scheme.parse("ancestral,samples=9").metric
        ('ece[top_k=100]', 'e_ece[ancestral,samples=9]')
        """
        if self.samples == 1:
            return f"ece[{self.decoder}]"
        return _NAMES.get(str(self), f"e_ece[{self}]")


EXPECTED = tuple(map(Scheme.parse, ("ancestral", "top_p=0.8", "top_k=100")))
"""e_ece, e_ece_p and e_ece_k: the paper's Table 2."""

ONE_SAMPLE = tuple(
    map(Scheme.parse, ("ancestral,samples=1", "top_k=100,samples=1", "top_p=0.8,samples=1"))
)
"""The ECE of pure, top-k and top-p sampling: the paper's Table 1, whose greedy column is `ece`."""
