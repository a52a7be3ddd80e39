"""Metrics of a word-level run with intervals, reduced from its saved statistics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from aleatoric.inference import noise
from aleatoric.inference.control import CONTROLS, HUMAN, ORACLE
from aleatoric.inference.estimate import Reduction, bounded, estimate, value_of, walk
from aleatoric.inference.persons import METRICS as PERSON_METRICS
from aleatoric.inference.persons import covering_persons, read_changes
from aleatoric.metrics.agreement import COLUMNS as AGREEMENTS
from aleatoric.metrics.agreement import AgreementGap, Overlap
from aleatoric.metrics.calibration import ECE, DebiasedECE, confidence_edges
from aleatoric.metrics.reduction import FiniteMean, Mean
from aleatoric.result_types import Result
from aleatoric.runs.formats import DamagedRowError
from aleatoric.runs.run import Store, StoredRows, signature, stat_columns
from aleatoric.types import Estimate, Perfect

TARGETS = ("original", "human", "oracle")
"""What the most likely word of a system is compared with for calibration errors."""
PAIRWISE = (
    *("tvd", "tvd_debiased", "js", "entropy_human", "entropy_model"),
    *("mass_on_human", "rank_of_human_mode"),
)
"""Registered metrics of one pair of distributions."""
BOUNDED = ("sq_distance", "agreement_M", "agreement_C", "log_loss", "tvd")
"""Metrics that exact probabilities give as lower and upper bounds."""
EXACT_MEANS = (*(f"{name}_{end}" for name in BOUNDED for end in ("low", "high")), "mode_certified")
"""For exact probabilities: all bounds, and the share of contexts with a certain mode."""
COLUMNS = (
    *("sq_distance", *AGREEMENTS, "log_loss", *PAIRWISE, *EXACT_MEANS),
    *("agreement_C_half", "log_loss_half", "perfect_low", "perfect_high"),
    *("confidence", "failed", "n_human", "n_model"),
    *(f"correct_{target}" for target in TARGETS),
)
"""Statistics saved per item and system, besides those of the abstractions."""
_DIAGNOSTICS = ("n_model", "perfect_low", "perfect_high")
"""Means without an interval: number of draws, and expected TVD of a perfect model."""
PERSONS = "persons"
"""Prefix of the saved changes of a system's statistics without each person."""
TOKENS = "tokens"
"""The saved hash of the vocabulary of first tokens."""
WIDE = 0.1
"""A mean whose bounds are further apart than this is not reported."""
WITHHELD = "not given: the search found too little of the distribution"
WIDEST_LOSS = 1.0
"""The same for log loss, in nats; above `WIDE` it is shown as a range."""
WIDE_LOSS = (
    f"not given: its bounds, log_loss_low and log_loss_high, are more than {WIDEST_LOSS:g} nat "
    "apart; use a smaller --tolerance"
)
INFINITE = "infinite or unknown: people gave words for which no probability above 0 was found"


def is_withheld(estimate: Estimate) -> bool:
    """Return whether a metric has no value because its bounds are too wide."""
    return estimate.value is None and (estimate.reason or "").startswith((WITHHELD, WIDE_LOSS))


def remedy(store: Store, metrics: Collection[str] = ("overlap",)) -> str:
    """Return the option that gives metrics a value; fine-tuning has no --estimator."""
    is_loss, is_tuned = {*metrics} <= {"log_loss"}, store.manifest["command"] == "finetune"
    return "a smaller --tolerance" if is_loss or is_tuned else "--estimator mc"


def system_results(store: Store, system: str, interval: str) -> Iterator[Result]:
    """Compute the metrics of one system with intervals from the saved statistics."""
    metrics, diagnostics = _estimates(store, system, interval)
    n_model, low, high = (diagnostics[name] for name in _DIAGNOSTICS)
    perfect = Perfect(low, high, noise.METHOD, noise.ONE_ANSWER if low is None else None)
    n_draws = "exact" if n_model is None else f"{n_model:g}"
    missing = store.n_items - store.n_items_with_draws(system) if system not in CONTROLS else 0
    for metric, estimated in metrics.items():
        if estimated.value is None and not _is_expected(store, system, metric):
            continue
        if metric.startswith("log_loss_") and estimated.value is None:
            estimated = replace(estimated, reason=INFINITE)
        yield Result(
            system,
            metric,
            signature(store, system, metric, _choices_in_force(store, system, metric), n_draws),
            bounded(replace(estimated, n_missing=missing), metric),
            perfect=perfect if metric == "tvd" and system != HUMAN else None,
            rows=StoredRows(store, system, _column(metric)),
        )


