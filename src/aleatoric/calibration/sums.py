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

from aleatoric.metrics.calibration import (
    N_COLUMNS,
    ace_of,
    bin_index,
    bin_sums,
    ece_debiased_of,
    ece_of,
    equal_width_edges,
    mass_bins,
    mce_of,
    predicted_class_errors,
    sce_of,
    smooth_ece,
    sweep_bins,
    token_columns,
)
from aleatoric.metrics.reduction import divide
from aleatoric.types import Floats, Ints

MAX_UNITS = 1000
N_CELLS = 4096
LOWEST = -24.0
"""Natural logarithm of the lower limit of the lowest cell, which also takes smaller values."""
_SLACK = 1e-6
PARTS = 8
LOG_CELLS = 64
_BUFFER = 1 << 16
_CELLS_AT_ONCE = 1 << 23


class FoldingUnits:
    """The resampling unit of each group, independent of the order and chunking of the groups.

    Up to `MAX_UNITS` groups are one unit each. With more, every group joins the unit of its name's
    checksum: units stay independent of each other, so resampling them is still valid.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] | None = {}
        self._seen: set[bytes] = set()

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
        """The unit of each token; its group must have been admitted."""
        numbers = {group: self._number(group) for group in dict.fromkeys(groups)}
        return np.array([numbers[group] for group in groups], dtype=np.int64)

    def admit(self, groups: Sequence[str]) -> Ints | None:
        """Add new groups; if there are now too many, return the new unit of each old unit."""
        if self._numbers is None:
            self._seen.update(map(_digest, groups))
            return None
        before = len(self._numbers)
        for group in groups:
            self._numbers.setdefault(group, len(self._numbers))
        if len(self._numbers) <= MAX_UNITS:
            return None
        moved = self.fold()
        return None if moved is None else moved[:before]

    def merge(self, other: FoldingUnits) -> tuple[Ints | None, Ints]:
        """Add other groups; return the new units of the existing (or `None`) and of the others."""
        if other._numbers is not None:
            other_groups = list(other._numbers)
            moved = self.admit(other_groups)
            return moved, np.array([self._number(g) for g in other_groups], dtype=np.int64)
        moved = self.fold()
        self._seen |= other._seen
        return moved, np.arange(MAX_UNITS)

    def fold(self) -> Ints | None:
        """Bundle all groups by checksum; return each old unit's new one, `None` if done before."""
        if self._numbers is None:
            return None
        names, self._numbers = list(self._numbers), None
        self._seen = set(map(_digest, names))
        return np.array([self._number(group) for group in names], dtype=np.int64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The groups as arrays, to be saved."""
        if self._numbers is None:
            return {"seen": np.frombuffer(b"".join(sorted(self._seen)), dtype=np.uint64)}
        return {"names": np.frombuffer("\0".join(self._numbers).encode(), dtype=np.uint8)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the groups by what `arrays` returned."""
        if "seen" in arrays:
            self._numbers = None
            self._seen = {digest.tobytes() for digest in arrays["seen"]}
            return
        text = arrays["names"].tobytes().decode()
        self._numbers = {name: i for i, name in enumerate(text.split("\0"))} if text else {}

    def _number(self, group: str) -> int:
        if self._numbers is None:
            return zlib.crc32(group.encode()) % MAX_UNITS
        return self._numbers[group]


class UnitSums:
    """Additive columns by unit, aligned with `FoldingUnits`."""

    def __init__(self, n_columns: int) -> None:
        self.table: Floats = np.zeros((0, n_columns))

    def add(self, units: Ints, columns: Floats) -> None:
        """Add rows of columns to their units."""
        self.grow(int(units.max(initial=-1)) + 1)
        np.add.at(self.table, units, columns)

    def add_binned(self, units: Ints, bins: Ints, values: Floats) -> None:
        """Add (tokens, m) values to columns `bins * m ...` of their units."""
        n_bins, width = self.table.shape[1] // values.shape[1], values.shape[1]
        self.grow(int(units.max(initial=-1)) + 1)
        place = units * n_bins + bins
        for j in range(width):
            total = np.bincount(place, values[:, j], minlength=len(self.table) * n_bins)
            self.table[:, j::width] += total.reshape(len(self.table), n_bins)

    def move(self, moved: Ints | None) -> None:
        """Move the sums of units that were bundled."""
        if moved is not None:
            before, self.table = self.table, np.zeros((MAX_UNITS, self.table.shape[1]))
            np.add.at(self.table, moved[: len(before)], before)

    def grow(self, size: int) -> None:
        """Make room for `size` units."""
        if size > len(self.table):
            new_rows = np.zeros((size - len(self.table), self.table.shape[1]))
            self.table = np.concatenate([self.table, new_rows])


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
        return {
            "ece": float(ece_of(self.bins)),
            "ece_mass": float(ece_of(mass_bins(self.cells, len(self.bins)))),
            "ece_debiased": float(ece_debiased_of(self.bins)),
            "ece_sweep": float(ece_of(sweep_bins(self.cells))),
            "ece_smooth": smooth_ece(self.cells),
            "mce": float(mce_of(self.bins)),
        }


class CurveSums:
    """The running sums of one curve; their size does not depend on the number of tokens."""

    def __init__(self, n_bins: int) -> None:
        self._n_bins = n_bins
        self._parts = -(-N_CELLS // n_bins)
        self.cells: Floats = np.zeros((n_bins * self._parts, N_COLUMNS))
        self.units = UnitSums(n_bins * N_COLUMNS)

    def add(self, units: Ints, confidence: Floats, accuracy: Floats) -> None:
        """Add a chunk of tokens."""
        columns = token_columns(confidence, accuracy)
        bins = bin_index(confidence, equal_width_edges(self._n_bins)).astype(np.int64)
        cells = cell_index(confidence, bins, self._n_bins, self._parts)
        for j in range(N_COLUMNS):
            self.cells[:, j] += np.bincount(cells, columns[:, j], minlength=len(self.cells))
        self.units.add_binned(units, bins, columns)

    def merge(self, other: CurveSums, moved: Ints) -> None:
        """Add another curve, whose units become `moved`."""
        self.cells += other.cells
        self.units.add(moved[: len(other.units.table)], other.units.table)

    def curve(self) -> Curve:
        """The curve of all units together."""
        shape = (self._n_bins, self._parts, N_COLUMNS)
        return Curve(self.cells.reshape(shape).sum(axis=1), self.cells.copy())

    def binned_units(self) -> Floats:
        """(units, bins, columns): the bin sums of each unit."""
        return self.units.table.reshape(-1, self._n_bins, N_COLUMNS)

    def by_unit(self, error: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
        """`error` of bin sums as a function of rows of the unit table."""
        return lambda rows: error(rows.reshape(*rows.shape[:-1], self._n_bins, N_COLUMNS))


class PredictedClasses:
    """Sums by (predicted class, cell), only for pairs that occur."""

    def __init__(self, n_bins: int) -> None:
        self._n_bins = n_bins
        self._keys = np.zeros(0, dtype=np.int64)
        self._sums: Floats = np.zeros((0, 3))
        self._pending: list[tuple[Ints, Floats]] = []
        self._n_pending = 0

    def add(self, predicted: Ints, confidence: Floats, correct: Floats) -> None:
        """Add a chunk of tokens."""
        bins = bin_index(confidence, equal_width_edges(self._n_bins)).astype(np.int64)
        cells = cell_index(confidence, bins, self._n_bins, PARTS)
        keys = predicted * (self._n_bins * PARTS) + cells
        self._append(keys, np.stack([np.ones_like(confidence), confidence, correct], axis=-1))

    def merge(self, other: PredictedClasses) -> None:
        """Add the sums of another stream."""
        other._settle()
        self._append(other._keys, other._sums)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All sums, to be saved."""
        self._settle()
        return {"keys": self._keys, "sums": self._sums}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Replace the sums by saved ones."""
        self._keys, self._sums = arrays["keys"], arrays["sums"]
        self._pending, self._n_pending = [], 0

    def errors(self) -> dict[str, float]:
        """SCE and ACE as means over predicted classes of the class's ECE, plain and weighted."""
        self._settle()
        classes, cells = np.divmod(self._keys, self._n_bins * PARTS)
        _, row = np.unique(classes, return_inverse=True)
        # Keys are sorted, so the cells of a class are adjacent and in order.
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        place = row * self._n_bins + cells // PARTS
        size = (len(starts), self._n_bins)
        sums = [np.bincount(place, column, minlength=size[0] * size[1]) for column in self._sums.T]
        table = np.stack(sums, axis=-1).astype(np.float64).reshape(*size, 3)
        return predicted_class_errors(table, np.split(self._sums, starts[1:]), self._n_bins)

    def _append(self, keys: Ints, sums: Floats) -> None:
        self._pending.append((keys, sums))
        self._n_pending += len(keys)
        if self._n_pending > max(_BUFFER, len(self._keys)):
            self._settle()

    def _settle(self) -> None:
        keys = np.concatenate([self._keys, *(keys for keys, _ in self._pending)])
        sums = np.concatenate([self._sums, *(sums for _, sums in self._pending)])
        self._keys, place = np.unique(keys, return_inverse=True)
        totals = [np.bincount(place, column, minlength=len(self._keys)) for column in sums.T]
        self._sums = np.stack(totals, axis=-1) if len(self._keys) else np.zeros((0, 3))
        self._pending, self._n_pending = [], 0


class AllClasses:
    """Sums by class and bin over every class at every token (Nixon et al. 2019).

    Nearly all probabilities are in the lowest bin: only the others are binned one by one, and the
    lowest bin gets the rest of the class's total.
    """

    def __init__(self, n_classes: int, n_bins: int) -> None:
        self._n_bins = n_bins
        self._n_tokens = 0
        self._upper: Floats = np.zeros((n_classes, n_bins, 3))
        self._cells: Floats = np.zeros((3, LOG_CELLS, n_classes))

    def add(self, values: Any, targets: Ints) -> None:
        """Add a chunk of logits or log-probabilities, some rows at a time."""
        step = max(1, _CELLS_AT_ONCE // len(self._upper))
        for start in range(0, len(targets), step):
            rows = slice(start, start + step)
            sums = of_rows(values[rows], targets[rows], LOG_CELLS, 1 / self._n_bins)
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
            "sce": sce_of(bins, n_classes, self._n_tokens),
            "ace": ace_of(cells, n_classes, self._n_bins),
            "vocabulary_unseen": float((self._cells[2].sum(axis=0) == 0).mean()),
        }

    def _tables(self) -> dict[str, Floats]:
        counts, probs, hits = self._cells
        return {"upper": self._upper, "counts": counts, "probs": probs, "hits": hits}


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


def cell_index(confidence: Floats, bins: Ints, n_bins: int, parts: int) -> Ints:
    """The fine cell of each confidence within its bin."""
    inside = ((confidence * n_bins - bins) * parts).astype(np.int64).clip(0, parts - 1)
    index: Ints = bins * parts + inside
    return index


def _narrow(sums: Floats) -> NDArray[Any]:
    """Counts as int32 if they fit; anything else unchanged."""
    whole = sums.astype(np.int32) if sums.max(initial=0) < 2**31 else sums
    return whole if np.array_equal(whole, sums) else sums


def _digest(group: str) -> bytes:
    return hashlib.blake2b(group.encode(), digest_size=8).digest()
