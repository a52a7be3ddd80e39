"""The data of every figure that a saved run allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from aleatoric import registry
from aleatoric.analyses.people import split_tvds
from aleatoric.analyses.pictures import (
    TVD_EDGES,
    Histograms,
    Lines,
    Panels,
    Picture,
    WordBars,
    density,
    histograms,
    plain,
)
from aleatoric.errors import UsageError
from aleatoric.metrics.entropy import chao_shen
from aleatoric.metrics.tvd import tvd
from aleatoric.pipeline import cases, model_systems
from aleatoric.store import Store
from aleatoric.types import FAILED, Case, Study
from aleatoric.words.scoring import ORACLE

Floats = NDArray[np.float64]
TOP = 15
STUDIES = ("replacement", "subsampling", "ard", "biased", "learning-curve")
_ABSTRACT = {"tvd_syn": "TVD of parts of speech", "tvd_sem": "TVD of clusters of meaning"}


def figure_data(
    store: Store, seed: int | None = None, passage: str | None = None
) -> dict[str, Picture]:
    """Figure name -> data: of all systems together, then of each system.

    With several systems, a figure of one has the system's name after its own. A study that does
    not fit a system (subsampling of an exact one, say) is left out.
    """
    seed = store.manifest["seed"] if seed is None else seed
    systems = model_systems(store)
    by_system = {system: list(cases(store, system)) for system in systems}
    found: dict[str, Picture] = {
        "fig2_tvd_kde": tvd_densities(store, systems),
        "fig12_tvd_differences": tvd_differences(by_system, seed),
    }
    if store.manifest["abstractions"]:
        found["fig4_abstractions"] = abstraction_histograms(store, systems)
    for system, own in by_system.items():
        ending = f" {system}" if len(systems) > 1 else ""
        pictures = system_pictures(system, own, seed, passage)
        found |= {f"{name}{ending}": picture for name, picture in pictures}
    return found


def system_pictures(
    system: str, own: Sequence[Case], seed: int, passage: str | None = None
) -> Iterator[tuple[str, Picture]]:
    """The figures of one system: words of contexts, then the studies'."""
    if not own:
        return
    yield "fig1_context", Panels("", tuple(word_bars(c, system) for c in typical_contexts(own)))
    yield "figH_passage", passage_bars(own, system, passage)
    for name in STUDIES:
        try:
            study: Study = registry.find("analyses", name)(own, seed)
        except UsageError:
            continue
        yield from study.figures.items()


def tvd_densities(store: Store, systems: Sequence[str]) -> Lines:
    """Fig. 2: densities of TVD to people, and of the oracle under its first split."""
    samples = {system: first_split(store, system, "tvd") for system in (ORACLE, *systems)}
    lines = tuple(density(name, sample) for name, sample in samples.items())
    return Lines("TVD to people, by context", "TVD", "density", lines)


def tvd_differences(by_system: dict[str, list[Case]], seed: int) -> Histograms:
    """Fig. 12: TVD(model, people) minus the mean TVD(half of the people, people), by context."""
    samples = {name: _difference(own, seed) for name, own in by_system.items() if own}
    label = "TVD(model, people) − TVD(half of the people, people)"
    return histograms("TVD differences", label, samples, np.linspace(-1, 1, 41))


def abstraction_histograms(store: Store, systems: Sequence[str]) -> Panels:
    """Fig. 4: TVD of classes of words, of the oracle and of every system."""
    panels = []
    for metric in store.manifest["abstractions"]:
        samples = {name: first_split(store, name, metric) for name in (ORACLE, *systems)}
        panels.append(histograms(_ABSTRACT.get(metric, metric), metric, samples, TVD_EDGES))
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
    likely = [*_top(human, top), *_top(model, top)]
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


def _top(shares: Mapping[str, float], top: int) -> list[str]:
    return sorted(shares, key=lambda word: -shares[word])[:top]
