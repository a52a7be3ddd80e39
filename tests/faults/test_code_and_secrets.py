"""No pickle, no code of a model's repository unless asked for, and no key in anything written."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import pytest
from faulty_server import FaultyServer, serving
from forced_lms import saved
from marks import sampled

import aleatoric
from aleatoric.data.opening import open_corpus
from aleatoric.levels.base import manifest_of
from aleatoric.levels.word import WordJob
from aleatoric.models.http import Client
from aleatoric.runs.run import Store

SOURCE = Path(aleatoric.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = re.compile(
    r"^\s*(?:import|from) +(?:c?[pP]ickle|cloudpickle|joblib|dill|marshal|shelve)\b"
    r"|torch\.load\(|allow_pickle=True|yaml\.load\(|(?<![.\w])(?:eval|exec)\(",
    re.MULTILINE,
)
KEY = "sk-planted-9f8e7d6c5b4a-secret"
CODE = """
from pathlib import Path
Path({trap!r}).write_text("the code of a repository has run")
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
class EvilConfig(GPT2Config):
    model_type = "evil"
class EvilModel(GPT2LMHeadModel):
    config_class = EvilConfig
class EvilTokenizer(PreTrainedTokenizerFast):
    pass
"""


# No pickle ------------------------------------------------------------------------------------


def test_no_source_file_unpickles_or_evaluates() -> None:
    sources = [*SOURCE.rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    assert len(sources) > 100
    found = {str(path): hit[0] for path in sources if (hit := FORBIDDEN.search(path.read_text()))}
    assert not found


def test_loads_of_numpy_refuse_pickles() -> None:
    for path in SOURCE.rglob("*.py"):
        for line in path.read_text().splitlines():
            assert "np.load(" not in line or "allow_pickle=False" in line, path


def test_an_object_array_is_refused(tmp_path: Path) -> None:
    import numpy as np

    from aleatoric.errors import DataError
    from aleatoric.studies.e_ece_paper import read_rows

    np.savez(tmp_path / "rows.npz", sentence=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="holds no token rows"):
        read_rows(tmp_path / "rows.npz")


# The code of repositories ---------------------------------------------------------------------


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A real model folder whose own code would write a file, and that file."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    saved("gpt2", tmp_path)
    folder, trap = tmp_path / "gpt2", tmp_path / "trap"
    (folder / "evil.py").write_text(CODE.format(trap=str(trap)))
    config = json.loads((folder / "config.json").read_text())
    names = {"AutoConfig": "evil.EvilConfig", "AutoModelForCausalLM": "evil.EvilModel"}
    changed = {"model_type": "evil", "architectures": ["EvilModel"], "auto_map": names}
    (folder / "config.json").write_text(json.dumps(config | changed))
    return folder, trap


def commands(folder: Path, model: Path) -> dict[str, tuple[Any, ...]]:
    (folder / "c.jsonl").write_text('{"id": 1, "context": "A dog", "responses": ["runs", "is"]}\n')
    (folder / "c.txt").write_text("A dog runs and runs.\n")
    (folder / "t.jsonl").write_text('{"id": 1, "input": "A dog", "references": ["a", "b"]}\n')
    few = ("--model", f"hf:{model}", "--out", folder / "run")
    probe = ("--probe", "lexical-1", "--tokeniser", "whitespace", "--max-new-tokens", 2)
    return {
        "word": ("word", "--corpus", folder / "c.jsonl", "--splits", 1, *few),
        "token": ("token", "--corpus", folder / "c.txt", "--classwise", "none", *few),
        "text": ("text", "--corpus", folder / "t.jsonl", "--samples", 2, *probe, *few),
    }


@pytest.mark.parametrize("level", ["word", "token", "text"])
def test_code_of_a_model_runs_only_when_asked(
    trapped: tuple[Path, Path], cli: Callable, tmp_path: Path, level: str
) -> None:
    folder, trap = trapped
    asked = commands(tmp_path, folder)[level]
    ran = cli(*asked)
    assert ran.status in (1, 2)
    assert ran.err.strip().splitlines()[-1].startswith("error: cannot load")
    assert not trap.exists()
    cli(*asked, "--trust-remote-code")
    assert trap.exists()  # so the trap would have caught it
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]


def test_a_tokenizers_own_code_does_not_run(
    cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    saved("gpt2", tmp_path)
    folder, trap = tmp_path / "gpt2", tmp_path / "trap"
    (folder / "evil.py").write_text(CODE.format(trap=str(trap)))
    path = folder / "tokenizer_config.json"
    named = {"tokenizer_class": "EvilTokenizer",
             "auto_map": {"AutoTokenizer": [None, "evil.EvilTokenizer"]}}  # fmt: skip
    path.write_text(json.dumps(json.loads(path.read_text()) | named))
    cli(*commands(tmp_path, folder)["word"])  # it may load with the plain tokenizer, or refuse
    assert not trap.exists()


def test_pickled_weights_are_not_read(cli: Callable, tmp_path: Path) -> None:
    saved("gpt2", tmp_path)
    folder = tmp_path / "gpt2"
    (folder / "model.safetensors").unlink()
    # Opcodes that would call os.mkdir on loading; nobody gets so far as to look.
    evil = f"cos\nmkdir\n(V{tmp_path / 'trap'}\ntR.".encode()
    (folder / "pytorch_model.bin").write_bytes(evil)
    ran = cli(*commands(tmp_path, folder)["word"])
    assert ran.status in (1, 2)
    assert not (tmp_path / "trap").exists()


def test_a_function_that_a_run_names_is_called_only_when_said(
    cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run may come from others: its manifest alone must not import anything."""
    monkeypatch.chdir(tmp_path)
    Path("trapped.py").write_text(
        "open('trap', 'w').close()\ndef gap(a, b): return abs(len(a) - len(b))\n"
    )
    Path("t.jsonl").write_text('{"id": 1, "input": "A dog", "references": ["a", "b", "cd", "e"]}\n')
    Path("bot.jsonl").write_text('{"id": 1, "texts": ["a", "bc", "def"]}\n')
    asked = ("text", "--corpus", "t.jsonl", "--model", "recorded:bot.jsonl", "--splits", 2)
    assert cli(*asked, "--probe", "trapped:gap", "--out", "run").status == 0

    def is_called(*command: Any) -> bool:
        Path("trap").unlink(missing_ok=True)
        sys.modules.pop("trapped", None)
        cli(*command)
        return Path("trap").exists()

    looks = [("report", "run", "--html", "p.html", "--figures", "f"), ("compare", "run")]
    looks += [("score", "run"), ("score", "run", "--export", "r.csv"), ("resume", "run")]
    assert [is_called(*look) for look in looks] == [False] * 5
    with Store.resume(Path("run")) as store:  # as one that died before it was scored
        store.db.execute("DELETE FROM stats")
        store.db.execute("DELETE FROM meta WHERE key IN ('complete', 'stats', 'stat_columns')")
    assert [is_called(*look) for look in looks] == [False] * 5
    refused = cli("resume", "run")
    assert refused.status == 2
    assert refused.err.endswith("aleatoric resume run --probe trapped:gap.\n")
    assert is_called("resume", "run", "--probe", "trapped:gap")
    assert is_called("score", "run", "--probe", "trapped:gap")
    assert cli("score", "run").status == 0


