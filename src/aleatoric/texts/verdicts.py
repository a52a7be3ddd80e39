"""Verdicts on a generator's texts, probe by probe, from results with intervals.

Closeness is judged by the energy distance: 0 in expectation for a perfect generator at any number
of texts. Variability is judged by mean M - mean H alone: mean C - mean H says how far a generator's
texts are from people's, and is above 0 for one that repeats a single sentence too. Where lengths
differ, variability is judged on texts cut to the same lengths, and at a stricter level, because the
beginning of a long text is not quite a short text. The verdicts of one probe on several systems are
one family: each stands on an interval whose level is adjusted for their number (Bonferroni).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from aleatoric.inference.bounds import at_level
from aleatoric.texts.lengths import lengths_differ
from aleatoric.types import Estimate, Result

DIFFERS = "differs from people"
CLOSE = "no significant difference from people"
DEPENDENT = "energy below 0, so that its texts are not independent of people's (copied?)"
MORE = "varies more than people"
LESS = "varies less than people"
ALIKE = "no significant difference in variability"
UNKNOWN = "not known"
CUT = "on texts cut to the same lengths"
LEVEL = 0.95
STRICT_LEVEL = 0.99
"""The confidence that a verdict needs where texts were cut to the same lengths."""
Found = Mapping[tuple[str, str], Estimate]


@dataclass(frozen=True)
class Verdict:
    """What one probe says of one system.

    `basis` names the metric that `variability` stands on, and `reason` says why a verdict is not
    known or why it stands on other texts than the tables.
    """

    system: str
    probe: str
    closeness: str
    variability: str
    basis: str
    reason: str | None = None


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """Return a verdict for every system and probe that has an energy distance."""
    found = {(result.system, result.metric): result.estimate for result in results}
    judged = [
        (system, probe)
        for system, metric in found
        for name, _, probe in [metric.partition("/")]
        if name == "energy"
    ]
    sizes = Counter(probe for _, probe in judged)
    return [_verdict(found, system, probe, sizes[probe]) for system, probe in judged]


def sentences(found: Sequence[Verdict]) -> list[str]:
    """Return one sentence per system, with the probes of each verdict.

    >>> sentences([Verdict("bot", "lexical-1", DIFFERS, LESS, "dmu_M/lexical-1")])
    ['bot: differs from people (lexical-1); varies less than people (lexical-1).']
    """
    systems = dict.fromkeys(one.system for one in found)
    return [
        f"{system}: {'; '.join(_parts([one for one in found if one.system == system]))}."
        for system in systems
    ]


def _verdict(found: Found, system: str, probe: str, n_systems: int) -> Verdict:
    energy = at_level(found[system, f"energy/{probe}"], 1 - (1 - LEVEL) / n_systems)
    basis, note, level = f"dmu_M/{probe}", None, LEVEL
    lengths = (found.get((system, name)) for name in ("length_H", "length_M"))
    if lengths_differ(*(own.value if own else None for own in lengths)):
        basis, level = f"dmu_M_same_length/{probe}", STRICT_LEVEL
        note = f"lengths differ: variability is judged {CUT}, at the {STRICT_LEVEL:.0%} level"
    difference = found.get((system, basis))
    if difference is not None:
        difference = at_level(difference, 1 - (1 - level) / n_systems)
    closeness = _side(energy, above=DIFFERS, below=DEPENDENT, between=CLOSE)
    variability = _side(difference, above=MORE, below=LESS, between=ALIKE)
    lacking = [own for own in (energy, difference) if own is None or own.interval is None]
    reason = lacking[0].reason if lacking and lacking[0] else note
    return Verdict(system, probe, closeness, variability, basis, reason)


def _side(estimate: Estimate | None, above: str, below: str, between: str) -> str:
    """Return a verdict by where an interval lies; without an interval there is none."""
    if estimate is None or estimate.interval is None:
        return UNKNOWN
    if estimate.interval.low > 0:
        return above
    return below if estimate.interval.high < 0 else between


def _parts(own: Sequence[Verdict]) -> Iterator[str]:
    for said in (DIFFERS, CLOSE, DEPENDENT):
        if probes := [one.probe for one in own if one.closeness == said]:
            yield f"{said} ({_named(probes, own)})"
    cut = f", {CUT}" if any("same_length" in one.basis for one in own) else ""
    for said in (MORE, LESS, ALIKE):
        if probes := [one.probe for one in own if one.variability == said]:
            yield f"{said} ({_named(probes, own)}{cut})"
    unknown = [one for one in own if UNKNOWN in (one.closeness, one.variability)]
    for reason in dict.fromkeys(one.reason or "too little data" for one in unknown):
        probes = [one.probe for one in unknown if (one.reason or "too little data") == reason]
        yield f"no verdict, {reason} ({_named(probes, own)})"


def _named(probes: Sequence[str], own: Sequence[Verdict]) -> str:
    """Return the names of probes, or that they are all."""
    return "all probes" if 1 < len(probes) == len(own) else ", ".join(probes)
