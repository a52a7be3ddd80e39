"""Compiled loops for n-gram distances: one hash table per input instead of sorting."""

from __future__ import annotations

import numpy as np
from numba import njit

NONE = -1
SCATTER = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: the high bits of a product with it are well mixed."""


@njit(nogil=True, cache=True)
def climb(kinds, ids, n_symbols, lengths, parts, order, found):
    """Extend n-grams to `order` from those one shorter, and compute the distances.

    `kinds` maps the position where an n-gram starts to its type within the input, and is updated in
    place; `found` is (inputs, texts, texts); `parts` tells who wrote each text of an input.
    """
    n_inputs, width = found.shape[0], found.shape[1]
    ends = np.zeros(n_inputs + 1, np.int64)
    for i in range(n_inputs):
        ends[i + 1] = ends[i] + lengths[i * width : (i + 1) * width].sum()
    most = np.diff(ends).max() if n_inputs else 0
    # Buffers for the largest input are allocated once.
    slots = np.empty(4 * most + 4, np.int32)
    keys, owner, row = np.empty(most, np.int64), np.empty(most, np.int32), np.empty(most, np.int32)
    entries = np.empty((most, 3), np.int32)
    present = np.empty((most // 2 + 1, width), np.int32)
    overlap = np.empty((width, width), np.int32)
    for i in range(n_inputs):
        text_lengths, span = lengths[i * width : (i + 1) * width], slice(ends[i], ends[i + 1])
        buffers = (slots, keys, owner, row, entries, present)
        n_entries = number(kinds[span], ids[span], n_symbols, text_lengths, order, *buffers)
        share(entries[:n_entries], row, present, overlap)
        divide(text_lengths, parts, order, overlap, found[i])


@njit(nogil=True, cache=True)
def number(kinds, ids, n_symbols, lengths, order, slots, keys, owner, row, entries, present):
    """Number the n-grams of an input; return the number of entries (type, text, count).

    A type that a second text has gets a row of `present`, which is 1 for the texts that have it.
    Per type, `owner` is its latest entry and `row` its row, or NONE.
    """
    size, bits = 4, 2
    while size < 2 * ids.size:
        size, bits = 2 * size, bits + 1
    slots[:size] = NONE
    shift = np.uint64(64 - bits)
    n_kinds, n_entries, n_rows, start = 0, 0, 0, 0
    for text in range(lengths.size):
        for place in range(start, start + lengths[text] - order + 1):
            key = kinds[place] * n_symbols + ids[place + order - 1]
            slot = np.int64((np.uint64(key) * SCATTER) >> shift)
            while slots[slot] != NONE and keys[slots[slot]] != key:
                slot = (slot + 1) & (size - 1)
            kind = slots[slot]
            if kind == NONE:
                kind = np.int32(n_kinds)
                slots[slot], keys[kind], row[kind] = kind, key, NONE
                n_kinds += 1
            elif entries[owner[kind], 1] == text:
                entries[owner[kind], 2] += 1
                kinds[place] = kind
                continue
            elif row[kind] == NONE:
                row[kind] = n_rows
                present[n_rows] = 0
                present[n_rows, entries[owner[kind], 1]] = 1
                n_rows += 1
            if row[kind] != NONE:
                present[row[kind], text] = 1
            entries[n_entries, 0], entries[n_entries, 1], entries[n_entries, 2] = kind, text, 1
            owner[kind] = n_entries
            kinds[place] = kind
            n_entries += 1
        start += lengths[text]
    return n_entries


@njit(nogil=True, cache=True)
def share(entries, row, present, overlap):
    """Per pair of texts, the number of occurrences in the first of types of the second."""
    overlap[:] = 0
    for e in range(len(entries)):
        kind, text, count = entries[e, 0], entries[e, 1], entries[e, 2]
        if row[kind] != NONE:
            sums, counts = overlap[text], present[row[kind]]
            # A row at a time, which the compiler vectorizes.
            for j in range(counts.size):
                sums[j] += count * counts[j]


@njit(nogil=True, cache=True)
def divide(lengths, parts, order, overlap, found):
    """Turn overlaps into distances; pairs of two systems are not computed."""
    for i in range(lengths.size):
        n_grams = max(lengths[i] - order + 1, 0)
        found[i, i] = 0.0 if n_grams else np.nan
        for j in range(i + 1, lengths.size):
            total = n_grams + max(lengths[j] - order + 1, 0)
            apart = total == 0 or (parts[i] != parts[j] and parts[i] != 0)
            shared = overlap[i, j] + overlap[j, i]
            found[i, j] = found[j, i] = np.nan if apart else 1.0 - shared / total
