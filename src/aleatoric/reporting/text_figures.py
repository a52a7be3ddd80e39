"""The figures of text-level runs: the paper's figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aleatoric.levels import text
from aleatoric.levels.text_fit import fit
from aleatoric.levels.text_scoring import CONTROL, PAIR, Distances
from aleatoric.registry import Track, quietly
from aleatoric.reporting import parts
from aleatoric.reporting.parts import ReportPart, ShownSystem, values
from aleatoric.reporting.tables import interval_ends
from aleatoric.result_types import Result
from aleatoric.runs.run import Store
from aleatoric.studies import figure_data
from aleatoric.studies.figure_data import Lines, Panels, Picture, histograms
from aleatoric.types import Floats

Bounds = tuple[float, float]
N_BINS = 25
_DIFFERENCES = {"fig3_mean_M_minus_H": "M", "fig8_mean_C_minus_H": "C"}
_DECODERS = {
    "energy": ("energy", "energy distance"),
    "fig5_w1_C": ("w1_C", "mean W1(C, H)"),
    "fig9_w1_M": ("w1_M", "mean W1(M, H)"),
    "fig10_mean_M_minus_H": ("dmu_M", "mean of μM − μH"),
    "fig11_mean_C_minus_H": ("dmu_C", "mean of μC − μH"),
}


def text_figures(part: ReportPart, track: Track[Any] = quietly) -> dict[str, Picture]:
    """Return the figures of the whole part, then the worst and best fitted input of each system."""
    figures = overall(part)
    for member in track(part.members, len(part.members), "draw inputs"):
        figures |= _extreme_instances(part, member)
    return figures


def overall(part: ReportPart) -> dict[str, Picture]:
    """Return the figures of people alone, then of the systems beside the control."""
    probes = probes_of(part.first)
    figures: dict[str, Picture] = {
        "fig2_human_variability": human_variability(part.first, main_of(probes))
    }
    others = [probe for probe in probes if probe not in main_of(probes)]
    if others:
        figures["fig7_human_variability"] = human_variability(part.first, others)
    if part.members:
        figures |= {name: differences(part, side) for name, side in _DIFFERENCES.items()}
        figures["fig4_w1_C"] = divergence_curves(part, "w1_C")
        figures |= {name: decoder_dots(part.results, *what) for name, what in _DECODERS.items()}
        figures["decoders"] = decoder_points(part.results, main_of(probes))
    for member in part.members:
        figures[f"variability{part.ending(member)}"] = three_sides(part, member)
    return figures


def probes_of(store: Store) -> list[str]:
    """Return the probes of a run."""
    return list(store.fact("probe_facts"))


def main_of(probes: Sequence[str]) -> list[str]:
    """Return the probes that the paper's figures show, or all if the run has none of them."""
    return [probe for probe in text.MAIN if probe in probes] or list(probes)


def bounds_of(store: Store, probe: str) -> Bounds:
    """Return the least and the greatest distance of a probe, as far as the run knows them."""
    saved = store.meta("probe_bounds") or {}
    low, high = saved.get(probe, (0.0, np.inf))
    return float(low), float(high)


def human_variability(store: Store, probes: Sequence[str]) -> Panels:
    """Figs. 2 and 7: per input, the distance between two people's texts drawn at random.

    The mean in the legend is that of all pairs, mean H, as everywhere else.
    """
    pictures = []
    for probe in probes:
        sample = values(store, CONTROL, f"{PAIR}/{probe}")
        edges = np.linspace(0, _upper_end([sample]), N_BINS + 1)
        figure = histograms(probe, "distance", {"two people": sample}, edges)
        if len(mean_h := values(store, CONTROL, f"mean_H/{probe}")):
            figure = replace(figure, means={"two people": float(mean_h.mean())})
        pictures.append(figure)
    return Panels("Human production variability", tuple(pictures), min(3, len(pictures)))


def three_sides(part: ReportPart, member: ShownSystem) -> Panels:
    """Mean distances per input: among people, among a system's texts, and between both."""
    pictures = []
    for probe in main_of(probes_of(part.first)):
        sides = {"H: people": (part.first, CONTROL, f"mean_H/{probe}")}
        sides["M: generator"] = (member.store, member.system, f"mean_M/{probe}")
        sides["C: both"] = (member.store, member.system, f"mean_C/{probe}")
        samples = {name: values(*where) for name, where in sides.items()}
        bounds = bounds_of(part.first, probe)
        pictures.append(_densities(probe, "mean distance", samples, bounds))
    return Panels(member.label, tuple(pictures), min(3, len(pictures)))


def differences(part: ReportPart, side: str) -> Panels:
    """Figs. 3 and 8: over inputs, mean M or mean C of a system minus people's mean H.

    H are all pairs of people under every protocol, also where the paper's divergences use some.
    """
    pictures = []
    for probe in main_of(probes_of(part.first)):
        ends = f"mean_{side}/{probe}", f"mean_H/{probe}"
        samples = {m.label: values(m.store, m.system, *ends) for m in part.members}
        end = _upper_end([np.abs(sample) for sample in samples.values()])
        edges = np.linspace(-end, end, 2 * N_BINS + 1)
        figure = histograms(probe, f"μ{side} − μH", samples, edges)
        # The first slot is the control's in every figure, also where it is not shown.
        pictures.append(replace(figure, first_slot=1))
    return Panels("", tuple(pictures), min(3, len(pictures)))


