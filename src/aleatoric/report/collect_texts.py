"""The data of the figures of a text-level run, numbered as in the paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from aleatoric import text_pipeline
from aleatoric.analyses.fit import fit
from aleatoric.analyses.pictures import (
    Dots,
    Line,
    Lines,
    Mark,
    Panels,
    Picture,
    density,
    has_spread,
    histograms,
)
from aleatoric.engine.text_scoring import CONTROL, PAIR, Distances
from aleatoric.store import Store
from aleatoric.types import Result

Floats = NDArray[np.float64]
Bounds = tuple[float, float]
MAIN = ("lexical-1", "syntactic-2", "semantic")
"""The probes of the paper's own figures; all others are in its appendix."""
N_BINS = 25
_DIFFERENCES = {"fig3_mean_M_minus_H": "dmu_M", "fig8_mean_C_minus_H": "dmu_C"}
_DECODERS = {
    "fig5_w1_C": ("w1_C", "mean W1(C, H)"),
    "fig9_w1_M": ("w1_M", "mean W1(M, H)"),
    "fig10_mean_M_minus_H": ("dmu_M", "mean of μM − μH"),
    "fig11_mean_C_minus_H": ("dmu_C", "mean of μC − μH"),
}


def figure_data(store: Store) -> dict[str, Picture]:
    """Figure name -> data: the whole run, then the worst and best fitted input of each system."""
    return overall(store) | _extreme_instances(store, text_pipeline.model_systems(store))


def overall(store: Store) -> dict[str, Picture]:
    """Figure name -> data: people alone, then the systems of the run beside the control."""
    probes = probes_of(store)
    found: dict[str, Picture] = {
        "fig2_human_variability": human_variability(store, main_of(probes))
    }
    others = [probe for probe in probes if probe not in main_of(probes)]
    if others:
        found["fig7_human_variability"] = human_variability(store, others)
    systems = text_pipeline.model_systems(store)
    if systems:
        found |= {name: differences(store, m, systems) for name, m in _DIFFERENCES.items()}
        found["fig4_w1_C"] = divergence_curves(store, "w1_C", systems)
        results = text_pipeline.results(store)
        found |= {name: decoder_dots(results, *what) for name, what in _DECODERS.items()}
    return found


def probes_of(store: Store) -> list[str]:
    """The probes of a run."""
    return list(store.meta("probe_facts"))


def main_of(probes: Sequence[str]) -> list[str]:
    """The probes that the paper's own figures show, or all where the run has none of them."""
    return [probe for probe in MAIN if probe in probes] or list(probes)


def bounds_of(store: Store, probe: str) -> Bounds:
    """The least and the greatest distance of a probe; a run may not say, or there may be none."""
    saved = store.meta("probe_bounds") or {}
    low, high = saved.get(probe, (0.0, np.inf))
    return float(low), float(high)


def human_variability(store: Store, probes: Sequence[str]) -> Panels:
    """Figs. 2 and 7: over inputs, the distance between two people's texts drawn at random."""
    pictures = []
    for probe in probes:
        sample = values(store, CONTROL, f"{PAIR}/{probe}")
        edges = np.linspace(0, _top([sample]), N_BINS + 1)
        pictures.append(histograms(probe, "distance", {"two people": sample}, edges))
    return Panels("Human production variability", tuple(pictures), min(3, len(pictures)))


def differences(store: Store, metric: str, systems: Sequence[str]) -> Panels:
    """Figs. 3 and 8: over inputs, how much more a system's texts differ than people's do."""
    pictures = []
    for probe in main_of(probes_of(store)):
        samples = {name: values(store, name, f"{metric}/{probe}") for name in systems}
        end = _top([np.abs(sample) for sample in samples.values()])
        edges = np.linspace(-end, end, 2 * N_BINS + 1)
        found = histograms(probe, f"μ{metric[-1]} − μH", samples, edges)
        # The first slot is the control's in every figure, also where it is not shown.
        pictures.append(replace(found, first_slot=1))
    return Panels("", tuple(pictures), min(3, len(pictures)))


def divergence_curves(store: Store, metric: str, systems: Sequence[str]) -> Panels:
    """Fig. 4: densities over inputs of a divergence from people, and of the human control."""
    pictures = []
    for probe in main_of(probes_of(store)):
        samples = {n: values(store, n, f"{metric}/{probe}") for n in (CONTROL, *systems)}
        low, high = bounds_of(store, probe)
        # No two distributions are further apart than the ends of what both lie in.
        label, bounds = f"W1({metric[-1]}, H)", (0.0, high - low)
        pictures.append(_densities(probe, label, samples, bounds))
    return Panels("", tuple(pictures), min(3, len(pictures)))


