"""Per-token statistics: what one pass over the logits computes for each token, and their files.

A scheme is the distribution P̃ over which the expectation of e-ECE is taken. The paper states no
temperature for the e-ECE of its tables, so there P̃ = P (`ancestral`); e-ECE_p uses top-p .8 and
e-ECE_k top-k 100. The ECE of a generation scheme in its Table 1 is the form with one draw from P̃
(`samples=1`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aleatoric.data import files
from aleatoric.errors import DataError, UsageError, quoted
from aleatoric.models.decoding import Decoder
from aleatoric.rng import stream
from aleatoric.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from aleatoric.models.recorded_tokens import TopRow

PLAIN = "ancestral"
"""The name of the scheme P̃ = P."""
_SAVED = ("target", "predicted", "confidence", "correct", "brier", "nll", "entropy")


class Expected(NamedTuple):
    """Confidence and accuracy under one scheme, one number per token."""

    confidence: Floats
    """p̃ = Σ_v P̃(v)·P(v), with P the model's distribution; or the mean of P over draws from P̃."""
    accuracy: Floats
    """ã = P̃(y); or the share of draws that are y."""


@dataclass(frozen=True)
class TokenRows:
    """What one pass computes for each token: one number per token in every array."""

    target: Ints
    """y, the reference token."""
    confidence: Floats
    """p̂ = max P."""
    correct: Floats
    """â = 1 if the most probable token (the first in case of ties) is the reference."""
    predicted: Ints
    brier: Floats
    """Σ_v (P(v) − 1[v = y])²."""
    nll: Floats
    """−log P(y), in nats; infinite if the model excludes the reference."""
    entropy: Floats
    """H(P), in nats."""
    log_normalizer: Floats
    """log Σ e^x: 0 for rows of log-probabilities, NaN for rows with NaN or +inf."""
    expected: Mapping[str, Expected]
    """By the scheme's string form."""


@dataclass(frozen=True)
class TokenTable:
    """The token statistics that studies read; `unit` numbers documents or sentences in order.

    `uncertainty`, that of the language, is the entropy in nats of the model `uncertainty_of`.
    """

    unit: Ints
    target: Ints
    predicted: Ints
    confidence: Floats
    correct: Floats
    expected: Mapping[str, Expected]
    uncertainty: Floats
    uncertainty_of: str

    @property
    def plain(self) -> Expected:
        """Expected confidence and accuracy under the model's distribution."""
        return self.expected[PLAIN]

    @property
    def disagreement(self) -> Floats:
        """D = |(p̂ − â) − (p̃ − ã)| of each token."""
        expected = self.plain.confidence - self.plain.accuracy
        return np.abs((self.confidence - self.correct) - expected)


def join_rows(parts: Sequence[TokenRows]) -> TokenRows:
    """Concatenate the rows of consecutive chunks of the same schemes."""
    if len(parts) == 1:
        return parts[0]
    names = [field.name for field in fields(TokenRows) if field.name != "expected"]
    arrays: dict[str, Any] = {
        n: np.concatenate([getattr(part, n) for part in parts]) for n in names
    }
    expected = {
        scheme: Expected(
            *map(np.concatenate, zip(*(p.expected[scheme] for p in parts), strict=True))
        )
        for scheme in parts[0].expected
    }
    return TokenRows(**arrays, expected=expected)