def divergence_curves(part: ReportPart, metric: str) -> Panels:
    """Fig. 4: densities over inputs of a divergence from people, and of the human control."""
    pictures = []
    for probe in main_of(probes_of(part.first)):
        name = f"{metric}/{probe}"
        samples = {CONTROL: values(part.first, CONTROL, name)}
        samples |= {m.label: values(m.store, m.system, name) for m in part.members}
        low, high = bounds_of(part.first, probe)
        # W1 of two distributions is at most the length of the interval that contains both.
        label, bounds = f"W1({metric[-1]}, H)", (0.0, high - low)
        pictures.append(_densities(probe, label, samples, bounds))
    return Panels("", tuple(pictures), min(3, len(pictures)))


def _densities(title: str, label: str, samples: Mapping[str, Floats], bounds: Bounds) -> Lines:
    """Return one curve per sample, within the bounds; a name keeps its slot in every figure."""
    # The axis goes from the lower bound to a little above all values.
    every, shown = np.concatenate([*samples.values()]), (0.0, 1.0)
    if len(every):
        low = bounds[0] if np.isfinite(bounds[0]) else float(every.min() - 0.3 * np.ptp(every))
        top = max(float(every.max()), low)
        shown = low, min(bounds[1], top + 0.3 * ((top - low) or 1.0))
    lines, marks = [], []
    for slot, (name, sample) in enumerate(samples.items()):
        if figure_data.has_spread(sample):
            lines.append(replace(figure_data.density(name, sample, *bounds, shown), slot=slot))
        elif len(sample):
            marks.append(figure_data.Guide(f"{name} (all the same)", x=float(sample[0]), slot=slot))
        else:
            lines.append(figure_data.LineSeries(f"{name} (undefined)", (), (), slot=slot))
    return Lines(title, label, "density", tuple(lines), tuple(marks), shown)


def _upper_end(samples: Iterable[Floats]) -> float:
    """Return the greatest value of all; 1 if there is none above 0."""
    return max((float(sample.max()) for sample in samples if len(sample)), default=0.0) or 1.0


def decoder_dots(results: Sequence[Result], metric: str, label: str) -> figure_data.Dots:
    """Figs. 5 and 9 to 11: the mean of a metric per probe and system, with intervals."""
    estimates = {
        (r.system, r.metric.partition("/")[2]): r.estimate
        for r in results
        if r.metric.startswith(f"{metric}/")
    }
    rows = tuple(dict.fromkeys(probe for _, probe in estimates))
    series = {name: [estimates.get((name, probe)) for probe in rows] for name, _ in estimates}
    return parts.interval_dots("", label, rows, series, CONTROL)


def decoder_points(results: Sequence[Result], probes: Sequence[str]) -> Panels:
    """Systems and decoders in the plane of W1(M, H) and W1(C, H), one panel per probe."""
    estimates = {(r.system, r.metric): r.estimate for r in results}
    names = list(dict.fromkeys(result.system for result in results))
    pictures = []
    for probe in probes:
        places = []
        for name in names:
            x, y = (interval_ends(estimates.get((name, f"w1_{side}/{probe}"))) for side in "MC")
            if np.isfinite([*x, *y]).all():
                places.append(figure_data.MetricPoint(name, x[1], y[1], (x[0], x[2]), (y[0], y[2])))
        axes = ("mean W1(M, H)", "mean W1(C, H)")
        pictures.append(figure_data.Points(probe, *axes, tuple(places), CONTROL))
    return Panels("", tuple(pictures), min(3, len(pictures)))


def instance(distances: Distances, system: str | None, title: str, bounds: Bounds) -> Lines:
    """Figs. 6 and 12 to 16: the three distributions of distances of one input."""
    samples = {"H: people": distances.human}
    if system is not None:
        samples |= {"M: generator": distances.own[system], "C: both": distances.cross[system]}
    defined = {name: sample[np.isfinite(sample)] for name, sample in samples.items()}
    return _densities(title, "distance", defined, bounds)


def instance_panels(store: Store, chosen: Mapping[str, str | None]) -> Iterator[tuple[str, Panels]]:
    """Yield the id of each chosen input, and one panel per main probe with its system."""
    for item_id, by_probe in text.distances(store, chosen):
        system = chosen[item_id]
        pictures = [
            instance(by_probe[probe], system, probe, bounds_of(store, probe))
            for probe in main_of(list(by_probe))
        ]
        title = f"input {item_id}, {system or 'people alone'}"
        yield item_id, Panels(title, tuple(pictures), min(3, len(pictures)))


def _extreme_instances(part: ReportPart, member: ShownSystem) -> dict[str, Picture]:
    """Return the worst and the best fitted input of a system, by the first main probe."""
    probe, ending = main_of(probes_of(part.first))[0], part.ending(member)
    ends = fit(list(text.cases(member.store, member.system)), probe, n_listed=1)
    names = {case.item.id: "worst" for case in ends.worst}
    names |= {case.item.id: "best" for case in ends.best}
    panels = instance_panels(member.store, dict.fromkeys(names, member.system))
    return {f"fig6_{names[item_id]}_fit{ending}": picture for item_id, picture in panels}
