"""No pickle, no remote code unless allowed, and no API key in any output."""

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


def test_source_does_not_unpickle_or_eval() -> None:
    sources = [*SOURCE.rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    assert len(sources) > 100
    found = {str(path): hit[0] for path in sources if (hit := FORBIDDEN.search(path.read_text()))}
    assert not found


def test_numpy_load_rejects_pickles() -> None:
    for path in SOURCE.rglob("*.py"):
        for line in path.read_text().splitlines():
            assert "np.load(" not in line or "allow_pickle=False" in line, path


def test_object_array_is_rejected(tmp_path: Path) -> None:
    import numpy as np

    from aleatoric.errors import DataError
    from aleatoric.studies.e_ece_paper import read_rows

    np.savez(tmp_path / "rows.npz", sentence=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="holds no token rows"):
        read_rows(tmp_path / "rows.npz")


# The code of repositories ---------------------------------------------------------------------


@pytest.fixture
def trapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A model folder whose remote code would write a file, and the path of that file."""
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
def test_remote_code_of_model_runs_only_if_allowed(
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


def test_remote_code_of_tokenizer_does_not_run(
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


def test_function_named_by_run_is_called_only_if_allowed(
    cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run may be untrusted: its manifest alone must not import anything."""
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
def test_api_key_is_sent_to_server_named_by_run_only_if_allowed(
    cli: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    host: str,
    name: str,
) -> None:
    """No request is sent: the run is rejected first, or the server does not exist."""
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


def test_encoder_with_remote_code_is_rejected(cli: Callable, tmp_path: Path) -> None:
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
def test_api_key_is_not_in_files_or_output(
    server: FaultyServer,
    cli: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    level: str,
) -> None:
    """The server repeats the key in every error message."""
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
def test_api_key_repeated_in_answers_is_not_saved(
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


def test_api_key_split_over_two_requests_is_not_saved(
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


def test_dummy_api_key_is_not_removed_from_answers(
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


def test_crash_report_does_not_contain_api_key(
    server: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a debugger or crash report prints about the client and its exceptions."""
    import asyncio
    import traceback

    import numpy as np

    from aleatoric.errors import ModelError
    from aleatoric.models.http import Client
    from aleatoric.models.openai_spec import Spec

    async def ask() -> str:
        client = Client(Spec("m", server.url, retries=0, timeout=1), KEY, list)
        try:
            await client.post("/completions", {}, lambda found: found, np.random.default_rng(0))
        except ModelError:
            return traceback.format_exc() + repr(client)
        finally:
            await client.close()
        return ""

    server.faults = repeat("status:500")
    message = asyncio.run(ask())
    assert "status 500" in message
    assert KEY not in message
