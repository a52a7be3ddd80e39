"""The data of every figure that a saved run allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from aleatoric import registry
from aleatoric.calibration.consistency import Consistency
from aleatoric.calibration.sums import Curve
from aleatoric.errors import UsageError
from aleatoric.levels import text, token
from aleatoric.levels.text_fit import fit
from aleatoric.levels.text_scoring import CONTROL, PAIR, Distances
from aleatoric.levels.word import cases, word_study
from aleatoric.levels.word_scoring import CONTROLS, ORACLE
from aleatoric.metrics.distances import tvd
from aleatoric.metrics.entropy import chao_shen
from aleatoric.registry import Track, quietly
from aleatoric.report.parts import Member, Part
from aleatoric.report.tables import interval_ends
from aleatoric.runs import Store
from aleatoric.studies.figure_data import (
    TVD_EDGES,
    Dots,
    Guide,
    HeatMap,
    Histograms,
    Lines,
    LineSeries,
    MetricPoint,
    Panels,
    Picture,
    Points,
    Reliability,
    WordBars,
    density,
    has_spread,
    histograms,
    plain,
)
from aleatoric.studies.people import split_tvds
from aleatoric.types import FAILED, Case, Floats, Result, Row, Study

TOP = 15
MOST_PASSAGES = 80
PAGE_STUDIES = ("replacement", "subsampling", "ard", "biased")
"""Those that a page waits for; the learning curve takes longer than all others together."""
STUDIES = (*PAGE_STUDIES, "learning-curve")
AGREEMENT_LABELS = {
    "agreement_H": "H: two people",
    "agreement_M": "M: the model with itself",
    "agreement_C": "C: the model with a person",
}
_ABSTRACT = {"tvd_syn": "TVD of parts of speech", "tvd_sem": "TVD of clusters of meaning"}


def word_figures(
    part: Part,
    track: Track[Any] = quietly,
    passage: str | None = None,
    studies: Sequence[str] = STUDIES,
) -> dict[str, Picture]:
    """Figure name -> data: of all systems together, then of each system.

    With several systems, a figure of one has the system's name after its own. A study that does
    not fit a system (subsampling of an exact one, say) is left out.
    """
    seed = part.first.manifest["seed"]
    by_label = {m.label: list(cases(m.store, m.system)) for m in part.members}
    found: dict[str, Picture] = {
        "systems": agreement_dots(part),
        "fig2_tvd_kde": tvd_densities(part),
    }
    with suppress(UsageError):  # where no context has two answers
        found["fig12_tvd_differences"] = tvd_differences(by_label, seed)
    if part.first.manifest["abstractions"]:
        found["fig4_abstractions"] = abstraction_histograms(part)
    for member in track(part.members, len(part.members), "study systems"):
        own, ending = by_label[member.label], ending_of(part, member)
        pictures: dict[str, Picture] = {**dict(heat_maps(member))}
        manifest = member.store.manifest
        pictures |= dict(system_pictures(member.label, own, manifest, passage, studies))
        if member is not part.members[0]:
            pictures.pop("figH_passage", None)  # many sheets: one system's are enough
        found |= {f"{name}{ending}": picture for name, picture in pictures.items()}
    return found


def ending_of(part: Part, member: Member) -> str:
    """What the name of a system's own figure ends with, where there are several systems."""
    return f" {member.label}" if len(part.members) > 1 else ""


def system_pictures(
    system: str,
    own: Sequence[Case],
    manifest: Mapping[str, Any],
    passage: str | None = None,
    studies: Sequence[str] = STUDIES,
) -> Iterator[tuple[str, Picture]]:
    """The figures of one system: words of contexts, then the studies'."""
    if not own:
        return
    yield "fig1_context", Panels("", tuple(word_bars(c, system) for c in typical_contexts(own)))
    yield "figH_passage", passage_bars(own, system, passage)
    for name in studies:
        try:
            study = word_study(name, own, manifest)
        except UsageError:
            continue
        yield from study.figures.items()


