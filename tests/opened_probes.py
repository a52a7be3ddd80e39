"""Probes of names and of functions, opened in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aleatoric.probes.base import Probe, both_ways, is_symmetric, probe_from
from aleatoric.probes.encoders import VectorCache
from aleatoric.probes.tools import Tools, probes_with


def open_probes(
    names: Sequence[str],
    language: str = "en",
    tokeniser: str | None = None,
    tagger: str | None = None,
    encoder: str | None = None,
    cache: VectorCache | None = None,
    given: Mapping[str, Any] | None = None,
) -> list[Probe]:
    """Probes with the tools of a language, or those named; `given` are functions by name."""
    given = given or {}
    encoders = () if encoder is None else (encoder,)
    tools = Tools(language, tokeniser, tagger, encoders, cache)
    opened = probes_with(tools, [name for name in names if name not in given])
    own = [probe_from(name, given[name]) for name in names if name in given]
    return [*opened, *(probe if is_symmetric(probe) else both_ways(probe) for probe in own)]
