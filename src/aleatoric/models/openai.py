"""Models behind OpenAI-compatible servers: `openai:MODEL@BASE_URL?mode=MODE`.

Modes for next words; whole texts use the first two, with the prompt of the run:

- `completions`: plain continuations of the context, cut later by the word rule,
- `chat`: the paper's first prompt, independent replies of one word,
- `chat-list`: the paper's second prompt, one reply that lists all words.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from aleatoric.errors import UsageError
from aleatoric.models import base, chat, http
from aleatoric.models.base import Ask, LoadOptions, TextTally, Writing
from aleatoric.models.chat import RequestTally
from aleatoric.models.http import Client, PassingError, RefusedError, key_for
from aleatoric.models.openai_spec import Spec, parse_decoder, parse_spec, sampling_fields, told_by
from aleatoric.rng import stream
from aleatoric.types import Draws, Item, TextItem, Texts

_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|longer than the max"
    r"|(?:prompt|input).*(?:too long|must be <)",
    re.IGNORECASE,
)
"""What servers say if a prompt does not fit the model's window."""
MOST_LISTED = 200
"""The longest list that one reply is asked for."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply: its text, and whether the model ended it (not the token budget)."""

    text: str
    is_ended: bool


def may_grow(text: str) -> bool:
    """Whether the first word of a text could continue: no space follows it.

    >>> may_grow(" understa"), may_grow(" dog and"), may_grow(' "')
    (True, False, True)
    """
    match = re.search(r"[^\W_]\S*", text)
    return match is None or match.end() == len(text)


def read_choices(document: Any, is_chat: bool) -> list[Reply]:
    """Return the replies of a response; raises `PassingError` for a malformed one."""
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(choices, list) or not choices:
        raise PassingError("the reply holds no choices")
    return [_choice(choice, is_chat) for choice in choices]


def _choice(choice: Any, is_chat: bool) -> Reply:
    holder = choice.get("message") if is_chat and isinstance(choice, dict) else choice
    text = holder.get("content" if is_chat else "text") if isinstance(holder, dict) else 0
    if is_chat and text is None:
        text = ""  # a refusal or a tool call: a reply without a word
    if not isinstance(text, str):
        raise PassingError("the reply holds a choice without a text")
    # JSON may contain lone surrogates, which cannot be written to a file.
    safe_text = text.encode("utf-8", "replace").decode()
    return Reply(safe_text, choice.get("finish_reason") != "length")


Content = str | list[dict[str, str]]
"""A text, or the messages of a chat."""


