"""Corpora of reference texts: reading each layout, and errors for malformed files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aleatoric import registry
from aleatoric.data import fetch, published_texts, references
from aleatoric.data.opening import open_text_corpus, sniff_texts
from aleatoric.data.selection import ReferenceLimits
from aleatoric.errors import DataError, UsageError
from aleatoric.types import MultiRef, TextItem

GOOD = {"id": "1", "input": "Hi!", "references": ["Hello.", "Hey."]}
ITEM = TextItem("1", "1", ("Hi!",), ("Hello.", "Hey."))


def rows(*own: Any) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in own).encode()


def good(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**GOOD, **changes}.items() if value is not ...}


def write(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", registry.names("text_corpora"))
def test_every_corpus_reads_common_json_format(tmp_path: Path, name: str, packed: bool) -> None:
    data = rows(GOOD, good(id=2, input=["Hi!", "Hello!"], group="g", original_reference="Yes"))
    path = write(tmp_path, "mine.jsonl" + ".gz" * packed, gzip.compress(data) if packed else data)
    found: MultiRef = registry.find("text_corpora", name)(path)
    other = TextItem("2", "g", ("Hi!", "Hello!"), ("Hello.", "Hey."), "Yes")
    assert list(found.items) == list(found.items) == [ITEM, other]
    assert (len(found.items), len(found.sha256), list(found.notes)) == (2, 64, [])
    assert found.language == ("de" if name == "wmt14-10ref" else "en")


def test_id_is_optional_and_language_can_be_given(tmp_path: Path) -> None:
    path = write(tmp_path, "mine.jsonl", rows(good(id=..., language="DE", original="Servus.")))
    found = references.load(path)
    assert list(found.items) == [TextItem("1", "1", ("Hi!",), ("Hello.", "Hey."), "Servus.")]
    assert (found.name, found.language) == ("mine", "de")


def test_few_references_and_empty_texts_are_noted(tmp_path: Path) -> None:
    few = (
        good(id=2, references=["a"]),
        good(id=3, references=[]),
        good(id=4, references=["", "b"]),
    )
    found = references.load(write(tmp_path, "mine.jsonl", rows(GOOD, *few)))
    for _ in range(2):  # a second walk counts anew
        assert [len(item.references) for item in found.items] == [2, 1, 0, 2]
        assert list(found.notes) == [
            "2 of 4 inputs have fewer than 2 references: their variability is undefined",
            "1 reference is empty: a pair of two empty texts is undefined",
        ]


BAD: dict[str, tuple[bytes, str]] = {
    "one reference each": (rows(good(references=["a"])), r"c\.jsonl: no input has 2 references"),
    "no references": (rows(good(references=...)), "line 1: 'references' is missing .*; add"),
    "references as text": (rows(good(references="a")), "line 1: references is not a list; write"),
    "a null reference": (
        rows(GOOD, good(id=2, references=["a", None])),
        "line 2: an entry of references is NoneType, not text; write",
    ),
    "a number for a reference": (rows(good(references=["a", 3])), "is int, not text; write"),
    "no input": (rows(good(input=...)), "line 1: 'input' is missing .*; add"),
    "a null input": (rows(good(input=None)), "line 1: input is NoneType, not text; write"),
    "an empty input": (rows(good(input=" ")), "line 1: input is empty; give"),
    "no turns": (rows(good(input=[])), "line 1: input is empty; give"),
    "a turn that is a list": (rows(good(input=[["a"]])), "is list, not text; write"),
    "a duplicate id": (rows(GOOD, GOOD), "line 2: id '1' is already used in line 1; give"),
    "an id that is a list": (rows(good(id=[1])), r"line 1: id \[1\] is not an identifier; use"),
    "a null group": (rows(good(group=None)), "line 1: group None is not an identifier; use"),
    "an original that is a number": (rows(good(original=3)), "original is int, not text; write"),
    "a list": (b"[1]\n", "line 1: a JSON list, not an object; write"),
    "not JSON": (b"input,references\n", "line 1: not JSON .*; write"),
    "invalid UTF-8": (rows(GOOD) + b'{"input": "\xff"}\n', "line 2: byte 0xff .* not utf-8; save"),
    "half a surrogate": (b'{"input": "\\ud800", "references": []}\n', "surrogate pair.*; export"),
    "NaN": (b'{"input": NaN}\n', "line 1: NaN is not a JSON number; leave"),
    "truncated gzip": (gzip.compress(rows(GOOD))[:-9], "gzip data are cut off or damaged; copy"),
    "an empty file": (b"", r"c\.jsonl: holds no item; give"),
    "two languages": (
        rows(GOOD, good(id=2, language="de")),
        "line 2: language 'de' where the first row has 'en'; put",
    ),
    "no language": (
        rows(good(language="deutsch!")),
        "line 1: language .* is not a language code; write",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_rows_are_reported_with_line(tmp_path: Path, case: str) -> None:
    data, message = BAD[case]
    path = write(tmp_path, "c.jsonl", data)
    with pytest.raises(DataError, match=message) as error:
        list(open_text_corpus(str(path)).items)
    assert re.search(r"; .*\.$", str(error.value))
    assert error.value.status == 2


def simplified(folder: Path, *columns: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    write(folder, "asset.valid.orig", columns[0])
    for number, column in enumerate(columns[1:]):
        write(folder, f"asset.valid.simp.{number}", column)
    return folder


def test_read_asset_in_published_layout(tmp_path: Path) -> None:
    people = [f"a{n}\nb{n}".encode() for n in range(11)]
    folder = simplified(tmp_path / "asset", b"A\nB\n", *people)
    found = published_texts.load_asset(folder)
    # 10 comes after 9, not after 1.
    expected = [
        TextItem(str(row), str(row), (key.upper(),), tuple(f"{key}{n}" for n in range(11)))
        for row, key in enumerate("ab")
    ]
    assert list(found.items) == expected
    assert (found.name, found.version, found.licence) == ("asset", "valid", "CC BY-NC 4.0")
    assert list(published_texts.load_asset(folder / "asset.valid.orig").items) == expected
    assert sniff_texts(folder) == "asset"
    assert list(open_text_corpus(str(folder)).items) == expected


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((b"a\nb\n", b"a\nb\n", b"a\n"), r"simp\.1, line 2: .*no such line, but .*orig has; give"),
        ((b"a\n", b"a\n"), r"asset\.valid\.orig: there are 1 files .* beside it; put"),
        ((b"a\n", b"a\n", b"\xff\n"), r"simp\.1, line 1: byte 0xff .* is not utf-8; save"),
        ((b" \n", b"a\n", b"b\n"), r"orig, line 1: the original is empty; give"),
    ],
)
def test_invalid_asset_files_are_rejected(
    tmp_path: Path, columns: tuple[bytes, ...], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        list(published_texts.load_asset(simplified(tmp_path, *columns)).items)


@pytest.mark.parametrize("load", [published_texts.load_asset, references.load_writingprompts])
def test_folder_without_corpus_files_is_rejected(
    load: Callable[[Path], MultiRef], tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"holds no .*; name the folder"):
        load(tmp_path)
    with pytest.raises(DataError, match=r"is no .*; name the folder"):
        load(tmp_path / "none")


WMT = (
    "S-3\tHello.\nT-3\tServus.\nR2-3\tHallo.\nR1-3\tGuten Tag.\nS-7\tNo.\nR1-7\tNein.\nR2-7\tNö.\n"
)


@pytest.mark.parametrize("packed", [False, True])
def test_read_wmt_in_published_layout(tmp_path: Path, packed: bool) -> None:
    data = gzip.compress(WMT.encode()) if packed else WMT.encode()
    path = write(tmp_path, "wmt14-en-de.extra_refs" + ".gz" * packed, data)
    found = open_text_corpus(str(path))
    assert list(found.items) == [
        TextItem("3", "3", ("Hello.",), ("Guten Tag.", "Hallo."), "Servus."),
        TextItem("7", "7", ("No.",), ("Nein.", "Nö.")),
    ]
    assert (found.name, found.language, found.version) == ("wmt14-10ref", "de", "en-de")
    assert references.load_wmt14(path.rename(tmp_path / "wmt14-en-fr.extra_refs")).language == "fr"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"Hello.\n", r"line 1: 'Hello\.' is no line of extra references; write"),
        (b"S-1 Hello.\n", "line 1: .*no line of extra references; write"),
        (b"S-1\ta\nR1-1\tb\nR1-1\tc\n", "line 3: 'R1-1' occurs twice; keep"),
        (b"S-1\ta\nS-1\tb\n", "line 2: 'S-1' occurs twice; keep"),
        (b"R1-1\ta\nR2-1\tb\n", "line 1: sentence 1 has no line S-1; give"),
        (b"S-1\t \nR1-1\ta\nR2-1\tb\n", "line 1: the source is empty; give"),
        (b"S-1\ta\nR1-1\tb\n", "no input has 2 references"),
        (b"", "holds no item; give"),
    ],
)
def test_invalid_wmt_files_are_rejected(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(references.load_wmt14(write(tmp_path, "wmt14-en-de.extra_refs", data)).items)


def test_read_dailydialog_in_published_layout(tmp_path: Path) -> None:
    row = {
        "context": ["Hi!", "Hello!"],
        "positive_responses": ["Well?", "Yes?"],
        "adversarial_negative_responses": ["Hello is a word."],
        "random_negative_responses": ["No."],
    }
    path = write(tmp_path, "dev.json", rows(row))
    expected = [TextItem("1", "1", ("Hi!", "Hello!"), ("Well?", "Yes?"))]
    assert list(references.load_dailydialog(path).items) == expected
    found = open_text_corpus(str(path))
    assert (found.name, list(found.items)) == ("dailydialog++", expected)
    bad = write(tmp_path, "bad.json", rows(row, {"context": ["Hi!"]}))
    with pytest.raises(DataError, match=r"line 2: 'positive_responses' is missing .*; add"):
        list(references.load_dailydialog(bad).items)


def test_writingprompts_groups_stories_by_prompt(tmp_path: Path) -> None:
    source = write(tmp_path, "test.wp_source", b"[ WP ] One\n[ WP ] Two\n[ WP ] One\n")
    write(tmp_path, "test.wp_target", b"a <newline> b\nc\nd\n")
    found = open_text_corpus(str(tmp_path))
    assert list(found.items) == [
        TextItem("1", "1", ("[ WP ] One",), ("a\nb", "d")),
        TextItem("2", "2", ("[ WP ] Two",), ("c",)),
    ]
    assert (found.name, found.version) == ("writingprompts", "test")
    assert list(found.notes) == [
        "1 of 2 inputs has fewer than 2 references: its variability is undefined"
    ]
    write(tmp_path, "test.wp_target", b"a\nc\n")
    with pytest.raises(DataError, match=r"test\.wp_target, line 3: .*no such line, but .*; give"):
        list(references.load_writingprompts(source).items)


def test_unknown_names_and_missing_paths_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match=r"no corpus or file 'brown'; known corpora: asset, "):
        open_text_corpus("brown")
    with pytest.raises(UsageError, match=r"run aleatoric fetch asset, or put asset\.valid\.orig"):
        open_text_corpus("asset")
    with pytest.raises(DataError, match=r"none\.jsonl: there is no such file; check"):
        open_text_corpus(str(tmp_path / "none.jsonl"))
    with pytest.raises(DataError, match="no corpus of texts is known that has these files; name"):
        open_text_corpus(str(tmp_path))


def test_fetched_stories_are_unpacked_next_to_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path))
    archive = tmp_path / fetch.DOWNLOADS["writingprompts"].filename
    with tarfile.open(archive, "w:gz") as tar:
        for member in fetch.DOWNLOADS["writingprompts"].members:
            own = tarfile.TarInfo(member)
            data = b"A prompt\nA prompt\n" if member.endswith("source") else b"one\ntwo\n"
            own.size = len(data)
            tar.addfile(own, io.BytesIO(data))
    (item,) = open_text_corpus("writingprompts").items
    assert item.references == ("one", "two")
    assert (tmp_path / "test.wp_target").is_file()


@pytest.mark.parametrize("cut", [True, False])
def test_corrupt_archive_is_named(tmp_path: Path, cut: bool) -> None:
    archive = tmp_path / "a.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        own = tarfile.TarInfo("b/x")
        own.size = 10**5
        tar.addfile(own, io.BytesIO(bytes(range(250)) * 400))
    if cut:
        archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"a\.tar\.gz: holds no whole file b/.; delete"):
        fetch.unpack(archive, ("b/x" if cut else "b/y",))
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]


def test_url_option_is_rejected_for_file_sets() -> None:
    with pytest.raises(UsageError, match="asset has 22 files, so it takes no --url"):
        fetch.files_of("asset", url="https://example.org/")


def test_asset_rebuilt_from_its_references_has_the_published_checksums(
    shared: Path, tmp_path: Path
) -> None:
    """Lines joined without a trailing newline have the exact bytes of the published files."""
    source = shared / "data" / "multiref" / "asset_valid.jsonl.gz"
    items = list(published_texts.load_asset(source).items)
    columns = [[item.references[n] for item in items] for n in range(10)]
    simplified(tmp_path, b"\n".join(item.input[0].encode() for item in items))
    for number, column in enumerate(columns):
        data = "\n".join(column).encode()
        write(tmp_path, f"asset.valid.simp.{number}", data)
        expected = {d.filename: d.sha256 for d in fetch.files_of("asset")}
        assert hashlib.sha256(data).hexdigest() == expected[f"asset.valid.simp.{number}"]
    assert list(published_texts.load_asset(tmp_path).items) == items


def many(n: int, **more: Any) -> dict[str, Any]:
    return {"input": "Hi!", "references": [f"text {i}" for i in range(n)], **more}


def limited(path: Path, text: str, seed: int = 0) -> MultiRef:
    limits = ReferenceLimits.parse(text, seed)
    return references.limit_references(references.load(path), limits)


def test_reference_limits_leave_out_and_draw(tmp_path: Path) -> None:
    path = write(tmp_path, "c.jsonl", rows(*(many(n, id=f"i{n}") for n in (1, 4, 5, 10, 30))))
    found = limited(path, "5:10")
    for _ in range(2):  # a second walk counts anew
        by_id = {item.id: item.references for item in found.items}
        assert {name: len(texts) for name, texts in by_id.items()} == {
            "i5": 5,
            "i10": 10,
            "i30": 10,
        }
        assert list(found.notes) == [
            "2 of 5 inputs have fewer than 5 references and are left out (--references)",
            "1 of 3 inputs have more than 10 references: 10 of each are used, drawn at random with "
            "seed 0 (20 are not)",
        ]
    numbers = [int(text.split()[1]) for text in by_id["i30"]]
    assert numbers == sorted(set(numbers))  # in the order of the file
    assert numbers != list(range(10))
    smaller = next(item for item in limited(path, ":4").items if item.id == "i30")
    assert set(smaller.references) < set(by_id["i30"])
    other = {item.id: item.references for item in limited(path, "5:10", seed=1).items}
    assert other["i30"] != by_id["i30"]


def test_drawn_references_do_not_depend_on_the_other_inputs(tmp_path: Path) -> None:
    inputs = [many(30, id=f"i{n}") for n in range(4)]
    forward = limited(write(tmp_path, "a.jsonl", rows(*inputs)), "10")
    backward = limited(write(tmp_path, "b.jsonl", rows(*inputs[::-1])), "10")
    drawn = {item.id: item.references for item in forward.items}
    assert drawn == {item.id: item.references for item in backward.items}
    assert len(set(drawn.values())) == 4


def test_every_reference_is_drawn_equally_often() -> None:
    limits = ReferenceLimits.parse(":3")
    drawn = Counter(i for item in range(4000) for i in limits.chosen(str(item), 12))
    assert len(drawn) == 12
    assert all(abs(count - 1000) < 5 * 27 for count in drawn.values())  # 5 standard deviations


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("5:", [5, 8]), (":4", [1, 4, 4]), ("5", [5, 5]), ("5:8", [5, 8]), (" 5:5 ", [5, 5])],
)
def test_forms_of_reference_limits(tmp_path: Path, text: str, sizes: list[int]) -> None:
    path = write(tmp_path, "c.jsonl", rows(*map(many, (1, 5, 8))))
    assert [len(item.references) for item in limited(path, text).items] == sizes


@pytest.mark.parametrize("text", ["", ":", "a", "5:10:2", "-1", "5-10", "10:5", ":1", "1", "2.5"])
def test_bad_reference_limits_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--references .*; (write|give) "):
        ReferenceLimits.parse(text)


def test_no_input_with_enough_references_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "c.jsonl", rows(many(3), many(4)))
    with pytest.raises(UsageError, match="no input of c has 5 references; lower the minimum"):
        list(limited(path, "5:10").items)


def by_person(*persons: Any) -> list[dict[str, Any]]:
    return [{"person": person, "text": f"text of {person}"} for person in persons]


def test_references_may_name_their_persons(tmp_path: Path) -> None:
    path = write(tmp_path, "c.jsonl", rows(good(references=by_person("a", 2, " c "))))
    (item,) = references.load(path).items
    assert (item.persons, item.references[1]) == (("a", "2", "c"), "text of 2")
    (item,) = limited(path, ":2").items
    assert item.persons is not None
    expected = tuple(f"text of {person}" for person in item.persons)
    assert tuple(text.replace("  ", " ").strip() for text in item.references) == expected
    table = "input,reference,person\nx,one,p\nx,two,q\n"
    (item,) = references.load(write(tmp_path, "c.csv", table.encode())).items
    assert (item.references, item.persons) == (("one", "two"), ("p", "q"))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            [good(references=by_person("a", "a"))],
            "line 1: person 'a' writes two texts .*; keep one",
        ),
        ([GOOD, good(id=2, references=by_person("a", "b"))], "line 2: only some rows have persons"),
        ([good(references=[*by_person("a"), "b"])], "entry of references is not an object with"),
        ([good(references=[{"person": "a"}])], "exactly person and text; write every entry as"),
        ([good(references=[{"person": " ", "text": "b"}])], "person ' ' is not an identifier"),
    ],
)
def test_bad_persons_are_refused(tmp_path: Path, own: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(references.load(write(tmp_path, "c.jsonl", rows(*own))).items)
