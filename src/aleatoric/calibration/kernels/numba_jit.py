"""Compiled loops of the CPU kernel: each row of logits is read once.

Plain loops over one block at a time, which the compiler vectorizes. 2^x is a polynomial whose
result gets the exponent in its bits: exp() of the C library would take most of the time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BLOCK = 2048
FAR = 40.0
LEAST = -3.0e38
LOG2E = np.float32(1.4426950408889634)
C2, C3 = np.float32(2.402265069591007e-1), np.float32(5.550410866482158e-2)
C4, C5 = np.float32(9.618129107628477e-3), np.float32(1.3333558146428443e-3)
C6, C1 = np.float32(1.5403530393381609e-4), np.float32(6.931471805599453e-1)
ONE, HALF, ZERO = np.float32(1.0), np.float32(0.5), np.float32(0.0)
LOWEST = np.float32(-126.0)
BIAS, BITS = np.int32(127), np.int32(23)


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def highest_of(values):
    """The maximum of a block."""
    highest = values[0]
    for i in range(values.size):
        highest = values[i] if values[i] > highest else highest
    return highest


@njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
def sums_of(values, centre):
    """Sums of a block: Σ e, Σ e², Σ e·log2 e with e = exp(x - centre), and Σ x."""
    total, square, weighted, plain = ZERO, ZERO, ZERO, ZERO
    for i in range(values.size):
        x = values[i]
        d = (x - centre) * LOG2E
        d = d if d > LOWEST else LOWEST
        whole = np.floor(d + HALF)
        f = d - whole
        p = ((((((C6 * f + C5) * f + C4) * f + C3) * f + C2) * f) + C1) * f + ONE
        e = p * np.int32((np.int32(whole) + BIAS) << BITS).view(np.float32)
        total += e
        square += e * e
        weighted += e * d
        plain += x
    return total, square, weighted, plain


@njit(nogil=True, error_model="numpy", cache=True)
def sweep(row, centre):
    """All sums of a row, in double precision over its blocks, and the block with the maximum."""
    best, at = LEAST, 0
    total, square, weighted, plain = 0.0, 0.0, 0.0, 0.0
    for start in range(0, row.size, BLOCK):
        block = row[start : start + BLOCK]
        # In a separate loop: combined with the sums, the compiler would not vectorize it.
        highest = highest_of(block)
        if highest > best:
            best, at = highest, start
        t, s, w, x = sums_of(block, centre)
        total, square, weighted, plain = total + t, square + s, weighted + w, plain + x
    return best, at, total, square, weighted, plain


@njit(nogil=True, error_model="numpy", cache=True)
def read(logits, out):
    """Per row: maximum, its index, centre, Σ e, Σ e², Σ e·log2 e, Σ x."""
    for r in range(logits.shape[0]):
        row = logits[r]
        # Any number near the maximum keeps e in range: the first block's nearly always does.
        first = highest_of(row[:BLOCK])
        centre = np.float32(first if first > LEAST else ZERO)
        best, at, total, square, weighted, plain = sweep(row, centre)
        if best - centre > FAR:
            centre = np.float32(best)
            best, at, total, square, weighted, plain = sweep(row, centre)
        place = at
        while place < row.size - 1 and row[place] != best:
            place += 1
        out[r, 0], out[r, 1], out[r, 2], out[r, 3] = best, place, centre, total
        out[r, 4], out[r, 5], out[r, 6] = square, weighted, plain
