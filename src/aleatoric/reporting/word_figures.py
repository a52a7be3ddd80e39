"""The figures of word-level runs: the papers' figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from aleatoric import registry
from aleatoric.errors import UsageError
from aleatoric.levels.base import level_of
from aleatoric.levels.word import word_study
from aleatoric.levels.word_scoring import ORACLE
from aleatoric.metrics.agreement import chao_shen
from aleatoric.metrics.distances import tvd
from aleatoric.registry import Track, quietly
from aleatoric.reporting.parts import ReportPart, ShownSystem, values
from aleatoric.runs.results_cache import cached_figures
from aleatoric.studies import figure_data
from aleatoric.studies.figure_data import HeatMap, Panels, Picture, WordBars, histograms
from aleatoric.studies.people import split_tvds
from aleatoric.types import FAILED, Case, Floats, Row

TOP = 15
MOST_PASSAGES = 80
PAGE_STUDIES = ("replacement", "subsampling", "ard", "biased")
"""Studies that a page waits for; the learning curve takes longer than all others together."""
STUDIES = (*PAGE_STUDIES, "learning-curve")
_STUDY_PACKAGES = ("scikit-learn", "textblob", "nltk", "spacy")
_ABSTRACT = {"tvd_syn": "TVD of parts of speech", "tvd_sem": "TVD of clusters of meaning"}


def word_figures(
    part: ReportPart, track: Track[Any] = quietly, studies: Sequence[str] = STUDIES
) -> dict[str, Picture]:
    """Return the figures of all systems together, then of each system, by name.

    A study that does not apply to a system (such as subsampling of an exact one) is left out.
    """
    by_label = {member.label: member.cases for member in part.members}
    # Fig. 2: densities of TVD to people, and of the oracle under its first split.
    lines = tuple(
        figure_data.density(name, sample) for name, sample in samples_of(part, "tvd").items()
    )
    densities = figure_data.Lines("TVD to people, by context", "TVD", "density", lines)
    figures: dict[str, Picture] = {"fig2_tvd_kde": densities}
    with suppress(UsageError):  # where no context has two answers
        figures["fig12_tvd_differences"] = tvd_differences(by_label, part.first.manifest["seed"])
    if part.first.manifest["abstractions"]:
        figures["fig4_abstractions"] = abstraction_histograms(part)
    for member in track(part.members, len(part.members), "study systems"):
        pictures = dict(_system_pictures(member, studies))
        if member is not part.members[0]:
            pictures.pop("figH_passage", None)  # many sheets: one system's are enough
        figures |= {f"{name}{part.ending(member)}": picture for name, picture in pictures.items()}
    return figures


def _system_pictures(member: ShownSystem, studies: Sequence[str]) -> Iterator[tuple[str, Picture]]:
    """Yield the figures of one system: passages, words of contexts, then those of studies."""
    yield from heat_maps(member)
    if not (contexts := member.cases):
        return
    bars = tuple(word_bars(case, member.label) for case in typical_contexts(contexts))
    yield "fig1_context", Panels("", bars)
    yield "figH_passage", passage_bars(contexts, member.label)
    yield from _study_pictures(member, studies).items()


def _study_pictures(member: ShownSystem, studies: Sequence[str]) -> dict[str, Picture]:
    """Return the figures of studies, which are cached in the run: they take most of the time."""
    key, store = f"{' '.join(studies)} {member.system}", member.store
    code = registry.code_id((*level_of(store).packages, *_STUDY_PACKAGES))
    saved = cached_figures(
        store, key, code, lambda: figure_data.dump_pictures(_studied(member, studies))
    )
    try:
        return dict(figure_data.load_pictures(saved))
    except (ValueError, RecursionError):  # a file that others changed
        return _studied(member, studies)


def _studied(member: ShownSystem, studies: Sequence[str]) -> dict[str, Picture]:
    figures: dict[str, Picture] = {}
    for name in studies:
        with suppress(UsageError):
            figures |= word_study(name, member.cases, member.store.manifest).figures
    return figures


def samples_of(part: ReportPart, metric: str) -> dict[str, Floats]:
    """Return the values of a metric per item, of the oracle and then of every system."""
    by_system = {m.label: values(m.store, m.system, metric) for m in part.members}
    return {ORACLE: values(part.first, ORACLE, metric), **by_system}


def heat_maps(member: ShownSystem) -> Iterator[tuple[str, HeatMap]]:
    """Yield TVD per passage and context, if passages have several contexts."""
    rows: dict[str, list[Row]] = {}
    for row in member.store.rows(member.system, "tvd"):
        rows.setdefault(row.group, []).append(row)
    several = {group: p for group, p in rows.items() if len(p) > 1}
    tvds = {g: [row.value for row in p if row.value is not None] for g, p in several.items()}
    means = {group: float(np.mean(p or [0.0])) for group, p in tvds.items()}
    shown = set(sorted(means, key=lambda group: -means[group])[:MOST_PASSAGES])
    if shown:
        # The passages with the greatest distances, in the order of the corpus.
        chosen = [p for group, p in several.items() if group in shown]
        cells = tuple(tuple(np.nan if r.value is None else r.value for r in p) for p in chosen)
        ids = tuple(tuple(row.item_id for row in p) for p in chosen)
        names, labels = tuple(g for g in several if g in shown), ("passage", "TVD")
        yield (
            "passages",
            HeatMap(member.label, "context of the passage", *labels, names, cells, ids),
        )


def tvd_differences(by_system: dict[str, list[Case]], seed: int) -> figure_data.Histograms:
    """Fig. 12: TVD(model, people) minus the mean TVD(half of the people, people), per context."""
    samples = {}
    for name, contexts in by_system.items():
        if contexts:
            tvds = split_tvds(contexts, seed)
            model = np.array([tvd(case.pair) for case in tvds.cases])
            samples[name] = model - tvds.oracle_all.mean(axis=1)
    label = "TVD(model, people) − TVD(half of the people, people)"
    # The first slot is the oracle's in every figure, also where it is not shown.
    slots = range(1, len(samples) + 1)
    return histograms("TVD differences", label, samples, np.linspace(-1, 1, 41), slots)


def abstraction_histograms(part: ReportPart) -> Panels:
    """Fig. 4: TVD of classes of words, of the oracle and of every system."""
    panels = [
        histograms(
            _ABSTRACT.get(metric, metric), metric, samples_of(part, metric), figure_data.TVD_EDGES
        )
        for metric in part.first.manifest["abstractions"]
    ]
    return Panels("", tuple(panels))


def word_bars(case: Case, system: str) -> WordBars:
    """Fig. 1: the most probable words of people and of the model, with both shares of each."""
    human, model = case.pair.human.as_dict(), case.pair.model.as_dict()
    sides = (human, model)
    likely = {w for side in sides for w in sorted(side, key=lambda word: -side[word])[:TOP]}
    words = sorted(likely, key=lambda w: (-human.get(w, 0.0), -model.get(w, 0.0), w))
    shown = tuple("(no word)" if word == FAILED else word for word in words)
    shares = [figure_data.plain([side.get(word, 0.0) for word in words]) for side in sides]
    return WordBars(case.item.context, system, shown, shares[0], shares[1], tvd(case.pair))


def typical_contexts(cases: Sequence[Case]) -> list[Case]:
    """Return an open context and a constrained one: at 90% and 10% of people's entropy."""
    ordered = sorted(cases, key=lambda case: chao_shen(case.pair.human))
    picks = {round(share * (len(ordered) - 1)) for share in (0.9, 0.1)}
    return [ordered[i] for i in sorted(picks, reverse=True)]


def passage_bars(cases: Sequence[Case], system: str) -> Panels:
    """App. H: the words of every context of the first passage."""
    first = cases[0].pair.group
    bars = tuple(word_bars(case, system) for case in cases if case.pair.group == first)
    return Panels(f"Passage {first}", bars, columns=3)
