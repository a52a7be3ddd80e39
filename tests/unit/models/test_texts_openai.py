"""Text generation through a server with injected faults."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest

from aleatoric.errors import ModelError, UsageError
from aleatoric.models.base import Writing
from aleatoric.models.openai import OpenAIWriter, load_texts
from aleatoric.types import TextItem

FAST = "&backoff=0.01&timeout=0.4"
DIALOGUE = TextItem("d", "1", ("Hi.", "Hello.", "How are you?"), ())


def writer_at(server: Any, options: str = "server=vllm") -> OpenAIWriter:
    return load_texts(f"org/gpt@{server.url}?{options}{FAST}")


def items(number: int) -> list[TextItem]:
    return [TextItem(f"i{i}", "1", (f"Text {i}.",), ()) for i in range(number)]


def test_every_input_gets_all_texts_despite_faults(server: Any) -> None:
    server.text = lambda number, body: f" s{body['seed']} {body['prompt']}\n"
    asked = Writing(samples=3, template="Simplify: {input}")
    calm = {t.item_id: t.texts for t in writer_at(server, "server=vllm&n=1").write(items(5), asked)}
    server.faults = cycle(["status:500", None, "body:[]", "cut", None, None])
    stormy = writer_at(server, "server=vllm&n=1")
    assert {t.item_id: t.texts for t in stormy.write(items(5), asked)} == calm
    assert stormy.usage.retries > 3
    assert all(len(set(texts)) == 3 for texts in calm.values())
    assert calm["i2"][0].endswith("Simplify: Text 2.")  # no space around a text
    assert any("requests" in note for note in stormy.notes())


def test_request_asks_for_several_texts_and_max_tokens(server: Any) -> None:
    (texts,) = writer_at(server).write(items(1), Writing(samples=4, stop=("\n",)))
    assert len(texts.texts) == 4
    (body,) = server.asked
    assert (body["n"], body["max_tokens"], body["prompt"]) == (4, 100, "Text 0.")
    assert (body["top_k"], body["repetition_penalty"], body["stop"]) == (-1, 1.0, ["\n"])


def test_chat_mode_by_model_option_or_by_request(server: Any) -> None:
    for options, asked in (("server=vllm&mode=chat", Writing(samples=1)),
                           ("server=vllm", Writing(samples=1, chat=True))):  # fmt: skip
        list(writer_at(server, options).write([*items(1), DIALOGUE], asked))
        bodies = sorted((body["messages"] for body in server.asked), key=len)
        assert bodies[0] == [{"role": "user", "content": "Text 0."}]
        assert [m["role"] for m in bodies[1]] == ["user", "assistant", "user"]
        server.asked.clear()


def test_dialogue_turns_require_separator(server: Any) -> None:
    with pytest.raises(ModelError, match="turns=newline"):
        list(writer_at(server).write([DIALOGUE], Writing(samples=1)))
    list(writer_at(server).write([DIALOGUE], Writing(samples=1, turns="newline")))
    assert server.asked[-1]["prompt"] == "Hi.\nHello.\nHow are you?\n"


def test_stop_strings_apply_and_truncated_texts_are_counted(server: Any) -> None:
    server.text = lambda number, body: "One. Two. Q: three"
    writer = writer_at(server, "server=other")
    (texts,) = writer.write(items(1), Writing(samples=2, stop=("Q:",)))
    assert texts.texts == ("One. Two.", "One. Two.")
    assert "stop" not in server.asked[0]
    assert any("2 of 2 texts were cut" in note for note in writer.notes())
    server.text = lambda number, body: " \n"
    server.finish_reason = lambda number: "stop"
    writer = writer_at(server, "server=other")
    assert next(iter(writer.write(items(1), Writing(samples=1)))).texts == ("",)
    assert any("1 of 1 texts is empty" in note for note in writer.notes())


def test_counts_are_reset_per_decoder(server: Any) -> None:
    writer = writer_at(server)
    for decoder in ("ancestral", "top_p=0.9"):
        list(writer.write(items(2), Writing(samples=2, decoder=decoder)))
        assert any("4 of 4 texts were cut" in note for note in writer.notes())


def test_only_yielded_texts_are_counted(server: Any) -> None:
    """Requests in flight when a run stops are discarded and repeated later."""
    writer = writer_at(server)
    walk = writer.write(items(6), Writing(samples=2))
    for number in (1, 2, 3):
        next(walk)
        assert writer.tally.texts == 2 * number
    walk.close()
    assert writer.tally.texts == 6


def test_word_lists_and_unknown_decoders_are_rejected(server: Any) -> None:
    with pytest.raises(UsageError, match="chat-list"):
        load_texts(f"gpt@{server.url}?mode=chat-list")
    with pytest.raises(UsageError, match="typical cannot be sent"):
        list(writer_at(server).write(items(1), Writing(decoder="typical=0.2")))


def test_completions_error_suggests_chat_mode(server: Any) -> None:
    server.faults = cycle(["status:404"])
    with pytest.raises(ModelError, match="mode=chat"):
        list(writer_at(server).write(items(1), Writing(samples=1)))
