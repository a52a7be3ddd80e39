"""The debiased TVD of one pair is that of a table of counts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aleatoric.metrics.debiased import leave_pair_out, tvd_debiased
from aleatoric.types import Categorical, Pair

COUNTS = st.dictionaries(st.sampled_from("abcdefghijkl"), st.integers(1, 5), min_size=2)


@given(COUNTS, COUNTS)
def test_one_pair_is_a_row_of_the_table(people, draws):
    words = sorted(people.keys() | draws.keys())
    left, right = (np.array([[own.get(w, 0) for w in words]]) for own in (people, draws))
    pair = Pair("", "", Categorical.from_counts(people), Categorical.from_counts(draws))
    assert tvd_debiased(pair) == leave_pair_out(left, right)[0]


def test_rows_with_fewer_than_two_answers_are_undefined() -> None:
    found = leave_pair_out(np.array([[1, 0], [1, 1]]), np.array([[2, 0], [2, 0]]))
    assert np.isnan(found).tolist() == [True, False]