class Requests:
    """The requests of one run, whatever is done with the replies."""

    answer: Callable[[Any], Awaitable[Any]]

    def __init__(self, spec: Spec, ask: Ask | Writing, client: Client, tally: RequestTally) -> None:
        self._spec, self._ask, self._client, self._tally = spec, ask, client, tally
        self._is_chat, self._most = spec.mode != "completions", spec.n
        self._fixed: dict[str, Any] = {}

    async def prepare(self) -> None:
        """Detect the kind of server, which determines the fields of every request."""
        server = self._spec.server
        if server == "auto":
            detected = await server_at(self._spec.base_url, self._client)
            self._tally.is_server_known, server = detected is not None, detected or "other"
        self._tally.server = server
        budget = self._spec.budget(self._ask.samples)
        # OpenAI's newer models refuse the older name, which is the only one that others accept.
        is_newer = server == "openai" and self._is_chat
        self._fixed = {
            "model": self._spec.model,
            "max_completion_tokens" if is_newer else "max_tokens": budget,
            **sampling_fields(server, self._ask.decoder, budget),
        }
        if server in ("transformers", "ollama"):
            self._most = 1  # they send one reply to a request for several
        if server == "transformers" and self._spec.concurrency is None:
            # It handles one request at a time, and all share one random generator, which a
            # second request would reseed before the first is done.
            self._client.narrow(1)

    async def respond(self, item: Any) -> Any:
        """Answer one item; explain a refusal: the item is too long, or a hint about chat models."""
        try:
            return await self.answer(item)
        except RefusedError as refusal:
            status, reason = refusal.status_code, str(refusal).rstrip(".")
            if status in (400, 413, 422) and _TOO_LONG.search(reason):
                fix = "shorten its context, or leave the item out"
                raise UsageError(f"item {item.id!a:.60}: {reason}; {fix}.") from None
            if self._is_chat or status not in (400, 404, 405):
                raise
            hint = "if this is a chat model, add ?mode=chat to its name"
            raise RefusedError(f"{reason}; {hint}.", status) from None

    async def replies(self, item_id: str, prompt: Content, count: int) -> list[Reply]:
        """Return exactly `count` replies, in the order of their numbers."""
        by_number: dict[int, Reply] = {}
        while missing := [number for number in range(count) if number not in by_number]:
            runs = _runs(missing, self._most)
            answers = [self._several(item_id, prompt, start, size) for start, size in runs]
            for (start, size), replies in zip(runs, await asyncio.gather(*answers), strict=True):
                by_number |= {start + i: reply for i, reply in enumerate(replies[:size])}
                if len(replies) < size:
                    self._most = min(self._most, len(replies))
        self._tally.count_replies([reply.text for reply in by_number.values()])
        return [by_number[number] for number in range(count)]

    async def _several(self, item_id: str, prompt: Content, start: int, size: int) -> list[Reply]:
        try:
            return await self.request(item_id, prompt, size, start)
        except RefusedError as refusal:
            if size == 1 or refusal.status_code not in (400, 422):
                raise
        # Some servers refuse to send several replies: if a single one works, request single ones.
        replies = await self.request(item_id, prompt, 1, start)
        self._most = 1
        return replies

    async def request(
        self, item_id: str, prompt: Content, size: int, start: int, turn: str = "first"
    ) -> list[Reply]:
        """Send one request for `size` replies, seeded by the number of the first one."""
        keys = (self._spec.model, self._spec.mode, self._ask.decoder, item_id, start, turn)
        seed = int(stream(self._ask.seed, "openai", *keys).integers(2**31))
        # A list of one message, if the prompt of a chat is a text.
        is_message = self._is_chat and isinstance(prompt, str)
        content = [{"role": "user", "content": prompt}] if is_message else prompt
        body = {**self._fixed, "messages" if self._is_chat else "prompt": content, "seed": seed}
        if size > 1:  # left out for one: some servers do not know the field
            body["n"] = size
        path = "/chat/completions" if self._is_chat else "/completions"
        jitter = stream(self._ask.seed, "retry", *keys)

        def read(document: Any) -> list[Reply]:
            replies = read_choices(document, self._is_chat)
            self._tally.count_reply(document)
            return replies

        return await self._client.post(path, body, read, jitter)


