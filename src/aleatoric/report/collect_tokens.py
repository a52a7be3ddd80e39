"""The data of the figures of a token-level run."""

from __future__ import annotations

from typing import Any

from aleatoric import registry, token_pipeline
from aleatoric.analyses.pictures import Dots, Panels, Picture, Reliability, plain
from aleatoric.errors import UsageError
from aleatoric.progress import Track, quietly
from aleatoric.report.collect import ending_of
from aleatoric.report.numbers import interval_ends
from aleatoric.report.parts import Part
from aleatoric.store import Store
from aleatoric.tokens.consistency import Consistency
from aleatoric.tokens.curves import Curve
from aleatoric.types import Study


def figure_data(part: Part, track: Track[Any] = quietly) -> dict[str, Picture]:
    """Figure name -> data: reliability diagrams, and the studies' where rows were kept."""
    found: dict[str, Picture] = {"ece_and_e_ece": calibration_dots(part)}
    for member in track(part.members, len(part.members), "study systems"):
        ending = ending_of(part, member)
        found[f"reliability{ending}"] = reliability(member.store, member.system)
        own = _studies(member.store, member.system)
        found |= {f"{name}{ending}": one for name, one in own.items()}
    return found


def calibration_dots(part: Part) -> Dots:
    """ECE of the likeliest token beside e-ECE of generation schemes, with intervals, in percent."""
    own = [r for r in part.results if r.metric == "ece" or r.metric.startswith("e_ece")]
    rows = tuple(dict.fromkeys(result.metric for result in own))
    floors = [r.perfect.low for r in own if r.metric == "ece" and r.perfect and r.perfect.low]
    found = {(r.system, r.metric): r.estimate for r in own}
    ends = {
        m.label: [interval_ends(found.get((m.label, row)), 100) for row in rows]
        for m in part.members
    }
    low, value, high = ({n: tuple(e[i] for e in ends[n]) for n in ends} for i in range(3))
    title = f"ECE if calibrated: {100 * max(floors):.2f}% or less" if floors else ""
    return Dots(title, "calibration error (%)", rows, value, low, high)


def reliability(store: Store, system: str) -> Panels:
    """A diagram of the plain curve and one of every scheme's, with counts and consistency bars."""
    found = token_pipeline.calibration(store, system)
    diagrams = [
        _diagram(name, curve, found.consistency[name]) for name, curve in found.curves.items()
    ]
    return Panels(system, tuple(diagrams))


def _diagram(name: str, curve: Curve, consistency: Consistency) -> Reliability:
    error = 100 * curve.errors()["ece"]
    return Reliability(
        f"{name} = {error:.2f}%",
        curve.edges,
        plain(curve.confidence),
        plain(curve.accuracy),
        plain(consistency.low),
        plain(consistency.high),
        plain(curve.counts),
    )


def _studies(store: Store, system: str) -> dict[str, Picture]:
    if not store.manifest["keep_rows"]:
        return {}
    table, manifest = token_pipeline.token_table(store, system), store.manifest
    found: dict[str, Picture] = {}
    for name in registry.names("token_analyses"):
        try:
            run = registry.find("token_analyses", name)
            study: Study = run(table, manifest["seed"], manifest["bins"])
        except UsageError:
            continue  # too few tokens or documents for it
        found |= study.figures
    return found
