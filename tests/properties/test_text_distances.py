"""N-gram distances match a naive implementation on random texts, and are distances."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aleatoric.probes.base import Block, Distance
from aleatoric.probes.ngrams import ArrayNgrams, CompiledNgrams, numbered, sorted_by
from aleatoric.probes.overlaps import ngram_probe
from aleatoric.probes.taggers import open_tokeniser
from aleatoric.probes.tools import TextReader

LADDERS = [ArrayNgrams, *([CompiledNgrams] if find_spec("numba") else [])]
TEXT = st.lists(st.sampled_from(["a", "A", "b", "c", "ab"]), max_size=9)


def naive(left: list[str], right: list[str], order: int) -> float:
    a = [tuple(left[i : i + order]) for i in range(len(left) - order + 1)]
    b = [tuple(right[i : i + order]) for i in range(len(right) - order + 1)]
    if not a and not b:
        return math.nan
    if not a or not b:
        return 1.0
    shared = sum(gram in set(b) for gram in a) + sum(gram in set(a) for gram in b)
    return 1 - shared / (len(a) + len(b))


@st.composite
def shaped_inputs(draw: Any) -> tuple[tuple[int, ...], list[list[list[str]]]]:
    """Numbers of texts per source, and some inputs of that shape."""
    sizes = tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=4)))
    texts = st.lists(TEXT, min_size=sum(sizes), max_size=sum(sizes))
    return sizes, draw(st.lists(texts, min_size=1, max_size=4))


@pytest.mark.parametrize("ladder", LADDERS)
@given(shaped_inputs(), st.permutations([1, 2, 3, 4]))
def test_distances_match_naive(
    ladder: Any, shaped: tuple[tuple[int, ...], list[list[list[str]]]], orders: list[int]
) -> None:
    sizes, inputs = shaped
    if not sum(sizes):
        return
    symbols = numbered([text for texts in inputs for text in texts], str.lower)
    climbing = ladder(symbols, sizes)
    wanted = {*Block(("",) * sum(sizes), sizes).wanted()}
    for order in orders:
        found = climbing.distances(order)
        np.testing.assert_array_equal(found, found.transpose(0, 2, 1))
        for matrix, texts in zip(found, inputs, strict=True):
            low = [[token.lower() for token in text] for text in texts]
            for i in range(len(texts)):
                for j in range(i, len(texts)):
                    looked_at = i == j or (i, j) in wanted
                    right = naive(low[i], low[j], order) if looked_at else math.nan
                    np.testing.assert_equal(matrix[i, j], right)


@given(TEXT, TEXT)
def test_identical_texts_have_distance_0_and_disjoint_texts_1(
    left: list[str], right: list[str]
) -> None:
    others = [token + "'" for token in right]
    (probe,) = probes([1])
    block = Block(tuple(" ".join(text) for text in (left, left, others)), (3,))
    (matrix,) = probe.matrices([block])
    np.testing.assert_equal(matrix[0, 1], 0.0 if left else math.nan)
    np.testing.assert_equal(matrix[0, 2], 1.0 if left or right else math.nan)


@given(st.lists(shaped_inputs(), max_size=5))
def test_batch_of_many_shapes_matches_single_blocks(
    shaped: list[tuple[tuple[int, ...], list[list[list[str]]]]],
) -> None:
    blocks = [
        Block(tuple(" ".join(text) for text in texts), sizes)
        for sizes, inputs in shaped
        for texts in inputs
    ]
    for probe in probes([1, 2]):
        together = probe.matrices(blocks)
        for block, matrix in zip(blocks, together, strict=True):
            assert matrix.shape == (len(block.texts),) * 2
            np.testing.assert_array_equal(matrix, probe.matrices([block])[0])


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**20)), max_size=30, unique=True))
def test_keys_of_any_size_are_sorted(pairs: list[tuple[int, int]]) -> None:
    pairs = sorted(pairs, key=lambda pair: pair[1])  # places come in order
    keys, places = (np.array([p[k] for p in pairs], dtype=np.int64) for k in (0, 1))
    for factor in (1, 2**42):
        found = sorted_by(keys // factor, places)
        right = sorted(zip((keys // factor).tolist(), places.tolist(), strict=True))
        assert list(zip(*(column.tolist() for column in found), strict=True)) == right


@pytest.mark.parametrize("bits", [61, 62])
def test_keys_with_indices_of_63_and_64_bits_are_sorted(bits: int) -> None:
    found = sorted_by(np.array([2**bits, 1, 2**bits]), np.array([0, 0, 1]))
    assert [column.tolist() for column in found] == [[1, 2**bits, 2**bits], [0, 0, 1]]


def probes(orders: list[int]) -> list[Distance]:
    reader = TextReader(open_tokeniser("whitespace"), lambda texts: [])
    return [ngram_probe("lexical", order, reader, {}) for order in orders]
