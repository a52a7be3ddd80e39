"""Which distribution P̃ the expectation of e-ECE is taken over.

The paper writes e-ECE for any P̃ made from the model's P by temperature, top-k or top-p. It names
no temperature for the e-ECE of its tables, so that P̃ = P (`ancestral`) over the whole output space;
e-ECE_p has top-p .8 and e-ECE_k top-k 100. The ECE of a generation scheme in its Table 1 is the
form with one draw from P̃ (`samples=1`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.errors import DataError, UsageError, quoted
from aleatoric.models.decoding import Decoder
from aleatoric.rng import stream
from aleatoric.types import Floats

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


MAX_OPEN = 1000


class GroupDraws:
    """Each (scheme, group) has a stream of its own, read on from where its last chunk ended.

    The last `MAX_OPEN` groups stay open. A group that comes back after so many others starts its
    stream again.

    >>> whole, parts = (GroupDraws(0, "ancestral,samples=1", 1) for _ in range(2))
    >>> once = whole.numbers(["a", "b", "a"])
    >>> again = np.concatenate([parts.numbers(["a"]), parts.numbers(["b", "a"])])
    >>> bool((once == again).all())
    True
    """

    def __init__(self, seed: int, scheme: str, samples: int) -> None:
        self._seed, self._scheme, self._samples = seed, scheme, samples
        self._open: OrderedDict[str, np.random.Generator] = OrderedDict()
        self._before: dict[str, Any] = {}

    def numbers(self, groups: Sequence[str]) -> Floats:
        """(tokens, samples) uniform numbers in [0, 1)."""
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        self._before = {group: self._state(group) for group in dict.fromkeys(groups)}
        runs = [(group, len(list(run))) for group, run in groupby(groups)]
        parts = [self._of(group).random((size, self._samples)) for group, size in runs]
        return np.concatenate(parts) if parts else np.zeros((0, self._samples))

    def undo(self) -> None:
        """Take the last numbers back: their chunk was refused."""
        for group, state in self._before.items():
            if state is None:
                self._open.pop(group, None)
            else:
                self._open[group].bit_generator.state = state

    def _state(self, group: str) -> Any:
        return self._open[group].bit_generator.state if group in self._open else None

    def _of(self, group: str) -> np.random.Generator:
        if group not in self._open:
            self._open[group] = stream(self._seed, "token draws", self._scheme, group)
        self._open.move_to_end(group)
        return self._open[group]


Pair = tuple[Floats, Floats]
"""Expected confidence and expected accuracy."""


@dataclass(frozen=True)
class Columns:
    """The columns of a chunk; `expected` has a pair a scheme, in the order asked."""

    confidence: Floats
    correct: Floats
    predicted: NDArray[np.int64]
    brier: Floats
    nll: Floats
    entropy: Floats
    log_normaliser: Floats
    """log Σ e^x: 0 for rows of log-probabilities, NaN for rows that hold NaN or +inf."""
    expected: tuple[Pair, ...]


def join(parts: Sequence[Columns]) -> Columns:
    """Columns of consecutive chunks, end to end."""
    if len(parts) == 1:
        return parts[0]
    names = [f.name for f in fields(Columns) if f.name != "expected"]
    own = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    pairs = zip(*(part.expected for part in parts), strict=True)
    joined = (tuple(np.concatenate(side) for side in zip(*pair, strict=True)) for pair in pairs)
    return Columns(**own, expected=tuple((p, a) for p, a in joined))


TOLERANCE = {"bfloat16": 5e-2, "float16": 1e-2}
"""How far Σ P may be from 1 in rows of log-probabilities; 1e-3 in other precisions."""


def check_chunk(values: Any, targets: Any, vocabulary_size: int) -> None:
    """Types, shapes and targets: all that can be told without reading the values.

    >>> check_chunk(np.zeros((2, 5), "float32"), np.array([0, 5]), 5)
    Traceback (most recent call last):
        ...
    aleatoric.errors.DataError: token 1 of the chunk has target 5; targets go from 0 to 4.
    """
    _check_types(values, targets)
    if values.ndim != 2 or values.shape[1] != vocabulary_size:
        raise DataError(
            f"values have shape {_shape(values)}; give (tokens, {vocabulary_size}), a row a token."
        )
    if tuple(targets.shape) != (len(values),):
        raise DataError(
            f"targets have shape {_shape(targets)}; give one target for each of the "
            f"{len(values)} rows of values."
        )
    numbers = host(targets)
    bad = np.flatnonzero((numbers < 0) | (numbers >= vocabulary_size))
    if len(bad):
        raise DataError(
            f"token {bad[0]} of the chunk has target {numbers[bad[0]]}; targets go from 0 to "
            f"{vocabulary_size - 1}."
        )


def check_groups(group: str | Sequence[str], n_tokens: int) -> list[str]:
    """The group of each token.

    >>> check_groups("a", 2)
    ['a', 'a']
    """
    if isinstance(group, str):
        return [group] * n_tokens
    groups = list(group)
    if len(groups) != n_tokens:
        raise DataError(f"{len(groups)} groups for {n_tokens} tokens; give one group, or one each.")
    if not all(isinstance(own, str) for own in groups):
        raise DataError("groups must be text: the name of the document or sentence a token is of.")
    return groups


def check_columns(columns: Columns, units: str, dtype: Any) -> None:
    """Rows that hold no distribution, or log-probabilities that do not add up to 1."""
    bad = np.flatnonzero(~np.isfinite(columns.log_normaliser) | ~np.isfinite(columns.confidence))
    if len(bad):
        raise DataError(
            f"token {bad[0]} of the chunk has {units} with NaN or +inf, or none above -inf; "
            "give finite numbers, with -inf for excluded tokens alone."
        )
    if units != "logprobs":
        return
    total = np.exp(np.minimum(columns.log_normaliser, 700.0))
    allowed = TOLERANCE.get(str(dtype).removeprefix("torch."), 1e-3)
    bad = np.flatnonzero(np.abs(total - 1) > allowed)
    if len(bad):
        raise DataError(
            f"token {bad[0]} of the chunk has log-probabilities that add up to "
            f"{total[bad[0]]:.4g}, not 1; give natural logarithms, or declare units='logits'."
        )


def host(numbers: Any) -> NDArray[Any]:
    """A numpy array, whatever held the numbers."""
    return np.asarray(numbers.cpu() if hasattr(numbers, "cpu") else numbers)


def _check_types(values: Any, targets: Any) -> None:
    for name, own in (("values", values), ("targets", targets)):
        if not all(hasattr(own, part) for part in ("dtype", "shape", "ndim")):
            raise DataError(f"{name} must be a torch tensor or a numpy array, not {_kind(own)}.")
    if "float" not in str(values.dtype):
        raise DataError(f"values have type {values.dtype}; give floating-point numbers.")
    if "int" not in str(targets.dtype):
        raise DataError(f"targets have type {targets.dtype}; give whole numbers: token ids.")


def _shape(values: Any) -> tuple[int, ...]:
    return tuple(values.shape)


def _kind(value: Any) -> str:
    return type(value).__name__