def agreement_dots(part: Part) -> Dots:
    """How often two people agree (H), two draws of each system (M), and one of each (C)."""
    found = {(r.system, r.metric): r.estimate for r in part.results}
    names = tuple(s for s in dict.fromkeys(s for s, _ in found) if s not in CONTROLS)
    series = {
        label: [interval_ends(found.get((name, metric))) for name in names]
        for metric, label in AGREEMENT_LABELS.items()
    }
    low, value, high = ({n: plain([e[i] for e in s]) for n, s in series.items()} for i in range(3))
    return Dots("", "probability that two answers agree", names, value, low, high)


def tvd_densities(part: Part) -> Lines:
    """Fig. 2: densities of TVD to people, and of the oracle under its first split."""
    lines = tuple(density(name, sample) for name, sample in samples_of(part, "tvd").items())
    return Lines("TVD to people, by context", "TVD", "density", lines)


def samples_of(part: Part, metric: str) -> dict[str, Floats]:
    """The oracle's values of a metric by item, then every system's."""
    own = {m.label: first_split(m.store, m.system, metric) for m in part.members}
    return {ORACLE: first_split(part.first, ORACLE, metric), **own}


def heat_maps(member: Member) -> Iterator[tuple[str, HeatMap]]:
    """TVD passage by passage and word by word, where passages have several contexts."""
    rows: dict[str, list[Row]] = {}
    for row in member.store.rows(member.system, "tvd"):
        rows.setdefault(row.group, []).append(row)
    several = {group: own for group, own in rows.items() if len(own) > 1}
    shown = sorted(several, key=lambda g: -_mean(several[g]))[:MOST_PASSAGES]
    if shown:
        # Those with the greatest distances are chosen, and stand in the order of the corpus.
        chosen = [group for group in several if group in set(shown)]
        values = tuple(plain([_known(row) for row in several[group]]) for group in chosen)
        ids = tuple(tuple(row.item_id for row in several[group]) for group in chosen)
        labels = ("context of the passage", "passage", "TVD")
        yield "passages", HeatMap(member.label, *labels, tuple(chosen), values, ids)


def _known(row: Row) -> float:
    return np.nan if row.value is None else row.value


def _mean(rows: Sequence[Row]) -> float:
    return float(np.mean([row.value for row in rows if row.value is not None] or [0.0]))


def tvd_differences(by_system: dict[str, list[Case]], seed: int) -> Histograms:
    """Fig. 12: TVD(model, people) minus the mean TVD(half of the people, people), by context."""
    samples = {name: _difference(own, seed) for name, own in by_system.items() if own}
    label = "TVD(model, people) − TVD(half of the people, people)"
    found = histograms("TVD differences", label, samples, np.linspace(-1, 1, 41))
    # The first slot is the oracle's in every figure, also where it is not shown.
    return replace(found, first_slot=1)


def abstraction_histograms(part: Part) -> Panels:
    """Fig. 4: TVD of classes of words, of the oracle and of every system."""
    panels = [
        histograms(_ABSTRACT.get(metric, metric), metric, samples_of(part, metric), TVD_EDGES)
        for metric in part.first.manifest["abstractions"]
    ]
    return Panels("", tuple(panels))


def first_split(store: Store, system: str, metric: str) -> Floats:
    """Saved values of a metric by item, of the first split where it differs by split."""
    pages = [page.values[metric][:, 0] for page in store.stat_pages(system)]
    values = np.concatenate(pages) if pages else np.zeros(0)
    return values[np.isfinite(values)]


