"""Tables as text of any width, and as data."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

from aleatoric.reporting.tables import (
    as_data,
    folded,
    tables_to_csv,
    tables_to_json,
    text_columns,
    to_text,
)
from aleatoric.result_types import Table

SYSTEMS = ("gpt2", "openai:a-model@http://localhost:8000/v1 temperature=0.75")
TABLE = Table(
    "Word level",
    ("system", "overlap ↑", "D² ↓", "H", "TVD", "items"),
    tuple(
        (name, "0.766 [0.741, 0.790]†", "-0.106", "0.25", "0.301–0.619", "797") for name in SYSTEMS
    ),
    ("H: how often two people agree.", "TVD: the papers' metric."),
    wide=("H",),
)


@pytest.mark.parametrize("width", [36, 40, 50, 60, 80, 200])
def test_columns_that_do_not_fit_are_named_and_numbers_stay_whole(width: int) -> None:
    shown = to_text(TABLE, width)
    assert max(map(cell_len, shown.splitlines())) <= width
    assert shown.count("0.766 [0.741, 0.790]†") == 2
    joined = " ".join(shown.split())
    assert "More with --wide or --format csv: the column" in joined
    for column in ("overlap", "D²", "H", "TVD", "items"):
        assert column in joined


def test_a_note_is_shown_with_its_column() -> None:
    assert "how often two people agree" not in to_text(TABLE)
    assert "how often two people agree" in to_text(TABLE, wide=True)


def test_wide_shows_every_column_in_blocks_that_repeat_the_names() -> None:
    shown = to_text(TABLE, 50, wide=True)
    assert max(map(cell_len, shown.splitlines())) <= 50
    assert shown.count("gpt2") == 2
    assert all(number in shown for number in ("-0.106", "0.25", "0.301–0.619", "797"))
    assert "More with" not in shown


def test_a_terminal_that_is_too_narrow_for_one_number_gets_it_whole() -> None:
    assert "0.766 [0.741, 0.790]†" in to_text(TABLE, 10)


def test_wide_characters_count_twice() -> None:
    table = Table("t", ("system", "n"), (("模型" * 40, "12345"),))
    shown = to_text(table, 40)
    assert max(map(cell_len, shown.splitlines())) <= 40
    assert shown.count("模型") == 40
    assert "12345" in shown


def test_hostile_names_stay_in_their_cells() -> None:
    table = Table("t\x1b[31m", ("system", "n"), (("a\nb\x1b[0m [red]x[/red]", "1"),), ("n\x07",))
    shown = to_text(table)
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[red]x[/red]" in shown


def test_numbers_in_names_are_not_broken() -> None:
    for width in range(5, 30):
        assert any("0.75" in line for line in folded(SYSTEMS[1], width)), width
        assert "".join(folded(SYSTEMS[1], width)) == SYSTEMS[1].replace(" ", "") or width >= 16


def test_names_are_folded_at_spaces_and_commas_first() -> None:
    lines = ["model", "temperature=0.5,", "top_p=0.9"]
    assert list(folded("model temperature=0.5,top_p=0.9", 16)) == lines


@pytest.mark.parametrize(("width", "is_left_out"), [(40, True), (80, False)])
def test_shared_model_is_left_out_where_rows_would_fold(width: int, is_left_out: bool) -> None:
    names = ("smollm2 ancestral", "smollm2 temperature=0.5")
    rows = tuple((name, "0.766 [0.741, 0.790]") for name in names)
    shown = to_text(Table("t", ("system", "overlap"), rows), width)
    assert ("without the first word of all" in shown) == is_left_out
    (row,) = (line for line in shown.splitlines() if "temperature=0.5" in line)
    assert row.endswith("0.790]")
    assert row.startswith("smollm2") != is_left_out


def test_columns_of_names_are_known() -> None:
    assert text_columns(TABLE) == [True, False, False, False, False, False]


def test_data_have_one_number_per_cell() -> None:
    data = as_data(TABLE)
    names = ("overlap", "overlap_low", "overlap_high", "d2", "h", "tvd_low", "tvd_high", "items")
    assert data.columns == ("system", *names)
    assert data.rows[0] == ("gpt2", 0.766, 0.741, 0.79, -0.106, 0.25, 0.301, 0.619, 797)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("0.64", "–"), {"x": [0.64, None]}),
        (("0.4 ± 0.1", "0.3"), {"x": [0.4, 0.3], "x_sd": [0.1, None]}),
        (("12%", "−3%"), {"x": [0.12, -0.03]}),
        (("[1, 2]", "–"), {"x_low": [1, None], "x_high": [2, None]}),
        (("gpt2", "bloom"), {"x": ["gpt2", "bloom"]}),
        (("1,234", "0.000 [–]"), {"x": [1234, 0.0]}),
        (("0.1–0.2", "0.3"), {"x": [None, 0.3], "x_low": [0.1, None], "x_high": [0.2, None]}),
    ],
)
def test_cells_are_split(cells: tuple[str, ...], expected: dict[str, list[object]]) -> None:
    data = as_data(Table("t", ("x",), tuple((cell,) for cell in cells)))
    columns = dict(zip(data.columns, map(list, zip(*data.rows, strict=True)), strict=True))
    assert columns == expected


def test_several_tables_as_csv_and_json() -> None:
    tables = [as_data(TABLE), as_data(Table("other", ("x",), (("1",),)))]
    assert tables_to_csv(tables).endswith("\n\nx\n1")
    rows = json.loads(tables_to_json(tables))
    assert [row["table"] for row in rows] == ["Word level", "Word level", "other"]
    assert "table" not in json.loads(tables_to_json(tables[:1]))[0]
