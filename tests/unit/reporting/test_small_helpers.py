"""Helpers of reports and the command line: formatting numbers, names and texts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aleatoric.cli.printing import json_text, plain
from aleatoric.reporting.explorer.library import Library
from aleatoric.reporting.explorer.listing import Site, csv_lines, joined
from aleatoric.reporting.explorer.plots import Axis
from aleatoric.reporting.explorer.snapshot import MeasureColumns, Query, Range, parse
from aleatoric.reporting.finetune import perplexity
from aleatoric.reporting.page_data import Measure, to_json
from aleatoric.reporting.plan import count, duration, size
from aleatoric.reporting.tables import (
    between,
    interval_ends,
    interval_text,
    listed,
    number,
    p_calibrated,
    p_value,
    printable,
    short,
    to_csv,
    to_latex,
    to_markdown,
)
from aleatoric.reporting.texts import _safe
from aleatoric.reporting.tokens import is_percentage
from aleatoric.reporting.views import view_of
from aleatoric.reporting.words import variability
from aleatoric.result_types import Table
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
def test_format_values(shown: str, expected: str) -> None:
    assert shown == expected


def test_format_numbers_of_figures() -> None:
    assert interval_ends(Estimate(0.5, None, 3, 1), 100) == (50.0, 50.0, 50.0)
    assert (short(1 / 3), short(math.nan), short(None)) == (0.33333, None, None)
    assert Axis.over(0.0, 1.0).ticks == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert (perplexity(0.0), perplexity(1e9)) == (1.0, math.inf)


def test_text_cannot_end_script_or_control_terminal() -> None:
    assert to_json({"text": "</script>"}) == r'{"text":"\u003c/script\u003e"}'
    assert json_text(["é", "\x9b31m", "\u202e"]) == '[\n "é",\n "\\u009b31m",\n "\\u202e"\n]'
    assert plain(UnicodeEncodeError("ascii", "TVD ↓", 4, 5, "")) == ("v", 5)
    assert _safe(["a" * 20_007])[0].endswith("a… (7 more characters)")
    assert _safe(["a\x07"]) == [r"a\x07"]


def test_spreadsheet_cells_are_never_formulas() -> None:
    assert b"".join(csv_lines(["a"], [[0.5], [math.nan], ["=1"]])) == b'a\n0.5\n""\n\'=1\n'
    texts = [["=1"], ["+x"], ["-5"], ["-5%"], ["-5+1"], ["@a"], ["\t="], ["a=1"]]
    rows = tuple(map(tuple, texts))
    written = to_csv(Table("t", ("text",), rows)).replace(r"\t", "\t")
    assert b"".join(csv_lines(["text"], texts)).decode() == f"{written}\n"
    assert written.split()[1:] == ["'=1", "'+x", "-5", "-5%", "'-5+1", "'@a", "'", "=", "a=1"]


def test_names_in_latex_and_markdown_are_plain_text() -> None:
    names = ("[a]", "*b", " [c]", "_it_", "a_b", "__c")
    table = Table("t", ("system", "n"), tuple((name, "1") for name in names))
    rows = to_latex(table).splitlines()[4:-2]
    assert rows[:3] == [r"{}[a] & 1 \\", r"{}*b & 1 \\", r"{} [c] & 1 \\"]
    assert not any(row.lstrip().startswith(("[", "*")) for row in rows)
    cells = [line.split("|")[1].strip() for line in to_markdown(table).splitlines()[2:]]
    assert cells == [r"\[a\]", r"\*b", r"\[c\]", r"\_it\_", "a_b", r"\_\_c"]


def test_links_and_query_parameters() -> None:
    address = Site(Library([]), "s3cret").to(
        "run", "0", "context", params=[("id", "1:2 <a>"), ("q", "")]
    )
    assert address == "/s3cret/run/0/context?id=1%3A2+%3Ca%3E"
    asked = parse({"q": ["a"], "of": ["tvd"], "min": ["0.5"], "page": ["x"]})
    assert asked.ranges == (Range("tvd", 0.5, math.inf),)
    assert asked.page == 1
    params = Query(text="a b", sort="tvd", descending=True).params(page=2)
    assert params == [("q", "a b"), ("sort", "tvd"), ("dir", "desc"), ("page", "2")]


def test_two_systems_are_joined_on_common_items() -> None:
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


def test_sentences_about_variability() -> None:
    assert list(variability({"a": "less", "b": "same"})) == [
        "a varies less than people; b does not differ significantly from people in variability."
    ]