class WordRequests(Requests):
    """The requests of one run for next words."""

    async def answer(self, item: Item) -> Draws:
        """Return the draws of one item."""
        if not item.context.strip():
            raise UsageError(
                f"item {item.id!a:.60}: its context is empty, and a server needs something to "
                "continue; leave the item out."
            )
        draw = {"completions": self._texts, "chat": self._words, "chat-list": self._list}
        draws = await draw[self._spec.mode](item)
        self._tally.failed += draws.failed
        return draws

    async def _texts(self, item: Item) -> Draws:
        replies = await self.replies(item.id, item.context, self._ask.samples)
        grown = [self._grown(item, number, reply) for number, reply in enumerate(replies)]
        texts = [text for text in await asyncio.gather(*grown) if text is not None]
        return Draws(item.id, {}, len(replies) - len(texts), texts=tuple(texts))

    async def _words(self, item: Item) -> Draws:
        replies = await self.replies(item.id, chat.word_prompt(item.context), self._ask.samples)
        # A reply that ran out of tokens may end within its word.
        words = [chat.parse_word(reply.text) if reply.is_ended else None for reply in replies]
        counts = Counter(word for word in words if word is not None)
        return Draws(item.id, dict(counts), words.count(None))

    async def _list(self, item: Item) -> Draws:
        requested = self._ask.samples
        (reply,) = await self.replies(item.id, chat.list_prompt(item.context, requested), 1)
        words, failed, missing = chat.parse_list(reply.text, requested, not reply.is_ended)
        self._tally.short_lists += missing > 0
        self._tally.missing_words += missing
        return Draws(item.id, dict(Counter(words)), failed)

    async def _grown(self, item: Item, number: int, reply: Reply) -> str | None:
        """Continue a text until its first word has ended; `None` if it never does."""
        for turn in range(3):
            if reply.is_ended or not may_grow(reply.text):
                return reply.text
            prompt = item.context + reply.text
            (extension, *_) = await self.request(item.id, prompt, 1, number, f"more-{turn}")
            reply = Reply(self._client.masked(reply.text + extension.text), extension.is_ended)
        return reply.text if reply.is_ended or not may_grow(reply.text) else None


class TextRequests(Requests):
    """The requests of one run for texts."""

    _ask: Writing

    async def prepare(self) -> None:
        """Prepare; servers that know stop strings get them, which saves tokens."""
        await super().prepare()
        # OpenAI refuses more than 4 stop strings; texts are cut here in any case.
        is_told = 0 < len(self._ask.stop) <= 4
        if is_told and self._tally.server in ("openai", "vllm", "llamacpp"):
            self._fixed["stop"] = list(self._ask.stop)

    async def answer(self, item: TextItem) -> tuple[Texts, int]:
        """Return the texts of one input, and how many of them were cut at the longest length."""
        prompt: Content
        if self._is_chat:
            prompt = base.messages_of(item.input, self._ask)
        else:
            prompt = base.joined(item.input, self._ask, None, is_continued=True)
        replies = await self.replies(item.id, prompt, self._ask.samples)
        texts = tuple(base.finished(reply.text, self._ask.stop) for reply in replies)
        return Texts(item.id, texts), sum(not reply.is_ended for reply in replies)


def _runs(numbers: Iterable[int], most: int) -> list[tuple[int, int]]:
    """Group consecutive numbers into (first, size) with at most `most` each."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        start, size = runs[-1] if runs else (0, most)
        if size < most and number == start + size:
            runs[-1] = (start, size + 1)
        else:
            runs.append((number, 1))
    return runs


async def server_at(base_url: str, client: Client) -> str | None:
    """Return the kind of server at an address, or `None` if unknown."""
    url = urlsplit(base_url)
    if url.hostname == "api.openai.com":
        return "openai"
    listed = await client.get(f"{base_url}/models")
    if listed and (kind := told_by(*listed)):
        return kind
    described = await client.get(f"{url.scheme}://{url.netloc}/openapi.json")
    paths = described[1].get("paths") if described and isinstance(described[1], dict) else None
    return "transformers" if isinstance(paths, dict) and "/load_model" in paths else None


@dataclass(frozen=True)
class ServedModel:
    """A model behind a server, which is contacted only when output is requested."""

    spec: Spec
    version: str = "as-served"
    """A server does not say which weights it runs."""
    _tally: RequestTally = field(default_factory=RequestTally, repr=False, compare=False)

    @property
    def label(self) -> str:
        """The model's name without its folder, and the mode."""
        return self.spec.label

    @property
    def name(self) -> str:
        """The specification without options that cannot change a result."""
        return self.spec.identity

    @property
    def usage(self) -> RequestTally:
        """Requests, tokens, failures and cost so far."""
        return self._tally.usage(self.spec.price_in, self.spec.price_out)

    def _answers(
        self, kind: type[Any], spec: Spec, ask: Ask | Writing, items: Iterable[Any]
    ) -> Iterator[Any]:
        with http.background_loop() as loop:
            client = Client(spec, key_for(spec.base_url), self._tally.count_retry)
            requests = kind(spec, ask, client, self._tally)
            try:
                http.run_in(loop, requests.prepare())
                yield from http.as_finished(items, requests.respond, loop, 2 * client.at_once)
            finally:
                http.run_in(loop, client.close())


