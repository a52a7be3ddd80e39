"""The figures of word-level runs: the papers' figures, and their captions on the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.levels.word import cases, word_study
from aleatoric.levels.word_scoring import CONTROLS, ORACLE
from aleatoric.metrics.distances import tvd
from aleatoric.metrics.entropy import chao_shen
from aleatoric.registry import Track, quietly
from aleatoric.report.parts import ReportPart, ShownSystem, interval_dots, values
from aleatoric.studies.figure_data import (
    TVD_EDGES,
    Dots,
    HeatMap,
    Histograms,
    Lines,
    Panels,
    Picture,
    WordBars,
    density,
    histograms,
    plain,
)
from aleatoric.studies.people import split_tvds
from aleatoric.types import FAILED, Case, Floats, Row

TOP = 15
MOST_PASSAGES = 80
PAGE_STUDIES = ("replacement", "subsampling", "ard", "biased")
"""Studies that a page waits for; the learning curve takes longer than all others together."""
STUDIES = (*PAGE_STUDIES, "learning-curve")
AGREEMENT_LABELS = {
    "agreement_H": "H: two people",
    "agreement_M": "M: the model with itself",
    "agreement_C": "C: the model with a person",
}
_ABSTRACT = {"tvd_syn": "TVD of parts of speech", "tvd_sem": "TVD of clusters of meaning"}


def word_figures(
    part: ReportPart, track: Track[Any] = quietly, studies: Sequence[str] = STUDIES
) -> dict[str, Picture]:
    """Return the figures of all systems together, then of each system, by name.

    A study that does not apply to a system (such as subsampling of an exact one) is left out.
    """
    by_label = {m.label: list(cases(m.store, m.system)) for m in part.members}
    # Fig. 2: densities of TVD to people, and of the oracle under its first split.
    lines = tuple(density(name, sample) for name, sample in samples_of(part, "tvd").items())
    densities = Lines("TVD to people, by context", "TVD", "density", lines)
    figures: dict[str, Picture] = {"systems": agreement_dots(part), "fig2_tvd_kde": densities}
    with suppress(UsageError):  # where no context has two answers
        figures["fig12_tvd_differences"] = tvd_differences(by_label, part.first.manifest["seed"])
    if part.first.manifest["abstractions"]:
        figures["fig4_abstractions"] = abstraction_histograms(part)
    for member in track(part.members, len(part.members), "study systems"):
        pictures = dict(_system_pictures(member, by_label[member.label], studies))
        if member is not part.members[0]:
            pictures.pop("figH_passage", None)  # many sheets: one system's are enough
        figures |= {f"{name}{part.ending(member)}": picture for name, picture in pictures.items()}
    return figures


def _system_pictures(
    member: ShownSystem, contexts: Sequence[Case], studies: Sequence[str]
) -> Iterator[tuple[str, Picture]]:
    """Yield the figures of one system: passages, words of contexts, then those of studies."""
    yield from heat_maps(member)
    if not contexts:
        return
    bars = tuple(word_bars(case, member.label) for case in typical_contexts(contexts))
    yield "fig1_context", Panels("", bars)
    yield "figH_passage", passage_bars(contexts, member.label)
    for name in studies:
        with suppress(UsageError):
            yield from word_study(name, contexts, member.store.manifest).figures.items()


def agreement_dots(part: ReportPart) -> Dots:
    """How often two people agree (H), two draws of each system (M), and one of each (C)."""
    estimates = {(r.system, r.metric): r.estimate for r in part.results}
    names = tuple(s for s in dict.fromkeys(s for s, _ in estimates) if s not in CONTROLS)
    series = {
        label: [estimates.get((name, metric)) for name in names]
        for metric, label in AGREEMENT_LABELS.items()
    }
    return interval_dots("", "probability that two answers agree", names, series)


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
        labels, names = (
            ("context of the passage", "passage", "TVD"),
            (g for g in several if g in shown),
        )
        yield "passages", HeatMap(member.label, *labels, tuple(names), cells, ids)


def tvd_differences(by_system: dict[str, list[Case]], seed: int) -> Histograms:
    """Fig. 12: TVD(model, people) minus the mean TVD(half of the people, people), per context."""
    samples = {}
    for name, contexts in by_system.items():
        if contexts:
            tvds = split_tvds(contexts, seed)
            model = np.array([tvd(case.pair) for case in tvds.cases])
            samples[name] = model - tvds.oracle_all.mean(axis=1)
    label = "TVD(model, people) − TVD(half of the people, people)"
    figure = histograms("TVD differences", label, samples, np.linspace(-1, 1, 41))
    # The first slot is the oracle's in every figure, also where it is not shown.
    return replace(figure, first_slot=1)


def abstraction_histograms(part: ReportPart) -> Panels:
    """Fig. 4: TVD of classes of words, of the oracle and of every system."""
    panels = [
        histograms(_ABSTRACT.get(metric, metric), metric, samples_of(part, metric), TVD_EDGES)
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
    shares = [plain([side.get(word, 0.0) for word in words]) for side in sides]
    return WordBars(case.item.context, system, shown, shares[0], shares[1], tvd(case.pair))


def typical_contexts(own: Sequence[Case]) -> list[Case]:
    """Return an open context and a constrained one: at 90% and 10% of people's entropy."""
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


