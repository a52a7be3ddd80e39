"""Open probes by name: lexical-N, syntactic-N, semantic, registered ones, or module:function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from aleatoric import registry
from aleatoric.errors import UsageError, did_you_mean
from aleatoric.probes.base import Block, Probe, probe_at, probe_from
from aleatoric.probes.encoders import SentenceEncoder, VectorCache, encode_once
from aleatoric.probes.tools import TextReader, Tools, default_encoder, default_tagger, order_of
from aleatoric.types import Floats

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
    """The probes of one run, which tokenize, tag and embed each text of a batch only once.

    A name is a built-in or registered probe, one of `given` (your own functions), or
    module:function. Tools default to those of the language; `cache` stores embeddings.
    """
    return probes_with(Tools(language, tokeniser, tagger, encoder, cache), names, given)


def probes_with(
    tools: Tools, names: Sequence[str], given: Mapping[str, Any] | None = None
) -> list[Probe]:
    """The probes of these names, with the tools that they share."""
    return [_open(name, tools, given or {}) for name in dict.fromkeys(names)]


def default_names(
    language: str, tagger: str | None = None, encoder: str | None = None
) -> tuple[str, ...]:
    """The probes that can run for a language with the installed and named tools."""
    missing = left_out(language, tagger, encoder)
    return tuple(name for name in (*LEXICAL, *SYNTACTIC, *SEMANTIC) if name not in missing)


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
    if ":" in name:
        return probe_at(name)
    kind, _, argument = name.partition("-")
    if kind in registry.PLUGINS["probes"]:
        ours: Probe = registry.find("probes", kind)(argument, tools)
        return ours
    _check_name(name)
    return probe_from(name, registry.find("probes", name))


def _check_name(name: str) -> None:
    added = [known for known in registry.names("probes") if known not in registry.PLUGINS["probes"]]
    known = (*LEXICAL, *SYNTACTIC, *SEMANTIC, *added)
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


@dataclass(frozen=True)
class Semantic:
    """1 - cosine of sentence embeddings: 0 for the same direction, 2 for opposite ones."""

    encoder: SentenceEncoder
    cache: VectorCache | None
    facts: Mapping[str, str]
    name: str = "semantic"
    bounds: tuple[float, float] = (0.0, 2.0)

    def matrices(self, blocks: Sequence[Block]) -> list[Floats]:
        """Distances per block; NaN for texts of white space only."""
        texts = list(dict.fromkeys(text for block in blocks for text in block.texts))
        units, row = self._units(texts), {text: i for i, text in enumerate(texts)}
        return [_distances(units, [row[text] for text in block.texts]) for block in blocks]

    def _units(self, texts: list[str]) -> Floats:
        """Unit vectors, one row per text; NaN for a text without words."""
        rows = [row for row, text in enumerate(texts) if text.strip()]
        vectors = encode_once(self.encoder, [texts[i] for i in rows], self.cache)
        units = np.full((len(texts), vectors.shape[1]), np.nan)
        with np.errstate(invalid="ignore"):  # a vector of zeros has no direction
            length = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
            units[rows] = vectors / length
        return units


def open_semantic(argument: str, tools: Tools) -> Semantic:
    """`semantic`: 1 - cosine of sentence embeddings."""
    if argument:
        raise UsageError("the probe semantic takes no number; write semantic.")
    return Semantic(tools.encoder, tools.cache, {"encoder": tools.encoder.label})


def _distances(units: Floats, rows: list[int]) -> Floats:
    vectors = units[rows]
    distances: Floats = np.clip(1 - vectors @ vectors.T, 0.0, 2.0)
    # The distance of a text to itself is exactly 0, without rounding; NaN stays.
    distances[np.equal.outer(rows, rows) & ~np.isnan(distances)] = 0.0
    return distances
