"""Probes by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.nlp.encoders import VectorCache
from aleatoric.probes.base import Probe
from aleatoric.probes.custom import probe_at, probe_from
from aleatoric.probes.tools import Nothing, Tools, default_encoder, default_tagger

LEXICAL = ("lexical-1", "lexical-2", "lexical-3")
SYNTACTIC = ("syntactic-1", "syntactic-2", "syntactic-3")
SEMANTIC = ("semantic",)


def open_probes(
    names: Sequence[str],
    language: str = "en",
    tokeniser: str | None = None,
    tagger: str | None = None,
    encoder: str | None = None,
    cache: VectorCache | None = None,
    given: Mapping[str, Any] | None = None,
) -> list[Probe]:
    """The probes of one run, which cut, tag and embed each text of a batch once between them.

    A name is one of ours (lexical-1, syntactic-2, semantic), one of `given` (your own functions),
    one that a package registers, or module:function. Tokeniser, tagger and encoder are by default
    those of the language; `cache` keeps embeddings by content hash.

    >>> from aleatoric.probes.base import Block
    >>> blocks = [Block(("A cat.", "The cat."), (2,))]
    >>> probe, = open_probes(["lexical-1"], tokeniser="whitespace")
    >>> probe.name, probe.matrices(blocks)[0][0, 1].item()
    ('lexical-1', 0.5)
    """
    kept = Nothing() if cache is None else cache  # an empty cache is false, but a cache
    return probes_with(Tools(language, tokeniser, tagger, encoder, kept), names, given)


def probes_with(
    tools: Tools, names: Sequence[str], given: Mapping[str, Any] | None = None
) -> list[Probe]:
    """The probes of these names, with the tools that they share."""
    return [_open(name, tools, given or {}) for name in dict.fromkeys(names)]


def default_names(
    language: str, tagger: str | None = None, encoder: str | None = None
) -> tuple[str, ...]:
    """Return the probes that can run for a language with what is installed and named.

    >>> default_names("en")[-2:]
    ('syntactic-3', 'semantic')
    """
    missing = left_out(language, tagger, encoder)
    return tuple(name for name in (*LEXICAL, *SYNTACTIC, *SEMANTIC) if name not in missing)


def left_out(
    language: str, tagger: str | None = None, encoder: str | None = None
) -> dict[str, str]:
    """Return the probes that cannot run for a language, with the reason and how to get them.

    >>> left_out("en"), left_out("xx", tagger="spacy:xx_core")["semantic"][:39]
    ({}, 'the embedded sentence encoder reads Eng')
    """
    found: dict[str, str] = {}
    if tagger is None and (reason := _refusal(default_tagger, language)):
        found |= dict.fromkeys(SYNTACTIC, reason)
    if encoder is None and (reason := _refusal(default_encoder, language)):
        found |= dict.fromkeys(SEMANTIC, reason)
    return found


def _open(name: str, tools: Tools, given: Mapping[str, Any]) -> Probe:
    if name in given:
        return probe_from(name, given[name])
    if ":" in name:
        return probe_at(name)
    kind, _, argument = name.partition("-")
    if kind in registry.PLUGINS["probes"]:
        ours: Probe = registry.find("probes", kind)(argument, tools)
        return ours
    return probe_from(name, registry.find("probes", name))


def _refusal(default: Callable[[str], str], language: str) -> str | None:
    """Return why a language has no default tool, or `None` where it has one."""
    try:
        default(language)
    except UsageError as refused:
        return str(refused)
    return None