@pytest.mark.parametrize(
    ("url", "host", "name"),
    [
        ("https://server.invalid/v1", "server.invalid", "ALEATORIC_API_KEY"),
        ("http://server.invalid/v1", "server.invalid", "ALEATORIC_API_KEY"),
        ("http://127.0.0.1:9/v1", "127.0.0.1", "ALEATORIC_API_KEY"),
        ("http://127.0.0.1:9/v1", "127.0.0.1", "OPENAI_API_KEY"),
        ("http://localhost:9/v1", "localhost", "ALEATORIC_API_KEY"),
        ("http://[::1]:9/v1", "::1", "OPENAI_API_KEY"),
        ("http://api.openai.com/v1", "api.openai.com", "ALEATORIC_API_KEY"),
    ],
)
def test_a_key_goes_to_a_server_that_a_run_names_only_when_said(
    cli: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    host: str,
    name: str,
) -> None:
    """Nothing is asked: the run is refused before, or nobody answers there."""
    sent: list[Any] = []
    monkeypatch.setattr(Client, "_once", lambda *call: sent.append(call[0]) or 1 / 0)
    people = tmp_path / "c.jsonl"
    people.write_text('{"id": 1, "context": "A dog", "responses": ["runs", "is"]}\n')
    job = WordJob(str(people), (f"openai:m@{url}?retries=0&backoff=0.01&server=vllm",))
    for known in ("ALEATORIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(known, raising=False)
    monkeypatch.setenv(name, "planted")
    corpus = open_corpus(job.corpus)
    with Store.create(tmp_path / "run", manifest_of(job, corpus)) as store:
        store.add_items(corpus.items)
    refused = cli("resume", tmp_path / "run")
    assert refused.status == 2
    assert f"sends your API key to {host}, which the run names" in refused.err
    assert "planted" not in refused.err
    assert not sent
    # With --key-for, or without a key, the server is asked.
    with pytest.raises(ZeroDivisionError):
        cli("resume", tmp_path / "run", "--key-for", host)
    assert sent.pop()._key == "planted"
    monkeypatch.delenv(name)
    with pytest.raises(ZeroDivisionError):
        cli("resume", tmp_path / "run")
    assert sent.pop()._key is None


def test_an_encoder_that_names_its_own_code_is_refused(cli: Callable, tmp_path: Path) -> None:
    folder, trap = tmp_path / "encoder", tmp_path / "trap"
    folder.mkdir()
    (folder / "evil.py").write_text(CODE.format(trap=str(trap)))
    named = [{"idx": 0, "name": "0", "path": "", "type": "evil.EvilModel"}]
    (folder / "modules.json").write_text(json.dumps(named))
    (tmp_path / "t.jsonl").write_text('{"id": 1, "input": "A", "references": ["a", "b"]}\n')
    asked = ("--probe", "semantic", "--encoder", f"st:{folder}")
    ran = cli("text", "--corpus", tmp_path / "t.jsonl", *asked)
    assert ran.status == 2
    assert "is code of its own and is never run" in ran.err
    assert not trap.exists()


# Keys -----------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with serving() as faulty:
        faulty.finish_reason = lambda number: "stop"
        yield faulty


FAILURES = [
    ["status:500", None, "status:429 0"],
    ["status:401"],
    ["status:403"],
    ["status:404"],
    ["status:400"],
    ["status:429 quota"],
    ["status:429 9999"],
    ["status:503"],
    ["cut"],
    ["body:{"],
]


@pytest.mark.parametrize("level", sampled(["word", "text"], ["word"]))
def test_a_planted_key_is_in_nothing_written_or_printed(
    server: FaultyServer,
    cli: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    level: str,
) -> None:
    """The server quotes the key in each of its complaints."""
    monkeypatch.setenv("ALEATORIC_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    name = f"openai:gpt@{server.url}?server=vllm&backoff=0.001&retries=2&timeout=1"
    printed, statuses = [], []
    for number, faults in enumerate(FAILURES):
        server.faults = iter(faults * 3) if number == 0 else cycle(faults)
        asked = commands(tmp_path, tmp_path)[level]
        model = tuple(name if str(own).startswith("hf:") else own for own in asked[:-2])
        ran = cli(*model, "--samples", 2, "--out", tmp_path / f"run-{number}")
        printed += [ran.out, ran.err]
        statuses.append(ran.status)
    page = tmp_path / "page.html"
    ran = cli("report", tmp_path / "run-0", "--html", page)
    exported = cli("score", tmp_path / "run-0", "--export", tmp_path / "rows.csv", "--json")
    assert statuses[0] == ran.status == exported.status == 0, ran.err
    assert set(statuses[1:]) == {1}
    assert {own["authorization"] for own in server.headers} == {f"Bearer {KEY}"}
    printed += [ran.out, ran.err, exported.out, exported.err, caplog.text]
    assert not [text for text in printed if KEY in text]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert page in files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    "mode", sampled(["completions", "chat", "chat-list", "text", "text chat"], ["chat", "text"])
)
def test_a_key_that_a_server_repeats_in_its_answers_is_not_saved(
    server: FaultyServer, cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("ALEATORIC_API_KEY", KEY)
    texts = cycle([f" {KEY} said so", KEY, f" yes{KEY.upper()}, {KEY}", "word"])
    server.text = lambda number, body: next(texts)
    level, _, chat = mode.partition(" ") if "text" in mode else ("word", "", mode)
    asked = [own for own in commands(tmp_path, tmp_path)[level] if "hf:" not in str(own)]
    asked.remove("--model")
    name = f"openai:gpt@{server.url}?server=vllm&mode={chat or 'completions'}"
    ran = cli(*asked, "--model", name, "--samples", 4)
    assert ran.status == 0, ran.err
    cli("score", tmp_path / "run", "--export", tmp_path / "rows.csv")
    cli("report", tmp_path / "run", "--html", tmp_path / "page.html")
    written = [path.read_bytes().lower() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 3
    assert not [held for held in written if KEY.lower().encode() in held]
    assert KEY.lower() not in (ran.out + ran.err).lower()


def test_a_key_in_two_parts_of_a_word_is_not_saved(
    server: FaultyServer, cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALEATORIC_API_KEY", KEY)
    server.finish_reason = lambda number: "length"
    server.text = lambda number, body: [f" {KEY[:9]}", KEY[9:], "."][number % 3]
    asked = [own for own in commands(tmp_path, tmp_path)["word"] if "hf:" not in str(own)]
    asked.remove("--model")
    cli(*asked, "--model", f"openai:gpt@{server.url}?server=vllm", "--samples", 1)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_a_filler_in_place_of_a_key_stays_a_word(
    server: FaultyServer, cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALEATORIC_API_KEY", "word")
    asked = [own for own in commands(tmp_path, tmp_path)["word"] if "hf:" not in str(own)]
    asked.remove("--model")
    server.text = lambda number, body: " word is"
    ran = cli(*asked, "--model", f"openai:gpt@{server.url}?server=vllm", "--samples", 2, "--json")
    assert ran.status == 0, ran.err
    with Store.open(tmp_path / "run") as store:
        ((_, _, systems),) = store.walk()
    assert "word" in str(systems["gpt"])


def test_a_crash_shows_no_key(server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a debugger or a crash report prints of the client and of what it raises."""
    import asyncio
    import traceback

    import numpy as np

    from aleatoric.errors import ModelError
    from aleatoric.models.http import Client, Patience

    async def ask() -> str:
        client = Client(server.url, KEY, Patience(retries=0), timeout=1)
        try:
            await client.post("/completions", {}, lambda found: found, np.random.default_rng(0))
        except ModelError:
            return traceback.format_exc() + repr(client)
        finally:
            await client.close()
        return ""

    server.faults = repeat("status:500")
    said = asyncio.run(ask())
    assert "status 500" in said
    assert KEY not in said
