"""Writes the per-token rows of a teacher-forced test set; `aleatoric reproduce e-ece` reads them.

What the columns mean is described in `aleatoric.studies.e_ece_paper.read_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_COUNTS = frozenset(["sentence", "position", "token", "predicted"])
_COUNTS |= {"head_sentence", "head_position", "head_token"}


def write_rows(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Save columns as compressed .npz: counts as int32, everything else as float32."""
    kinds = {name: np.int32 if name in _COUNTS else np.float32 for name in columns}
    path.parent.mkdir(parents=True, exist_ok=True)
    stored: dict[str, Any] = {name: value.astype(kinds[name]) for name, value in columns.items()}
    np.savez_compressed(path, **stored)
