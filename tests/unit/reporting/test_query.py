"""Selection by arrays matches a plain loop."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aleatoric.reporting.explorer.listing import joined
from aleatoric.reporting.explorer.plots import cloud, histogram
from aleatoric.reporting.explorer.snapshot import (
    Items,
    MeasureColumns,
    Query,
    Range,
    parse,
    select,
)

WORDS = ("there", "are", "THE", "ß", "Straße", "")
RANGES = ((), (Range("tvd", 0.2, 0.8),), (Range("tvd", 0.1, 1.0), Range("h", 0.0, 0.5)))
values = st.one_of(st.just(math.nan), st.floats(0, 1).map(lambda x: round(x, 2)))
rows = st.lists(
    st.tuples(values, values, st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join),
              st.sampled_from("ab"), st.booleans()),
    max_size=12,
)  # fmt: skip
queries = st.builds(
    Query,
    text=st.sampled_from(("", "t", "the", "SS", "r a")),
    group=st.sampled_from(("", "a", "c")),
    tag=st.sampled_from(("", "NOUN", "VERB")),
    ranges=st.sampled_from(RANGES),
    sort=st.sampled_from(("order", "tvd", "h", "nothing")),
    descending=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(rows, queries)
def test_select_matches_loop(
    found: list[tuple[float, float, str, str, bool]], query: Query
) -> None:
    columns, items, tags = _arrays(found)
    assert select(columns, items, query, tags).tolist() == _naive(found, query)


def _arrays(found: list[tuple[float, float, str, str, bool]]) -> tuple[MeasureColumns, Items, dict]:
    groups = tuple(dict.fromkeys(row[3] for row in found))
    codes = np.array([groups.index(row[3]) for row in found], dtype=np.int64)
    items = Items(
        np.arange(len(found)) + 1, groups, codes, tuple(row[2].casefold() for row in found)
    )
    values = {"tvd": np.array([r[0] for r in found]), "h": np.array([r[1] for r in found])}
    tags = {"NOUN": np.array([row[4] for row in found], dtype=np.bool_)}
    return MeasureColumns("m", np.arange(len(found)), values), items, tags


def _naive(found: list[tuple[float, float, str, str, bool]], query: Query) -> list[int]:
    def is_wanted(row: tuple[float, float, str, str, bool]) -> bool:
        named = {"tvd": row[0], "h": row[1]}
        return (
            query.text.casefold() in row[2].casefold()
            and query.group in ("", row[3])
            and (not query.tag or (query.tag == "NOUN" and row[4]))
            and all(own.low <= named[own.key] <= own.high for own in query.ranges)
        )

    chosen = [i for i, row in enumerate(found) if is_wanted(row)]
    place = {"tvd": 0, "h": 1}.get(query.sort)
    if place is None:
        return chosen[::-1] if query.descending else chosen
    known = [i for i in chosen if not math.isnan(found[i][place])]
    sign = -1 if query.descending else 1
    ordered = sorted(known, key=lambda i: (sign * found[i][place], i))
    return [*ordered, *(i for i in chosen if i not in known)]


@settings(max_examples=40, deadline=None)
@given(queries)
def test_url_round_trips_the_query(query: Query) -> None:
    params: dict[str, list[str]] = {}
    for key, value in query.params(page=3):
        params.setdefault(key, []).append(value)
    assert parse(params, "tvd").params() == query.params(page=3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(values, values), max_size=40))
def test_every_defined_pair_is_in_one_cell(pairs: list[tuple[float, float]]) -> None:
    x, y = (np.array([pair[i] for pair in pairs], dtype=np.float64) for i in (0, 1))
    found = cloud(x, y, np.arange(len(pairs)))
    known = [p for p in pairs if not (math.isnan(p[0]) or math.isnan(p[1]))]
    assert sum(cell.count for cell in found.cells) == len(known) == found.n
    for cell in found.cells:
        assert cell.x_ends[0] <= x[cell.row] <= cell.x_ends[1]
        assert cell.y_ends[0] <= y[cell.row] <= cell.y_ends[1]


@settings(max_examples=40, deadline=None)
@given(st.lists(values, max_size=40))
def test_every_defined_value_is_in_one_bin(sample: list[float]) -> None:
    found = histogram(np.array(sample, dtype=np.float64))
    assert sum(count for *_, count in found) == sum(not math.isnan(value) for value in sample)


def test_first_row_represents_item() -> None:
    twice = MeasureColumns("x", np.array([0, 0, 3]), {"tvd": np.array([0.25, 0.5, 0.75])})
    once = MeasureColumns("y", np.array([0, 3]), {"tvd": np.array([0.125, 0.5])})
    assert joined(twice, once, "tvd").values["a"].tolist() == [0.25, 0.75]