def word_bars(case: Case, system: str, top: int = TOP) -> WordBars:
    """Fig. 1: the most probable words of people and of the model, with both shares of each.

    >>> from aleatoric.types import Categorical, Item, Pair
    >>> people = Categorical.from_counts({"a": 3, "b": 1})
    >>> model = Categorical.from_counts({"a": 1, "c": 3})
    >>> case = Case(Item("1:2", "1", "There", ("a",)), Pair("1:2", "1", people, model))
    >>> word_bars(case, "model").words
    ('a', 'b', 'c')
    """
    human, model = case.pair.human.as_dict(), case.pair.model.as_dict()
    likely = [*_most_likely(human, top), *_most_likely(model, top)]
    words = sorted(set(likely), key=lambda w: (-human.get(w, 0.0), -model.get(w, 0.0), w))
    shown = tuple("(no word)" if word == FAILED else word for word in words)
    shares = [plain([side.get(word, 0.0) for word in words]) for side in (human, model)]
    return WordBars(case.item.context, system, shown, shares[0], shares[1], tvd(case.pair))


def typical_contexts(own: Sequence[Case]) -> list[Case]:
    """An open context and a constrained one: at 90% and 10% of the people's entropy."""
    ordered = sorted(own, key=lambda case: chao_shen(case.pair.human))
    picks = {round(share * (len(ordered) - 1)) for share in (0.9, 0.1)}
    return [ordered[i] for i in sorted(picks, reverse=True)]


def passage_bars(own: Sequence[Case], system: str, passage: str | None = None) -> Panels:
    """App. H: the words of every context of a passage, by default of the first one."""
    chosen = passage if passage is not None else own[0].pair.group
    members = [case for case in own if case.pair.group == chosen]
    if not members:
        raise UsageError(f"{system} has no context of passage {chosen!r}.")
    bars = tuple(word_bars(case, system) for case in members)
    return Panels(f"Passage {chosen}", bars, columns=3)


def _difference(own: Sequence[Case], seed: int) -> Floats:
    tvds = split_tvds(own, seed)
    model = np.array([tvd(case.pair) for case in tvds.cases])
    difference: Floats = model - tvds.oracle_all.mean(axis=1)
    return difference


def _most_likely(shares: Mapping[str, float], top: int) -> list[str]:
    return sorted(shares, key=lambda word: -shares[word])[:top]


def token_figures(part: Part, track: Track[Any] = quietly) -> dict[str, Picture]:
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
    found = token.calibration(store, system)
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
    table, manifest = token.token_table(store, system), store.manifest
    found: dict[str, Picture] = {}
    for name in registry.names("token_analyses"):
        try:
            run = registry.find("token_analyses", name)
            study: Study = run(table, manifest["seed"], manifest["bins"])
        except UsageError:
            continue  # too few tokens or documents for it
        found |= study.figures
    return found


Bounds = tuple[float, float]
MAIN = ("lexical-1", "syntactic-2", "semantic")
"""The probes of the paper's own figures; all others are in its appendix."""
N_BINS = 25
_DIFFERENCES = {"fig3_mean_M_minus_H": "M", "fig8_mean_C_minus_H": "C"}
_DECODERS = {
    "fig5_w1_C": ("w1_C", "mean W1(C, H)"),
    "fig9_w1_M": ("w1_M", "mean W1(M, H)"),
    "fig10_mean_M_minus_H": ("dmu_M", "mean of μM − μH"),
    "fig11_mean_C_minus_H": ("dmu_C", "mean of μC − μH"),
}


def text_figures(part: Part, track: Track[Any] = quietly) -> dict[str, Picture]:
    """Figure name -> data: the whole part, then the worst and best fitted input of each system."""
    found = overall(part)
    for member in track(part.members, len(part.members), "draw inputs"):
        found |= _extreme_instances(part, member)
    return found


def overall(part: Part) -> dict[str, Picture]:
    """Figure name -> data: people alone, then the systems beside the control."""
    probes = probes_of(part.first)
    found: dict[str, Picture] = {
        "fig2_human_variability": human_variability(part.first, main_of(probes))
    }
    others = [probe for probe in probes if probe not in main_of(probes)]
    if others:
        found["fig7_human_variability"] = human_variability(part.first, others)
    if part.members:
        found |= {name: differences(part, side) for name, side in _DIFFERENCES.items()}
        found["fig4_w1_C"] = divergence_curves(part, "w1_C")
        results = part.results
        found["energy"] = decoder_dots(results, "energy", "energy distance")
        found |= {name: decoder_dots(results, *what) for name, what in _DECODERS.items()}
        found["decoders"] = decoder_points(results, main_of(probes))
    for member in part.members:
        found[f"variability{ending_of(part, member)}"] = three_sides(part, member)
    return found