@dataclass(frozen=True)
class OpenAIModel(ServedModel):
    """A served model as a source of next words."""

    @property
    def estimator(self) -> str:
        """Sampled; the words of a list are not independent samples."""
        return "list" if self.spec.mode == "chat-list" else "mc"

    def notes(self) -> list[str]:
        """Requests, tokens, cost and failures."""
        return self.usage.notes(self.label)

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Yield words per item, as items are finished."""
        parse_decoder(ask.decoder)
        if self.spec.mode == "completions" and ask.choices.rule not in ("corrected", "paper"):
            raise UsageError(
                f"{self.label}: whether a word has ended is told by the space after it, which "
                f"--word-rule {ask.choices.rule} does not need; use ?mode=chat, or record texts "
                "and use recorded:FILE."
            )
        if self.spec.mode == "chat-list" and ask.samples > MOST_LISTED:
            fix = f"use --samples 40 as the paper did (at most {MOST_LISTED})"
            raise UsageError(f"{self.label}: one reply cannot list {ask.samples} words; {fix}.")
        yield from self._answers(WordRequests, self.spec, ask, items)


@dataclass(frozen=True)
class OpenAIWriter(ServedModel):
    """A served model as a text generator."""

    tally: TextTally = field(default_factory=TextTally, repr=False, compare=False)

    @property
    def conventions(self) -> Mapping[str, str]:
        """The mode, and how texts are post-processed."""
        return {"mode": self.spec.mode, "space": "stripped"}

    def notes(self) -> Sequence[str]:
        """Requests, tokens and cost; truncated and empty texts."""
        return [*self.usage.notes(self.label), *self.tally.notes(self.label)]

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        """Yield the texts of each input, as inputs are finished."""
        base.check_writing(ask)
        parse_decoder(ask.decoder)
        self.tally.start()
        length = self.spec.max_tokens or ask.max_new_tokens
        mode = "chat" if ask.chat else self.spec.mode
        spec = replace(self.spec, max_tokens=length, mode=mode)
        for result, n_cut in self._answers(TextRequests, spec, ask, items):
            self.tally.count(result.texts, n_cut)
            yield result


def load(argument: str) -> OpenAIModel:
    """Return the word model of `openai:MODEL@BASE_URL?OPTIONS`; no request is made yet."""
    return OpenAIModel(parse_spec(argument))


def load_texts(argument: str, loading: LoadOptions | None = None) -> OpenAIWriter:
    """Return the text model of `openai:MODEL@BASE_URL?OPTIONS`; no request is made yet."""
    spec = parse_spec(argument)
    if spec.mode == "chat-list":
        raise UsageError("openai: mode=chat-list asks for words; use mode=chat or completions.")
    return OpenAIWriter(spec)


def check_receivers(models: Iterable[str], allowed_hosts: Collection[str], run: str) -> None:
    """Raise if an API key would go to a third party that this command does not allow.

    Loopback is no exception: on a shared machine another user may listen there.
    """
    specs = [model.removeprefix("openai:") for model in models if model.startswith("openai:")]
    for url in (parse_spec(spec).base_url for spec in specs):
        parsed = urlsplit(url)
        is_issuer = (parsed.scheme, host := parsed.hostname) == ("https", "api.openai.com")
        if not is_issuer and key_for(url) is not None and host not in allowed_hosts:
            raise UsageError(
                f"{run}: resuming sends your API key to {host}, which the run names; if you trust "
                f"that server, add --key-for {host}, or repeat the command that started the run."
            )
