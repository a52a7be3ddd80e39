"""Per-token rows of a teacher-forced test set, as a small file that numpy alone reads and writes.

Columns (one row a target token, the end of each sentence included): `sentence` (place in the test
set from 0), `position`, `token` (the reference y), `predicted` (argmax P), `p_hat` = max P,
`a_hat` = 1[predicted = y], `log_prob` = log P(y), `entropy` of P and `uncertainty`, the entropy of
the second model, both in nats; and for each scheme S: `p_S` = Σ P̃(v) P(v), `a_S` = P̃(y), and one
seeded draw v from P̃ as `draw_p_S` = P(v), `draw_scheme_p_S` = P̃(v), `draw_a_S` = 1[v = y].
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.errors import DataError

Columns = dict[str, NDArray[Any]]

SCHEMES = {"plain": "ancestral", "top_p": "top_p=0.8", "top_k": "top_k=100", "greedy": "greedy"}
"""The paper's generation schemes: name in the columns -> decoder."""
MAX_BYTES = 2**31
_DAMAGED = (
    *(OSError, ValueError, EOFError, KeyError, MemoryError, OverflowError, struct.error),
    *(SyntaxError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error),
)
"""What numpy and zipfile raise on files that are not what `write_rows` saved."""
_COUNTS = frozenset(["sentence", "position", "token", "predicted"])
_COUNTS |= {"head_sentence", "head_position", "head_token"}


def write_rows(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Save columns as compressed .npz: counts as int32, everything else as float32.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_rows(Path(folder, "rows.npz"), {"sentence": np.array([0]), "p_hat": np.ones(1)})
    ...     sorted(read_rows(Path(folder, "rows.npz")))
    ['p_hat', 'sentence']
    """
    kinds = {name: np.int32 if name in _COUNTS else np.float32 for name in columns}
    path.parent.mkdir(parents=True, exist_ok=True)
    stored: dict[str, Any] = {name: value.astype(kinds[name]) for name, value in columns.items()}
    np.savez_compressed(path, **stored)


def read_rows(path: Path) -> Columns:
    """The columns that `write_rows` saved."""
    try:
        _check_size(path)
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise DataError.at(path, None, "there is no such file", "check the path") from None
    except _DAMAGED as error:
        problem = f"holds no token rows ({type(error).__name__})"
        raise DataError.at(path, None, problem, "make it with the recipe again") from None


def _check_size(path: Path) -> None:
    """Refuse, before it is unpacked, what is no archive of columns or unpacks to too much."""
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MAX_BYTES:
        problem = f"unpacks to {size} bytes, over {MAX_BYTES}"
        raise DataError.at(path, None, problem, "make it with the recipe again")
