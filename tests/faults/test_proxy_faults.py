"""Complete commands against a faulty server: every item has all samples, none twice.

Both levels that sample are run from the command line. Time limits are short here: any stall longer
than `timeout` is the same to the client.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import pytest
from faulty_server import FaultyServer, serving
from marks import spread

from aleatoric.runs.run import Store, StoredTexts

SAMPLES = 6
OPTIONS = "server=vllm&n=2&backoff=0.01&timeout=0.5&retries=20"
# Fewer than half fail: waits double with every failure of the same request.
FAULTS = {
    "429 with Retry-After": ["status:429 0.05", None, "status:429 1", *[None] * 9],
    "429 with a date": ["status:429 date", *[None] * 20],
    "500s": ["status:500", None, "status:502", None, "status:503 0", None, "status:529", None],
    "cut streams": ["cut", None, "hang-up", None, None],
    "stalls": ["stall", *[None] * 5, "drip", *[None] * 5],
    "wrong JSON": ["body:{not", None, "body:[]", None, 'body:{"choices": []}', None, "body:", None],
    "wrong numbers": ["few:1", "many", None, 'body:{"choices": [{"text": 5}]}', None],
}


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with serving() as faulty:
        faulty.text = lambda number, body: f" w{number} is here"
        faulty.finish_reason = lambda number: "stop"
        yield faulty


def save(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def word_command(folder: Path) -> tuple[Any, ...]:
    rows = [{"id": i, "context": f"c{i}", "responses": {"dog": 3, "cat": 1}} for i in range(5)]
    corpus = save(folder / "people.jsonl", rows)
    return ("word", "--corpus", corpus, "--samples", SAMPLES, "--splits", 1)


def text_command(folder: Path) -> tuple[Any, ...]:
    rows = [{"id": i, "input": f"c{i}", "references": ["Dog.", "A cat."]} for i in range(5)]
    corpus = save(folder / "people.jsonl", rows)
    probe = ("--probe", "lexical-1", "--tokeniser", "whitespace")
    return ("text", "--corpus", corpus, "--samples", SAMPLES, "--splits", 1, *probe)


def words_of(run: Path) -> dict[str, list[str]]:
    with Store.open(run) as store:
        (system,) = (own for own in store.systems() if own.startswith("gpt"))
        return {item.id: [text for one in own for text in one.texts]
                for item, own in store.walk_system(system)}  # fmt: skip


def texts_of(run: Path) -> dict[str, list[str]]:
    with Store.open(run) as store:
        return {str(own.item.id): [text for texts in own.systems.values() for text in texts]
                for own in StoredTexts(store).walk()}  # fmt: skip


LEVELS: dict[str, tuple[Callable[..., Any], Callable[[Path], dict[str, list[str]]]]] = {
    "word": (word_command, words_of),
    "text": (text_command, texts_of),
}


def check_whole(found: dict[str, list[str]]) -> None:
    assert set(found) == {"0", "1", "2", "3", "4"}
    assert {len(texts) for texts in found.values()} == {SAMPLES}
    every = [text for texts in found.values() for text in texts]
    assert len(set(every)) == len(every)  # the server never sends a text twice


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("fault", spread(FAULTS, 3))
def test_run_completes_despite_faults(
    server: FaultyServer, cli: Callable, tmp_path: Path, level: str, fault: str
) -> None:
    command, read = LEVELS[level]
    server.faults = cycle(FAULTS[fault])
    model = f"openai:gpt@{server.url}?{OPTIONS}"
    ran = cli(*command(tmp_path), "--model", model, "--out", tmp_path / "run", "--json")
    assert ran.status == 0, ran.err
    check_whole(read(tmp_path / "run"))
    assert len(server.asked) > 15  # three requests an item, and those that failed


@pytest.mark.parametrize("level", LEVELS)
def test_resume_after_server_failure(
    server: FaultyServer, cli: Callable, tmp_path: Path, level: str
) -> None:
    """A server that dies mid-run costs only the requests in flight."""
    command, read = LEVELS[level]
    model = f"openai:gpt@{server.url}?{OPTIONS}&concurrency=1".replace("retries=20", "retries=1")
    asked = (*command(tmp_path), "--model", model, "--out", tmp_path / "run")
    server.faults = iter([*repeat(None, 7), *repeat("status:503", 50)])
    ran = cli(*asked)
    assert ran.status == 1
    assert "503" in ran.err
    server.faults, before = iter(()), len(server.asked)
    ran = cli(*asked)
    assert ran.status == 0, ran.err
    check_whole(read(tmp_path / "run"))
    assert len(server.asked) - before <= 3 * 3  # two items of three requests were saved


@pytest.mark.parametrize("level", LEVELS)
def test_faults_do_not_change_results(
    server: FaultyServer, cli: Callable, tmp_path: Path, level: str
) -> None:
    command, read = LEVELS[level]
    server.text = lambda number, body: f" s{body['seed']} is here"
    options = OPTIONS.replace("n=2", "n=1")
    asked = (*command(tmp_path), "--model", f"openai:gpt@{server.url}?{options}")
    assert cli(*asked, "--out", tmp_path / "calm").status == 0
    chance = random.Random(1)
    kinds = [own for name, listed in FAULTS.items() for own in listed
             if name not in ("stalls", "429 with a date") and own != "status:429 1"]  # fmt: skip
    server.faults = (chance.choice(kinds) if chance.random() < 0.4 else None for _ in repeat(0))
    assert cli(*asked, "--out", tmp_path / "storm").status == 0
    assert read(tmp_path / "storm") == read(tmp_path / "calm")
