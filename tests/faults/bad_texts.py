"""Cases of invalid text and vector files, other levels and plans, with the expected errors."""

from __future__ import annotations

import gzip
from pathlib import Path

from bad_inputs import GOOD, Case, corpus, lines

PROBE = ("--probe", "lexical-1", "--tokeniser", "whitespace")
HUGE = 2 * 2**20
MANY = [*range(200_000), 199_999]
CUT = gzip.compress(b"a 1 2\n" * 99)[:-9]
TEXTS = {"id": 1, "input": "Hi?", "references": ["Hello there.", "Hi."]}


def texts(name: str, message: str, files: dict[str, bytes], line: int | None = 1) -> Case:
    """A case with an invalid text-level corpus; the error names the first file."""
    first, *_ = files
    command = ("text", "--out", "{dir}/run", *PROBE)
    return Case(
        name, message, files, ("--corpus", f"{{dir}}/{first}"), first, line, command=command
    )


def asset(
    name: str, message: str, original: bytes, *simplified: bytes, line: int | None = None
) -> Case:
    """A case with ASSET files; the error names the original unless a line is given."""
    files = {"asset.valid.orig": original}
    files |= {f"asset.valid.simp.{i}": data for i, data in enumerate(simplified)}
    found = texts(f"ASSET {name}", message, files, line)
    blamed = found.file if line is None else "asset.valid.simp.1"
    return Case(found.name, message, files, found.argv, blamed, line, command=found.command)


def wmt(name: str, message: str, data: bytes, line: int | None = 1) -> Case:
    return texts(f"WMT {name}", message, {"wmt14-en-de.extra_refs": data}, line)


def stories(name: str, message: str, prompts: bytes, told: bytes | None, line: int | None) -> Case:
    files = {"valid.wp_source": prompts}
    files |= {} if told is None else {"valid.wp_target": told}
    found = texts(f"WritingPrompts {name}", message, files, line)
    return Case(found.name, message, files, found.argv, None, None, command=found.command)


def dialogue(name: str, message: str, *rows: object, line: int | None = 1) -> Case:
    return texts(f"DailyDialog {name}", message, {"dailydialogpp-x.json": lines(*rows)}, line)


def vectors(
    name: str, message: str, data: bytes, line: int | None = 1, file: str = "v.txt"
) -> Case:
    """A case with a valid corpus and an invalid vector file."""
    files = {"c.jsonl": lines(GOOD), file: data}
    embedder = ("--metric", "tvd_sem", "--embedder", f"vectors:{{dir}}/{file}")
    argv = ("--corpus", "{dir}/c.jsonl", *embedder)
    return Case(f"vectors {name}", message, files, argv, file, line)


def plan(name: str, message: str, *argv: str) -> Case:
    return Case(f"plan {name}", message, argv=(), command=("plan", *argv))


def rows_folder(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "rows-loss.npz").write_bytes(b"PK\x05\x06" + b"\0" * 18)


