"""Open probes by name: lexical-N, semantic, nli:MODEL, registered ones, or module:function."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aleatoric import registry
from aleatoric.errors import UsageError, did_you_mean
from aleatoric.probes.base import (
    Block,
    BothWays,
    Probe,
    is_code,
    is_symmetric,
    probe_at,
    probe_from,
)
from aleatoric.probes.encoders import VectorCache, short_label
from aleatoric.probes.tools import TextReader, Tools, default_encoder, default_tagger, order_of
from aleatoric.types import Floats

LEXICAL = ("lexical-1", "lexical-2", "lexical-3")
SYNTACTIC = ("syntactic-1", "syntactic-2", "syntactic-3")
SEMANTIC = ("semantic",)
EMBEDDED = ("semantic", "euclidean")
"""Probes that every encoder of a run has."""
OTHERS = (
    *("euclidean", "dependency-1", "compression", "entailment:MODEL", "nli:MODEL"),
    *("nli_clusters:MODEL", "length", "perplexity:MODEL", "log_probability:MODEL"),
    "score:module:function",
)
_PARTS = re.compile("([^-:@]*)(.*)", re.DOTALL)
"""The kind of a built-in probe, and its argument: -N for an order, :MODEL, @ENCODER."""


def open_probes(
    names: Sequence[str],
    language: str = "en",
    tokeniser: str | None = None,
    tagger: str | None = None,
    encoder: str | None = None,
    cache: VectorCache | None = None,
    given: Mapping[str, Any] | None = None,
) -> list[Probe]:
    """The probes of one run, which tokenize, tag and embed each text of a batch only once.

    A name is a built-in or registered probe, one of `given` (your own functions), or
    module:function. Tools default to those of the language; `cache` stores embeddings.
    """
    encoders = () if encoder is None else (encoder,)
    return probes_with(Tools(language, tokeniser, tagger, encoders, cache), names, given)


def probes_with(
    tools: Tools, names: Sequence[str], given: Mapping[str, Any] | None = None
) -> list[Probe]:
    """The probes of these names, with the tools that they share; all of them symmetric."""
    opened = [_open(name, tools, given or {}) for name in dict.fromkeys(names)]
    if repeated := [name for name, n in Counter(p.name for p in opened).items() if n > 1]:
        fix = "name one of them, or rename the folder of one"
        raise UsageError(f"two probes have the name {repeated[0]}; {fix}.")
    return [probe if is_symmetric(probe) else BothWays(probe) for probe in opened]


def default_names(
    language: str, tagger: str | None = None, encoder: str | None = None
) -> tuple[str, ...]:
    """The probes that can run for a language with the installed and named tools."""
    missing = left_out(language, tagger, encoder)
    return tuple(name for name in (*LEXICAL, *SYNTACTIC, *SEMANTIC) if name not in missing)


def with_encoders(names: Sequence[str], encoders: Sequence[str]) -> tuple[str, ...]:
    """Add semantic@LABEL after semantic for every encoder but the first; euclidean likewise.

    >>> with_encoders(["semantic", "lexical-1"], ["minilm", "st:org/LaBSE"])
    ('semantic', 'semantic@LaBSE', 'lexical-1')
    """
    labels = [short_label(spec) for spec in encoders[1:]]
    if repeated := [label for label, n in Counter(labels).items() if n > 1]:
        raise UsageError(f"two encoders have the name {repeated[0]}; rename the folder of one.")
    return tuple(
        dict.fromkeys(
            each
            for name in names
            for each in (name, *(f"{name}@{label}" for label in labels if name in EMBEDDED))
        )
    )


def left_out(
    language: str, tagger: str | None = None, encoder: str | None = None
) -> dict[str, str]:
    """The probes that cannot run for a language, with the reason and the fix."""
    reasons: dict[str, str] = {}
    tools = (tagger, default_tagger, SYNTACTIC), (encoder, default_encoder, SEMANTIC)
    for _, default, probes in (tool for tool in tools if tool[0] is None):
        try:
            default(language)
        except UsageError as refused:
            reasons |= dict.fromkeys(probes, str(refused))
    return reasons


def _open(name: str, tools: Tools, functions: Mapping[str, Any]) -> Probe:
    if name in functions:
        return probe_from(name, functions[name])
    kind, argument = _PARTS.match(name).groups()  # type: ignore[union-attr]
    if is_code(name) and kind != "score":
        return probe_at(name)
    if kind in registry.PLUGINS["probes"]:
        ours: Probe = registry.find("probes", kind)(argument.removeprefix("-"), tools)
        return ours
    _check_name(name)
    return probe_from(name, registry.find("probes", name))


def _check_name(name: str) -> None:
    added = [known for known in registry.names("probes") if known not in registry.PLUGINS["probes"]]
    known = (*LEXICAL, *SYNTACTIC, *SEMANTIC, *OTHERS, *added)
    if name not in added:
        near, forms = did_you_mean(name, known), ", ".join(known)
        raise UsageError(f"there is no probe {name!r}{near}; use {forms} or module:function.")


@dataclass(frozen=True)
class NgramProbe:
    """N-grams of lower-cased tokens with punctuation, or of part-of-speech tags."""

    kind: Literal["lexical", "syntactic"]
    order: int
    reader: TextReader
    facts: Mapping[str, str]
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def name(self) -> str:
        """lexical-1, syntactic-2, ..."""
        return f"{self.kind}-{self.order}"

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """Distances per block; NaN between two texts without n-grams."""
        return self.reader.read(blocks).distances(self.kind, self.order)


def open_lexical(argument: str, tools: Tools) -> NgramProbe:
    """`lexical-N`: n-grams of order N of lower-cased tokens."""
    facts = {"tokeniser": tools.tokeniser.label, "case": "lower"}
    return NgramProbe("lexical", order_of("lexical", argument), tools.reader, facts)


def open_syntactic(argument: str, tools: Tools) -> NgramProbe:
    """`syntactic-N`: n-grams of order N of part-of-speech tags."""
    order = order_of("syntactic", argument)
    facts = {"tokeniser": tools.tokeniser.label, "tagger": tools.tagger.label}
    facts["tags"] = getattr(tools.tagger, "tagset", "the tagger's own")
    return NgramProbe("syntactic", order, tools.reader, facts)
