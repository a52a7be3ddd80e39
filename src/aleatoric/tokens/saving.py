"""The sums of a stream as plain arrays, and as the bytes of a small .npz file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.tokens.results import State

Arrays = dict[str, NDArray[Any]]


def to_arrays(state: State) -> Arrays:
    """Everything that a state has summed up; per-token rows are not part of it."""
    found = {f"groups/{name}": own for name, own in state.groups.arrays().items()}
    found["scores"] = state.scores.table
    for name, own in state.curves.items():
        found |= {f"curve/{name}/cells": own.cells, f"curve/{name}/units": own.units.table}
    for name, part in (("predicted", state.predicted), ("classes", state.classes)):
        if part is not None:
            found |= {f"{name}/{key}": own for key, own in part.arrays().items()}
    return found


def from_arrays(state: State, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Fill a fresh state of the same settings with what `to_arrays` gave, or raise ValueError."""
    for name, fresh in to_arrays(state).items():
        is_table = name == "scores" or name.startswith("curve/")
        if is_table and not _is_alike(arrays.get(name), fresh):
            raise ValueError(f"the saved sums {name} have another form")
    state.groups.restore(_below(arrays, "groups"))
    state.scores.table = arrays["scores"]
    for name, curve in state.curves.items():
        curve.cells, curve.units.table = (
            arrays[f"curve/{name}/{part}"] for part in ("cells", "units")
        )
    for name, part in (("predicted", state.predicted), ("classes", state.classes)):
        if part is not None:
            part.restore(_below(arrays, name))


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays as the bytes of an .npz file, not compressed: a run saves its sums often.

    >>> unpack(pack({"a/b": np.arange(2)}))["a/b"].tolist()
    [0, 1]
    """
    file = io.BytesIO()
    named: dict[str, Any] = dict(arrays)
    np.savez(file, **named)
    return file.getvalue()


def unpack(payload: bytes) -> Arrays:
    """The arrays that `pack` wrote; raises ValueError or a zip error for anything else."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
            raise ValueError("saved sums are compressed")
    with np.load(io.BytesIO(payload), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _is_alike(found: NDArray[Any] | None, own: NDArray[Any]) -> bool:
    """Whether saved sums have the type and the columns of fresh ones, and are finite."""
    return (
        found is not None
        and found.dtype == own.dtype
        and found.shape[1:] == own.shape[1:]
        and bool(np.isfinite(found).all())
    )


def _below(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    start = f"{prefix}/"
    return {name[len(start) :]: own for name, own in arrays.items() if name.startswith(start)}
