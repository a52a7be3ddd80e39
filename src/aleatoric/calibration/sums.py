"""Running sums of a token stream: bin sums of reliability curves, by unit and by class.

Besides its bins of equal width a curve keeps about 4096 fine cells, equal parts of the bins, for
errors with data-dependent bins (equal mass, sweep, smooth); if rows are kept, cells are exact.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.calibration.statistics import TokenRows
from aleatoric.metrics import calibration
from aleatoric.metrics.calibration import N_COLUMNS, bin_index, bin_sums, equal_width_edges, sums_by
from aleatoric.metrics.reduction import divide
from aleatoric.types import Floats, Ints

MAX_UNITS = 1000
N_SCORES = 6
N_CELLS = 4096
LOWEST = -24.0
"""Natural logarithm of the lower limit of the lowest cell, which also takes smaller values."""
_SLACK = 1e-6
PARTS = 8
LOG_CELLS = 64
"""Cells of equal ratio per class; a small vocabulary has a multiple of them."""
_ALL_CELLS = 1 << 19
"""Most cells of all classes together, if each has more than `LOG_CELLS`."""
_BUFFER = 1 << 16
_CELLS_AT_ONCE = 1 << 23


class UnitTable:
    """Additive columns by resampling unit, independent of the order and chunking of the groups.

    Up to `MAX_UNITS` groups are one unit each. With more, every group joins the unit of its name's
    checksum: units stay independent of each other, so resampling them is still valid.
    """

    def __init__(self, n_columns: int) -> None:
        self._numbers: dict[str, int] | None = {}
        self._seen: set[bytes] = set()
        self.table: Floats = np.zeros((0, n_columns))

    @property
    def pooled(self) -> bool:
        """Whether groups share units."""
        return self._numbers is None

    @property
    def n_groups(self) -> int:
        """The number of groups so far."""
        return len(self._seen) if self._numbers is None else len(self._numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each unit: its group, or the number of its bundle."""
        if self._numbers is None:
            return tuple(f"bundle {i}" for i in range(MAX_UNITS))
        return tuple(self._numbers)

    def index(self, groups: Sequence[str]) -> Ints:
        """The unit of each token, given its group; new groups are added."""
        if self._numbers is None:
            self._seen.update(map(_digest, dict.fromkeys(groups)))
            return _bundles(groups)
        numbers = [self._numbers.setdefault(group, len(self._numbers)) for group in groups]
        if (n_new := len(self._numbers) - len(self.table)) > 0:
            self.table = np.pad(self.table, ((0, n_new), (0, 0)))
        if len(self._numbers) > MAX_UNITS:
            self._fold()
            return _bundles(groups)
        return np.array(numbers, dtype=np.int64)

    def merge(self, other: UnitTable) -> None:
        """Add the groups and the sums of another table."""
        if other._numbers is not None:
            units = self.index(other.names)
        else:
            if not self.pooled:
                self._fold()
            self._seen |= other._seen
            units = np.arange(MAX_UNITS)
        np.add.at(self.table, units, other.table)

    def _fold(self) -> None:
        """Bundle all groups by checksum, with their sums."""
        names, self._numbers = self.names, None
        self._seen = set(map(_digest, names))
        before, self.table = self.table, np.zeros((MAX_UNITS, self.table.shape[1]))
        np.add.at(self.table, _bundles(names), before)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The groups as arrays, to be saved."""
        if self._numbers is None:
            return {"seen": np.frombuffer(b"".join(sorted(self._seen)), dtype=np.uint64)}
        names = np.frombuffer("\0".join(self._numbers).encode(), dtype=np.uint8)
        return {"names": names, "n_names": np.array(len(self._numbers))}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the groups by what `arrays` returned."""
        if "seen" in arrays:
            self._numbers = None
            self._seen = {digest.tobytes() for digest in arrays["seen"]}
            return
        names = arrays["names"].tobytes().decode().split("\0")
        # The text of no name is that of one empty name.
        n_names = int(arrays.get("n_names", len(names) if any(names) else 0))
        self._numbers = {name: i for i, name in enumerate(names[:n_names])}