def _densities(title: str, label: str, samples: Mapping[str, Floats], bounds: Bounds) -> Lines:
    """A curve a sample, none beyond the bounds; whatever can be drawn, a name keeps its slot."""
    shown = _shown_part(samples.values(), bounds)
    lines, marks = [], []
    for slot, (name, sample) in enumerate(samples.items()):
        if has_spread(sample):
            lines.append(replace(density(name, sample, *bounds, shown), slot=slot))
        elif len(sample):
            marks.append(Mark(f"{name} (all the same)", x=float(sample[0]), slot=slot))
        else:
            lines.append(Line(f"{name} (undefined)", (), (), slot=slot))
    return Lines(title, label, "density", tuple(lines), tuple(marks), shown)


def _shown_part(samples: Iterable[Floats], bounds: Bounds) -> Bounds:
    """The part of the axis that curves cover: from the lower bound to a little above all values."""
    every = np.concatenate([*samples])
    if not len(every):
        return 0.0, 1.0
    low = bounds[0] if np.isfinite(bounds[0]) else float(every.min() - 0.3 * np.ptp(every))
    top = max(float(every.max()), low)
    return low, min(bounds[1], top + 0.3 * ((top - low) or 1.0))


def _top(samples: Iterable[Floats]) -> float:
    """The greatest value of all; 1 where there is none above 0."""
    return max((float(sample.max()) for sample in samples if len(sample)), default=0.0) or 1.0


def decoder_dots(results: Sequence[Result], metric: str, label: str) -> Dots:
    """Figs. 5 and 9 to 11: a metric's mean by probe, system by system, with intervals."""
    own = [result for result in results if result.metric.startswith(f"{metric}/")]
    rows = tuple(dict.fromkeys(result.metric.partition("/")[2] for result in own))
    names = list(dict.fromkeys(result.system for result in own))
    found = {(r.system, r.metric.partition("/")[2]): r for r in own}
    ends = {name: [_ends(found.get((name, row))) for row in rows] for name in names}
    low, value, high = ({n: tuple(e[i] for e in ends[n]) for n in names} for i in range(3))
    return Dots("", label, rows, value, low, high, CONTROL)


def _ends(result: Result | None) -> tuple[float, float, float]:
    """The low end, the value and the high end of an estimate; NaN where undefined."""
    if result is None or result.estimate.value is None:
        return np.nan, np.nan, np.nan
    value, interval = result.estimate.value, result.estimate.interval
    return (interval.low, value, interval.high) if interval else (value, value, value)


def instance(distances: Distances, system: str | None, title: str, bounds: Bounds) -> Lines:
    """Figs. 6 and 12 to 16: the three distributions of distances of one input."""
    samples = {"H: people": distances.human}
    if system is not None:
        samples["M: generator"] = distances.own[system]
        samples["C: both"] = distances.cross[system]
    drawn = {name: known(own) for name, own in samples.items()}
    return _densities(title, "distance", drawn, bounds)


def instance_panels(store: Store, chosen: Mapping[str, str | None]) -> Iterator[tuple[str, Panels]]:
    """Of each chosen input its id and a panel a main probe, beside the system it is chosen for."""
    for item_id, found in text_pipeline.distances(store, chosen):
        system = chosen[item_id]
        pictures = [
            instance(found[probe], system, probe, bounds_of(store, probe))
            for probe in main_of(list(found))
        ]
        title = f"input {item_id}, {system or 'people alone'}"
        yield item_id, Panels(title, tuple(pictures), min(3, len(pictures)))


def values(store: Store, system: str, metric: str) -> Floats:
    """A metric's defined values, input by input."""
    pages = [page.values[metric][:, 0] for page in store.stat_pages(system)]
    return known(np.concatenate(pages)) if pages else np.zeros(0)


def known(sample: Floats) -> Floats:
    """The defined values of a sample.

    >>> known(np.array([1.0, np.nan])).tolist()
    [1.0]
    """
    found: Floats = sample[np.isfinite(sample)]
    return found


def _extreme_instances(store: Store, systems: Sequence[str]) -> dict[str, Picture]:
    """The worst and the best fitted input of every system, by the first main probe."""
    probe = main_of(probes_of(store))[0]
    found: dict[str, Picture] = {}
    for system in systems:
        ending = f" {system}" if len(systems) > 1 else ""
        ends = fit(list(text_pipeline.cases(store, system)), probe, n_listed=1)
        names = {case.item.id: "worst" for case in ends.worst}
        names |= {case.item.id: "best" for case in ends.best}
        for item_id, panels in instance_panels(store, dict.fromkeys(names, system)):
            found[f"fig6_{names[item_id]}_fit{ending}"] = panels
    return found
