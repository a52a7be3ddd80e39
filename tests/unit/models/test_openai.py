"""The OpenAI client, tested against a server with injected faults."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import random
import re
import threading
from collections.abc import Callable, Iterator
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import pytest
from faulty_server import bomb, peak_below

from aleatoric.errors import ModelError, UsageError
from aleatoric.models.base import Ask
from aleatoric.models.openai import OpenAIModel, load
from aleatoric.types import Item

FAST = "&backoff=0.01&timeout=0.4"
KEY = "sk-planted-0123456789-secret"
FAULTS = [
    "status:429 0",
    "status:429 0.05",
    "status:429 nonsense",
    "status:408",
    "status:500",
    "status:502",
    "status:503 0",
    "status:504",
    "status:529",
    "cut",
    "hang-up",
    "stall",
    "drip",
    "body:{not json",
    "body:",
    "body:[]",
    "body:null",
    'body:{"choices": []}',
    'body:{"choices": "none"}',
    'body:{"choices": [null]}',
    'body:{"choices": [{"text": 5}]}',
    'body:{"choices": [{"text": null}]}',
    'body:{"object": "error"}',
]


def model_at(server: Any, options: str = "server=vllm") -> OpenAIModel:
    return load(f"org/gpt@{server.url}?{options}{FAST}")


@pytest.mark.parametrize(
    ("encoding", "layers", "message"),
    [
        ("gzip, gzip, gzip", 3, "Content-Encoding 'gzip, gzip, gzip' is not supported; send gzip"),
        ("gzip", 1, "the reply is longer than 33554432 bytes"),
        ("br", 1, "Content-Encoding 'br' is not supported"),
    ],
)
def test_decompression_bomb_is_rejected(
    server: Any, encoding: str, layers: int, message: str
) -> None:
    server.packed, server.faults = bomb(layers), repeat(f"packed:{encoding}")
    assert layers == 1 or len(server.packed) < 2000
    with peak_below(2**27), pytest.raises(ModelError, match=re.escape(message)):
        next(iter(load(f"m@{server.url}?server=vllm&retries=0").draws(items(1), ask(1))))


def test_compressed_reply_is_read(server: Any) -> None:
    server.faults = repeat("packed:gzip")
    assert next(iter(model_at(server).draws(items(1), ask(1)))).texts == (" word0 is",)
    server.packed = gzip.compress(b"{}" * 9)[:-9]
    with pytest.raises(ModelError, match="gzip data are damaged"):
        next(iter(model_at(server, "server=vllm&retries=0").draws(items(1), ask(1))))


def items(number: int) -> list[Item]:
    return [Item(f"1:{i}", "1", f"There {i}", ("x",)) for i in range(number)]


def ask(samples: int, decoder: str = "ancestral", seed: int = 0) -> Ask:
    return Ask(decoder, samples, seed)


def assert_whole(found: list[Any], number: int, samples: int) -> None:
    """Check that each item occurs once with its number of samples."""
    assert sorted(draws.item_id for draws in found) == sorted(item.id for item in items(number))
    assert all(len(draws.texts) == samples and not draws.failed for draws in found)
    texts = [text for draws in found for text in draws.texts]
    assert len(set(texts)) == len(texts)


# Faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_retried(server: Any, fault: str) -> None:
    server.faults = iter([fault, None, fault])
    model = model_at(server)
    assert_whole(list(model.draws(items(2), ask(3))), 2, 3)
    assert model.usage.retries == 2
    assert len(server.asked) == 4


@pytest.mark.parametrize("fault", ["few:1", "few:2", "many"])
def test_unexpected_number_of_choices_is_handled(server: Any, fault: str) -> None:
    server.faults = repeat(fault)
    assert_whole(list(model_at(server).draws(items(3), ask(7))), 3, 7)


def test_only_missing_choices_are_requested_again(server: Any) -> None:
    server.faults = iter(["few:3"])
    (draws,) = model_at(server).draws(items(1), ask(5))
    assert draws.texts == tuple(f" word{i} is" for i in range(5))
    assert [body.get("n") for body in server.asked] == [5, 2]


def test_all_samples_arrive_despite_random_faults(server: Any) -> None:
    chance = random.Random(0)
    kinds = [fault for fault in FAULTS if fault not in ("stall", "drip")] + ["few:1", "many"]
    server.faults = (chance.choice(kinds) if chance.random() < 0.4 else None for _ in repeat(0))
    model = model_at(server, "server=vllm&n=4&retries=30")
    assert_whole(list(model.draws(items(40), ask(10))), 40, 10)
    assert model.usage.retries > 20


def test_samples_do_not_depend_on_earlier_failures(server: Any) -> None:
    server.text = lambda number, body: f" s{body['seed']} is"
    model = model_at(server, "server=vllm&n=1&retries=30")
    calm = {draws.item_id: draws.texts for draws in model.draws(items(4), ask(3))}
    server.faults = cycle(["status:500", None, "body:[]"])
    stormy = {draws.item_id: draws.texts for draws in model.draws(items(4), ask(3))}
    other = {draws.item_id: draws.texts for draws in model.draws(items(4), ask(3, seed=1))}
    assert calm == stormy
    assert calm != other
    assert len({text for texts in calm.values() for text in texts}) == 12


@pytest.mark.parametrize(("header", "least"), [("1", 1.0), ("date", 0.9)])
def test_retry_after_is_honoured(server: Any, header: str, least: float) -> None:
    server.faults = iter([f"status:429 {header}"])
    assert_whole(list(model_at(server).draws(items(1), ask(1))), 1, 1)
    assert server.times[1] - server.times[0] >= least


def test_too_long_retry_after_is_reported(server: Any) -> None:
    server.faults = repeat("status:429 86400")
    with pytest.raises(ModelError, match="asks to wait 86400 s"):
        list(model_at(server).draws(items(1), ask(1)))
    assert len(server.asked) == 1


def test_exhausted_quota_is_not_retried(server: Any) -> None:
    server.faults = repeat("status:429 quota")
    with pytest.raises(ModelError, match="status 429"):
        list(model_at(server).draws(items(1), ask(1)))
    assert len(server.asked) == 1


def test_number_of_retries_is_limited(server: Any) -> None:
    server.faults = repeat("status:503")
    with pytest.raises(ModelError, match="no answer in 3 tries: status 503"):
        list(model_at(server, "server=vllm&retries=2").draws(items(1), ask(1)))
    assert len(server.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 301])
def test_client_error_is_reported_in_one_line_without_retry(server: Any, status: int) -> None:
    server.faults = repeat(f"status:{status}")
    with pytest.raises(ModelError, match=f"status {status}") as caught:
        list(model_at(server, "server=vllm&mode=chat").draws(items(1), ask(1)))
    assert len(server.asked) == 1
    assert "\n" not in str(caught.value)


def test_chat_model_without_completions_raises_with_hint(server: Any) -> None:
    server.faults = repeat("status:404")
    with pytest.raises(ModelError, match=r"mode=chat"):
        list(model_at(server).draws(items(1), ask(1)))


def test_unreachable_server_is_reported() -> None:
    model = load("gpt@http://127.0.0.1:9/v1?server=vllm&retries=1&backoff=0.01")
    with pytest.raises(ModelError, match=r"no answer in 2 tries: the connection failed"):
        list(model.draws(items(1), ask(1)))
    with pytest.raises(ModelError, match=r"is the server running\?"):
        list(load("gpt@http://127.0.0.1:9/v1?backoff=0.01").draws(items(1), ask(1)))


def test_finished_items_are_yielded_before_error(server: Any) -> None:
    server.faults = iter([None, None, *["status:400"] * 9])
    model = model_at(server, "server=vllm&concurrency=1")
    found = []
    with pytest.raises(ModelError):
        found.extend(model.draws(items(5), ask(1)))  # extend keeps what came first
    assert len(found) == 2


def test_single_requests_if_server_rejects_n_above_one(server: Any) -> None:
    server.faults = iter(["status:400"])
    # One item: another one's first request may be on its way already.
    assert_whole(list(model_at(server).draws(items(1), ask(3))), 1, 3)
    assert all("n" not in body for body in server.asked[1:])


# Flow ---------------------------------------------------------------------------------------


def test_concurrency_is_limited_and_used(server: Any) -> None:
    model = model_at(server, "server=vllm&concurrency=3&n=1")
    assert_whole(list(model.draws(items(20), ask(4))), 20, 4)
    assert 2 <= server.most_running <= 3


def test_items_are_consumed_lazily(server: Any) -> None:
    taken: list[str] = []

    def lazily() -> Iterator[Item]:
        for item in items(100):
            taken.append(item.id)
            yield item

    found = model_at(server, "server=vllm&concurrency=2").draws(lazily(), ask(1))
    next(found)
    assert len(taken) <= 5
    found.close()
    assert len(taken) <= 5


def test_runs_inside_running_event_loop(server: Any) -> None:
    async def notebook() -> list[Any]:
        return list(model_at(server).draws(items(2), ask(2)))

    assert_whole(asyncio.run(notebook()), 2, 2)


def test_stopping_early_cancels_all_requests(server: Any) -> None:
    server.faults = iter([None, *repeat("stall", 20)])
    found = model_at(server).draws(items(8), ask(1))
    next(found)
    found.close()
    assert "aleatoric-requests" not in [thread.name for thread in threading.enumerate()]


# What is sent and what is made of it --------------------------------------------------------


def test_ancestral_disables_server_truncation(server: Any) -> None:
    list(model_at(server, "server=vllm").draws(items(1), ask(1)))
    list(model_at(server, "server=llamacpp").draws(items(1), ask(1)))
    list(model_at(server, "server=transformers").draws(items(1), ask(1)))
    vllm, llamacpp, transformers = server.asked
    assert (vllm["temperature"], vllm["top_p"], vllm["top_k"], vllm["min_p"]) == (1, 1, -1, 0)
    assert (llamacpp["top_k"], llamacpp["min_p"], llamacpp["typical_p"]) == (0, 0, 1)
    config = json.loads(transformers["generation_config"])
    assert (config["do_sample"], config["top_k"], config["max_new_tokens"]) == (True, 0, 8)
    assert all(body["model"] == "org/gpt" and "seed" in body for body in server.asked)


def test_unsupported_decoder_is_rejected(server: Any) -> None:
    for options, decoder in (("server=openai", "top_k=40"), ("server=vllm", "typical=0.2")):
        with pytest.raises(UsageError, match="cannot be sent"):
            list(model_at(server, options).draws(items(1), ask(1, decoder)))
    with pytest.raises(UsageError, match="chooses among whole texts"):
        list(model_at(server).draws(items(1), ask(1, "beam=4")))
    assert not server.asked


@pytest.mark.parametrize(
    ("about", "kind"),
    [
        ({"/v1/models": {"data": [{"owned_by": "vllm"}]}}, "vllm"),
        ({"/v1/models": {"data": [{"owned_by": "library"}]}}, "ollama"),
        ({"/openapi.json": {"paths": {"/load_model": {}}}}, "transformers"),
        ({"/v1/models": [1], "/openapi.json": [2]}, "other"),
        ({}, "other"),
    ],
)
def test_server_kind_is_detected(server: Any, about: dict[str, Any], kind: str) -> None:
    server.about = about
    model = model_at(server, "mode=completions")
    assert_whole(list(model.draws(items(1), ask(2))), 1, 2)
    assert model.usage.server == kind
    assert any("not known" in note for note in model.notes()) == (kind == "other")


def test_word_truncated_by_max_tokens_is_continued(server: Any) -> None:
    texts = [" under", "stand", "able and", " dog is"]
    server.text = lambda number, body: texts[number]
    (draws,) = model_at(server, "server=vllm&n=1&concurrency=1").draws(items(1), ask(1))
    assert draws.texts == (" understandable and",)
    assert [body["prompt"] for body in server.asked] == [
        "There 0",
        "There 0 under",
        "There 0 understand",
    ]


def test_endless_word_counts_as_failed(server: Any) -> None:
    server.text = lambda number, body: "a"
    (draws,) = model_at(server).draws(items(1), ask(2))
    assert (draws.texts, draws.failed) == ((), 2)
    server.finish_reason = lambda number: "stop"
    (draws,) = model_at(server).draws(items(1), ask(2))
    assert (draws.texts, draws.failed) == (("a", "a"), 0)


def test_chat_counts_words_and_failures(server: Any) -> None:
    answers = ["dog", "Dog.", "ice cream", "", "dog"]
    server.text = lambda number, body: answers[number]
    server.finish_reason = lambda number: "stop"
    model = model_at(server, "server=openai&mode=chat")
    (draws,) = model.draws(items(1), ask(5))
    assert (draws.counts, draws.failed) == ({"dog": 2, "Dog": 1}, 2)
    (body,) = server.asked
    assert body["messages"][0]["content"].startswith("You are ChatGPT")
    assert body["n"] == 5
    assert body["max_completion_tokens"] == 16
    assert model.usage.failed == 2


def test_reply_without_content_counts_as_failed(server: Any) -> None:
    refusal = {"message": {"content": None, "refusal": "no"}, "finish_reason": "stop"}
    server.faults = iter(["body:" + json.dumps({"choices": [refusal]})])
    (draws,) = model_at(server, "server=openai&mode=chat").draws(items(1), ask(1))
    assert (draws.counts, draws.failed) == ({}, 1)


def test_lone_surrogates_are_replaced(server: Any) -> None:
    choice = '{"choices": [{"text": " d\\ud800g is", "finish_reason": "length"}]}'
    server.faults = iter(["body:" + choice])
    model = model_at(server)
    (draws,) = model.draws(items(1), ask(1))
    assert draws.texts == (" d?g is",)
    assert model.usage.unmetered == 1


def test_short_list_is_counted_and_noted(server: Any) -> None:
    listed = [*(f"w{i}x" for i in range(30)), "ice cream", *(f"v{i}x" for i in range(6))]
    server.text = lambda number, body: (
        "Sure:\n" + "\n".join(f"{i + 1}. {word}" for i, word in enumerate(listed))
    )
    server.finish_reason = lambda number: "stop"
    model = model_at(server, "server=openai&mode=chat-list")
    (draws,) = model.draws(items(1), ask(40))
    assert (sum(draws.counts.values()), draws.failed) == (36, 1)
    assert (model.usage.short_lists, model.usage.missing_words) == (1, 3)
    assert "gpt chat-list: 1 of 1 lists are short, by 3 words altogether" in model.notes()
    assert "which 40 words" in server.asked[0]["messages"][0]["content"]
    assert model.estimator == "list"


def test_too_long_word_list_is_rejected(server: Any) -> None:
    with pytest.raises(UsageError, match="--samples 40"):
        list(model_at(server, "mode=chat-list").draws(items(1), ask(1000)))


def test_tokens_and_cost(server: Any) -> None:
    server.faults = iter(["status:500"])
    model = model_at(server, "server=vllm&price_in=2&price_out=10")
    list(model.draws(items(3), ask(4)))
    usage = model.usage
    assert (usage.requests, usage.prompt_tokens, usage.completion_tokens) == (3, 30, 24)
    assert usage.cost == pytest.approx((30 * 2 + 24 * 10) / 1e6)
    assert usage.served == ("served-1",)
    assert load("gpt@https://api.openai.com/v1").usage.cost is None


def test_identical_samples_are_noted(server: Any) -> None:
    server.text = lambda number, body: " same is"
    model = model_at(server)
    list(model.draws(items(5), ask(5)))
    assert any("all alike" in note for note in model.notes())


# Names and secrets --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("", "needs a model"),
        ("gpt-4o", "needs a model"),
        ("gpt-4o@api.openai.com", "needs a model"),
        ("gpt@http://", "not understood"),
        ("gpt@http://host:99999/v1", "not understood"),
        ("gpt@http://ho st/v1", "not understood"),
        ("gpt@http://[::1].evil.com/v1", "not understood"),
        ("gpt@http://[::1]evil/v1", "not understood"),
        ("gpt@http://[:::]/v1", "not understood"),
        ("gpt@http://host:+80/v1", "not understood"),
        ("gpt@https://host/v1?mode=talk", "mode must be"),
        ("gpt@https://host/v1?server=mine", "server must be"),
        ("gpt@https://host/v1?n=0", "n must be"),
        ("gpt@https://host/v1?timeout=nan", "timeout must be"),
        ("gpt@https://host/v1?price_in=-1", "price_in must be"),
        (f"gpt@https://host/v1?api_key={KEY}", "no option 'api_key'"),
        (f"gpt@https://user:{KEY}@host/v1", "user name or password"),
    ],
)
def test_invalid_spec_raises_one_line_error_without_secrets(argument: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load(argument)
    assert KEY not in str(caught.value)


def test_name_omits_options_that_do_not_change_results() -> None:
    model = load("a@b/c@https://h/v1/?concurrency=3&mode=chat&max_tokens=9&price_in=1")
    assert model.name == "openai:a@b/c@https://h/v1?mode=chat&max_tokens=9"
    assert (model.spec.model, model.label, model.version) == ("a@b/c", "c chat", "as-served")


def test_api_key_is_sent_only_in_header(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    list(model_at(server).draws(items(1), ask(1)))
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in json.dumps(server.asked)
    monkeypatch.setenv("ALEATORIC_API_KEY", "another")
    list(model_at(server).draws(items(1), ask(1)))
    assert server.headers[1]["authorization"] == "Bearer another"
    monkeypatch.setenv("ALEATORIC_API_KEY", f"{KEY}\nX: 1")
    with pytest.raises(ModelError) as caught:
        list(model_at(server).draws(items(1), ask(1)))
    assert KEY not in str(caught.value)


def test_api_key_is_not_in_run_files_or_output(
    server: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cli: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    people = tmp_path / "people.jsonl"
    people.write_text(
        '{"id": "1", "context": "There", "responses": ["are", "is"]}\n'
        '{"id": "2", "context": "It", "responses": ["is", "was"]}\n'
    )
    name = f"openai:gpt@{server.url}?server=vllm&backoff=0.01"
    # The server quotes the key in its complaints.
    server.faults = iter(["status:500", "status:429 0", "body:[]"])
    asked = ("word", "--corpus", people, "--samples", 4, "--json")
    ran = cli(*asked, "--model", name, "--out", tmp_path / "run")
    assert ran.status == 0
    server.faults = repeat("status:401")
    refused = cli(*asked, "--model", name, "--out", tmp_path / "refused")
    server.faults = repeat("status:404")
    missing = cli(*asked, "--model", name, "--out", tmp_path / "missing")
    assert (refused.status, missing.status) == (1, 1)
    assert "you sent ***, and that is not liked" in missing.err
    printed = [caplog.text, *(text for r in (ran, refused, missing) for text in (r.out, r.err))]
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 2
    assert server.headers[0]["authorization"].endswith(KEY)
    assert not any(KEY in text for text in printed)
    assert not any(KEY.encode() in content for content in written)
    assert KEY not in repr(load(name.removeprefix("openai:")))


def test_run_from_command_line(server: Any, tmp_path: Path, cli: Callable[..., Any]) -> None:
    people = tmp_path / "people.jsonl"
    rows = [{"id": str(i), "context": f"c{i}", "responses": {"dog": 3, "cat": 1}} for i in range(6)]
    people.write_text("".join(json.dumps(row) + "\n" for row in rows))
    server.text = lambda number, body: " Dog is" if number % 4 else "... cat."
    server.finish_reason = lambda number: "stop"
    server.faults = cycle([None, "status:500", None, "cut"])
    name = f"openai:gpt@{server.url}?server=vllm&n=1&concurrency=1&backoff=0.01"
    ran = cli("word", "--corpus", people, "--samples", 4, "--json", "--model", name)
    assert ran.status == 0
    tvd = ran.results["gpt", "tvd"]
    assert tvd["estimate"]["n_items"] == 6
    assert "|n:4|" in tvd["signature"]
