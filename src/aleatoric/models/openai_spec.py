"""From `MODEL@BASE_URL?OPTIONS` to settings; a mistake is one sentence that repeats no secret."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from aleatoric.errors import UsageError
from aleatoric.models.retry import Patience
from aleatoric.models.servers import SENT

Mode = Literal["completions", "chat", "chat-list"]
CONCURRENCY = 8
_FORM = "write openai:MODEL@BASE_URL, such as openai:gpt-4o@https://api.openai.com/v1?mode=chat"
_SPLIT = re.compile(r"(?P<model>.+?)@(?P<url>https?://.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Spec:
    """Which model, where, and how it is asked."""

    model: str
    base_url: str
    mode: Mode = "completions"
    server: str = "auto"
    max_tokens: int | None = None
    n: int = 128
    """The most samples asked for in one request."""
    concurrency: int | None = None
    """Requests at a time; where not said, 8, or what suits the server."""
    timeout: float = 60.0
    """Seconds for a first try; later ones get more."""
    retries: int = 8
    backoff: float = 0.5
    price_in: float | None = None
    price_out: float | None = None

    @property
    def label(self) -> str:
        """The model's name without its folder, and how it is asked."""
        name = self.model.rstrip("/").rpartition("/")[2]
        return name if self.mode == "completions" else f"{name} {self.mode}"

    @property
    def identity(self) -> str:
        """The specification with the options that can change a result, and no others."""
        shown = {"mode": self.mode, "server": self.server, "max_tokens": self.max_tokens}
        plain = {field.name: field.default for field in fields(self)}
        options = "&".join(f"{k}={v}" for k, v in shown.items() if v != plain[k])
        return f"openai:{self.model}@{self.base_url}" + (f"?{options}" if options else "")

    @property
    def patience(self) -> Patience:
        """How often the server is asked again."""
        return Patience(retries=self.retries, first=self.backoff)

    @property
    def most_at_once(self) -> int:
        """Requests at a time, before the kind of server is known."""
        return self.concurrency or CONCURRENCY

    def budget(self, samples: int) -> int:
        """How many tokens a reply may have."""
        if self.max_tokens is not None:
            return self.max_tokens
        return {"completions": 8, "chat": 16, "chat-list": max(256, 12 * samples)}[self.mode]


def parse_spec(argument: str) -> Spec:
    """Settings from what stands after `openai:`.

    >>> spec = parse_spec("llama3:8b@http://localhost:11434/v1?mode=chat&timeout=9.5")
    >>> spec.model, spec.base_url, spec.mode, spec.timeout
    ('llama3:8b', 'http://localhost:11434/v1', 'chat', 9.5)
    """
    found = _SPLIT.fullmatch(argument)
    if found is None:
        raise UsageError(f"openai: needs a model and a server's address; {_FORM}.")
    base_url, _, query = found["url"].partition("?")
    _check_url(base_url)
    options: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        options[name] = _option(name, value)
    return Spec(found["model"], base_url.rstrip("/"), **options)


def _check_url(url: str) -> None:
    # The specification is saved with the run: whatever could be a secret is refused unseen.
    if "@" in url:
        raise UsageError(
            "openai: the address holds a user name or password, which the run would save; "
            "put the key into ALEATORIC_API_KEY instead."
        )
    import httpx

    try:
        parts = urlsplit(url)
        # urlsplit takes the host of [::1].evil.com for ::1: the client must see the same host.
        is_same = bool(parts.hostname) and httpx.URL(url).host == parts.hostname
        is_good = is_same and parts.port != 0 and not parts.fragment
    except (ValueError, httpx.InvalidURL):
        is_good = False
    if not is_good or any(character.isspace() for character in url):
        raise UsageError(f"openai: the server's address is not understood; {_FORM}.")


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if number < least:
            raise ValueError
        return number

    return read


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError
    return number


def _price(text: str) -> float:
    return 0.0 if float(text) == 0 else _positive(text)


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError
        return text

    return read


_READ: dict[str, tuple[Callable[[str], Any], str]] = {
    "mode": (_one_of(*get_args(Mode)), "completions, chat or chat-list"),
    "server": (_one_of("auto", *SENT), ", ".join(("auto", *SENT))),
    "max_tokens": (_whole(1), "a whole number from 1 up"),
    "n": (_whole(1), "a whole number from 1 up"),
    "concurrency": (_whole(1), "a whole number from 1 up"),
    "timeout": (_positive, "seconds above 0"),
    "retries": (_whole(0), "a whole number from 0 up"),
    "backoff": (_positive, "seconds above 0"),
    "price_in": (_price, "a price per million tokens"),
    "price_out": (_price, "a price per million tokens"),
}


def _option(name: str, value: str) -> Any:
    if name not in _READ:
        # The name may be a slip for a secret; the value is not repeated.
        raise UsageError(f"openai: there is no option {name!r}; known: {', '.join(_READ)}.")
    read, wanted = _READ[name]
    try:
        return read(value)
    except ValueError:
        raise UsageError(f"openai: {name} must be {wanted}.") from None
