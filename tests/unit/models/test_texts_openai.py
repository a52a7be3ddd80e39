"""Texts from a server that misbehaves as it is told."""

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


def test_every_input_gets_its_texts_whatever_fails(server: Any) -> None:
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


def test_several_texts_in_one_request_of_the_asked_length(server: Any) -> None:
    (texts,) = writer_at(server).write(items(1), Writing(samples=4, stop=("\n",)))
    assert len(texts.texts) == 4
    (body,) = server.asked
    assert (body["n"], body["max_tokens"], body["prompt"]) == (4, 100, "Text 0.")
    assert (body["top_k"], body["repetition_penalty"], body["stop"]) == (-1, 1.0, ["\n"])


def test_chat_by_option_or_by_question(server: Any) -> None:
    for options, asked in (("server=vllm&mode=chat", Writing(samples=1)),
                           ("server=vllm", Writing(samples=1, chat=True))):  # fmt: skip
        list(writer_at(server, options).write([*items(1), DIALOGUE], asked))
        bodies = sorted((body["messages"] for body in server.asked), key=len)
        assert bodies[0] == [{"role": "user", "content": "Text 0."}]
        assert [m["role"] for m in bodies[1]] == ["user", "assistant", "user"]
        server.asked.clear()


def test_turns_need_a_separator_that_is_known(server: Any) -> None:
    with pytest.raises(ModelError, match="turns=newline"):
        list(writer_at(server).write([DIALOGUE], Writing(samples=1)))
    list(writer_at(server).write([DIALOGUE], Writing(samples=1, turns="newline")))
    assert server.asked[-1]["prompt"] == "Hi.\nHello.\nHow are you?\n"


def test_stop_strings_cut_here_too_and_cut_texts_are_counted(server: Any) -> None:
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


def test_under_another_decoder_texts_are_counted_anew(server: Any) -> None:
    writer = writer_at(server)
    for decoder in ("ancestral", "top_p=0.9"):
        list(writer.write(items(2), Writing(samples=2, decoder=decoder)))
        assert any("4 of 4 texts were cut" in note for note in writer.notes())


def test_only_texts_that_were_given_are_counted(server: Any) -> None:
    """What is under way when a run stops is lost, and written again."""
    writer = writer_at(server)
    walk = writer.write(items(6), Writing(samples=2))
    for number in (1, 2, 3):
        next(walk)
        assert writer.tally.texts == 2 * number
    walk.close()
    assert writer.tally.texts == 6


def test_lists_of_words_and_unknown_decoders_are_refused(server: Any) -> None:
    with pytest.raises(UsageError, match="chat-list"):
        load_texts(f"gpt@{server.url}?mode=chat-list")
    with pytest.raises(UsageError, match="typical cannot be sent"):
        list(writer_at(server).write(items(1), Writing(decoder="typical=0.2")))


def test_a_refusal_hints_at_chat(server: Any) -> None:
    server.faults = cycle(["status:404"])
    with pytest.raises(ModelError, match="mode=chat"):
        list(writer_at(server).write(items(1), Writing(samples=1)))
