"""What each kind of OpenAI-compatible server must be told, so that a decoder means the same.

Servers have truncation of their own that a request must switch off (llama.cpp cuts at top-k 40,
transformers does not sample at all unless told to), and each names it differently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aleatoric.decoding import Decoder
from aleatoric.errors import UsageError

Decoding = Mapping[str, float]

SENT: dict[str, tuple[str, ...]] = {
    "openai": ("temperature", "top_p"),
    "ollama": ("temperature", "top_p"),
    "other": ("temperature", "top_p"),
    "vllm": ("temperature", "top_p", "top_k"),
    "llamacpp": ("temperature", "top_p", "top_k", "typical"),
    "transformers": ("temperature", "top_p", "top_k", "typical"),
}
"""Kind of server -> the decoders it can be asked for."""

_OFF = {"temperature": 1.0, "top_k": 0.0, "top_p": 1.0, "typical": 1.0}


def parse_decoder(text: str) -> dict[str, float]:
    """Decoder steps by name; `ancestral` has none, `greedy` is temperature 0.

    >>> parse_decoder("ancestral"), parse_decoder("temperature=.5, top_p=0.9")
    ({}, {'temperature': 0.5, 'top_p': 0.9})
    """
    decoder = Decoder.parse(text)
    if decoder.greedy:
        return {"temperature": 0.0}
    return {name: float(value) for name, value in decoder.changes()}


def sampling_fields(server: str, decoder: str, max_tokens: int) -> dict[str, Any]:
    """The fields of a request that make a server sample as the decoder says.

    >>> sampling_fields("openai", "temperature=0.5", 8)
    {'temperature': 0.5, 'top_p': 1.0}
    >>> sampling_fields("vllm", "ancestral", 8)["top_k"]
    -1
    """
    steps = parse_decoder(decoder)
    unsent = [name for name in steps if name not in SENT[server]]
    if unsent:
        able = [kind for kind, names in SENT.items() if unsent[0] in names]
        raise UsageError(
            f"{unsent[0]} cannot be sent to a server of kind {server}; "
            f"leave it out, or name another kind with server={', '.join(able)}."
        )
    return _FIELDS[server](_OFF | steps, max_tokens)


def _plain(steps: Decoding, max_tokens: int) -> dict[str, Any]:
    return {"temperature": steps["temperature"], "top_p": steps["top_p"]}


def _vllm(steps: Decoding, max_tokens: int) -> dict[str, Any]:
    # The model's own generation_config would fill whatever is not said here.
    neutral = {"min_p": 0.0, "repetition_penalty": 1.0, **_no_penalties()}
    return _plain(steps, max_tokens) | {"top_k": int(steps["top_k"]) or -1} | neutral


def _llamacpp(steps: Decoding, max_tokens: int) -> dict[str, Any]:
    neutral = {"min_p": 0.0, "repeat_penalty": 1.0, **_no_penalties()}
    cuts = {"top_k": int(steps["top_k"]), "typical_p": steps["typical"]}
    # Its own order puts temperature last, which would cut another set of tokens.
    order = {"samplers": ["temperature", "top_k", "top_p", "typ_p"]}
    return _plain(steps, max_tokens) | cuts | neutral | order


def _transformers(steps: Decoding, max_tokens: int) -> dict[str, Any]:
    config = {
        "do_sample": steps["temperature"] > 0,
        "temperature": steps["temperature"] or 1.0,
        "top_k": int(steps["top_k"]),
        "top_p": steps["top_p"],
        "typical_p": steps["typical"],
        "num_beams": 1,
        "repetition_penalty": 1.0,
        "max_new_tokens": max_tokens,
    }
    return {"generation_config": json.dumps(config)}


def _no_penalties() -> dict[str, float]:
    return {"presence_penalty": 0.0, "frequency_penalty": 0.0}


_FIELDS = {
    "openai": _plain,
    "ollama": _plain,
    "other": _plain,
    "vllm": _vllm,
    "llamacpp": _llamacpp,
    "transformers": _transformers,
}


def told_by(headers: Mapping[str, str], models: Any) -> str | None:
    """The kind of server that a list of models speaks of, or `None`.

    >>> told_by({}, {"data": [{"id": "m", "owned_by": "vllm"}]})
    'vllm'
    >>> told_by({"server": "llama.cpp"}, {}), told_by({}, [])
    ('llamacpp', None)
    """
    if "llama.cpp" in headers.get("server", ""):
        return "llamacpp"
    entries = models.get("data") if isinstance(models, dict) else None
    listed = entries if isinstance(entries, list) else ()
    owners = [str(e.get("owned_by")) for e in listed if isinstance(e, dict)]
    known = {"vllm": "vllm", "llamacpp": "llamacpp", "library": "ollama"}
    return next((known[owner] for owner in owners if owner in known), None)
