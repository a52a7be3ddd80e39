"""`aleatoric list` describes everything that a user can choose."""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from aleatoric import registry
from aleatoric.levels import token
from aleatoric.levels.base import find_level
from aleatoric.models.decoding import TextDecoder
from aleatoric.reporting.catalog import KINDS, METRICS, SECTIONS, listing

CHOSEN = [
    (kind, name, section)
    for section, own in SECTIONS.items()
    for kind in own["kinds"]
    for name in registry.PLUGINS[kind]
]


@pytest.mark.parametrize(("kind", "name", "section"), CHOSEN)
def test_every_plugin_has_a_use_and_a_description(kind: str, name: str, section: str) -> None:
    rows = {row[0]: row for row in listing(section).rows}
    assert all(rows[name])
    assert rows[name][2].startswith("--"), f"add {name} to reporting/templates/catalog.toml"


def test_metrics_of_words_are_listed(cli: Callable) -> None:
    ran = cli("word", "--corpus", "simulated:contexts=20,people=8", "--model", "toy", "--json")
    found = {metric for _, metric in ran.results}
    assert found <= {*METRICS["word"]}
    assert {*registry.names("metrics"), *find_level("word").compared} <= {*METRICS["word"]}


def test_metrics_of_tokens_are_listed() -> None:
    assert {*token.METRICS} <= {*METRICS["token"]}


@pytest.mark.parametrize("protocol", ["corrected", "paper"])
def test_metrics_of_texts_are_listed(cli: Callable, tmp_path: Path, protocol: str) -> None:
    people, texts = tmp_path / "people.jsonl", tmp_path / "texts.jsonl"
    rows = [{"id": i, "input": "?", "references": ["a b", "a", f"b {i}", "c"]} for i in range(4)]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [{"id": i, "texts": ["a b c d e f", "a b c d e g"]} for i in range(4)]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    argv = ("--probe", "lexical-1", "--tokeniser", "whitespace", "--protocol", protocol, "--json")
    ran = cli("text", "--corpus", people, "--model", f"recorded:{texts}", *argv)
    assert ran.status == 0, ran.err
    assert {metric.replace("lexical-1", "PROBE") for _, metric in ran.results} <= {*METRICS["text"]}


def test_leading_metrics_come_first_with_their_direction() -> None:
    rows = listing("metrics").rows
    assert [row[:3] for row in rows[:2]] == [
        ("overlap", "word", "higher"),
        ("sq_distance", "word", "lower"),
    ]
    for level in ("word", "token", "text"):
        names = [row[0] for row in rows if row[1] == level][:6]
        leading = find_level(level).leading
        assert any(fnmatchcase(leading, name.replace("PROBE", "*")) for name in names)


def test_decoders_are_listed() -> None:
    for name, (use, _) in SECTIONS["decoders"]["uses"].items():
        assert str(TextDecoder.parse(use.removeprefix("--decoder "))).startswith(name)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_listed_in_every_format(cli: Callable, kind: str) -> None:
    for layout in ("terminal", "csv", "json", "markdown", "latex"):
        ran = cli("list", kind, "--format", layout)
        assert (ran.status, ran.err) == (0, "")
        assert listing(kind).rows[0][0].replace("_", "") in ran.out.replace("\\", "").replace(
            "_", ""
        )