_TREND = "Each gray dot is a context; black dots are means by tenths. A flat line: no relation."
CAPTIONS = {
    "systems": (
        "Agreement of people and systems",
        "How often two people agree (H), two draws of the system (M), and a draw and a person "
        "(C), with 95% intervals. A perfect model has all three equal; M below H: the system "
        "varies more than people.",
    ),
    "training": (
        "Training and validation",
        "Means over folds by epoch; epoch 0 is before training. If validation rises while "
        "training falls, the model memorizes the training passages.",
    ),
    "fig2_tvd_kde": (
        "Distribution of distances to people",
        "Density of the distance over contexts. The oracle is one half of the people against the "
        "other half: a curve further right is further from people than people are.",
    ),
    "fig12_tvd_differences": (
        "Difference between model and human distance, per context",
        "Right of 0, the model is further from people than one half of the people is.",
    ),
    "fig4_abstractions": (
        "Distances between classes of words",
        "As above, with words replaced by their part of speech or cluster of meaning. A small "
        "distance here and a large one above: the model uses other words of the same kind.",
    ),
    "passages": (
        "Distance by passage and context",
        "Each row is a passage, each cell a context; darker is further from people. Click a "
        "cell to see its words.",
    ),
    "fig14_replacement": (
        "Share of human answers that the model lacks",
        "k% of the model's contexts are replaced by people's. The share at which the right curve "
        "meets the human line is what the model lacks.",
    ),
    "fig3_coefficients": (
        "What predicts a large distance",
        "Standardized coefficients with 95% intervals: a predictor right of 0 goes with larger "
        "distances; open dots were pruned by the regression.",
    ),
    "fig6_oracle_tvd": ("Distance and disagreement between halves of the people", _TREND),
    "fig7_context_length": ("Distance and length of the context", _TREND),
    "fig8_human_entropy": ("Distance and people's entropy", _TREND),
    "fig9_model_entropy": ("Distance and the model's entropy", _TREND),
    "fig10_tags": (
        "Distance by part of speech",
        "Boxes hold the middle half of the contexts; the line is the median.",
    ),
    "fig11_subsampling": (
        "Number of draws needed",
        "Error of the distance if fewer draws of the model are used.",
    ),
    "learning_curve": (
        "Effect of asking more people",
        "Distances among people, and of the model to people, by the number of people. The gap "
        "between the curves at the right is due to the model.",
    ),
    "fig5_biased": (
        "Effect of renormalized probabilities",
        "TVD to all people, of the model and of halves of the people. Probabilities renormalized "
        "over a set of words include the mass of all other words, which brings the model closer "
        "to people.",
    ),
}
