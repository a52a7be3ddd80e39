"""The figures of text-level runs: the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from aleatoric.levels import text, text_variability
from aleatoric.levels.text_inputs import fit
from aleatoric.levels.text_scoring import CONTROL, PAIR, Distances
from aleatoric.registry import Track, quietly
from aleatoric.reporting.parts import ReportPart, ShownSystem, interval_dots, values
from aleatoric.reporting.tables import interval_ends
from aleatoric.result_types import Result
from aleatoric.runs.run import Store
from aleatoric.studies import figure_data
from aleatoric.studies.figure_data import (
    Blank,
    Dots,
    Histograms,
    Lines,
    Panels,
    Picture,
    histograms,
)
from aleatoric.types import Floats

Bounds = tuple[float, float]
Tasks = Mapping[str, ReportPart]
"""Name of a task, or empty if there is one -> its runs."""
MOST_TOGETHER = 6
"""Systems that one panel shows together, so that their colors can be told apart."""
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
    figures = _of_people({"": part})
    if part.members:
        # Of many systems, each has a row of panels of its own.
        rows = _by_member(part) if len(part.members) > MOST_TOGETHER else {"": part}
        figures |= {name: differences(rows, side) for name, side in _DIFFERENCES.items()}
        figures["fig4_w1_C"] = divergence_curves(part, "w1_C")
        figures |= {name: decoder_dots({"": part}, *what) for name, what in _DECODERS.items()}
        figures["decoders"] = decoder_points(part.results, main_of(probes_of(part.first)))
    for member in part.members:
        figures[f"variability{part.ending(member)}"] = three_sides(part, member)
    values_of_texts = one_text_values(part)
    return figures | ({"one_text": values_of_texts} if values_of_texts.pictures else {})


def across_tasks(parts: Tasks) -> dict[str, Picture]:
    """Return the figures that compare tasks, with one panel per task and probe."""
    figures, labels = _of_people(parts), _labels(parts)
    for name, side in _DIFFERENCES.items() if labels else ():
        if len(labels) <= MOST_TOGETHER:
            figures[name] = differences(parts, side)
        else:
            chosen = {label: _with_only(parts, label) for label in labels}
            figures |= {f"{name} {label}": differences(own, side) for label, own in chosen.items()}
    if labels:
        figures |= {name: decoder_dots(parts, *what) for name, what in _DECODERS.items()}
    return figures


def _of_people(parts: Tasks) -> dict[str, Picture]:
    probes = _probes(parts)
    figures: dict[str, Picture] = {
        "fig2_human_variability": human_variability(parts, main_of(probes))
    }
    if others := [probe for probe in probes if probe not in main_of(probes)]:
        figures["fig7_human_variability"] = human_variability(parts, others)
    return figures


def _by_member(part: ReportPart) -> Tasks:
    return {member.label: replace(part, members=(member,)) for member in part.members}


def _with_only(parts: Tasks, label: str) -> Tasks:
    """Return parts with at most one system."""
    return {
        name: replace(part, members=tuple(m for m in part.members if m.label == label))
        for name, part in parts.items()
    }


def _labels(parts: Tasks) -> list[str]:
    """Return the systems of all parts: each has the same color in every panel."""
    return list(dict.fromkeys(m.label for part in parts.values() for m in part.members))


def _probes(parts: Tasks) -> list[str]:
    return list(dict.fromkeys(p for part in parts.values() for p in probes_of(part.first)))


def _grid(
    parts: Tasks, probes: Sequence[str], draw: Callable[[ReportPart, str], Picture]
) -> Panels:
    """Return one row of panels per part, one column per probe; the panels of a probe share axes.

    With more than three probes, each has a row if there are few parts, else a part has several
    rows; with one probe, rows have several parts.
    """
    if len(parts) == 1:
        (part,) = parts.values()
        return Panels("", tuple(draw(part, probe) for probe in probes), min(3, len(probes)))
    columns: list[list[Picture]] = []
    for probe in probes:
        pictures = [
            draw(part, probe) if probe in probes_of(part.first) else Blank(probe, "not measured")
            for part in parts.values()
        ]
        columns.append(figure_data.shared(pictures))
    rows = zip(parts, zip(*columns, strict=True), strict=True)
    titled = [[replace(one, title=f"{name}: {one.title}") for one in row] for name, row in rows]
    if len(probes) > 3 and len(parts) <= 3:
        return Panels("", tuple(chain.from_iterable(zip(*titled, strict=True))), len(parts))
    per_row = _panels_per_row(len(parts), len(probes))
    return Panels("", tuple(chain.from_iterable(titled)), per_row)


def _panels_per_row(n_parts: int, n_probes: int) -> int:
    if n_probes == 1:
        return min(3, n_parts)
    if n_probes <= 3:
        return n_probes
    return 2 - n_probes % 2 if n_probes % 3 else 3


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


def human_variability(parts: Tasks, probes: Sequence[str]) -> Panels:
    """Figs. 2 and 7: per input, the distance between two people's texts drawn at random.

    The mean in the legend is that of all pairs, mean H, as everywhere else.
    """

    def picture(part: ReportPart, probe: str) -> Histograms:
        # The bins of a probe are the same in all tasks.
        measured = (p.first for p in parts.values() if probe in probes_of(p.first))
        end = _upper_end(values(store, CONTROL, f"{PAIR}/{probe}") for store in measured)
        sample = values(part.first, CONTROL, f"{PAIR}/{probe}")
        edges = np.linspace(0, end, N_BINS + 1)
        figure = histograms(probe, "distance", {"two people": sample}, edges)
        if len(mean_h := values(part.first, CONTROL, f"mean_H/{probe}")):
            figure = replace(figure, means={"two people": float(mean_h.mean())})
        return figure

    return replace(_grid(parts, probes, picture), title="Human production variability")


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


_VALUE_BOUNDS = {
    "length": (0.0, np.inf),
    "perplexity": (1.0, np.inf),
    "log_probability": (-np.inf, 0.0),
}
"""The least and the greatest value of statistics of one text."""


def one_text_values(part: ReportPart) -> Panels:
    """Mean per input of each statistic of one text, of people's texts and of each system's."""
    pictures = []
    for probe in probes_of(part.first):
        if f"{text_variability.VALUE_H}/{probe}" in part.first.stat_columns():
            samples = {"people": values(part.first, CONTROL, f"{text_variability.VALUE_H}/{probe}")}
            name = f"{text_variability.VALUE_M}/{probe}"
            samples |= {m.label: values(m.store, m.system, name) for m in part.members}
            bounds = _VALUE_BOUNDS.get(probe.partition(":")[0], (-np.inf, np.inf))
            pictures.append(_densities(probe, "mean per input", samples, bounds, is_near=True))
    return Panels("", tuple(pictures), min(3, len(pictures)))


def differences(parts: Tasks, side: str) -> Panels:
    """Figs. 3 and 8: over inputs, mean M or mean C of a system minus people's mean H.

    H are all pairs of people under every protocol, also where the paper's divergences use some.
    """
    labels = _labels(parts)

    def samples(part: ReportPart, probe: str) -> dict[str, Floats]:
        ends = f"mean_{side}/{probe}", f"mean_H/{probe}"
        measured = part.members if probe in probes_of(part.first) else ()
        return {m.label: values(m.store, m.system, *ends) for m in measured}

    def picture(part: ReportPart, probe: str) -> Histograms | Blank:
        every = [own for p in parts.values() for own in samples(p, probe).values()]
        end, shown = _upper_end([np.abs(sample) for sample in every]), samples(part, probe)
        edges = np.linspace(-end, end, 2 * N_BINS + 1)
        # The first slot is the control's in every figure, also where it is not shown.
        if not shown:
            return Blank(probe, "not measured")
        slots = [1 + (labels.index(n) if len(labels) <= MOST_TOGETHER else 0) for n in shown]
        return histograms(probe, f"μ{side} − μH", shown, edges, slots)

    return _grid(parts, main_of(_probes(parts)), picture)


def divergence_curves(part: ReportPart, metric: str) -> Panels:
    """Fig. 4: densities over inputs of a divergence from people, and of the human control.

    With many systems, each has a row of panels: its curve and the control's have names, those of
    the other systems are gray. The system closest to people comes first.
    """
    probes = main_of(probes_of(part.first))
    whole = {probe: _divergences(part, metric, probe) for probe in probes}
    if len(part.members) <= MOST_TOGETHER:
        return Panels("", tuple(whole.values()), min(3, len(probes)))
    means = {
        r.system: r.estimate.value for r in part.results if r.metric == f"{metric}/{probes[0]}"
    }
    order = sorted(part.members, key=lambda m: (means.get(m.label) is None, means.get(m.label)))
    rows = {member.label: replace(part, members=(member,)) for member in order}
    return _grid(rows, probes, lambda row, probe: _highlighted(whole[probe], row.members[0].label))


def _divergences(part: ReportPart, metric: str, probe: str) -> Lines:
    name = f"{metric}/{probe}"
    samples = {CONTROL: values(part.first, CONTROL, name)}
    samples |= {m.label: values(m.store, m.system, name) for m in part.members}
    low, high = bounds_of(part.first, probe)
    # W1 of two distributions is at most the length of the interval that contains both.
    return _densities(probe, f"W1({metric[-1]}, H)", samples, (0.0, high - low))


def _highlighted(whole: Lines, label: str) -> Lines:
    """Return curves of which only the control's and a system's have a name and a color."""
    slots = {CONTROL: 0, label: 1}

    def slot(name: str) -> int | None:
        return next((n for own, n in slots.items() if name in (own, *_remarked(own))), None)

    named = [
        replace(line, slot=slot(line.label)) for line in whole.lines if slot(line.label) is not None
    ]
    others = [replace(line, faded=True) for line in whole.lines if slot(line.label) is None]
    marks = tuple(replace(m, slot=slot(m.label)) for m in whole.marks if slot(m.label) is not None)
    return replace(whole, lines=(*others, *named), marks=marks)


def _remarked(name: str) -> tuple[str, str]:
    """Return the names of a sample that has no curve."""
    return f"{name} (all the same)", f"{name} (undefined)"


def _densities(
    title: str, label: str, samples: Mapping[str, Floats], bounds: Bounds, is_near: bool = False
) -> Lines:
    """Return one curve per sample, within the bounds; a name keeps its slot in every figure."""
    # The axis goes from the lower bound, or a little below all values, to a little above them.
    every, shown = np.concatenate([*samples.values()]), (0.0, 1.0)
    if len(every):
        low = max(bounds[0], float(every.min() - 0.3 * np.ptp(every)))
        low = low if is_near or not np.isfinite(bounds[0]) else bounds[0]
        top = max(float(every.max()), low)
        shown = low, min(bounds[1], top + 0.3 * ((top - low) or 1.0))
    lines, marks = [], []
    for slot, (name, sample) in enumerate(samples.items()):
        if figure_data.has_spread(sample):
            lines.append(replace(figure_data.density(name, sample, *bounds, shown), slot=slot))
        elif len(sample):
            same, _ = _remarked(name)
            marks.append(figure_data.Guide(same, x=float(sample[0]), slot=slot))
        else:
            _, undefined = _remarked(name)
            lines.append(figure_data.LineSeries(undefined, (), (), slot=slot))
    return Lines(title, label, "density", tuple(lines), tuple(marks), shown)


def _upper_end(samples: Iterable[Floats]) -> float:
    """Return the greatest value of all; 1 if there is none above 0."""
    return max((float(sample.max()) for sample in samples if len(sample)), default=0.0) or 1.0


def decoder_dots(parts: Tasks, metric: str, label: str) -> Dots | Panels:
    """Figs. 5 and 9 to 11: the mean of a metric per probe and system, with intervals.

    There is one panel per task, with its systems. With many systems, each is a row, and there is
    a panel per probe.
    """
    estimates = {
        name: {
            (r.system, r.metric.partition("/")[2]): r.estimate
            for r in part.results
            if r.metric.startswith(f"{metric}/")
        }
        for name, part in parts.items()
    }
    systems = list(dict.fromkeys(system for own in estimates.values() for system, _ in own))
    # People come first, whichever task has the control.
    systems.sort(key=lambda name: name != CONTROL)
    if len(systems) > MOST_TOGETHER + 1:
        names = {id(part): name for name, part in parts.items()}

        def picture(part: ReportPart, probe: str) -> Dots:
            own = estimates[names[id(part)]]
            shown = _systems_of(own, systems)
            row = [own.get((system, probe)) for system in shown]
            return interval_dots(probe, label, tuple(shown), {label: row})

        return _grid(parts, main_of(_probes(parts)), picture)
    rows = tuple(dict.fromkeys(probe for own in estimates.values() for _, probe in own))
    dots = []
    # The first slot is the control's in every figure, also where it is not shown.
    slots = {name: i for i, name in enumerate(dict.fromkeys([CONTROL, *systems]))}
    for name, own in estimates.items():
        series = {s: [own.get((s, p)) for p in rows] for s in _systems_of(own, systems)}
        used = [slots[system] for system in series]
        dots.append(interval_dots(name, label, rows, series, CONTROL, slots=used))
    return dots[0] if len(dots) == 1 else Panels("", tuple(figure_data.shared(dots)), 2)


def _systems_of(estimates: Iterable[tuple[str, str]], systems: Sequence[str]) -> list[str]:
    """Return the systems that a task has, in the order of all systems."""
    own = {system for system, _ in estimates}
    return [system for system in systems if system in own]


def decoder_points(results: Sequence[Result], probes: Sequence[str]) -> Panels:
    """Systems and decoders in the plane of W1(M, H) and W1(C, H), one panel per probe."""
    estimates = {(r.system, r.metric): r.estimate for r in results}
    names = list(dict.fromkeys(result.system for result in results))
    pictures = []
    for probe in probes:
        places = []
        for slot, name in enumerate(names):
            x, y = (interval_ends(estimates.get((name, f"w1_{side}/{probe}"))) for side in "MC")
            if np.isfinite([*x, *y]).all():
                ends = (x[0], x[2]), (y[0], y[2])
                places.append(figure_data.MetricPoint(name, x[1], y[1], *ends, slot))
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
