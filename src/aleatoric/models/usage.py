"""What asking a server cost, and what did not come back as a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aleatoric.models.chat_replies import WordList

ENOUGH_TO_TELL = 5
"""Fewer replies than this may be alike by chance."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of one model object; `cost` is in the currency of the prices, per million tokens."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unmetered: int = 0
    """Replies that said nothing about tokens: the token counts are too low."""
    replies: int = 0
    failed: int = 0
    """Draws without a word."""
    short_lists: int = 0
    missing_words: int = 0
    """Words that short lists lack."""
    server: str | None = None
    served: tuple[str, ...] = ()
    """The model names that the server said it used."""
    cost: float | None = None


@dataclass
class Tally:
    """Counts while requests run; touched by the event loop's thread alone."""

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unmetered: int = 0
    replies: int = 0
    failed: int = 0
    short_lists: int = 0
    missing_words: int = 0
    server: str | None = None
    is_server_known: bool = True
    served: set[str] = field(default_factory=set)
    items: int = 0
    uniform_items: int = 0

    def count_retry(self) -> None:
        """One more request that was asked again."""
        self.retries += 1

    def count_reply(self, document: Mapping[str, Any]) -> None:
        """The tokens of a reply, and the model that it names."""
        self.requests += 1
        usage = document.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        spent = [_count(counts.get(name)) for name in ("prompt_tokens", "completion_tokens")]
        self.unmetered += not any(spent)
        self.prompt_tokens += spent[0]
        self.completion_tokens += spent[1]
        if isinstance(document.get("model"), str):
            # JSON can hold halves of characters, which no file can.
            self.served.add(document["model"].encode("utf-8", "replace").decode()[:200])

    def count_replies(self, texts: Sequence[str]) -> None:
        """The replies to one item, and whether they are all alike."""
        self.replies += len(texts)
        if len(texts) >= ENOUGH_TO_TELL:
            self.items += 1
            self.uniform_items += len(set(texts)) == 1

    def count_list(self, found: WordList) -> None:
        """A list, and how many words it lacks."""
        self.short_lists += found.missing > 0
        self.missing_words += found.missing

    def usage(self, price_in: float | None, price_out: float | None) -> Usage:
        """The counts now, with their cost where prices are given.

        >>> tally = Tally(prompt_tokens=2_000_000, completion_tokens=500_000)
        >>> tally.usage(2.5, 10.0).cost
        10.0
        """
        cost = None
        if price_in is not None or price_out is not None:
            spent = self.prompt_tokens * (price_in or 0) + self.completion_tokens * (price_out or 0)
            cost = spent / 1e6
        names = tuple(sorted(self.served))
        shared = [n for n in Usage.__dataclass_fields__ if n not in ("served", "cost")]
        return Usage(**{name: getattr(self, name) for name in shared}, served=names, cost=cost)

    def notes(self, label: str, usage: Usage) -> list[str]:
        """Sentences on tokens, failures, short lists and an unknown server.

        >>> Tally(requests=2, replies=2, short_lists=1, missing_words=3).notes("m", Usage())[-1]
        'm: 1 of 2 lists are short, by 3 words altogether'
        """
        tokens = f"{self.prompt_tokens} prompt and {self.completion_tokens} completion tokens"
        price = "" if usage.cost is None else f", cost {usage.cost:.2f}"
        found = [f"{label}: {self.requests} requests, {self.retries} retries, {tokens}{price}"]
        if self.unmetered:
            found.append(f"{label}: {self.unmetered} replies did not say how many tokens they took")
        if not self.is_server_known:
            found.append(
                f"{label}: the kind of server is not known, so its own top-k or penalties may "
                "apply; name it with server=vllm, llamacpp, ollama, transformers, openai or other"
            )
        if self.items >= ENOUGH_TO_TELL and self.uniform_items == self.items:
            found.append(
                f"{label}: the replies to every item are all alike; does the server sample?"
            )
        if self.failed:
            found.append(f"{label}: {self.failed} draws held no word")
        if self.short_lists:
            lists = f"{self.short_lists} of {self.replies} lists are short"
            found.append(f"{label}: {lists}, by {self.missing_words} words altogether")
        return found


def _count(value: Any) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value < 10**12 else 0
