"""Any OpenAI-compatible server: `openai:MODEL@BASE_URL?mode=completions|chat|chat-list`.

- `completions`: plain continuations of the context, cut later by the word rule,
- `chat`: the paper's first prompt, independent answers of one word,
- `chat-list`: the paper's second prompt, one answer that lists all words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from aleatoric.errors import UsageError
from aleatoric.models.background import as_finished, background_loop, run_in
from aleatoric.models.base import Ask
from aleatoric.models.http_client import Client, key_for
from aleatoric.models.openai_session import Session
from aleatoric.models.openai_spec import Spec, parse_spec
from aleatoric.models.servers import parse_decoder
from aleatoric.models.usage import Tally, Usage
from aleatoric.types import Draws, Item

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