def probes_of(store: Store) -> list[str]:
    """The probes of a run."""
    return list(store.fact("probe_facts"))


def main_of(probes: Sequence[str]) -> list[str]:
    """The probes that the paper's own figures show, or all where the run has none of them."""
    return [probe for probe in MAIN if probe in probes] or list(probes)


def bounds_of(store: Store, probe: str) -> Bounds:
    """The least and the greatest distance of a probe; a run may not say, or there may be none."""
    saved = store.meta("probe_bounds") or {}
    low, high = saved.get(probe, (0.0, np.inf))
    return float(low), float(high)


def human_variability(store: Store, probes: Sequence[str]) -> Panels:
    """Figs. 2 and 7: over inputs, the distance between two people's texts drawn at random.

    The mean beside it is that of all pairs, mean H, as everywhere else.
    """
    pictures = []
    for probe in probes:
        sample = values(store, CONTROL, f"{PAIR}/{probe}")
        edges = np.linspace(0, _upper_end([sample]), N_BINS + 1)
        found = histograms(probe, "distance", {"two people": sample}, edges)
        if len(mean_h := values(store, CONTROL, f"mean_H/{probe}")):
            found = replace(found, means={"two people": float(mean_h.mean())})
        pictures.append(found)
    return Panels("Human production variability", tuple(pictures), min(3, len(pictures)))


def three_sides(part: Part, member: Member) -> Panels:
    """Over inputs: mean distances among people, among a system's texts, and between both."""
    pictures = []
    for probe in main_of(probes_of(part.first)):
        sides = {"H: people": (part.first, CONTROL, f"mean_H/{probe}")}
        sides["M: generator"] = (member.store, member.system, f"mean_M/{probe}")
        sides["C: both"] = (member.store, member.system, f"mean_C/{probe}")
        samples = {name: values(*where) for name, where in sides.items()}
        bounds = bounds_of(part.first, probe)
        pictures.append(_densities(probe, "mean distance", samples, bounds))
    return Panels(member.label, tuple(pictures), min(3, len(pictures)))


def differences(part: Part, side: str) -> Panels:
    """Figs. 3 and 8: over inputs, mean M or mean C of a system minus people's mean H.

    H are all pairs of people under every protocol, also where the paper's divergences use some.
    """
    pictures = []
    for probe in main_of(probes_of(part.first)):
        ends = f"mean_{side}/{probe}", f"mean_H/{probe}"
        samples = {m.label: values(m.store, m.system, *ends) for m in part.members}
        end = _upper_end([np.abs(sample) for sample in samples.values()])
        edges = np.linspace(-end, end, 2 * N_BINS + 1)
        found = histograms(probe, f"μ{side} − μH", samples, edges)
        # The first slot is the control's in every figure, also where it is not shown.
        pictures.append(replace(found, first_slot=1))
    return Panels("", tuple(pictures), min(3, len(pictures)))


def divergence_curves(part: Part, metric: str) -> Panels:
    """Fig. 4: densities over inputs of a divergence from people, and of the human control."""
    pictures = []
    for probe in main_of(probes_of(part.first)):
        name = f"{metric}/{probe}"
        samples = {CONTROL: values(part.first, CONTROL, name)}
        samples |= {m.label: values(m.store, m.system, name) for m in part.members}
        low, high = bounds_of(part.first, probe)
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
            marks.append(Guide(f"{name} (all the same)", x=float(sample[0]), slot=slot))
        else:
            lines.append(LineSeries(f"{name} (undefined)", (), (), slot=slot))
    return Lines(title, label, "density", tuple(lines), tuple(marks), shown)


