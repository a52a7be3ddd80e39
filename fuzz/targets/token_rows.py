"""Saved rows of the e-ECE recipe (.npz)."""

from __future__ import annotations

import io

import numpy as np

from aleatoric.studies.e_ece_paper import read_rows
from fuzz.trial import refusals, written


def _npz() -> bytes:
    held = io.BytesIO()
    np.savez_compressed(held, sentence=np.arange(3), p_hat=np.ones(3))
    return held.getvalue()


SEEDS = (
    _npz(),
    b"PK\5\6" + b"\0" * 18,
    b"\x93NUMPY\1\0v\0{}",
)
TOKENS = (b"PK\3\4", b"PK\1\2", b"PK\5\6", b"'descr': '|O'", b"'shape': (999999999999,)")


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "rows-loss.npz")
    with refusals():
        read_rows(path)
