"""Published corpora of several texts per input, in their publishers' layouts."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from aleatoric import registry
from aleatoric.data import fetch, published_texts, references
from aleatoric.data.opening import open_text_corpus, sniff_texts
from aleatoric.errors import DataError, UsageError
from aleatoric.types import MultiRef, TextItem

SHARED = Path(os.environ.get("ALEATORIC_SHARED", Path(__file__).parents[4] / "shared"))
STORY = {
    "metadata": {"passage_id": "63833", "uid": "ea00", "license": "Free."},
    "document": "A ship\n flies. ",
    "questions": [
        {
            "question_text": "What is the plot? ",
            "question_number": 1,
            "responses": [
                {"worker_id": "6", "uid": "a", "response_text": "It flies.\n"},
                {"worker_id": "1", "uid": "b", "response_text": "A flight."},
            ],
        },
        {
            "question_text": "Who flies?",
            "question_number": 2,
            "responses": [
                {"worker_id": "6", "uid": "a", "response_text": "A ship."},
                {"worker_id": "6", "uid": "b", "response_text": "The ship."},
            ],
        },
    ],
}
DIALOGUE = {
    "fname": "test_0",
    "dialogue": "#Person1#: Hi.\n#Person2#: Yes?",
    **{f"summary{k}": f"Summary {k}." for k in (2, 1, 10)},
    **{f"topic{k}": "talk" for k in (1, 2, 10)},
}


def lines(*own: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in own).encode()


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def aligned(folder: Path, inputs: str, references_: str, n: int = 2) -> list[TextItem]:
    write(folder / inputs, b"A b .\nC d .\n")
    for k in range(n):
        write(folder / f"{references_}{k}", f"a {k}\nc {k}\n".encode())
    texts = [tuple(f"{name} {k}" for k in range(n)) for name in "ac"]
    return [
        TextItem(str(i), str(i), (key,), own)
        for i, (key, own) in enumerate(zip(("A b .", "C d ."), texts, strict=True))
    ]


LAYOUTS = {
    "turk": ("test.8turkers.tok.norm", "test.8turkers.tok.turk.", "test"),
    "jfleg": ("test/test.src", "test/test.ref", "test"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_files_of_one_person_each(tmp_path: Path, name: str) -> None:
    inputs, prefix, split = LAYOUTS[name]
    expected = aligned(tmp_path / name, inputs, prefix, 12)
    load = registry.find("text_corpora", name)
    for source in (tmp_path / name, tmp_path / name / inputs):
        found: MultiRef = load(source)
        assert list(found.items) == expected
        assert (found.name, found.version) == (name, split)
    assert open_text_corpus(str(tmp_path / name)).name == name
    (tmp_path / name / f"{prefix}1").write_bytes(b"a\n")
    with pytest.raises(DataError, match=r"line 2: the file has no such line, but .* has; give all"):
        list(load(tmp_path / name).items)


def test_other_splits_by_file(tmp_path: Path) -> None:
    aligned(tmp_path, "test.8turkers.tok.norm", "test.8turkers.tok.turk.")
    expected = aligned(tmp_path, "tune.8turkers.tok.norm", "tune.8turkers.tok.turk.", 3)
    found = published_texts.load_turk(tmp_path / "tune.8turkers.tok.norm")
    assert (found.version, list(found.items)) == ("tune", expected)
    assert published_texts.load_turk(tmp_path).version == "test"


def test_e2e_groups_rows_of_the_same_facts(tmp_path: Path) -> None:
    table = 'mr,ref\n"name[A], area[x]","A is, in x."\n"name[B]",B.\n"name[A], area[x]",In x: A\n'
    path = write(tmp_path / "testset_w_refs.csv", table.encode())
    for found in (open_text_corpus(str(path)), open_text_corpus(f"e2e:{tmp_path}")):
        assert list(found.items) == [
            TextItem("2", "2", ("name[A], area[x]",), ("A is, in x.", "In x: A")),
            TextItem("3", "3", ("name[B]",), ("B.",)),
        ]
        assert (found.name, found.version) == ("e2e", "testset_w_refs")
    bad = write(tmp_path / "devset.csv", b"a,b\n1,2\n")
    with pytest.raises(DataError, match=r"devset\.csv, line 2: 'mr' is missing .*; add"):
        list(published_texts.load_e2e(bad).items)
    with pytest.raises(DataError, match=r"holds no testset_w_refs\.csv; name the folder or"):
        published_texts.load_e2e(write(tmp_path / "none" / "x", b"").parent)


def test_squality_has_a_group_per_story_and_persons(tmp_path: Path) -> None:
    path = write(tmp_path / "dev.jsonl", lines(STORY))
    found = open_text_corpus(str(path))
    story = "A ship\n flies.\n\n"
    assert list(found.items) == [
        TextItem(
            "63833:1",
            "63833",
            (f"{story}What is the plot?",),
            ("It flies.\n", "A flight."),
            None,
            ("6", "1"),
        ),
        # A writer who is named twice cannot be told from another.
        TextItem("63833:2", "63833", (f"{story}Who flies?",), ("A ship.", "The ship.")),
    ]
    assert (found.name, found.version) == ("squality", "dev")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"questions": {}}, "questions is not a list; write"),
        ({"questions": [1]}, "an entry of questions is not an object; write"),
        ({"metadata": {}}, "'passage_id' is missing .*; add"),
        ({"document": 3}, "document is int, not text; write"),
        ({"questions": [{**STORY["questions"][0], "responses": [{}]}]}, "'response_text' is miss"),  # type: ignore[dict-item, index]
    ],
)
def test_bad_squality(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "dev.jsonl", lines({**STORY, **changes}))
    with pytest.raises(DataError, match=f"line 1: {message}"):
        list(published_texts.load_squality(path).items)


def test_dialogsum_has_its_summaries_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "dialogsum.test.jsonl", lines(DIALOGUE))
    found = open_text_corpus(str(path))
    texts = ("Summary 1.", "Summary 2.", "Summary 10.")
    dialogue = (DIALOGUE["dialogue"],)
    assert list(found.items) == [TextItem("test_0", "test_0", dialogue, texts)]  # type: ignore[arg-type]
    assert (found.name, found.version) == ("dialogsum", "test")
    single = {"fname": "train_0", "dialogue": "#Person1#: Hi.", "summary": "Hi."}
    path = write(tmp_path / "dialogsum.train.jsonl", lines(single))
    with pytest.raises(DataError, match=r"line 1: a row has no summary1, .*; use the test split"):
        list(published_texts.load_dialogsum(path).items)


def test_multi30k_has_five_captions_per_image(tmp_path: Path) -> None:
    for language in ("de", "en"):
        for k in range(1, 6):
            write(tmp_path / f"test_2016.{k}.{language}.gz", f"{language} {k}\nb {k}\n".encode())
    found = open_text_corpus(str(tmp_path))
    captions = [tuple(f"{word} {k}" for k in range(1, 6)) for word in ("en", "b")]
    expected = [TextItem(str(i), str(i), (f"image {i}",), own) for i, own in enumerate(captions)]
    assert list(found.items) == expected
    assert (found.name, found.version, found.language) == ("multi30k", "test_2016", "en")
    german = open_text_corpus(f"multi30k:{tmp_path}/test_2016.1.de.gz")
    assert german.language == "de"
    assert next(iter(german.items)).references[0] == "de 1"
    with pytest.raises(DataError, match=r"holds no captions; name the folder or a file"):
        published_texts.load_multi30k(write(tmp_path / "none" / "x", b"").parent)


@pytest.mark.parametrize(("name", "n"), [("turk", 18), ("jfleg", 10), ("e2e", 2), ("asset", 22)])
def test_fetched_sets_have_checksums_of_all_files(name: str, n: int) -> None:
    downloads = fetch.files_of(name)
    assert len({download.filename for download in downloads}) == n
    assert len({download.sha256 for download in downloads}) == n
    assert all(download.sha256 and len(download.sha256) == 64 for download in downloads)
    assert all(download.url.startswith("https://") for download in downloads)


def test_addresses_without_a_checksum_name_a_commit() -> None:
    for name in ("squality", "multi30k", "dialogsum"):
        for download in fetch.files_of(name):
            commit = download.url.split("/")[5]
            assert download.sha256 is None
            assert len(commit) == 40
            assert int(commit, 16)


def test_splits_of_fetched_corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path))
    for split in ("test", "tune"):
        stem = f"{split}.8turkers.tok"
        aligned(tmp_path / "turk", f"{stem}.norm", f"{stem}.turk.", 8)
    assert open_text_corpus("turk").version == "test"
    assert open_text_corpus("turk@tune").version == "tune"
    with pytest.raises(UsageError, match=r"turk has no split 'dev'; its files start with: test\.8"):
        open_text_corpus("turk@dev")
    with pytest.raises(UsageError, match=r"run aleatoric fetch jfleg, or put test\.src into"):
        open_text_corpus("jfleg@dev")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_publishers_layouts_hold_the_same_texts_as_json_lines(tmp_path: Path) -> None:
    turk = list(references.load(SHARED / "data/multiref/turk_test.jsonl.gz").items)
    texts = [[item.input[0] for item in turk]]
    texts += [[item.references[k] for item in turk] for k in range(8)]
    names = ["norm", *(f"turk.{k}" for k in range(8))]
    for name, column in zip(names, texts, strict=True):
        write(tmp_path / f"test.8turkers.tok.{name}", "".join(f"{t}\n" for t in column).encode())
    assert list(published_texts.load_turk(tmp_path).items) == turk
    e2e = list(references.load(SHARED / "data/multiref/e2e_dev.jsonl.gz").items)
    out = io.StringIO()
    rows = [(item.input[0], text) for item in e2e for text in item.references]
    csv.writer(out).writerows([("mr", "ref"), *rows])
    path = write(tmp_path / "devset.csv", out.getvalue().encode())
    found = [(i.input, i.references) for i in published_texts.load_e2e(path).items]
    assert found == [(i.input, i.references) for i in e2e]
    assert sniff_texts(SHARED / "data/multiref/e2e_dev.jsonl.gz") == "e2e"
    assert sniff_texts(SHARED / "data/multiref/turk_test.jsonl.gz") == "turk"
