"""Filter expressions match Python's own evaluation, and refuse everything else."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aleatoric.errors import UsageError
from aleatoric.result_types import Labels
from aleatoric.studies.filters import chosen

NAN = math.nan
VALUES = {
    "mean_M/lexical-1": np.array([0.1, 0.5, 0.3, NAN]),
    "mean_M/semantic": np.array([0.7, 0.9, 0.2, 0.8]),
    "energy/mine:gap": np.array([-1e-3, 2.0, 0.0, 5.0]),
    "variability/lexical-1": Labels(
        np.array([1.0, 0.0, -1.0, NAN]), {1: "varies more", 0: "varies as people", -1: "less"}
    ),
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("mean_M/lexical-1 < 0.4", [0, 2]),
        ("mean_M/lexical-1<0.4 and mean_M/semantic>.6", [0]),
        ("mean_M/lexical-1 < 0.4 or `mean_M/semantic` > 6e-1", [0, 1, 2, 3]),
        ("not mean_M/lexical-1 < 0.4", [1]),
        ("not not (mean_M/lexical-1 >= .3)", [1, 2]),
        ("0.2 < mean_M/lexical-1 <= 0.5 and not (mean_M/semantic == 0.2)", [1]),
        ("energy/mine:gap > -0.01 and energy/mine:gap < +0.01", [0, 2]),
        ("mean_M/lexical-1 < mean_M/semantic", [0, 1]),
        ("variability/lexical-1 == 'varies more'", [0]),
        ('variability/lexical-1 != "varies more"', [1, 2]),
        ("'less' == variability/lexical-1 or mean_M/semantic > 0.85", [1, 2]),
        ("mean_M/semantic > .1 or mean_M/semantic < 0 and mean_M/semantic < 0", [0, 1, 2, 3]),
        ("1 < 2", [0, 1, 2, 3]),
    ],
)
def test_expressions_choose_items(expression: str, expected: list[int]) -> None:
    assert np.flatnonzero(chosen(expression, VALUES)).tolist() == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "the filter ends where a measure or a number is expected"),
        ("mean_M/lexical-1", "ends where a comparison"),
        ("mean_M/lexical-1 < ", "ends where a measure"),
        ("mean_M/lexical-1 < 1 mean_M/semantic > 2", "has 'mean_M/semantic' where and, or"),
        ("(mean_M/lexical-1 < 1", "ends where a closing parenthesis"),
        ("mean_M/lexical < 1", "known are .*mean_M/lexical-1"),
        ("__import__('os').system('x')", "expected|cannot be read"),
        ("mean_M/lexical-1 < 1; import os", "cannot be read from '; import os'"),
        ("mean_M/lexical-1 = 1", "cannot be read from '= 1'"),
        ("variability/lexical-1 == 'other'", "no label 'other'; known: varies more"),
        ("variability/lexical-1 > 'varies more'", "use == or !="),
        ("variability/lexical-1 == 1", "with a number; use 'varies more' or"),
        ("mean_M/semantic == 'varies more'", "leave out the quotes"),
        ("(" * 60 + "1 < 2" + ")" * 60, "levels of parentheses"),
        ("not " * 60 + "1 < 2", "levels of parentheses"),
        ("1 < 2 " + "and 1 < 2 " * 200, "longer than 1000 characters"),
    ],
)
def test_wrong_expressions_are_refused(expression: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        chosen(expression, VALUES)


terms = st.builds(
    "{} {} {}".format,
    st.sampled_from(["x", "y", "0.5"]),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    st.sampled_from(["x", "y", "0.25", "1"]),
)
expressions = st.recursive(
    terms,
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("(not {})".format, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(expressions, st.lists(st.tuples(st.sampled_from([0, 0.25, 0.5, 1.0]), st.floats(0, 1)),
                             min_size=1, max_size=5))  # fmt: skip
def test_expressions_match_python(expression: str, rows: list[tuple[float, float]]) -> None:
    values = {"x": np.array([x for x, _ in rows]), "y": np.array([y for _, y in rows])}
    expected = [eval(expression, {"x": x, "y": y}) for x, y in rows]
    assert chosen(expression, values).tolist() == expected


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="xy01.<>=!()'\"` andort", max_size=40))
def test_any_text_is_read_or_refused(expression: str) -> None:
    try:
        found = chosen(expression, {"x": np.zeros(3), "y": np.ones(3)})
    except UsageError:
        return
    assert found.shape == (3,)
