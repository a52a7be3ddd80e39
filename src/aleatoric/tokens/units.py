"""Sums by resampling unit: a group, or a bundle of groups once there are too many of them."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Floats

MAX_UNITS = 1000


class Units:
    """Which unit each group belongs to, the same in whatever order and parts the groups come.

    Up to `MAX_UNITS` groups are a unit each. With more, every group joins the unit of its name's
    checksum: units stay independent of each other, so resampling them is still right.

    >>> units = Units()
    >>> units.admit(["a", "b"])
    >>> units.index(["a", "b", "a"]).tolist(), units.n_groups
    ([0, 1, 0], 2)
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
        """How many groups came so far."""
        return len(self._seen) if self._numbers is None else len(self._numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """What each unit is called: its group, or the number of its bundle, as in every run."""
        if self._numbers is None:
            return tuple(f"bundle {i}" for i in range(MAX_UNITS))
        return tuple(self._numbers)

    @property
    def size(self) -> int:
        """How many units there are."""
        return MAX_UNITS if self._numbers is None else len(self._numbers)

    def index(self, groups: Sequence[str]) -> NDArray[np.int64]:
        """The unit of each token; its group must have been admitted."""
        numbers = {group: self._number(group) for group in dict.fromkeys(groups)}
        return np.array([numbers[group] for group in groups], dtype=np.int64)

    def admit(self, groups: Sequence[str]) -> NDArray[np.int64] | None:
        """Take in new groups; where they are now too many, the new unit of each old unit."""
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

    def merge(self, other: Units) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
        """Take in another's groups: how own units move (or not), and where the other's go."""
        if other._numbers is not None:
            theirs = list(other._numbers)
            moved = self.admit(theirs)
            return moved, np.array([self._number(g) for g in theirs], dtype=np.int64)
        moved = self.fold()
        self._seen |= other._seen
        return moved, np.arange(MAX_UNITS)

    def fold(self) -> NDArray[np.int64] | None:
        """Bundle all groups by checksum; the new unit of each old one, `None` if done before."""
        if self._numbers is None:
            return None
        names, self._numbers = list(self._numbers), None
        self._seen = set(map(_digest, names))
        return np.array([self._number(group) for group in names], dtype=np.int64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is known of the groups, to be saved."""
        if self._numbers is None:
            return {"seen": np.frombuffer(b"".join(sorted(self._seen)), dtype=np.uint64)}
        return {"names": np.frombuffer("\0".join(self._numbers).encode(), dtype=np.uint8)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `arrays` gave, in place of own groups.

        >>> units = Units()
        >>> units.restore({"names": np.frombuffer(b"a", dtype=np.uint8)})
        >>> units.n_groups
        1
        """
        if "seen" in arrays:
            self._numbers = None
            self._seen = {own.tobytes() for own in arrays["seen"]}
            return
        text = arrays["names"].tobytes().decode()
        self._numbers = {name: i for i, name in enumerate(text.split("\0"))} if text else {}

    def _number(self, group: str) -> int:
        if self._numbers is None:
            return zlib.crc32(group.encode()) % MAX_UNITS
        return self._numbers[group]


class UnitSums:
    """Additive columns by unit, kept in step with `Units`.

    >>> sums = UnitSums(2)
    >>> sums.add(np.array([0, 1, 0]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    >>> sums.table.tolist()
    [[6.0, 8.0], [3.0, 4.0]]
    """

    def __init__(self, n_columns: int) -> None:
        self.table: Floats = np.zeros((0, n_columns))

    def add(self, units: NDArray[np.int64], columns: Floats) -> None:
        """Add rows of columns to their units."""
        self.grow(int(units.max(initial=-1)) + 1)
        np.add.at(self.table, units, columns)

    def add_binned(self, units: NDArray[np.int64], bins: NDArray[np.int64], values: Floats) -> None:
        """Add (tokens, m) values to columns `bins * m ...` of their units."""
        n_bins, width = self.table.shape[1] // values.shape[1], values.shape[1]
        self.grow(int(units.max(initial=-1)) + 1)
        place = units * n_bins + bins
        for j in range(width):
            total = np.bincount(place, values[:, j], minlength=len(self.table) * n_bins)
            self.table[:, j::width] += total.reshape(len(self.table), n_bins)

    def move(self, moved: NDArray[np.int64] | None) -> None:
        """Follow units that were bundled."""
        if moved is not None:
            before, self.table = self.table, np.zeros((MAX_UNITS, self.table.shape[1]))
            np.add.at(self.table, moved[: len(before)], before)

    def grow(self, size: int) -> None:
        """Room for so many units."""
        if size > len(self.table):
            more = np.zeros((size - len(self.table), self.table.shape[1]))
            self.table = np.concatenate([self.table, more])


def _digest(group: str) -> bytes:
    return hashlib.blake2b(group.encode(), digest_size=8).digest()
