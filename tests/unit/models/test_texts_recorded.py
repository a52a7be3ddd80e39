"""Recorded texts: valid files, and errors with line and fix for invalid ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from aleatoric.errors import DataError
from aleatoric.models.base import Writing
from aleatoric.models.recorded import RecordedTexts, load_texts
from aleatoric.runs.engine import open_text_model
from aleatoric.runs.job import Loading
from aleatoric.types import TextItem

ITEMS = [TextItem(name, "1", ("x",), ("y", "z")) for name in ("1", "2", "3")]


def recorded(folder: Path, *rows: Any, name: str = "system.jsonl") -> Path:
    path = folder / name
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def texts_of(model: RecordedTexts, items: list[TextItem] = ITEMS) -> dict[str, tuple[str, ...]]:
    return {texts.item_id: texts.texts for texts in model.write(items, Writing())}


def test_rows_are_matched_by_id(tmp_path: Path) -> None:
    path = recorded(
        tmp_path,
        {"id": "2", "generations": ["c", "d"]},
        {"id": 1, "texts": ["a", " b ", ""]},
        {"id": "3", "texts": ["é\n"]},
        {"id": "9", "texts": ["x"]},
    )
    model = load_texts(str(path))
    assert texts_of(model) == {"1": ("a", " b ", ""), "2": ("c", "d"), "3": ("é\n",)}
    assert list(model.notes()) == [
        "system: inputs have unequal numbers of texts, 1 to 3",
        "system: 1 rows name no input of those asked for",
    ]
    assert model.label == "system"
    assert len(model.version) == 12


def test_null_and_missing_texts_are_counted(tmp_path: Path) -> None:
    path = recorded(
        tmp_path, {"id": "1", "texts": ["a", None, "b"]}, {"id": "2", "texts": None}, ""
    )
    model = load_texts(str(path))
    assert texts_of(model) == {"1": ("a", "b"), "2": (), "3": ()}
    assert list(model.notes()) == [
        "system: 1 texts are null and left out",
        "system: 1 rows hold no text",
        "system: 1 inputs have no row",
    ]


def test_one_of_several_systems_is_selected(tmp_path: Path) -> None:
    rows = [{"id": "1", "system": name, "texts": [name]} for name in ("a", "b")]
    path = recorded(tmp_path, *rows)
    assert texts_of(load_texts(f"{path}?system=b"), ITEMS[:1]) == {"1": ("b",)}
    assert load_texts(f"{path}?system=b").label == "b"
    with pytest.raises(DataError, match=r"several systems.*\?system=NAME"):
        load_texts(str(path))
    with pytest.raises(DataError, match=r"no system 'c'.*'a', 'b'"):
        load_texts(f"{path}?system=c")


def test_gzip_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": 1, "texts": ["a"], "system": "s"}\n'))
    model = open_text_model(f"recorded:{path}", Loading())
    assert model.label == "s"
    assert [t.texts for t in model.write(ITEMS[:1], Writing())] == [("a",)]


GOOD = {"id": "1", "texts": ["a"]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ({"texts": ["a"]}, "'id' is missing"),
        ({"id": None, "texts": ["a"]}, "not an identifier"),
        ({"id": "2"}, "a row holds one of texts and generations"),
        ({"id": "2", "texts": ["a"], "generations": ["a"]}, "this one both"),
        ({"id": "2", "texts": "a"}, "texts is not a list"),
        ({"id": "2", "texts": {"a": 1}}, "texts is not a list"),
        ({"id": "2", "texts": [1]}, "is int, not text"),
        ({"id": "2", "texts": ["a\0"]}, "NUL"),
        ('{"id": "2", "texts": ["\\ud800"]}', "surrogate"),
        ({"id": "1", "texts": ["b"]}, "stands in line 1 already"),
        ({"id": "2", "system": [], "texts": ["b"]}, "system"),
    ],
)
def test_errors_name_file_line_and_fix(tmp_path: Path, row: Any, message: str) -> None:
    path = recorded(tmp_path, GOOD, row)
    with pytest.raises(DataError) as error:
        texts_of(load_texts(str(path)))
    assert message in str(error.value)
    assert str(error.value).startswith(f"{path}, line 2: ")
    assert "; " in str(error.value)
    assert error.value.status == 2


def test_invalid_utf8_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"id": 1, "texts": ["caf\xe9"]}\n')
    with pytest.raises(DataError, match="line 1: byte 0xe9"):
        load_texts(str(path))


def test_file_without_rows_or_matching_ids_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no row"):
        load_texts(str(recorded(tmp_path, "")))
    with pytest.raises(DataError, match="no such file"):
        load_texts(str(tmp_path / "none.jsonl"))
    with pytest.raises(DataError, match="no id of its rows"):
        texts_of(load_texts(str(recorded(tmp_path, {"id": "other", "texts": ["a"]}))))


def test_samples_takes_the_first_texts_and_notes_inputs_with_fewer(tmp_path: Path) -> None:
    path = recorded(
        tmp_path,
        {"id": "1", "texts": ["a", None, "b", "c"]},
        {"id": "2", "texts": ["d", "e"]},
        {"id": "3", "texts": ["f"]},
    )
    model = load_texts(str(path))
    found = {t.item_id: t.texts for t in model.write(ITEMS, Writing(most_recorded=2))}
    assert found == {"1": ("a", "b"), "2": ("d", "e"), "3": ("f",)}
    assert list(model.notes()) == [
        "system: inputs have unequal numbers of texts, 1 to 2",
        "system: 1 texts are null and left out",
        "system: 1 inputs have fewer texts than --samples",
        "system: 1 texts beyond --samples are not used",
    ]