@dataclass(frozen=True)
class Curve:
    """A reliability curve: (…, 4) sums of tokens, confidence, accuracy and squared accuracy."""

    bins: Floats
    cells: Floats

    @property
    def edges(self) -> tuple[float, ...]:
        """The borders of the bins, from 0 to 1."""
        return (0.0, *equal_width_edges(len(self.bins)), 1.0)

    @property
    def counts(self) -> Floats:
        """Tokens per bin."""
        return self.bins[:, 0]

    @property
    def confidence(self) -> Floats:
        """Mean confidence per bin; NaN for an empty bin."""
        return divide(self.bins[:, 1], self.bins[:, 0])

    @property
    def accuracy(self) -> Floats:
        """Mean accuracy per bin; NaN for an empty bin."""
        return divide(self.bins[:, 2], self.bins[:, 0])

    def errors(self) -> dict[str, float]:
        """Every calibration error of the curve by name, as fractions."""
        bins_of_equal_mass = calibration.mass_bins(self.cells, len(self.bins))
        return {
            "ece": float(calibration.ece_of(self.bins)),
            "ece_mass": float(calibration.ece_of(bins_of_equal_mass)),
            "ece_debiased": float(calibration.ece_debiased_of(self.bins)),
            "ece_sweep": float(calibration.ece_of(calibration.sweep_bins(self.cells))),
            "ece_smooth": calibration.smooth_ece(self.cells),
            "mce": float(calibration.mce_of(self.bins)),
        }


