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
    tools = Tools(language, tokeniser, tagger, encoder, kept)
    return [_open(name, tools, given or {}) for name in dict.fromkeys(names)]


def default_names(language: str) -> tuple[str, ...]:
    """The probes that what is installed can work out for a language.

    >>> default_names("en")[-2:]
    ('syntactic-3', 'semantic')
    """
    syntactic = SYNTACTIC if _is_there(default_tagger, language) else ()
    semantic = SEMANTIC if _is_there(default_encoder, language) else ()
    return (*LEXICAL, *syntactic, *semantic)


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


def _is_there(default: Callable[[str], str], language: str) -> bool:
    try:
        default(language)
    except UsageError:
        return False
    return True
