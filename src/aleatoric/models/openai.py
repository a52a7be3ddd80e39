"""Any OpenAI-compatible server: `openai:MODEL@BASE_URL?mode=completions|chat|chat-list`.

- `completions`: plain continuations of the context, cut later by the word rule,
- `chat`: the paper's first prompt, independent answers of one word,
- `chat-list`: the paper's second prompt, one answer that lists all words.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from aleatoric.errors import AleatoricError, UsageError
from aleatoric.models.base import Ask
from aleatoric.models.chat import Tally, Usage, list_prompt, parse_list, parse_word, word_prompt
from aleatoric.models.http import (
    Client,
    PassingError,
    RefusedError,
    as_finished,
    background_loop,
    key_for,
    run_in,
)
from aleatoric.models.openai_spec import Spec, parse_decoder, parse_spec, sampling_fields, told_by
from aleatoric.rng import stream
from aleatoric.types import Draws, Item

EXTENSIONS = 3
"""How often a text that ends within its first word is continued."""
_FIRST_WORD = re.compile(r"[^\W_]\S*")
_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|longer than the max"
    r"|(?:prompt|input).*(?:too long|must be <)",
    re.IGNORECASE,
)
"""What servers say of a prompt that their model's window does not hold."""
_PATHS = {"completions": "/completions", "chat": "/chat/completions"}


@dataclass(frozen=True, slots=True)
class Reply:
    """One choice: its text, and whether the model ended it (or the token budget did)."""

    text: str
    is_ended: bool


def may_grow(text: str) -> bool:
    """Whether the first word of a text could go on, under any word rule: no space follows it.

    >>> may_grow(" understa"), may_grow(" dog and"), may_grow(' "')
    (True, False, True)
    """
    found = _FIRST_WORD.search(text)
    return found is None or found.end() == len(text)


def read_choices(document: Any, is_chat: bool) -> list[Reply]:
    """The choices of a reply; one that lacks them is malformed and asked for again.

    >>> read_choices({"choices": [{"text": " dog", "finish_reason": "length"}]}, False)
    [Reply(text=' dog', is_ended=False)]
    """
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(choices, list) or not choices:
        raise PassingError("the reply holds no choices")
    return [_choice(choice, is_chat) for choice in choices]


def _choice(choice: Any, is_chat: bool) -> Reply:
    holder = choice.get("message") if is_chat and isinstance(choice, dict) else choice
    if not isinstance(holder, dict):
        raise PassingError("the reply holds a choice without a text")
    text = holder.get("content" if is_chat else "text")
    if is_chat and text is None:
        text = ""  # a refusal, or a call of a tool: an answer without a word
    if not isinstance(text, str):
        raise PassingError("the reply holds a choice without a text")
    # JSON can hold halves of characters, which no file can.
    whole = text.encode("utf-8", "replace").decode()
    return Reply(whole, choice.get("finish_reason") != "length")


class Asked(Protocol):
    """What the requests of a run need to know of what is asked."""

    @property
    def decoder(self) -> str:
        """How to decode."""
        ...

    @property
    def samples(self) -> int:
        """How many replies an item."""
        ...

    @property
    def seed(self) -> int:
        """Where seeds of requests come from."""
        ...


Messages = list[dict[str, str]]