class CurveSums:
    """The running sums of one curve; their size does not depend on the number of tokens.

    The bin sums of each unit are columns of a table that all curves share, from `start` on.
    """

    def __init__(self, n_bins: int, units: UnitTable, start: int) -> None:
        self._n_bins = n_bins
        self._parts = -(-N_CELLS // n_bins)
        self._units, self._columns = units, slice(start, start + n_bins * N_COLUMNS)
        self.cells: Floats = np.zeros((n_bins * self._parts, N_COLUMNS))

    def add(self, units: Ints, confidence: Floats, accuracy: Floats) -> None:
        """Add a chunk of tokens."""
        bins, cells = cell_index(confidence, self._n_bins, self._parts)
        self.cells += bin_sums(confidence, accuracy, cells, len(self.cells))
        table, place = self._units.table[:, self._columns], units * self._n_bins + bins
        for j, column in enumerate(calibration.token_columns(confidence, accuracy).T):
            total = np.bincount(place, column, minlength=len(table) * self._n_bins)
            table[:, j::N_COLUMNS] += total.reshape(len(table), self._n_bins)

    @property
    def by_group(self) -> Floats:
        """(units, bins * columns): the bin sums of each unit."""
        return np.ascontiguousarray(self._units.table[:, self._columns])

    def curve(self) -> Curve:
        """The curve of all units together."""
        shape = (self._n_bins, self._parts, N_COLUMNS)
        return Curve(self.cells.reshape(shape).sum(axis=1), self.cells.copy())

    def binned_units(self) -> Floats:
        """(units, bins, columns): the bin sums of each unit."""
        return self.by_group.reshape(-1, self._n_bins, N_COLUMNS)

    def by_unit(self, error: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
        """`error` of bin sums as a function of rows of the unit table."""
        return lambda rows: error(rows.reshape(*rows.shape[:-1], self._n_bins, N_COLUMNS))


class PredictedClasses:
    """Sums by (predicted class, cell), only for pairs that occur."""

    def __init__(self, n_bins: int) -> None:
        self._n_bins = n_bins
        self._parts: list[tuple[Ints, Floats]] = [(np.zeros(0, dtype=np.int64), np.zeros((0, 3)))]
        """Keys with their sums, the first part with one sum per key; others are added later."""

    def add(self, predicted: Ints, confidence: Floats, correct: Floats) -> None:
        """Add a chunk of tokens."""
        _, cells = cell_index(confidence, self._n_bins, PARTS)
        keys = predicted * (self._n_bins * PARTS) + cells
        self._append(keys, np.stack([np.ones_like(confidence), confidence, correct], axis=-1))

    def merge(self, other: PredictedClasses) -> None:
        """Add the sums of another stream."""
        self._append(*other._settled())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All sums, to be saved."""
        keys, sums = self._settled()
        return {"keys": keys, "sums": sums}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the sums by saved ones."""
        self._parts = [(arrays["keys"], arrays["sums"])]

    def errors(self) -> dict[str, float]:
        """SCE and ACE as means over predicted classes of the class's ECE, plain and weighted."""
        keys, sums_of_cells = self._settled()
        classes, cells = np.divmod(keys, self._n_bins * PARTS)
        _, row = np.unique(classes, return_inverse=True)
        # Keys are sorted, so the cells of a class are adjacent and in order.
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        place = row * self._n_bins + cells // PARTS
        sums = sums_by(place, sums_of_cells, len(starts) * self._n_bins)
        table = sums.reshape(len(starts), self._n_bins, 3)
        by_class = np.split(sums_of_cells, starts[1:])
        return calibration.predicted_class_errors(table, by_class, self._n_bins)

    def _append(self, keys: Ints, sums: Floats) -> None:
        self._parts.append((keys, sums))
        n_settled, *n_added = (len(keys) for keys, _ in self._parts)
        if sum(n_added) > max(_BUFFER, n_settled):
            self._settled()

    def _settled(self) -> tuple[Ints, Floats]:
        all_keys, sums = (np.concatenate(side) for side in zip(*self._parts, strict=True))
        keys, place = np.unique(all_keys, return_inverse=True)
        self._parts = [(keys, sums_by(place, sums, len(keys)))]
        return self._parts[0]


class AllClasses:
    """Sums by class and bin over every class at every token (Nixon et al. 2019).

    Nearly all probabilities are in the lowest bin: only the others are binned one by one, and the
    lowest bin gets the rest of the class's total.
    """

    def __init__(self, n_classes: int, n_bins: int) -> None:
        self._n_bins = n_bins
        self._n_tokens = 0
        self._upper: Floats = np.zeros((n_classes, n_bins, 3))
        n_cells = LOG_CELLS * max(1, min(LOG_CELLS, _ALL_CELLS // (LOG_CELLS * n_classes)))
        self._cells: Floats = np.zeros((3, n_cells, n_classes))

    def add(self, values: Any, targets: Ints) -> None:
        """Add a chunk of logits or log-probabilities, some rows at a time."""
        step = max(1, _CELLS_AT_ONCE // len(self._upper))
        for start in range(0, len(targets), step):
            rows = slice(start, start + step)
            sums = of_rows(values[rows], targets[rows], self._cells.shape[1], 1 / self._n_bins)
            counts, mass, hits, probs, classes, correct = sums
            self._cells[0] += counts
            self._cells[1] += mass
            np.add.at(self._cells[2].reshape(-1), hits, 1.0)
            place = classes * self._n_bins + bin_index(probs, equal_width_edges(self._n_bins))
            upper = bin_sums(probs, correct, place, self._upper[..., 0].size)
            self._upper += upper[:, :3].reshape(self._upper.shape)
            # What single precision puts in the lowest bin after all is counted there as the rest.
            self._upper[:, 0] = 0.0
        self._n_tokens += len(targets)

    def merge(self, other: AllClasses) -> None:
        """Add the sums of another stream."""
        self._upper += other._upper
        self._cells += other._cells
        self._n_tokens += other._n_tokens

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All nonzero sums, to be saved, with bits for their positions."""
        arrays: dict[str, NDArray[Any]] = {"n_tokens": np.array(self._n_tokens)}
        for name, table in self._tables().items():
            used = table != 0
            arrays |= {f"{name}/held": np.packbits(used), f"{name}/sums": _narrow(table[used])}
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the sums by saved ones."""
        self._n_tokens = int(arrays["n_tokens"])
        # Older sums of a small vocabulary have fewer cells; a number of cells is a multiple of 8.
        n_cells = 8 * len(arrays["counts/held"]) // len(self._upper)
        self._cells = np.zeros((3, n_cells, len(self._upper)))
        for name, table in self._tables().items():
            bits = np.unpackbits(arrays[f"{name}/held"], count=table.size)
            used = bits.astype(bool).reshape(table.shape)
            table[...] = 0.0
            table[used] = arrays[f"{name}/sums"]

    def errors(self) -> dict[str, float]:
        """SCE and ACE by Nixon's formula, and the share of classes that are never the reference."""
        cells = np.moveaxis(self._cells, (0, 1, 2), (2, 1, 0))
        bins = self._upper.copy()
        bins[:, 0] = cells.sum(axis=1) - bins[:, 1:].sum(axis=1)
        n_classes = len(bins)
        return {
            "sce": calibration.sce_of(bins, n_classes, self._n_tokens),
            "ace": calibration.ace_of(cells, n_classes, self._n_bins),
            "vocabulary_unseen": float((self._cells[2].sum(axis=0) == 0).mean()),
        }

    def _tables(self) -> dict[str, Floats]:
        counts, probs, hits = self._cells
        return {"upper": self._upper, "counts": counts, "probs": probs, "hits": hits}


class StreamState:
    """The complete state of a stream; the first columns of `units` are `scores`."""

    def __init__(self, curves: Sequence[str], n_bins: int, keep_rows: bool) -> None:
        names, width = dict.fromkeys(curves), n_bins * N_COLUMNS
        self.units = UnitTable(N_SCORES + len(names) * width)
        starts = range(N_SCORES, self.units.table.shape[1], width)
        sums = (CurveSums(n_bins, self.units, start) for start in starts)
        self.curves = dict(zip(names, sums, strict=True))
        self.predicted: PredictedClasses | None = None
        self.classes: AllClasses | None = None
        self.rows: list[TokenRows] | None = [] if keep_rows else None
        self.row_groups: list[str] = []

    @property
    def scores(self) -> Floats:
        """(units, 6) sums: tokens, log score, excluded references, Brier, entropy, hits."""
        return np.ascontiguousarray(self.units.table[:, :N_SCORES])

    @property
    def n_tokens(self) -> int:
        """Tokens seen."""
        return int(self.scores[:, 0].sum())


def of_rows(
    values: Any, targets: Ints, n_cells: int, upper: float
) -> tuple[Ints, Floats, Ints, Floats, Ints, Floats]:
    """Sums of rows of logits or log-probabilities, computed on their device.

    Returns (cells, classes) counts and probabilities by cell of equal ratio, the flat index of each
    reference token's probability; all probabilities from `upper` on, their classes, and hits.
    """
    import torch

    logits = torch.as_tensor(values)
    wide = logits if logits.dtype == torch.float64 else logits.float()
    probs = wide.softmax(-1)
    width = probs.shape[1]
    cells = probs.log().div_(-LOWEST).add_(1).mul_(n_cells).clamp_(0, n_cells - 1).long()
    place = cells.mul_(width).add_(torch.arange(width, device=probs.device))
    target_ids = torch.as_tensor(targets, device=probs.device)
    hits = place.gather(1, target_ids[:, None])[:, 0]
    counts = torch.bincount(place.ravel(), minlength=n_cells * width)
    mass = torch.bincount(place.ravel(), probs.ravel().double(), minlength=n_cells * width)
    # A little below the limit: the caller bins the values near it.
    row, column = (probs >= upper * (1 - _SLACK)).nonzero(as_tuple=True)
    correct = column == target_ids[row]
    return (
        counts.view(n_cells, width).cpu().numpy(),
        mass.view(n_cells, width).cpu().numpy(),
        hits.cpu().numpy(),
        probs[row, column].double().cpu().numpy(),
        column.cpu().numpy(),
        correct.double().cpu().numpy(),
    )


def cell_index(confidence: Floats, n_bins: int, parts: int) -> tuple[Ints, Ints]:
    """The bin of each confidence, and its fine cell within the bin."""
    bins = bin_index(confidence, equal_width_edges(n_bins)).astype(np.int64)
    inside = ((confidence * n_bins - bins) * parts).astype(np.int64).clip(0, parts - 1)
    return bins, bins * parts + inside


def _narrow(sums: Floats) -> NDArray[Any]:
    """Counts as int32 if they fit; anything else unchanged."""
    whole = sums.astype(np.int32) if sums.max(initial=0) < 2**31 else sums
    return whole if np.array_equal(whole, sums) else sums


def _bundles(groups: Sequence[str]) -> Ints:
    """The unit of each group, by the checksum of its name."""
    bundle = {group: zlib.crc32(group.encode()) % MAX_UNITS for group in set(groups)}
    return np.array([bundle[group] for group in groups], dtype=np.int64)


def _digest(group: str) -> bytes:
    return hashlib.blake2b(group.encode(), digest_size=8).digest()