def _shown_part(samples: Iterable[Floats], bounds: Bounds) -> Bounds:
    """The part of the axis that curves cover: from the lower bound to a little above all values."""
    every = np.concatenate([*samples])
    if not len(every):
        return 0.0, 1.0
    low = bounds[0] if np.isfinite(bounds[0]) else float(every.min() - 0.3 * np.ptp(every))
    top = max(float(every.max()), low)
    return low, min(bounds[1], top + 0.3 * ((top - low) or 1.0))


def _upper_end(samples: Iterable[Floats]) -> float:
    """The greatest value of all; 1 where there is none above 0."""
    return max((float(sample.max()) for sample in samples if len(sample)), default=0.0) or 1.0


def decoder_dots(results: Sequence[Result], metric: str, label: str) -> Dots:
    """Figs. 5 and 9 to 11: a metric's mean by probe, system by system, with intervals."""
    own = [result for result in results if result.metric.startswith(f"{metric}/")]
    rows = tuple(dict.fromkeys(result.metric.partition("/")[2] for result in own))
    names = list(dict.fromkeys(result.system for result in own))
    found = {(r.system, r.metric.partition("/")[2]): r.estimate for r in own}
    ends = {name: [interval_ends(found.get((name, row))) for row in rows] for name in names}
    low, value, high = ({n: tuple(e[i] for e in ends[n]) for n in names} for i in range(3))
    return Dots("", label, rows, value, low, high, CONTROL)


def decoder_points(results: Sequence[Result], probes: Sequence[str]) -> Panels:
    """Systems and decoders in the plane of W1(M, H) and W1(C, H), a panel a probe."""
    found = {(r.system, r.metric): r.estimate for r in results}
    names = list(dict.fromkeys(result.system for result in results))
    pictures = []
    for probe in probes:
        places = []
        for name in names:
            x, y = (interval_ends(found.get((name, f"w1_{side}/{probe}"))) for side in "MC")
            if np.isfinite([*x, *y]).all():
                places.append(MetricPoint(name, x[1], y[1], (x[0], x[2]), (y[0], y[2])))
        axes = ("mean W1(M, H)", "mean W1(C, H)")
        pictures.append(Points(probe, *axes, tuple(places), CONTROL))
    return Panels("", tuple(pictures), min(3, len(pictures)))


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
    for item_id, found in text.distances(store, chosen):
        system = chosen[item_id]
        pictures = [
            instance(found[probe], system, probe, bounds_of(store, probe))
            for probe in main_of(list(found))
        ]
        title = f"input {item_id}, {system or 'people alone'}"
        yield item_id, Panels(title, tuple(pictures), min(3, len(pictures)))


def values(store: Store, system: str, metric: str, minus: str | None = None) -> Floats:
    """A metric's defined values, input by input, or what is left of them minus another's."""
    pages = [page.values[metric][:, 0] for page in store.stat_pages(system)]
    if minus is not None:
        others = [page.values[minus][:, 0] for page in store.stat_pages(system)]
        pages = [one - other for one, other in zip(pages, others, strict=True)]
    return known(np.concatenate(pages)) if pages else np.zeros(0)


def known(sample: Floats) -> Floats:
    """The defined values of a sample.

    >>> known(np.array([1.0, np.nan])).tolist()
    [1.0]
    """
    found: Floats = sample[np.isfinite(sample)]
    return found


def _extreme_instances(part: Part, member: Member) -> dict[str, Picture]:
    """The worst and the best fitted input of a system, by the first main probe."""
    probe, ending = main_of(probes_of(part.first))[0], ending_of(part, member)
    ends = fit(list(text.cases(member.store, member.system)), probe, n_listed=1)
    names = {case.item.id: "worst" for case in ends.worst}
    names |= {case.item.id: "best" for case in ends.best}
    panels = instance_panels(member.store, dict.fromkeys(names, member.system))
    return {f"fig6_{names[item_id]}_fit{ending}": one for item_id, one in panels}
