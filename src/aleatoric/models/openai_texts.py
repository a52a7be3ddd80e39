"""Any OpenAI-compatible server as a writer: `openai:MODEL@BASE_URL?mode=completions|chat`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from aleatoric.errors import UsageError
from aleatoric.models.base import LoadOptions, Writing, check_writing, finished, joined, messages_of
from aleatoric.models.chat import Tally, Usage
from aleatoric.models.generate import Tally as TextTally
from aleatoric.models.http import Client, RefusedError, as_finished, background_loop, run_in
from aleatoric.models.openai import Messages, Reply, Requests, client_of
from aleatoric.models.openai_spec import Spec, parse_decoder, parse_spec
from aleatoric.types import TextItem, Texts

_MOST_STOPS = 4
"""More stop strings than these are refused by OpenAI; texts are cut here in any case."""


@dataclass(frozen=True)
class OpenAIWriter:
    """A model behind a server, reached when texts are asked for.

    >>> OpenAIWriter(parse_spec("org/gpt@http://127.0.0.1:8000/v1?mode=chat")).label
    'gpt chat'
    """

    spec: Spec
    _requests: Tally = field(default_factory=Tally, repr=False, compare=False)
    tally: TextTally = field(default_factory=TextTally, repr=False, compare=False)

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
    def conventions(self) -> Mapping[str, str]:
        """How it is asked."""
        return {"mode": self.spec.mode, "space": "stripped"}

    @property
    def usage(self) -> Usage:
        """Requests, tokens and cost up to now."""
        return self._requests.usage(self.spec.price_in, self.spec.price_out)

    def notes(self) -> Sequence[str]:
        """Requests, tokens and cost; cut texts and empty ones."""
        return [*self._requests.notes(self.label, self.usage), *self.tally.notes(self.label)]

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        """The texts of each input, as inputs are finished."""
        check_writing(ask)
        parse_decoder(ask.decoder)
        self.tally.start()
        spec = asked_of(self.spec, ask)
        with background_loop() as loop:
            client = client_of(spec, self._requests)
            session = TextSession(spec, ask, client, self._requests)
            try:
                run_in(loop, session.prepare())
                window = 2 * spec.most_at_once
                for found in as_finished(items, session.texts, loop, window):
                    self.tally.count(found.texts.texts, found.n_cut)
                    yield found.texts
            finally:
                run_in(loop, client.close())


def asked_of(spec: Spec, ask: Writing) -> Spec:
    """The specification with what is asked put in: the length of texts, and chat.

    >>> asked_of(parse_spec("m@http://127.0.0.1/v1"), Writing(chat=True)).budget(1)
    100
    """
    length = spec.max_tokens or ask.max_new_tokens
    return replace(spec, max_tokens=length, mode="chat" if ask.chat else spec.mode)


@dataclass(frozen=True, slots=True)
class Answered:
    """The texts of one input, and how many of them the longest length has cut."""

    texts: Texts
    n_cut: int


class TextSession(Requests):
    """The requests of one run that asks for texts."""

    def __init__(self, spec: Spec, ask: Writing, client: Client, tally: Tally) -> None:
        super().__init__(spec, ask, client, tally)
        self._writing = ask

    async def prepare(self) -> None:
        """As for every run; servers that know stop strings are told them, which saves tokens."""
        await super().prepare()
        stop = self._writing.stop
        if 0 < len(stop) <= _MOST_STOPS and self._tally.server in ("openai", "vllm", "llamacpp"):
            self._fixed["stop"] = list(stop)

    async def texts(self, item: TextItem) -> Answered:
        """All texts of one input."""
        prompt = self._prompt(item)
        try:
            replies = await self.replies(item.id, prompt, self._writing.samples)
        except RefusedError as refusal:
            raise self.explained(refusal, item.id) from None
        texts = Texts(item.id, tuple(map(self._text, replies)))
        return Answered(texts, sum(not reply.is_ended for reply in replies))

    def _prompt(self, item: TextItem) -> str | Messages:
        if self._is_chat:
            return messages_of(item.input, self._writing)
        return joined(item.input, self._writing, None, is_continued=True)

    def _text(self, reply: Reply) -> str:
        return finished(reply.text, self._writing.stop)


def load(argument: str, loading: LoadOptions | None = None) -> OpenAIWriter:
    """`openai:MODEL@BASE_URL?OPTIONS`; no request is made yet.

    >>> load("gpt-4o@https://api.openai.com/v1?mode=chat").name
    'openai:gpt-4o@https://api.openai.com/v1?mode=chat'
    """
    spec = parse_spec(argument)
    if spec.mode == "chat-list":
        raise UsageError("openai: mode=chat-list asks for words; use mode=chat or completions.")
    return OpenAIWriter(spec)


HOME = "api.openai.com"
"""Where such keys come from."""


def receiver(model: str) -> str | None:
    """The host that would be sent a key; `None` where there is none, or it comes from there.

    Loopback is no exception: on a shared machine another user may listen there.

    >>> receiver("smollm2") is None
    True
    """
    kind, _, argument = model.partition(":")
    if kind != "openai":
        return None
    # Imported here: other models need no client.
    from aleatoric.models.http import key_for
    from aleatoric.models.openai_spec import parse_spec

    url = parse_spec(argument).base_url
    found = urlsplit(url)
    is_home = (found.scheme, found.hostname) == ("https", HOME)
    return None if is_home or key_for(url) is None else found.hostname


def check_receivers(models: Iterable[str], said: Collection[str], run: str) -> None:
    """Refuse to send a key to a host that nobody here has named.

    >>> check_receivers(["smollm2"], [], "runs/theirs")
    """
    for host in filter(None, map(receiver, models)):
        if host not in said:
            raise UsageError(
                f"{run}: goes on by sending your key to {host}, which the run names; if you trust "
                f"that server, add --key-for {host}, or repeat the command that began the run."
            )