def _estimates(
    store: Store, system: str, interval: str
) -> tuple[dict[str, Estimate], dict[str, float | None]]:
    reductions, seed = _reductions(store, system), store.manifest["seed"]
    others = {name: Mean(name) for name in _DIAGNOSTICS}
    sums = walk(((p.groups, p.values) for p in store.stat_pages(system)), reductions | others)
    metrics = {name: estimate(sums[name], r, seed, interval) for name, r in reductions.items()}
    facts = store.meta(f"{PERSONS} {system}") if interval in ("auto", "t") else None
    if facts is not None:
        try:
            changes = read_changes(facts)
        except ValueError as error:
            raise DamagedRowError(str(error)) from None
        for name in metrics.keys() & set(PERSON_METRICS):
            metrics[name] = covering_persons(metrics[name], sums[name], reductions[name], changes)
    for name in unknown_metrics(metrics):
        reason = f"{WITHHELD}; use {remedy(store)}"
        metrics[name] = replace(metrics[name], value=None, interval=None, reason=reason)
    if (loss := metrics.get("log_loss")) and loss.value is None:
        high = metrics["log_loss_high"].value
        metrics["log_loss"] = replace(loss, reason=INFINITE if high is None else WIDE_LOSS)
    return metrics, {name: value_of(sums[name], r) for name, r in others.items()}


def unknown_metrics(estimates: Mapping[str, Estimate]) -> set[str]:
    """Return the metrics of exact probabilities whose bounds are too wide to report a value.

    >>> low, high = (Estimate(value, None, 9, 3) for value in (0.0, 0.9))
    >>> unknown_metrics({"overlap": low, "agreement_M_low": low, "agreement_M_high": high})
    {'overlap'}
    """
    ends = {name: (estimates.get(f"{name}_low"), estimates.get(f"{name}_high")) for name in BOUNDED}
    wide = {
        name
        for name, (low, high) in ends.items()
        if low and low.value is not None and high and high.value is not None
        if high.value - low.value > (WIDEST_LOSS if name == "log_loss" else WIDE)
    }
    if (highest := estimates.get("log_loss_high")) and highest.value is None:
        wide |= {"log_loss"}
    if wide & {"agreement_M", "agreement_C"}:
        wide |= {"overlap"}
    if "agreement_M" in wide:
        wide |= {"agreement_gap", "entropy_model"}
    if "tvd" in wide:
        wide |= {"tvd_debiased", "js", "mass_on_human"}
    certified = estimates.get("mode_certified")
    if certified is not None and certified.value is not None and certified.value < 0.5:
        wide |= {name for name in estimates if name.startswith("ece")}
    return wide & estimates.keys()


def tolerance_notes(store: Store) -> Iterator[str]:
    """Note on how many contexts the bounds of D² are further apart than the tolerance."""
    ends = ("sq_distance_low", "sq_distance_high")
    if not store.has_stats() or not set(ends) <= set(store.stat_columns()):
        return
    tolerance, parts, widest = store.manifest["tolerance"], [], 0.0
    models = [name for name in store.systems() if name not in CONTROLS]
    for name in models:
        low, high = stat_columns(store, name, ends)[1].values()
        width = (high - low)[np.isfinite(high - low)]
        if missed := int((width > tolerance).sum()):
            widest, mean = max(widest, float(width.mean())), f"mean width {width.mean():.3f}"
            parts.append(f"{missed} of {len(width)} contexts of {name} ({mean})")
    if parts:
        fix = f"use {remedy(store)}"
        advice = f"; means with bounds over {WIDE:g} apart are not reported: {fix}"
        yield (
            f"the bounds of sq_distance are further apart than the tolerance {tolerance:g} on "
            f"{', '.join(parts)}; see sq_distance_low and sq_distance_high in --json"
            f"{advice if widest > WIDE else ''}"
        )
    yield from _loss_notes(store, models)


