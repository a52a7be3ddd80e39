"""Small helpers of reports and of the command line: numbers, names and texts as they are shown."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aleatoric.cli.printing import json_text, plain
from aleatoric.report.charts import to_json
from aleatoric.report.explorer.listing import joined
from aleatoric.report.explorer.plots import Axis
from aleatoric.report.explorer.rendering import Links, csv_lines
from aleatoric.report.explorer.snapshot import MeasureColumns, Query, Range, parse
from aleatoric.report.finetune import perplexity
from aleatoric.report.item_data import Measure
from aleatoric.report.plan import count, duration, size
from aleatoric.report.tables import (
    between,
    interval_ends,
    interval_text,
    listed,
    number,
    p_calibrated,
    p_value,
    printable,
    short,
)
from aleatoric.report.texts import _safe
from aleatoric.report.tokens import is_percentage
from aleatoric.report.views import view_of
from aleatoric.report.words import variability
from aleatoric.types import Estimate, Interval


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (number(0.43239), "0.432"),
        (number(None), "–"),
        (number(-0.0001), "0.000"),
        (between(0.2, 0.3), "0.200–0.300"),
        (between(0.2, 0.2), "0.200"),
        (between(None, None), "–"),
        (p_value(0.00003), "<.001"),
        (p_value(0.0421), ".042"),
        (p_value(None), "–"),
        (p_calibrated(Estimate(0.1, None, 9, 3, p_calibrated=0.4286)), "p = 0.429"),
        (interval_text(Interval(0.1, 0.9, 0.95, "t"), 1, 100), "[10.0, 90.0]"),
        (listed(["a"]), "a"),
        (listed(["a", "b", "c"]), "a, b and c"),
        (printable("a\x1b[31mb"), r"a\x1b[31mb"),
        (count(135e6), "135M"),
        (count(5), "5"),
        (size(5), "0.005 KB"),
        (duration(0.25), "0.25 s"),
        (duration(90), "90 s"),
        (duration(7200), "2.0 h"),
        (duration(5e6), "58 days"),
    ],
)
def test_values_as_text(shown: str, expected: str) -> None:
    assert shown == expected


def test_numbers_of_figures() -> None:
    assert interval_ends(Estimate(0.5, None, 3, 1), 100) == (50.0, 50.0, 50.0)
    assert (short(1 / 3), short(math.nan), short(None)) == (0.33333, None, None)
    assert Axis.over(0.0, 1.0).ticks == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert (perplexity(0.0), perplexity(1e9)) == (1.0, math.inf)


def test_no_text_ends_a_script_or_controls_a_terminal() -> None:
    assert to_json({"text": "</script>"}) == r'{"text":"\u003c/script\u003e"}'
    assert json_text(["é", "\x9b31m", "\u202e"]) == '[\n "é",\n "\\u009b31m",\n "\\u202e"\n]'
    assert plain(UnicodeEncodeError("ascii", "TVD ↓", 4, 5, "")) == ("v", 5)
    assert _safe(["a" * 20_007])[0].endswith("a… (7 more characters)")
    assert _safe(["a\x07"]) == [r"a\x07"]


def test_no_cell_of_a_spreadsheet_is_a_formula() -> None:
    assert b"".join(csv_lines(["a"], [[0.5], [math.nan], ["=1"]])) == b'a\n0.5\n""\n\'=1\n'


def test_addresses() -> None:
    address = Links("s3cret").to("run", "0", "context", params=[("id", "1:2 <a>"), ("q", "")])
    assert address == "/s3cret/run/0/context?id=1%3A2+%3Ca%3E"
    asked = parse({"q": ["a"], "of": ["tvd"], "min": ["0.5"], "page": ["x"]})
    assert asked.ranges == (Range("tvd", 0.5, math.inf),)
    assert asked.page == 1
    params = Query(text="a b", sort="tvd", descending=True).params(page=2)
    assert params == [("q", "a b"), ("sort", "tvd"), ("dir", "desc"), ("page", "2")]


def test_two_systems_side_by_side() -> None:
    x = MeasureColumns("x", np.array([0, 1]), {"tvd": np.array([0.5, 0.25])})
    y = MeasureColumns("y", np.array([1, 2]), {"tvd": np.array([0.75, 0.5])})
    found = {name: own.tolist() for name, own in joined(x, y, "tvd").values.items()}
    assert found == {"a": [0.25], "b": [0.75], "difference": [-0.5], "gap": [0.5]}


def test_measures_and_metrics() -> None:
    assert Measure("w1_C/semantic", "", "").probe == "semantic"
    keys = [measure.key for measure in view_of("text").measures(["w1_C/a", "mean_H/a"])]
    assert keys == ["mean_H/a", "w1_C/a"]
    assert is_percentage("e_ece_p")
    assert not is_percentage("entropy")


def test_sentences_on_variability() -> None:
    assert list(variability({"a": "less", "b": "same"})) == [
        "a varies less than people.",
        "b does not differ significantly from people in variability.",
    ]
