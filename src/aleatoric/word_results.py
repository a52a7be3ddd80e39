"""The results of a word-level run, from the statistics that it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.inference.bounds import bounded
from aleatoric.inference.estimate import Reduction, estimate, value_of, walk
from aleatoric.inference.perfect import TARGETS
from aleatoric.metrics.calibration import ECE, Bins, equal_mass_edges, equal_width_edges
from aleatoric.metrics.debiased import DebiasedECE
from aleatoric.metrics.reduction import Chunk, Mean
from aleatoric.store import Store
from aleatoric.store.reading import StoredRows
from aleatoric.types import Floor, Result, Results, Signature
from aleatoric.words import calibration_floor, floors
from aleatoric.words.calibration_floor import Learnt, Tally
from aleatoric.words.scoring import CONTROLS, HUMAN, ORACLE

MEANS = (
    *("tvd", "tvd_debiased", "sq_distance", "js", "entropy_human", "entropy_model"),
    *("mass_on_human", "rank_of_human_mode"),
)
EXACT_MEANS = ("tvd_low", "tvd_high", "mode_certified")
"""Of exact distributions: the bounds of TVD, and the share of contexts with a certain mode."""


def results(store: Store, interval: str = DEFAULT_METHOD) -> Results:
    """Every system's metrics with interval and floor, from the saved statistics alone."""
    check_method(interval)
    systems, learnt = _shown_order(store), Learnt()
    return Results(r for name in systems for r in _system_results(store, name, interval, learnt))


def model_systems(store: Store) -> list[str]:
    """The systems of a run that are models, not controls."""
    return [name for name in store.systems() if name not in CONTROLS]


def _shown_order(store: Store) -> list[str]:
    """Controls first, then models as they were asked for."""
    return [*CONTROLS, *model_systems(store)]


def _system_results(store: Store, system: str, interval: str, learnt: Learnt) -> Iterator[Result]:
    manifest, facts = store.manifest, store.systems()[system]
    shown, others = _reductions(store, system), _floor_reductions(store)
    tally = Tally()
    sums = walk(_tallied(store, system, tally), shown | others)
    found = {name: estimate(sums[name], r, manifest["seed"], interval) for name, r in shown.items()}
    plain = {name: value_of(sums[name], r) for name, r in others.items()}
    own_floors, drawn = floors.named_floors(plain), plain["n_model"]
    if system not in CONTROLS:
        own_floors |= _calibration_floors(store, system, tally, learnt)
    missing = store.n_items - store.n_items_with_draws(system) if system not in CONTROLS else 0
    for metric, own in found.items():
        if own.value is None and not _is_asked(system, metric):
            continue
        signature = Signature(
            manifest["corpus"]["name"],
            manifest["corpus"]["sha256"],
            facts["model"],
            facts["decoder"],
            facts["estimator"],
            _choices_in_force(manifest, metric, facts["estimator"]),
            "exact" if drawn is None else f"{drawn:g}",
            manifest["seed"],
            metric,
            manifest["versions"]["aleatoric"],
        )
        counted = bounded(replace(own, n_missing=missing), metric)
        rows = StoredRows(store, system, _column(metric))
        yield Result(system, metric, signature, counted, own_floors.get(metric), rows)


def _is_asked(system: str, metric: str) -> bool:
    """Whether a reader misses this value: people have no distance to themselves, halves have."""
    of_halves = (*floors.DISTANCES, "tvd_debiased", "sq_distance", "ece_oracle")
    return system not in CONTROLS or (system == ORACLE and metric in of_halves)


def _choices_in_force(manifest: Mapping[str, Any], metric: str, estimator: str) -> dict[str, str]:
    """Everything beyond model, decoder and seed that changes this number."""
    found: dict[str, str] = manifest["choices"] | {"n_splits": str(manifest["n_splits"])}
    if estimator == "exact":
        found["tolerance"] = f"{manifest['tolerance']:g}"
    if estimator == "mc" and manifest.get("until") is not None:
        found["until"] = f"se={manifest['until']:g}"
    tools = {"tvd_syn": "tagger", "tvd_sem": "embedder"}
    if metric in tools:
        found[tools[metric]] = manifest[tools[metric]]
    if metric == "tvd_sem":
        found["clusters"] = "joint"
    return found


def _reductions(store: Store, system: str) -> dict[str, Reduction]:
    manifest = store.manifest
    means: dict[str, Reduction] = {}
    if system != HUMAN:
        saved = set(store.meta("stat_columns"))  # an older version's may lack some
        asked = (*MEANS, *manifest["abstractions"])
        means = {name: Mean(name) for name in asked if name in saved}
    if store.systems()[system]["estimator"] == "exact":
        means |= {name: Mean(name) for name in EXACT_MEANS}
    bins = _bins(store, system)
    means |= {f"ece_{t}": ECE(f"correct_{t}", bins.edges, bins.closed) for t in TARGETS}
    if system == ORACLE:
        return means
    # Splits of people would make of each bin twenty: only what is not split is debiased.
    unsplit = ("original", "human")
    return means | {
        f"ece_debiased_{t}": DebiasedECE(f"correct_{t}", bins.edges, bins.closed) for t in unsplit
    }


def _floor_reductions(store: Store) -> dict[str, Reduction]:
    """Of the floors, and the number of draws."""
    return {"n_model": Mean("n_model"), **floors.reductions(set(store.meta("stat_columns")))}


def _calibration_floors(
    store: Store, system: str, tally: Tally, learnt: Learnt
) -> dict[str, Floor]:
    if _tells_crowds(store):
        return calibration_floor.calibration_floors(tally, _bins(store, system), learnt)
    return calibration_floor.no_columns()


def _tells_crowds(store: Store) -> bool:
    """Whether statistics have what floors of ECE need: an older version's do not."""
    return set(store.meta("stat_columns")).issuperset(calibration_floor.COLUMNS)


def _tallied(store: Store, system: str, tally: Tally) -> Iterator[tuple[list[str], Chunk]]:
    """The pages of a system's statistics, a model's counted on the way."""
    counted = system not in CONTROLS and _tells_crowds(store)
    for page in store.stat_pages(system):
        if counted:
            tally.add(page.values)
        yield page.groups, page.values


def _bins(store: Store, system: str) -> Bins:
    choices = store.manifest["choices"]
    return Bins(_edges(store, system, choices["binning"]), choices["bins"] == "closed")


def _edges(store: Store, system: str, binning: str) -> tuple[float, ...]:
    if binning == "equal-width":
        return equal_width_edges()
    # The oracle's confidences differ by split: its first split stands for them.
    found = np.concatenate([page.values["confidence"][:, 0] for page in store.stat_pages(system)])
    confidences = np.sort(found[np.isfinite(found)])
    return equal_mass_edges(confidences.tolist(), len(confidences))


def _column(metric: str) -> str:
    """Where a metric's values by item stand: those of ECE, which has none, are correctness.

    >>> _column("ece_debiased_human"), _column("tvd")
    ('correct_human', 'tvd')
    """
    return metric.replace("ece_debiased_", "ece_").replace("ece_", "correct_")