def _loss_notes(store: Store, models: Sequence[str]) -> Iterator[str]:
    """Note how far apart the bounds of log loss are, if they are wide."""
    wide = []
    for name in models:
        low, high = stat_columns(store, name, ("log_loss_low", "log_loss_high"))[1].values()
        gap = float((high - low).mean()) if len(low) else 0.0
        wide += [f"{gap:.2f} nats for {name}"] if gap > WIDE else []
    if wide:
        yield (
            f"the bounds of log loss are far apart on average ({', '.join(wide)}): up to "
            f"{WIDEST_LOSS:g} nat tables show them as a range, and --json has their middle; beyond "
            "that --json has log_loss_low and log_loss_high alone; a smaller --tolerance narrows "
            "them"
        )


def has_persons(store: Store) -> bool:
    """Return whether the answers of a scored run have persons."""
    return store.meta(f"{PERSONS} {HUMAN}") is not None


def person_notes(store: Store) -> Iterator[str]:
    """Note which intervals cover people."""
    if store.has_stats() and has_persons(store):
        both = f"the intervals of {', '.join(PERSON_METRICS)} cover people as well as groups"
        others = "all others, and those of oracle, cover groups only"
        yield f"answers have persons: {both} (with --interval auto or t); {others}"


def _is_expected(store: Store, system: str, metric: str) -> bool:
    """Return whether an undefined value is shown: people have no distance to themselves."""
    if metric.startswith("log_loss"):
        return bool(store.systems()[system]["estimator"] == "exact")
    of_halves = ("tvd", "tvd_debiased", "overlap", "sq_distance", *AGREEMENTS, "ece_oracle")
    return system not in CONTROLS or (system == ORACLE and metric in of_halves)


def _choices_in_force(store: Store, system: str, metric: str) -> dict[str, str]:
    """Return everything besides model, decoder and seed that changes this number."""
    manifest, estimator = store.manifest, store.systems()[system]["estimator"]
    choices: dict[str, str] = manifest["choices"] | {"n_splits": str(manifest["n_splits"])}
    choices |= store.systems()[system].get("conventions", {})
    if choices.get("unit") == "token":
        choices[TOKENS] = store.meta(TOKENS) or "unknown"
    elif estimator == "exact":
        choices["tolerance"] = f"{manifest['tolerance']:g}"
    if estimator == "mc" and manifest.get("until") is not None:
        choices["until"] = manifest["until"]
    tools = {"tvd_syn": "tagger", "tvd_sem": "embedder"}
    if metric in tools:
        choices[tools[metric]] = manifest[tools[metric]]
    if metric == "tvd_sem":
        choices["clusters"] = "joint"
    return choices


def _reductions(store: Store, system: str) -> dict[str, Reduction]:
    """Return the reductions of a system's metrics, the leading metrics first."""
    if system == HUMAN:
        reductions: dict[str, Reduction] = {"agreement_H": Mean("agreement_H")}
    else:
        reductions = {"overlap": Overlap(), "sq_distance": Mean("sq_distance")}
        reductions |= {name: Mean(name) for name in AGREEMENTS} | {"agreement_gap": AgreementGap()}
        reductions |= {name: Mean(name) for name in (*PAIRWISE, *store.manifest["abstractions"])}
    if store.systems()[system]["estimator"] == "exact":
        for name in ("log_loss", "log_loss_low", "log_loss_high"):
            reductions[name] = FiniteMean(name, "confidence")
        reductions |= {name: Mean(name) for name in EXACT_MEANS if name not in reductions}
    bins = _edges(store, system), store.manifest["choices"]["bins"] == "closed"
    reductions |= {f"ece_{t}": ECE(f"correct_{t}", *bins) for t in TARGETS}
    if system == ORACLE:
        return reductions
    # Targets that differ per split would need a bin per split: they are not debiased.
    unsplit = ("original", "human")
    return reductions | {f"ece_debiased_{t}": DebiasedECE(f"correct_{t}", *bins) for t in unsplit}


def _edges(store: Store, system: str) -> tuple[float, ...]:
    # The confidences of the oracle differ per split: its first split is used.
    confidences = (page.values["confidence"][:, 0] for page in store.stat_pages(system))
    return confidence_edges(store.manifest["choices"]["binning"], confidences)


def _column(metric: str) -> str:
    """Return the statistic shown per item for a metric: correctness for ECE, C for the overlap."""
    if metric in ("overlap", "agreement_gap"):
        return "agreement_C" if metric == "overlap" else "agreement_M"
    return metric.replace("ece_debiased_", "ece_").replace("ece_", "correct_")
