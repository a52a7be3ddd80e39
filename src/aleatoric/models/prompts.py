"""From an input to what a generator is given, and from what it wrote to a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aleatoric.errors import ModelError, UsageError
from aleatoric.models.base import Writing
from aleatoric.showing import quoted

PLACE = "{input}"
_ROLES = ("user", "assistant")


def check_writing(ask: Writing) -> None:
    """Refuse what cannot be asked.

    >>> check_writing(Writing(template="Simplify: {input}"))
    """
    if PLACE not in ask.template:
        raise UsageError(
            f"the template {quoted(ask.template)} has no {PLACE}; write it in its place."
        )
    if ask.samples < 1 or ask.max_new_tokens < 1:
        raise UsageError("texts an input and new tokens a text are whole numbers from 1 up.")
    if "" in ask.stop:
        raise UsageError("a stop string is empty; leave it out.")


def joined(turns: Sequence[str], ask: Writing, end: str | None, is_continued: bool) -> str:
    """The turns of an input as one text, in the template.

    A dialogue that a model continues ends with the separator too, so that what follows is a new
    turn and no more of the last one; an input of one part is never followed by it.

    >>> joined(("Hi.", "Hello."), Writing(turns="newline"), None, is_continued=True)
    'Hi.\\nHello.\\n'
    >>> joined(("Big words.",), Writing(template="Simplify: {input}"), "</s>", is_continued=True)
    'Simplify: Big words.'
    """
    between = separator(ask.turns, end) if len(turns) > 1 else ""
    is_last = ask.template.endswith(PLACE)
    after = between if is_continued and is_last else ""
    return ask.template.replace(PLACE, between.join(turns) + after)


def separator(turns: str, end: str | None) -> str:
    """What stands between turns: the end-of-text token, a newline, or the string itself.

    >>> separator("eos", "</s>"), separator("newline", None), separator(" | ", None)
    ('</s>', '\\n', ' | ')
    """
    if turns == "eos" and end is None:
        raise ModelError(
            "no end-of-text token of the model is known to join turns by; use turns=newline."
        )
    return {"eos": end or "", "newline": "\n"}.get(turns, turns)


def messages_of(turns: Sequence[str], ask: Writing) -> list[dict[str, str]]:
    """An input as a chat: one message, or a dialogue whose last turn is the user's.

    A template of one's own speaks of the whole dialogue, which then stands in one message.

    >>> [m["role"] for m in messages_of(("Hi.", "Hello.", "You?"), Writing())]
    ['user', 'assistant', 'user']
    >>> messages_of(("Hi.", "Hello."), Writing(template="Go on: {input}"))
    [{'role': 'user', 'content': 'Go on: Hi.\\nHello.'}]
    """
    if len(turns) == 1 or ask.template != PLACE:
        content = ask.template.replace(PLACE, "\n".join(turns))
        return [{"role": "user", "content": content}]
    back = range(len(turns) - 1, -1, -1)
    return [{"role": _ROLES[i % 2], "content": turn} for i, turn in zip(back, turns, strict=True)]


def chat_text(tokenizer: Any, turns: Sequence[str], ask: Writing, label: str) -> str:
    """An input in the chat template of a tokenizer, up to where the answer begins."""
    if getattr(tokenizer, "chat_template", None) is None:
        raise UsageError(f"{label} has no chat template; leave --chat out.")
    found: str = tokenizer.apply_chat_template(
        messages_of(turns, ask), tokenize=False, add_generation_prompt=True
    )
    return found


def finished(text: str, stop: Sequence[str]) -> str:
    """A text up to the first stop string, without white space around it.

    >>> finished(" Near Marin.\\n\\nQ: next", ("\\n\\n", "Q:"))
    'Near Marin.'
    """
    places = [text.find(mark) for mark in stop]
    return text[: min((place for place in places if place >= 0), default=len(text))].strip()
