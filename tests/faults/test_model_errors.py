"""Models that cannot be used as asked: one sentence with a fix, and exit status 2."""

# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from forced_lms import saved
from lms import tiny
from marks import sampled

from aleatoric.errors import ModelUsageError
from aleatoric.models import gguf, loading
from aleatoric.models.hf import HFModel

HUB = {
    "gated": (401, "GatedRepo"),
    "denied": (403, "GatedRepo"),
    "missing": (401, "RepoNotFound"),
    "deleted": (404, "RepoNotFound"),
    "revision": (404, "RevisionNotFound"),
}
"""Model -> status and error code of the hub's answer."""
ACCESS = "accept its terms on its page of the hub, then run hf auth login or set HF_TOKEN."
NAME = "check the name, run hf auth login or set HF_TOKEN."
REFUSED = {
    "hf:org/gated": f"cannot load 'org/gated': access to it is restricted; {ACCESS}",
    "hf:org/denied": f"cannot load 'org/denied': access to it is restricted; {ACCESS}",
    "hf:org/missing": f"'org/missing': the hub has no such model, or it is private; {NAME}",
    "hf:org/deleted": f"'org/deleted': the hub has no such model, or it is private; {NAME}",
    "hf:org/revision@v9": "has no such revision of it; name a branch, a tag or a commit after @.",
}


class Hub(BaseHTTPRequestHandler):
    """A hub that gives no model; the answers have the headers of the real one."""

    def answer(self) -> None:
        status, code = next((HUB[name] for name in HUB if f"/{name}" in self.path), (200, None))
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", "Access to this model is restricted.")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = answer  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.jsonl"
    path.write_text('{"context": "There are", "responses": ["many", "men", "many"]}\n')
    return path


def check_sentence(err: str, expected: str) -> None:
    """Check that the last line is the only message, and one sentence."""
    (line,) = err.strip().splitlines()
    assert line.startswith("error: ")
    assert expected in line
    assert line.endswith(".")
    assert not re.search(r"\. [A-Z]", line)


def word_in_new_process(people: Path, model: str, endpoint: str) -> subprocess.CompletedProcess:
    """Run the command where nothing is imported yet, with an empty cache."""
    settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(people.parent / "hub")}
    command = [sys.executable, "-m", "aleatoric", "word", "--corpus", str(people), "--model", model]
    given = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 120}
    return subprocess.run(command, env=given | settings, check=False, **options)


@pytest.mark.parametrize("model", sampled(REFUSED, ["hf:org/gated"]))
def test_model_that_the_hub_does_not_give(hub: str, people: Path, model: str) -> None:
    ran = word_in_new_process(people, model, hub)
    assert ran.returncode == 2
    check_sentence(ran.stderr, REFUSED[model])
    assert ran.stdout == ""


def test_hub_that_cannot_be_reached(people: Path) -> None:
    ran = word_in_new_process(people, "hf:org/any", "http://127.0.0.1:9")
    assert ran.returncode == 2
    fix = "cannot be reached; check the name and the network, or give a folder as hf:FOLDER."
    check_sentence(ran.stderr, f"'org/any': it is not in the cache, and http://127.0.0.1:9 {fix}")


def test_folder_is_named_with_the_kind_of_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(name: str, revision: str | None, fix: str) -> None:
        raise ModelUsageError(f"{name}: cannot be reached; or give a folder as {fix}.")

    monkeypatch.setattr(loading.hub, "options", unreachable)
    for kind in ("hf", "vllm"):
        with pytest.raises(ModelUsageError, match=f"or give a folder as {kind}:FOLDER"):
            loading.check_hub([f"{kind}:no/such"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--quantize", "3bit"), "--quantize 3bit is not known; use 4bit or 8bit."),
        (("--dtype", "int3"), "--dtype int3 is not known; use float32, bfloat16 or float16."),
        (("--device", "gpu"), "use cpu or auto, or leave it out."),
        (("--device", "cuda:9"), "use cpu or auto, or leave it out."),
    ],
)
def test_options_that_a_machine_does_not_have(
    cli: Callable[..., Any], people: Path, tmp_path: Path, options: tuple[str, str], expected: str
) -> None:
    model = f"hf:{saved('gpt2', tmp_path / 'm')}"
    ran = cli("word", "--corpus", people, "--model", model, *options)
    assert ran.status == 2
    check_sentence(ran.err.rpartition("\r")[2].splitlines()[-1], expected)


def test_quantization_without_its_package(
    cli: Callable[..., Any], people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    model = f"hf:{saved('gpt2', tmp_path / 'm')}"
    ran = cli("word", "--corpus", people, "--model", model, "--quantize", "4bit")
    assert ran.status == 2
    assert 'run pip install "aleatoric[quantize]".' in ran.err.splitlines()[-1]


@pytest.mark.parametrize("level", ["word", "token", "text"])
def test_model_without_a_tokenizer(
    cli: Callable[..., Any], people: Path, tmp_path: Path, level: str
) -> None:
    folder = tmp_path / "m"
    tiny("llama", torch.float32).model.save_pretrained(folder)
    corpus = people
    if level != "word":
        corpus = tmp_path / ("c.txt" if level == "token" else "c.jsonl")
        corpus.write_text('{"id": "1", "input": "many", "references": ["so many", "the man"]}\n')
    probes = ("--probe", "lexical-1") if level == "text" else ()
    ran = cli(level, "--corpus", corpus, "--model", f"hf:{folder}", "--device", "cpu", *probes)
    assert ran.status == 2
    line = ran.err.splitlines()[-1].rpartition("\r")[2]
    check_sentence(line, "name a folder that holds a whole model: config.json, its weights")
    assert "tokenizer" in line.partition(";")[0]


def too_much(*_: Any, **__: Any) -> Any:
    """Ask torch for more memory than any machine has."""
    return torch.empty(1 << 60)


def test_weights_that_do_not_fit_into_memory(
    cli: Callable[..., Any], people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = f"hf:{saved('gpt2', tmp_path / 'm')}"
    monkeypatch.setattr(gguf, "whole_model", too_much)
    ran = cli("word", "--corpus", people, "--model", model)
    assert ran.status == 2
    fix = "does not fit into memory; use a smaller model, or --dtype bfloat16."
    check_sentence(ran.err.splitlines()[-1].rpartition("\r")[2], fix)


@pytest.mark.parametrize("estimator", ["exact", "mc"])
def test_memory_that_runs_out_during_a_run(
    cli: Callable[..., Any],
    people: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    estimator: str,
) -> None:
    lm = tiny("llama", torch.float32)
    lm.model.save_pretrained(tmp_path / "m")
    lm.tokenizer.save_pretrained(tmp_path / "m")
    forward, texts = HFModel.forward, []

    def later(lm: HFModel, ids: Any, *others: Any) -> Any:
        texts.append(ids)
        return too_much() if len(texts) > 8 else forward(lm, ids, *others)

    monkeypatch.setattr(HFModel, "forward", later)
    asked = ("--model", f"hf:{tmp_path / 'm'}", "--estimator", estimator, "--out", tmp_path / "r")
    ran = cli("word", "--corpus", people, *asked)
    assert len(texts) > 8
    assert ran.status == 2
    assert "out of memory with one" in ran.err
    assert "use a smaller model or " in ran.err
