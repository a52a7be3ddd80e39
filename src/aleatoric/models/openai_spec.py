"""Specifications of served models, `MODEL@BASE_URL?OPTIONS`, and the fields of requests.

Error messages never repeat a value, which may be a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from aleatoric.errors import UsageError
from aleatoric.models.decoding import Decoder

SENT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("openai", "ollama", "other"), ("temperature", "top_p")),
    "vllm": ("temperature", "top_p", "top_k", "min_p"),
    "llamacpp": ("temperature", "top_p", "top_k", "min_p", "typical"),
    "transformers": ("temperature", "top_p", "top_k", "min_p", "typical", "epsilon", "eta"),
}
"""Kind of server -> the decoder steps it supports."""


def parse_decoder(text: str) -> dict[str, float]:
    """Return decoder steps by name; `ancestral` has none, `greedy` is temperature 0."""
    decoder = Decoder.parse(text)
    if decoder.greedy:
        return {"temperature": 0.0}
    return {name: float(value) for name, value in decoder.changes()}


def sampling_fields(server: str, decoder: str, max_tokens: int) -> dict[str, Any]:
    """Return the request fields that make a server sample with a decoder."""
    steps = parse_decoder(decoder)
    for name in steps:
        if name not in SENT[server]:
            able = ", ".join(kind for kind, names in SENT.items() if name in names)
            fix = f"leave it out, or name another kind with server={able}"
            raise UsageError(f"{name} cannot be sent to a server of kind {server}; {fix}.")
    return _fields(server, asdict(Decoder()) | steps, max_tokens)


def _fields(server: str, steps: Mapping[str, float], max_tokens: int) -> dict[str, Any]:
    temperature, top_p, typical = (steps[name] for name in ("temperature", "top_p", "typical"))
    plain = {"temperature": temperature, "top_p": top_p}
    top_k, min_p = int(steps["top_k"]), steps["min_p"]
    neutral = {"presence_penalty": 0.0, "frequency_penalty": 0.0}
    if server == "vllm":
        # The model's generation_config would fill in whatever is missing here.
        neutral = {"min_p": min_p, "repetition_penalty": 1.0, **neutral}
        return plain | {"top_k": top_k or -1} | neutral
    if server == "llamacpp":
        neutral = {"min_p": min_p, "repeat_penalty": 1.0, **neutral}
        # Its own order puts temperature last, which would cut another set of tokens.
        order = {"samplers": ["temperature", "top_k", "top_p", "min_p", "typ_p"]}
        return plain | {"top_k": top_k, "typical_p": typical} | neutral | order
    if server == "transformers":
        sampling = {"do_sample": temperature > 0, "temperature": temperature or 1.0, "top_k": top_k}
        shape = {"top_p": top_p, "typical_p": typical, "num_beams": 1, "repetition_penalty": 1.0}
        cut = {"epsilon_cutoff": steps["epsilon"], "eta_cutoff": steps["eta"]}
        shape |= {name: value for name, value in (cut | {"min_p": min_p}).items() if value}
        return {"generation_config": json.dumps(sampling | shape | {"max_new_tokens": max_tokens})}
    return plain


def told_by(headers: Mapping[str, str], models: Any) -> str | None:
    """Return the kind of server that sends such a list of models, or `None`."""
    if "llama.cpp" in headers.get("server", ""):
        return "llamacpp"
    entries = models.get("data") if isinstance(models, dict) else None
    listed = entries if isinstance(entries, list) else ()
    owners = [str(e.get("owned_by")) for e in listed if isinstance(e, dict)]
    kinds = {"vllm": "vllm", "llamacpp": "llamacpp", "library": "ollama"}
    return next((kinds[owner] for owner in owners if owner in kinds), None)


Mode = Literal["completions", "chat", "chat-list"]
_FORM = "write openai:MODEL@BASE_URL, such as openai:gpt-4o@https://api.openai.com/v1?mode=chat"
_SPLIT = re.compile(r"(?P<model>.+?)@(?P<url>https?://.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Spec:
    """A served model and its options."""

    model: str
    base_url: str
    mode: Mode = "completions"
    server: str = "auto"
    max_tokens: int | None = None
    n: int = 128
    """The most samples per request."""
    concurrency: int | None = None
    """Concurrent requests; by default 8, or what suits the server."""
    timeout: float = 60.0
    """Seconds for the first attempt; later ones get more."""
    retries: int = 8
    backoff: float = 0.5
    price_in: float | None = None
    price_out: float | None = None

    @property
    def label(self) -> str:
        """The model's name without its folder, and the mode."""
        name = self.model.rstrip("/").rpartition("/")[2]
        return name if self.mode == "completions" else f"{name} {self.mode}"

    @property
    def identity(self) -> str:
        """The specification with only the options that can change a result."""
        values = {"mode": self.mode, "server": self.server, "max_tokens": self.max_tokens}
        plain = {field.name: field.default for field in fields(self)}
        options = "&".join(f"{k}={v}" for k, v in values.items() if v != plain[k])
        return f"openai:{self.model}@{self.base_url}" + (f"?{options}" if options else "")

    def budget(self, samples: int) -> int:
        """Return how many tokens a reply may have."""
        if self.max_tokens is not None:
            return self.max_tokens
        return {"completions": 8, "chat": 16, "chat-list": max(256, 12 * samples)}[self.mode]


