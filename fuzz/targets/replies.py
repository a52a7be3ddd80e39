"""What an OpenAI-compatible server sends back: status, header, document."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aleatoric.models.chat import RequestTally
from aleatoric.models.http import PassingError, _document, _message, retry_after
from aleatoric.models.openai import read_choices
from aleatoric.models.openai_spec import told_by

SEEDS = (
    b'{"model": "m", "choices": [{"text": " a", "finish_reason": "length"}], '
    b'"usage": {"prompt_tokens": 3}}',
    b'{"choices": [{"message": {"content": "dog", "refusal": null}}]}',
    b'{"error": {"message": "no", "code": "insufficient_quota"}}',
    b'{"data": [{"owned_by": "vllm"}]}',
    b"Thu, 01 Jan 2026 12:01:00 GMT",
    b"7.5",
)
TOKENS: tuple[bytes, ...] = (
    b'"choices"',
    b'"text"',
    b'"message"',
    b'"content"',
    b'"finish_reason"',
    b'"usage"',
)
TOKENS += (b'"prompt_tokens"', b'"completion_tokens"', b'"model"', b'"owned_by"', b'"detail"')
TOKENS += (b"\\ud800", b"9" * 400, b"-0001", b"99999")


def trial(data: bytes) -> None:
    """One input."""
    _message(data).encode("utf-8", "replace")
    # httpx hands over headers as latin-1 without line ends.
    retry_after(data.decode("latin-1").replace("\n", " "), datetime(2026, 1, 1, tzinfo=UTC))
    try:
        document = _document(data)
    except PassingError:
        return
    told_by({}, document)
    for is_chat in (False, True):
        _read(document, is_chat)


def _read(document: Any, is_chat: bool) -> None:
    tally = RequestTally()
    try:
        replies = read_choices(document, is_chat)
    except PassingError:
        return
    tally.count_reply(document)
    tally.count_replies([reply.text for reply in replies])
    usage = tally.usage(2.5, 10.0)
    # What is saved and shown must be text that a file can hold.
    "".join([*usage.notes("m"), *usage.served, *(reply.text for reply in replies)]).encode()
