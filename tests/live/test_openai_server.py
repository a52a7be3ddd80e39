"""The OpenAI client against a real server: `transformers serve` with SmolLM2 on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from faulty_server import serving

from aleatoric.data.files import cache_dir
from aleatoric.models.base import Ask, Writing
from aleatoric.models.gguf import smollm2_directory, smollm2_is_cached
from aleatoric.models.openai import OpenAIModel, load, load_texts
from aleatoric.types import Draws, Item, TextItem

NEEDED = ("torch", "transformers", "fastapi", "uvicorn", "openai")
START_LIMIT = 120
CONTEXTS = ("There are", "The quick brown fox jumps over the lazy", "She opened the door and")
ITEMS = [Item(str(number), "1", text, ("x",)) for number, text in enumerate(CONTEXTS)]


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The converted model, if it is cached."""
    if smollm2_is_cached():
        return Path(smollm2_directory())
    for folder in sorted(cache_dir().glob("smollm2-135m-instruct-*")):
        return folder
    pytest.skip(f"SmolLM2 is not in {cache_dir()}; run a command with --model smollm2 first")


@pytest.fixture(scope="session")
def url(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server started on a free port."""
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        fix = 'pip install "transformers[serving]"'
        pytest.skip(f"transformers serve needs {', '.join(absent)}: {fix}")
    log = tmp_path_factory.mktemp("serve") / "log.txt"
    port = _free_port()
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(smollm2)]
    # One thread: a model this small gains nothing by more, and neighbours lose.
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()  # asked politely, it would finish its work first
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + START_LIMIT
    while time.monotonic() < limit and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"transformers serve did not start:\n{log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def model(url: str, smollm2: Path) -> Callable[..., OpenAIModel]:
    """The served model with the given options."""
    return lambda options="", at=url: load(f"{smollm2}@{at}?timeout=120&{options}")


def drawn(model: OpenAIModel, ask: Ask, items: list[Item]) -> dict[str, Draws]:
    return {draws.item_id: draws for draws in model.draws(items, ask)}


@pytest.mark.long
def test_completions_are_sampled_and_reproducible_with_seed(model: Any) -> None:
    asked = model()
    found = drawn(asked, Ask("ancestral", 3, 0), ITEMS)
    assert {len(draws.texts) + draws.failed for draws in found.values()} == {3}
    assert len(set(found["0"].texts)) > 1
    assert asked.usage.server == "transformers"
    assert asked.usage.prompt_tokens > 0
    again = drawn(model(), Ask("ancestral", 1, 0), ITEMS[:1])
    assert again["0"].texts == found["0"].texts[:1]


@pytest.mark.long
def test_decoder_options_reach_the_server(model: Any) -> None:
    greedy = drawn(model(), Ask("greedy", 1, 0), ITEMS[1:2])
    best = drawn(model(), Ask("top_k=1", 2, 3), ITEMS[1:2])
    assert set(best["1"].texts) == set(greedy["1"].texts)
    assert greedy["1"].texts[0].startswith(" dog")


@pytest.mark.long
def test_chat_counts_sum_to_requested_number(model: Any) -> None:
    asked = model("mode=chat")
    found = drawn(asked, Ask("ancestral", 2, 0), ITEMS[:2])
    assert {sum(draws.counts.values()) + draws.failed for draws in found.values()} == {2}
    assert asked.usage.requests == 4
    listed = model("mode=chat-list&max_tokens=40")
    found = drawn(listed, Ask("ancestral", 10, 0), ITEMS[:1])
    total = sum(found["0"].counts.values()) + found["0"].failed + listed.usage.missing_words
    assert total == 10


@pytest.mark.long
def test_run_through_faulty_proxy(model: Any, url: str) -> None:
    calm = drawn(model("server=transformers"), Ask("ancestral", 3, 0), ITEMS[:1])
    with serving() as proxy:
        proxy.upstream = url.removesuffix("/v1")
        proxy.faults = iter(["status:429 0", "cut", None, "status:500", "body:{", "hang-up"])
        stormy = drawn(
            model("server=transformers&backoff=0.01", proxy.url), Ask("ancestral", 3, 0), ITEMS[:1]
        )
    assert stormy == calm


@pytest.mark.long
def test_texts_are_generated(url: str, smollm2: Path) -> None:
    writer = load_texts(f"{smollm2}@{url}?timeout=120")
    item = TextItem("1", "1", ("There are",), ())
    (texts,) = writer.write([item], Writing(samples=2, max_new_tokens=8))
    assert len(set(texts.texts)) == 2
    (again,) = load_texts(f"{smollm2}@{url}?timeout=120").write(
        [item], Writing(samples=1, max_new_tokens=8)
    )
    assert again.texts == texts.texts[:1]
    asked = Writing(samples=1, max_new_tokens=8, chat=True, template="Repeat: {input}")
    (chat,) = writer.write([item], asked)
    assert chat.texts[0]