def write_part(path: Path, rows: TokenRows, groups: Sequence[str], positions: Ints) -> None:
    """Write the rows of a part in the order of its documents, atomically."""
    import pyarrow as pa
    from pyarrow import parquet

    columns: dict[str, Any] = {"position": positions}
    columns |= {name: getattr(rows, name) for name in _SAVED}
    for scheme, expected in rows.expected.items():
        columns |= {f"p[{scheme}]": expected.confidence, f"a[{scheme}]": expected.accuracy}
    # Numbers in numerical order, then other names.
    ranked = sorted(set(groups), key=lambda g: (int(g) if g.isdecimal() else 1 << 62, g))
    numbers = {group: i for i, group in enumerate(ranked)}
    order = np.lexsort((positions, np.array([numbers[group] for group in groups])))
    table = {"group": pa.array(groups).take(pa.array(order))}
    table |= {name: pa.array(column[order]) for name, column in columns.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.written_whole(path) as unfinished:
        parquet.write_table(pa.table(table), unfinished)


def part_files(folder: Path) -> list[Path]:
    """The files of a system's rows, in the order of the corpus."""
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise UsageError(f"{folder.parent.parent}: keeps no rows; run it again with --keep-rows.")
    return paths


def read_table(folder: Path, label: str) -> TokenTable:
    """All rows of a system; its entropy is the uncertainty until that is replaced."""
    from pyarrow import ArrowInvalid, concat_tables, parquet

    try:
        whole = concat_tables([parquet.read_table(path) for path in part_files(folder)])
    except (OSError, ArrowInvalid) as error:
        problem = f"holds no token rows ({type(error).__name__})"
        raise DataError.at(folder, None, problem, "run it again with --keep-rows") from None
    columns = {name: whole[name].to_numpy() for name in whole.column_names if name != "group"}
    expectations = [name for name in columns if name.startswith("p[")]
    units = whole["group"].combine_chunks().dictionary_encode().indices.to_numpy()
    return TokenTable(
        unit=units.astype(np.int64),
        **{name: columns[name] for name in ("target", "predicted", "confidence", "correct")},
        expected={n[2:-1]: Expected(columns[n], columns[f"a{n[1:]}"]) for n in expectations},
        uncertainty=columns["entropy"],
        uncertainty_of=f"{label} itself",
    )


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


Asked = Sequence[tuple[Scheme, Floats | None]]
"""Schemes, with (tokens, samples) numbers in [0, 1) if they are sampled, else `None`."""
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


# Tokens of which only the most likely alternatives are known ---------------------------------
# Only what these determine exactly is computed: max P, P(y), its mean C, and the expectations of
# schemes that keep fewer tokens than are known.

REASON = "not determined by the most likely tokens alone; record the whole vocabulary"
_WHOLE = ("brier", "entropy", "agreement_M", "sce", "ace", "vocabulary_unseen")


def known_schemes(schemes: Sequence[Scheme], rows: Sequence[TopRow]) -> list[Scheme]:
    """Return the schemes whose expectations the rows determine.

    The least likely token of a row is left out: others may be as likely.
    """
    size = min(len(row.ids) for row in rows) - 1
    mass = min(float(np.exp(row.logprobs[:-1]).sum()) for row in rows)
    return [scheme for scheme in schemes if _is_known(scheme, size, mass)]


def _is_known(scheme: Scheme, size: int, mass: float) -> bool:
    decoder = scheme.decoder
    if scheme.samples:
        return False
    by_number = decoder == Decoder(top_k=decoder.top_k) and 0 < decoder.top_k <= size
    by_mass = decoder == Decoder(top_p=decoder.top_p) and decoder.top_p < mass
    return decoder.greedy or by_number or (by_mass and decoder.top_p < 1)


def unknown_metrics(schemes: Sequence[Scheme], known: Sequence[Scheme], width: str) -> list[str]:
    """Return the metrics that are undefined, if `width` is the option --classwise."""
    classwise = ("sce", "ace", "vocabulary_unseen") if width != "all" else ()
    others = [metric for metric in _WHOLE if metric not in classwise]
    return [*(scheme.metric for scheme in schemes if scheme not in known), *others]


def partial_columns(
    rows: Sequence[TopRow], targets: Sequence[int], schemes: Sequence[Scheme]
) -> TokenRows:
    """Return the statistics of tokens; those that are not determined are NaN."""
    unknown = np.full(len(rows), np.nan)
    target = np.array(targets, dtype=np.int64)
    predicted = np.array([row.ids[0] for row in rows], dtype=np.int64)
    confidence = np.exp([row.logprobs[0] for row in rows])
    correct = (predicted == target).astype(np.float64)
    nll, expected = -np.array([row.target_logprob for row in rows]), {}
    for scheme in schemes:
        if str(scheme) == PLAIN:  # P(y) is known, Σ P² is not
            expected[PLAIN] = Expected(unknown, np.exp(-nll))
            continue
        pairs = [_expected(scheme.decoder, *pair) for pair in zip(rows, targets, strict=True)]
        expected[str(scheme)] = Expected(*np.array(pairs).T.astype(np.float64))
    return TokenRows(
        target=target,
        confidence=confidence,
        correct=correct,
        predicted=predicted,
        brier=unknown,
        nll=nll,
        entropy=unknown,
        log_normalizer=np.zeros(len(rows)),
        expected=expected,
    )


def _expected(decoder: Decoder, row: TopRow, target: int) -> tuple[float, float]:
    """Return the confidence and accuracy of one token under a decoder."""
    probs = np.exp(row.logprobs)
    kept = _kept(decoder, row, probs)
    weights = np.where(kept, probs, 0.0) / probs[kept].sum()
    return float(weights @ probs), float(weights[row.ids == target].sum())


def _kept(decoder: Decoder, row: TopRow, probs: Floats) -> Bools:
    """Return which tokens a decoder keeps, as `decoding` does on whole vectors."""
    if decoder.greedy:
        return np.asarray(np.arange(len(probs)) == 0)
    if decoder.top_k:
        return np.asarray(row.logprobs >= row.logprobs[decoder.top_k - 1])
    order = np.lexsort((-row.ids, -row.logprobs))  # equally likely: higher ids first
    kept = np.zeros(len(probs), dtype=bool)
    kept[order] = np.cumsum(probs[order]) - probs[order] < decoder.top_p
    return kept