class Requests:
    """The requests of one run, whatever is made of their replies."""

    def __init__(self, spec: Spec, ask: Asked, client: Client, tally: Tally) -> None:
        self._spec, self._asked, self._client, self._tally = spec, ask, client, tally
        self._is_chat = spec.mode != "completions"
        self._most = spec.n
        self._fixed: dict[str, Any] = {}

    async def prepare(self) -> None:
        """Find out what kind of server this is, and so what every request must say."""
        server = self._spec.server
        if server == "auto":
            found = await server_at(self._spec.base_url, self._client)
            self._tally.is_server_known, server = found is not None, found or "other"
        self._tally.server = server
        budget = self._spec.budget(self._asked.samples)
        # OpenAI's newer models refuse the older name, which is the only one that others know.
        is_newer = server == "openai" and self._is_chat
        self._fixed = {
            "model": self._spec.model,
            "max_completion_tokens" if is_newer else "max_tokens": budget,
            **sampling_fields(server, self._asked.decoder, budget),
        }
        if server in ("transformers", "ollama"):
            self._most = 1  # they answer a request for several with one
        if server == "transformers" and self._spec.concurrency is None:
            # It works on one at a time, and all share one random generator, which a second
            # request would seed anew before the first is done.
            self._client.narrow(1)

    def explained(self, refusal: RefusedError, item_id: str) -> AleatoricError:
        """A refusal, with the item that is too long, or a hint where a chat model was asked."""
        if refusal.status_code in (400, 413, 422) and _TOO_LONG.search(str(refusal)):
            problem = f"item {item_id!a:.60}: {str(refusal).rstrip('.')}"
            return UsageError(f"{problem}; shorten its context, or leave the item out.")
        if self._is_chat or refusal.status_code not in (400, 404, 405):
            return refusal
        hint = "if this is a chat model, add ?mode=chat to its name"
        return RefusedError(f"{str(refusal).rstrip('.')}; {hint}.", refusal.status_code)

    async def replies(self, item_id: str, prompt: str | Messages, count: int) -> list[Reply]:
        """Exactly `count` replies, in the order of their numbers."""
        found: dict[int, Reply] = {}
        while missing := [number for number in range(count) if number not in found]:
            runs = _runs(missing, self._most)
            answers = [self._several(item_id, prompt, start, size) for start, size in runs]
            for (start, size), replies in zip(runs, await asyncio.gather(*answers), strict=True):
                found |= {start + i: reply for i, reply in enumerate(replies[:size])}
                if len(replies) < size:
                    self._most = min(self._most, len(replies))
        self._tally.count_replies([reply.text for reply in found.values()])
        return [found[number] for number in range(count)]

    async def _several(
        self, item_id: str, prompt: str | Messages, start: int, size: int
    ) -> list[Reply]:
        try:
            return await self.request(item_id, prompt, size, start)
        except RefusedError as refusal:
            if size == 1 or refusal.status_code not in (400, 422):
                raise
        # Some servers refuse to give several at once: where one alone works, go on so.
        replies = await self.request(item_id, prompt, 1, start)
        self._most = 1
        return replies

    async def request(
        self, item_id: str, prompt: str | Messages, size: int, start: int, turn: str = "first"
    ) -> list[Reply]:
        """One request for `size` replies, with the seed of the first one's number."""
        keys = (self._spec.model, self._spec.mode, self._asked.decoder, item_id, start, turn)
        seed = int(stream(self._asked.seed, "openai", *keys).integers(2**31))
        body = {**self._fixed, **self._asking(prompt), "seed": seed}
        if size > 1:  # unsaid where it is one: some servers do not know the field
            body["n"] = size
        path = _PATHS["chat" if self._is_chat else "completions"]
        jitter = stream(self._asked.seed, "retry", *keys)
        return await self._client.post(path, body, self._read, jitter)

    def _asking(self, prompt: str | Messages) -> dict[str, Any]:
        if not self._is_chat:
            return {"prompt": prompt}
        said = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        return {"messages": said}

    def _read(self, document: Any) -> list[Reply]:
        replies = read_choices(document, self._is_chat)
        self._tally.count_reply(document)
        return replies


class Session(Requests):
    """The requests of one run that asks for next words."""

    async def draw(self, item: Item) -> Draws:
        """All that is asked for on one item."""
        if not item.context.strip():
            raise UsageError(
                f"item {item.id!a:.60}: its context is empty, and a server needs something to "
                "continue; leave the item out."
            )
        draw = {"completions": self._texts, "chat": self._words, "chat-list": self._list}
        try:
            draws = await draw[self._spec.mode](item)
        except RefusedError as refusal:
            raise self.explained(refusal, item.id) from None
        self._tally.failed += draws.failed
        return draws

    async def _texts(self, item: Item) -> Draws:
        replies = await self.replies(item.id, item.context, self._asked.samples)
        whole = [self._grown(item, number, reply) for number, reply in enumerate(replies)]
        texts = [text for text in await asyncio.gather(*whole) if text is not None]
        return Draws(item.id, {}, len(replies) - len(texts), texts=tuple(texts))

    async def _words(self, item: Item) -> Draws:
        prompt = word_prompt(item.context)
        replies = await self.replies(item.id, prompt, self._asked.samples)
        # A reply that ran out of tokens may end within its word.
        words = [parse_word(reply.text) if reply.is_ended else None for reply in replies]
        counts = Counter(word for word in words if word is not None)
        return Draws(item.id, dict(counts), words.count(None))

    async def _list(self, item: Item) -> Draws:
        asked = self._asked.samples
        (reply,) = await self.replies(item.id, list_prompt(item.context, asked), 1)
        found = parse_list(reply.text, asked, is_cut=not reply.is_ended)
        self._tally.count_list(found)
        return Draws(item.id, dict(Counter(found.words)), found.failed)

    async def _grown(self, item: Item, number: int, reply: Reply) -> str | None:
        """The text, continued until its first word has ended; `None` where it never does."""
        for turn in range(EXTENSIONS):
            if reply.is_ended or not may_grow(reply.text):
                return reply.text
            prompt = item.context + reply.text
            (more, *_) = await self.request(item.id, prompt, 1, number, f"more-{turn}")
            reply = Reply(self._client.masked(reply.text + more.text), more.is_ended)
        return reply.text if reply.is_ended or not may_grow(reply.text) else None