def parse_spec(argument: str) -> Spec:
    """Parse what follows `openai:`.

    >>> spec = parse_spec("llama3:8b@http://localhost:11434/v1?mode=chat&timeout=9.5")
    >>> spec.model, spec.base_url, spec.mode, spec.timeout
    ('llama3:8b', 'http://localhost:11434/v1', 'chat', 9.5)
    """
    match = _SPLIT.fullmatch(argument)
    if match is None:
        raise UsageError(f"openai: needs a model and a server's address; {_FORM}.")
    base_url, _, query = match["url"].partition("?")
    _check_url(base_url)
    pairs = parse_qsl(query, keep_blank_values=True)
    options = {name: _option(name, value) for name, value in pairs}
    return Spec(match["model"], base_url.rstrip("/"), **options)


def _option(name: str, value: str) -> Any:
    """Return the value of an option; errors do not repeat it, as it may be a secret."""
    if name not in _READ:
        raise UsageError(f"openai: there is no option {name!r}; known: {', '.join(_READ)}.")
    convert, is_valid, expected = _READ[name]
    with suppress(ValueError):
        converted = convert(value)
        if is_valid(converted):
            return converted
    raise UsageError(f"openai: {name} must be {expected}.")


def _check_url(url: str) -> None:
    # The specification is saved with the run: anything that could be a secret is refused.
    if "@" in url:
        problem = "openai: the address holds a user name or password, which the run would save"
        fix = "put the key into ALEATORIC_API_KEY instead"
        raise UsageError(f"{problem}; {fix}.")
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


_SECONDS = (float, lambda number: 0 < number < float("inf"), "seconds above 0")
_COUNT = (int, lambda number: number >= 1, "a whole number from 1 up")
_PRICE = (float, lambda number: 0 <= number < float("inf"), "a price per million tokens")
_SERVERS = ("auto", *SENT)
_READ: dict[str, tuple[Callable[[str], Any], Callable[[Any], bool], str]] = {
    "mode": (str, get_args(Mode).__contains__, "completions, chat or chat-list"),
    "server": (str, _SERVERS.__contains__, ", ".join(_SERVERS)),
    "max_tokens": _COUNT,
    "n": _COUNT,
    "concurrency": _COUNT,
    "timeout": _SECONDS,
    "retries": (int, lambda number: number >= 0, "a whole number from 0 up"),
    "backoff": _SECONDS,
    "price_in": _PRICE,
    "price_out": _PRICE,
}