ASSET = [
    asset("without simplifications", "0 files asset.valid.simp.N .*; put", b"a\n"),
    asset("with one simplification", "1 files asset.valid.simp.N .*; put", b"a\n", b"b\n"),
    asset("with a short file", "no such line, but .*; give", b"a\nb\n", b"c\nd\n", b"e\n", line=2),
    asset("with a blank original", "the original is empty; give", b" \n", b"c\n", b"e\n"),
    asset("in latin-1", "is not utf-8; save", b"caf\xe9\n", b"c\n", b"e\n"),
    asset("with a line of 5 MB", "longer than 4 MiB; put", b"a" * 5 * 2**20, b"c\n", b"e\n"),
    asset("with a text of 2 MB", "characters; shorten", b"a" * HUGE, b"c\n", b"e\n"),
]
WMT = [
    wmt("without tabs", "is no line of extra references; write", b"S-1 A dog.\n"),
    wmt("with another mark", "is no line of extra references; write", b"X-1\tA dog.\n"),
    wmt("without a number", "is no line of extra references; write", b"S-\tA dog.\n"),
    wmt("with a long number", "is no line of extra references; write", b"S-1234567890\ta\n"),
    wmt("with a source twice", "'S-1' occurs twice; keep", b"S-1\ta\nS-1\tb\n", 2),
    wmt("with a reference twice", "'R1-1' occurs twice; keep", b"S-1\ta\nR1-1\tb\nR1-1\tc\n", 3),
    wmt("without a source", "has no line S-1; give", b"R1-1\tb\nR2-1\tc\n"),
    wmt("with a blank source", "the source is empty; give", b"S-1\t \nR1-1\tb\nR2-1\tc\n"),
    wmt("with escapes", r"'\\x1b\[31m' is no line", b"\x1b[31m\n"),
    wmt("cut gzip", "cut off or damaged; copy", gzip.compress(b"S-1\ta\n" * 9)[:-9], None),
    wmt("that is empty", "holds no item; give", b"", None),
]
STORIES = [
    stories("without stories", "no such file; check", b"a\n", None, None),
    stories("with a story less", "no such line, but .*; give", b"a\nb\n", b"x\n", 2),
    stories("with a prompt less", "no such line, but .*; give", b"a\n", b"x\ny\n", 2),
    stories("with a blank prompt", "the prompt is empty; give", b" \n", b"x\n", 1),
    stories("with one story a prompt", "no input has 2 references", b"a\nb\n", b"x\ny\n", None),
    stories("that are empty", "holds no item; give", b"", b"", None),
]
DIALOGUES = [
    dialogue("without turns", "'context' is missing .*; add", {"positive_responses": ["a", "b"]}),
    dialogue("without responses", "'positive_responses' is missing", {"context": ["a"]}),
    dialogue("with a turn of 3", "is int, not text; write",
             {"context": [3], "positive_responses": ["a", "b"]}),
    dialogue("with no turn", "is empty; give", {"context": [], "positive_responses": ["a", "b"]}),
    dialogue("with text for a list", "is not a list; write",
             {"context": ["a"], "positive_responses": "b"}),
]  # fmt: skip
MULTIREF = [
    texts("texts in two languages", "language 'fr' where .*; put",
          {"m.jsonl": lines({**TEXTS, "language": "de"}, {**TEXTS, "id": 2, "language": "fr"})}, 2),
    texts("texts of no language", "is not a language code; write",
          {"m.jsonl": lines({**TEXTS, "language": "../../de"})}),
    texts("texts of 2 MB", "characters; shorten",
          {"m.jsonl": lines({**TEXTS, "input": "a" * HUGE})}),
    texts("texts with a key twice", "'id' occurs twice; merge",
          {"m.jsonl": b'{"id": 1, "id": 2, "input": "a", "references": ["b", "c"]}\n'}),
    texts("texts with 200,000 keys, the last twice", "occurs twice; merge",
          {"m.jsonl": ("{" + ",".join(f'"{i}":1' for i in MANY) + "}").encode()}),
    texts("texts with a null original text", "original is list, not text; write",
          {"m.jsonl": lines({**TEXTS, "original": []})}),
    texts("texts with a null group", "is not an identifier; use",
          {"m.jsonl": lines({**TEXTS, "group": None})}),
    texts("texts as a NUL", "NUL character; remove",
          {"m.jsonl": lines({**TEXTS, "references": ["a\0", "b"]})}),
]  # fmt: skip
VECTORS = [
    vectors("that are empty", "holds no vector; give", b"", None),
    vectors("of unequal lengths", "has 1 numbers after its word, not 2", b"a 1 2\nb 1\n", 2),
    vectors("that are no numbers", "'x' is not a number; write", b"a 1 x\n"),
    vectors("that are infinite", "holds no finite vector; leave", b"a 1 inf\n"),
    vectors("in latin-1", "is not utf-8; save", b"caf\xe9 1 2\n"),
    vectors("with a NUL", "NUL byte .*; save", b"a\0 1 2\n"),
    vectors("with a line of 5 MB", "longer than 4 MiB; put", b"a " + b"1 " * 2_600_000),
    vectors("cut gzip", "cut off or damaged; copy", CUT, None, "v.gz"),
    vectors("binary without a head", "begin with a count and a size", b"a 1\n", 1, "v.bin"),
    vectors("binary cut", "ends within vector 1 of 9; get", b"9 2\na ", None, "v.bin"),
    vectors("binary of a huge size", "is not usable; check", b"1 99999999\na ", 1, "v.bin"),
    vectors("binary of a huge count", "ends within vector 1", b"99999999999 2\na ", None, "v.bin"),
]  # fmt: skip
PLANS = [
    plan("without a target", "give|target"),
    plan("of a cost without a device", "is not known; use", "--cost", "--device", "abacus"),
    plan("of a cost in float7", "is not known; use", "--cost", "--dtype", "float7"),
    plan("of a cost in bfloat16 on a core", "is not known; use", "--cost", "--dtype", "bfloat16"),
    plan(
        "of a model of no size",
        "not a number of parameters; write",
        "--cost",
        "--parameters",
        "big",
    ),
    plan(
        "of a model of size 0", "not a number of parameters; write", "--cost", "--parameters", "0"
    ),
    plan(
        "of a negative model", "not a number of parameters; write", "--cost", "--parameters", "-7B"
    ),
    plan(
        "of a huge model", "not a number of parameters; write", "--cost", "--parameters", "9" * 400
    ),
    plan(
        "of a model in escapes",
        r"'\\x1b\[31m' is not a number of parameters",
        "--cost",
        "--parameters",
        "\x1b[31m",
    ),
    plan("of many samples", "not a number of draws; give", "--cost", "--samples", "9" * 5000),
    plan("of other samples", "not a number of draws; give", "--cost", "--samples", "some"),
]
BOMB = gzip.compress((b" " * 9999 + b"\n") * 800)
OTHERS = [
    corpus("a gzip bomb", "unpack to over 200 times their size; unpack", BOMB, None, "c.jsonl.gz"),
    corpus("200,000 columns, the last twice", "occurs twice; give",
           ",".join(map(str, MANY)).encode() + b"\n1\n", 1, "c.csv"),
    corpus("Provo as JSON with counts in a list", "not an object of counts; write",
           lines({"passage": 1, "position": 1, "context": "a", "human": ["x"]})),
    corpus("Provo as JSON without a passage", "'passage' is missing .*; add",
           lines({"position": 1, "context": "a", "human": {"x": 1}})),
    Case("reproduce e-ece from damaged rows", "holds no token rows|no folder|make|put|name",
         argv=(), prepare=rows_folder,
         command=("reproduce", "e-ece", "--data", "{dir}/data", "--rows",
                  "{dir}/data/rows-loss.npz")),
]  # fmt: skip
CASES = [*ASSET, *WMT, *STORIES, *DIALOGUES, *MULTIREF, *VECTORS, *PLANS, *OTHERS]