def _runs(numbers: Iterable[int], most: int) -> list[tuple[int, int]]:
    """Consecutive numbers as (first, how many), with at most `most` in one.

    >>> _runs([0, 1, 2, 5, 6], most=2)
    [(0, 2), (2, 1), (5, 2)]
    """
    runs: list[tuple[int, int]] = []
    for number in numbers:
        start, size = runs[-1] if runs else (0, most)
        if size < most and number == start + size:
            runs[-1] = (start, size + 1)
        else:
            runs.append((number, 1))
    return runs


async def server_at(base_url: str, client: Client) -> str | None:
    """The kind of server at an address, told by what it says of itself; `None` if unknown."""
    url = urlsplit(base_url)
    if url.hostname == "api.openai.com":
        return "openai"
    listed = await client.get(f"{base_url}/models")
    kind = told_by(*listed) if listed else None
    if kind is not None:
        return kind
    described = await client.get(f"{url.scheme}://{url.netloc}/openapi.json")
    paths = described[1].get("paths") if described and isinstance(described[1], dict) else None
    return "transformers" if isinstance(paths, dict) and "/load_model" in paths else None


MOST_LISTED = 200
"""The longest list that is asked for in one reply."""


@dataclass(frozen=True)
class OpenAIModel:
    """A model behind a server, reached when words are asked for.

    >>> model = load("org/gpt@http://127.0.0.1:8000/v1?mode=chat&concurrency=2")
    >>> model.label, model.name
    ('gpt chat', 'openai:org/gpt@http://127.0.0.1:8000/v1?mode=chat')
    """

    spec: Spec
    _tally: Tally = field(default_factory=Tally, repr=False, compare=False)

    @property
    def label(self) -> str:
        """The model's name without its folder, and how it is asked."""
        return self.spec.label

    @property
    def name(self) -> str:
        """The specification without what cannot change a result (concurrency, prices, ...)."""
        return self.spec.identity

    @property
    def version(self) -> str:
        """A server does not say which weights it runs."""
        return "as-served"

    @property
    def estimator(self) -> str:
        """Sampled; the words of a list are no independent samples."""
        return "list" if self.spec.mode == "chat-list" else "mc"

    @property
    def usage(self) -> Usage:
        """Requests, tokens, failures and cost up to now."""
        return self._tally.usage(self.spec.price_in, self.spec.price_out)

    def notes(self) -> list[str]:
        """What a reader of the numbers should know, a sentence each."""
        return self._tally.notes(self.label, self.usage)

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Words for each item, as items are finished."""
        self._check(ask)
        with background_loop() as loop:
            client = client_of(self.spec, self._tally)
            session = Session(self.spec, ask, client, self._tally)
            try:
                run_in(loop, session.prepare())
                yield from as_finished(items, session.draw, loop, 2 * self.spec.most_at_once)
            finally:
                run_in(loop, client.close())

    def _check(self, ask: Ask) -> None:
        parse_decoder(ask.decoder)
        if self.spec.mode == "completions" and ask.choices.rule not in ("corrected", "paper"):
            raise UsageError(
                f"{self.label}: whether a word has ended is told by the space after it, which "
                f"--word-rule {ask.choices.rule} does not need; use ?mode=chat, or record texts "
                "and use recorded:FILE."
            )
        if self.spec.mode == "chat-list" and ask.samples > MOST_LISTED:
            raise UsageError(
                f"{self.label}: one reply cannot list {ask.samples} words; "
                f"use --samples 40 as the paper did (at most {MOST_LISTED})."
            )


def client_of(spec: Spec, tally: Tally) -> Client:
    """The client of a specification, which counts what it asks again."""
    return Client(
        spec.base_url,
        key_for(spec.base_url),
        spec.patience,
        spec.most_at_once,
        spec.timeout,
        tally.count_retry,
    )


def load(argument: str) -> OpenAIModel:
    """`openai:MODEL@BASE_URL?OPTIONS`; no request is made yet.

    >>> load("gpt-4o@https://api.openai.com/v1?mode=chat").label
    'gpt-4o chat'
    """
    return OpenAIModel(parse_spec(argument))
