"""What a local model reads of a context: a template, a chat, a system message."""

# ruff: noqa: E402  (the imports below need torch, and the tests are skipped without it)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lms import brute_force, tiny, tokenizer, without_partial_tokens

from aleatoric.errors import UsageError
from aleatoric.models.base import Prompting, Writing, check_template, check_writing, messages_of
from aleatoric.models.chat import word_prompt
from aleatoric.models.hf import wrap
from aleatoric.nextword.exact import Question, Search, exact

CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant> "


def prompted(prompting: Prompting, chat: str | None = CHAT) -> Any:
    words = tokenizer()
    model = wrap(tiny("gpt2").model, words, name="tiny", bos="add")
    copied = type(words)(tokenizer_object=words.backend_tokenizer, bos_token=words.bos_token)
    copied.chat_template = chat
    return replace(model, tokenizer=copied, prompting=prompting)


def test_a_template_is_filled_with_the_context_and_keeps_the_start_token() -> None:
    lm = prompted(Prompting("Go on: {context}, and so on"))
    start = lm.start
    assert start
    assert lm.encode("the cat") == (*start, *lm.continuation("Go on: the cat, and so on"))


def test_a_chat_ends_where_the_answer_starts() -> None:
    lm = prompted(Prompting("Next word: {context}", chat=True, system="Be brief."))
    text = "<system>Be brief.\n<user>Next word: the cat\n<assistant> "
    assert lm.encode("the cat") == lm.continuation(text)
    assert lm.identity["bos"] == "template"


def test_the_paper_prompt_has_a_name() -> None:
    lm = prompted(Prompting("paper", chat=True))
    text = f"<user>{word_prompt('the {x} cat')}\n<assistant> "
    assert lm.encode("the {x} cat") == lm.continuation(text)


def test_word_probabilities_in_a_chat_match_enumeration() -> None:
    lm = without_partial_tokens(prompted(Prompting(chat=True)))
    words = ("the", "man")
    search = Search(1e-9, 10**6, "outcome")
    question = [Question("the cat", words)]
    (found,) = exact(lm, question, lead="condition", search=search)  # type: ignore[arg-type]
    assert found.low == pytest.approx([brute_force(lm, "the cat", word) for word in words])


def test_signature_names_what_is_not_the_default() -> None:
    assert str(Prompting()) == ""
    assert str(Prompting("paper", chat=True)) == "chat,template=paper"
    one, other = (str(Prompting(f"{{context}}{end}", True, "Be brief.")) for end in "?!")
    assert one.startswith("chat,template=#")
    assert one != other
    assert one.partition(",system=")[2] == other.partition(",system=")[2]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"template": "Go on:"}, "'Go on:' has no {context}; add it"),
        ({"template": "{name}, {context}"}, "has {name}; {context} is the only name that is"),
        ({"system": "Be brief."}, "--system is a message of a chat; add --chat"),
    ],
)
def test_prompts_that_cannot_be_filled_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem.replace("{", r"\{")):
        Prompting(**options)


def test_names_that_nothing_fills_are_refused_at_every_level() -> None:
    with pytest.raises(UsageError, match=r"has \{lang\}; \{input\} is the only name"):
        check_writing(Writing(template="In {lang}: {input}"))
    with pytest.raises(UsageError, match=r"has \{text\}; \{source\} is the only name"):
        check_template("{source} {text}", "{source}", "the sentence goes")
    check_template('{"a": 1} {} {0} {context}', "{context}", "the context goes")


def test_a_model_without_a_chat_template_is_refused() -> None:
    with pytest.raises(UsageError, match="tiny has no chat template; leave --chat out"):
        prompted(Prompting(chat=True), chat=None).encode("the cat")


def test_models_that_are_not_local_take_no_prompt(cli: Callable, tmp_path: Path) -> None:
    people = tmp_path / "people.jsonl"
    people.write_text('{"id": "1", "context": "a", "responses": ["x", "y"]}\n')
    ran = cli("word", "--corpus", people, "--model", "toy", "--chat")
    assert ran.status == 2
    assert "toy: --template, --chat and --system are for local models; leave them out" in ran.err


def test_a_system_message_without_a_chat_is_refused_for_texts() -> None:
    with pytest.raises(UsageError, match="--system is a message of a chat; add --chat"):
        check_writing(Writing(system="Be brief."))


def test_a_system_message_starts_a_dialogue() -> None:
    messages = messages_of(("Hi.", "Hello.", "You?"), Writing(system="Be brief."))
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
