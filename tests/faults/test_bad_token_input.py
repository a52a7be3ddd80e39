"""Invalid input of `aleatoric token`: exit status 2, one line on stderr, no files left."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from forced_lms import saved

FILES = {
    "good.txt": b"A dog runs and runs.\n\nBread is made of flour.\n",
    "empty.txt": b"",
    "blank.txt": b"\n \n\n",
    "short.txt": b"x\n",
    "latin.txt": "Größe".encode("latin-1"),
    "cut.txt.gz": gzip.compress(b"A dog runs." * 50)[:-9],
    "bad.jsonl": b'{"text": "A dog runs."}\n{"texts": "A"}\n',
    "hollow.jsonl": b'{"text": "  "}\n',
    "few.de": b"Ein Hund.\nBrot.\n",
    "few.en": b"A dog.\nBread.\n",
    "one.en": b"A dog.\n",
    "gap.en": b"A dog.\n\n",
}
GPT2, MARIAN = "hf:{models}/gpt2", "hf:{models}/marian"
PAIRS = "parallel:{dir}/few.de,{dir}/few.en"
CASES = {
    "no such file": ("{dir}/no.txt", GPT2, "no such file; check"),
    "an empty file": ("{dir}/empty.txt", GPT2, "empty.txt: holds no item; give"),
    "blank lines alone": ("{dir}/blank.txt", GPT2, "holds no item; give"),
    "one token": ("{dir}/short.txt", GPT2, "longer than a token; give"),
    "a folder": ("{dir}", GPT2, "this is a folder; name"),
    "another encoding": ("{dir}/latin.txt", GPT2, "latin.txt, line 1: .*utf-8"),
    "cut gzip": ("{dir}/cut.txt.gz", GPT2, "cut off or damaged; copy"),
    "a document without text": ("{dir}/bad.jsonl", GPT2, "bad.jsonl, line 2: 'text' is missing"),
    "a hollow document": ("{dir}/hollow.jsonl", GPT2, "line 1: the text is empty"),
    "unequal files": ("parallel:{dir}/few.de,{dir}/one.en", MARIAN, "one.en, line 2: .*same num"),
    "an empty line": ("parallel:{dir}/few.de,{dir}/gap.en", MARIAN, "gap.en, line 2: .*empty"),
    "one side alone": ("parallel:{dir}/few.de", MARIAN, "write parallel:SOURCE,TARGET"),
    "a side that is not there": ("parallel:{dir}/few.de,{dir}/no", MARIAN, "no such file"),
    "a translator on plain text": ("{dir}/good.txt", MARIAN, "needs parallel text; give"),
    "a causal model on pairs": (PAIRS, GPT2, "reads plain text; give --corpus FILE"),
    "an unknown model": ("{dir}/good.txt", "magic:wand", "no model 'magic:wand'.*known"),
    "a model without a name": ("{dir}/good.txt", "hf:", "write hf:NAME"),
}
OPTIONS = {
    "a window beyond the model": (("--window", "25"), "2 to 24 tokens"),
    "a stride beyond the window": (("--window", "8", "--stride", "9"), "below --window"),
    "an unknown scheme": (("--scheme", "magic=1"), "magic"),
    "a scheme without samples": (("--scheme", "ancestral,samples=0"), "from 1 up"),
    "an unknown class-wise form": (("--classwise", "some"), "none, predicted or all"),
    "an unknown cut": (("--documents", "pages"), "use blank-lines, lines, file"),
    "an unknown bos": (("--bos", "maybe"), "use auto, none or add"),
    "an unknown dtype": (("--dtype", "float7"), "use float32"),
    "an unknown device": (("--device", "abacus"), r"\(there is no such device\); use cpu"),
    "an unknown format": (("--format", "html"), "no format 'html'; use"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for kind in ("gpt2", "marian"):
        saved(kind, folder)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def check(ran: object, message: str, folder: Path) -> None:
    assert ran.status == 2, ran.err
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert ran.err.endswith(".\n")
    assert ran.err.count("\n") == 1
    assert re.search(message, ran.err), ran.err
    assert {path.name for path in folder.iterdir()} == set(FILES)


@pytest.mark.parametrize("case", CASES)
def test_invalid_corpora_and_models_are_rejected(
    case: str, cli: Callable, folder: Path, models: Path
) -> None:
    corpus, model, message = CASES[case]
    places = {"dir": folder, "models": models}
    argv = ("--corpus", corpus.format(**places), "--model", model.format(**places))
    check(cli("token", *argv, "--out", folder / "a" / "run"), message, folder)


@pytest.mark.parametrize("case", OPTIONS)
def test_invalid_options_are_rejected(case: str, cli: Callable, folder: Path, models: Path) -> None:
    more, message = OPTIONS[case]
    argv = ("--corpus", folder / "good.txt", "--model", GPT2.format(models=models), *more)
    check(cli("token", *argv, "--out", folder / "run"), message, folder)


@pytest.mark.parametrize("more", [("--window", "8"), ("--stride", "2"), ("--bos", "add")])
def test_document_options_are_rejected_for_parallel_text(
    more: tuple[str, str], cli: Callable, folder: Path, models: Path
) -> None:
    argv = ("--corpus", PAIRS.format(dir=folder), "--model", MARIAN.format(models=models), *more)
    check(cli("token", *argv, "--out", folder / "run"), "leave --window", folder)
