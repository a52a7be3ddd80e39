"""Tables and curves of fine-tuning runs: systems, differences from the base, losses by epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.levels import word
from aleatoric.levels.word_results import is_withheld, remedy
from aleatoric.levels.word_scoring import ORACLE
from aleatoric.reporting.tables import TEXTS, UNDEFINED, listed, number, p_value, with_interval
from aleatoric.result_types import Result, Table
from aleatoric.runs.run import Store
from aleatoric.runs.tables import FINETUNING
from aleatoric.studies.compare import Compared, compare
from aleatoric.studies.figure_data import Lines, LineSeries, Panels, Picture


def shown_tables(
    store: Store, interval: str = DEFAULT_METHOD, results: Sequence[Result] | None = None
) -> list[Table]:
    """Return what fits a screen: the systems, then the curves as means over folds."""
    curves = mean_curve_table(store)
    return [systems_table(store, interval, results), *([curves] if curves.rows else [])]


def systems_table(
    store: Store, interval: str = DEFAULT_METHOD, results: Sequence[Result] | None = None
) -> Table:
    """One row per system: overlap, squared distance, log loss, differences from the base, TVD."""
    shown = word.results(store, interval) if results is None else results
    estimates = {(result.system, result.metric): result.estimate for result in shown}
    compared, models = differences(store, interval), word.model_systems(store)
    facts = store.meta(FINETUNING) or {}
    rows = []
    for name in (ORACLE, *models):
        if (name, "overlap") in estimates:
            row = [estimates.get((name, m)) for m in ("overlap", "sq_distance", "log_loss", "tvd")]
            values = (with_interval(estimate) if estimate else UNDEFINED for estimate in row)
            fluency = facts.get(name, {}).get("fluency")
            fluent = f"{perplexity(fluency['nll']):.1f}" if fluency else UNDEFINED
            gaps = _differences(compared, name, models[0]) if compared else ()
            rows.append((name, *values, *gaps, fluent))
    columns = (
        *("system", "overlap ↑", "D² ↓", "log loss ↓", "TVD"),
        *(("D² − base", "p Holm", *_LOG_LOSS_COLUMNS) if compared else ()),
        "perplexity",
    )
    base = f"; base is {models[0]}" if models else ""
    notes = (
        _NOTES["systems"].format(base=base),
        *_withheld_notes(store, shown),
        *((_NOTES["base"], *_family_notes(compared)) if compared else ()),
        _NOTES["perplexity"],
        *_temperature_notes(facts),
    )
    wide = ("D² ↓", "log loss ↓", "TVD", *(_LOG_LOSS_COLUMNS if compared else ()))
    return Table("Fine-tuning", columns, tuple(rows), notes, wide)


def differences(store: Store, interval: str = DEFAULT_METHOD) -> Compared | None:
    """Compare the base with every other system, paired; `None` if there is nothing to compare.

    Metrics that the base, or everything but the base, lacks because its bounds are too wide are
    left out. The differences of one metric are the family that p-values are adjusted over.
    """
    models = word.model_systems(store)
    if len(models) < 2:
        return None
    known = {(r.system, r.metric) for r in word.results(store) if not is_withheld(r.estimate)}
    base, *others = models
    metrics = [
        metric
        for metric in COMPARED
        if (base, metric) in known and any((name, metric) in known for name in others)
    ]
    if not metrics:
        return None
    return compare([store], models, metrics, interval=interval, against=models[0])


def _withheld_notes(store: Store, results: Sequence[Result]) -> Iterator[str]:
    """Say which differences from the base are missing because bounds are too wide."""
    for metric, heading in zip(COMPARED, ("D²", "log loss"), strict=True):
        own = [r.system for r in results if r.metric == metric and is_withheld(r.estimate)]
        if own:
            yield (
                f"{heading} of {listed(own)}: without a value and without differences, because "
                f"the bounds are too wide; use {remedy(store, (metric,))}."
            )


def _family_notes(compared: Compared) -> Iterator[str]:
    tested = [c.metric for c in compared.comparisons if c.paired.test]
    if tested:
        n = max(tested.count(metric) for metric in tested)
        listed = "the difference" if n == 1 else f"the {n} differences"
        yield (
            "p Holm: permutation tests, passages swapped; adjusted over "
            f"{listed} from the base, per metric."
        )


def _differences(compared: Compared, system: str, base: str) -> Iterator[str]:
    """Yield a system minus the base by each metric; the comparison has the base first."""
    by_metric = {
        comparison.metric: comparison
        for comparison in compared.comparisons
        if (comparison.first, comparison.second) == (base, system)
    }
    for metric in COMPARED:
        comparison = by_metric.get(metric)
        value = comparison.paired.difference.value if comparison else None
        ends = comparison.paired.difference.interval if comparison else None
        interval = f" [{-ends.high:+.3f}, {-ends.low:+.3f}]" if ends else ""
        yield UNDEFINED if value is None else f"{-value:+.3f}{interval}"
        yield p_value(comparison.p_holm) if comparison else UNDEFINED


def perplexity(nll: float) -> float:
    """Return the exponential of a mean negative log-likelihood; infinite if it is too large."""
    return math.exp(nll) if nll < 700 else math.inf


def _temperature_notes(facts: Mapping[str, Any]) -> Iterator[str]:
    for tuned in facts.values():
        for key, score in (("temperatures", "D²"), ("temperatures_by_log_loss", "log loss")):
            if key in tuned:
                listed = ", ".join(f"{fold}: {value:g}" for fold, value in tuned[key].items())
                yield f"best temperatures on the training passages by {score}, per fold: {listed}."
    if "grid" in facts:
        for metric, score in (("sq_distance", "D²"), ("log_loss", "log loss")):
            listed = ", ".join(f"{t}: {number(row[metric])}" for t, row in facts["grid"].items())
            yield f"{score} of the base per temperature: {listed}."


_NOTES = TEXTS["finetune"]["notes"]
COMPARED = ("sq_distance", "log_loss")
"""Two proper scores that show whether fine-tuning brought a model closer to people."""
_LOG_LOSS_COLUMNS = ("log loss − base", "p Holm (log loss)")
_LOSSES = ("train_loss", "validation_loss", "train_nll", "validation_nll", "validation_human")
_CURVES = (
    *("training loss", "validation loss", "training perplexity", "validation perplexity"),
    "validation cross-entropy",
)
_IN_NATS = "Losses are in nats; epoch 0 is before training."


def curve_table(store: Store) -> Table:
    """One row per system, fold and epoch: losses and perplexities in training and validation."""
    rows = (
        (*place, str(epoch["number"]), *_curve_cells(epoch)) for *place, epoch in _epochs(store)
    )
    return Table("Curves", ("system", "fold", "epoch", *_CURVES), tuple(rows), (_IN_NATS,))


def mean_curve_table(store: Store) -> Table:
    """One row per system and epoch: the means over the folds that are finished."""
    rows = tuple(
        (system, str(epoch["number"]), str(epoch["folds"]), *_curve_cells(epoch))
        for system, epoch in _mean_epochs(store)
    )
    notes = [f"Means over folds. {_IN_NATS}"]
    for system, facts in (store.meta(FINETUNING) or {}).items():
        if "kept" in facts:
            listed = ", ".join(f"{fold}: {epoch}" for fold, epoch in facts["kept"].items())
            notes.append(f"{system}: epoch kept, by fold: {listed}.")
    columns = ("system", "epoch", "folds", *_CURVES)
    return Table("Training curves", columns, rows, tuple(notes), ("training perplexity",))


def _curve_cells(epoch: Mapping[str, Any]) -> tuple[str, ...]:
    texts = (f"{perplexity(epoch[name]):.2f}" for name in ("train_nll", "validation_nll"))
    first, second = number(epoch["train_loss"]), number(epoch["validation_loss"])
    return (first, second, *texts, number(epoch["validation_human"]))


def _mean_epochs(store: Store) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the means over folds, by system and epoch; undefined if a loss is so in every fold."""
    by_epoch: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for system, _, epoch in _epochs(store):
        by_epoch.setdefault((system, epoch["number"]), []).append(epoch)
    for (system, place), folds in by_epoch.items():
        defined = {name: [e[name] for e in folds if e[name] is not None] for name in _LOSSES}
        means = {name: sum(loss) / len(loss) if loss else None for name, loss in defined.items()}
        yield system, {"number": place, "folds": len(folds)} | means


def _epochs(store: Store) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for system, facts in (store.meta(FINETUNING) or {}).items():
        for fold, epochs in facts.get("curves", {}).items():
            yield from ((system, str(fold), epoch) for epoch in epochs)


def curve_pictures(store: Store) -> dict[str, Picture]:
    """Return mean losses and perplexities over folds by epoch, two panels per system."""
    epochs: dict[str, list[Mapping[str, Any]]] = {}
    for system, epoch in _mean_epochs(store):
        epochs.setdefault(system, []).append(epoch)
    panels = []
    for system, means in epochs.items():
        for label, column in (("loss, nats", "loss"), ("perplexity", "nll")):
            sides = {"training": f"train_{column}", "validation": f"validation_{column}"}
            lines = tuple(_line(name, side, means) for name, side in sides.items())
            panels.append(Lines(f"{system}: {label}", "epoch", label, lines))
    return {"training": Panels("Training and validation", tuple(panels))} if panels else {}


def _line(name: str, column: str, epochs: Sequence[Mapping[str, Any]]) -> LineSeries:
    values = {e["number"]: e[column] for e in epochs if e[column] is not None}
    by_epoch = dict(sorted(values.items()))
    shown = map(perplexity, by_epoch.values()) if column.endswith("nll") else by_epoch.values()
    return LineSeries(name, tuple(map(float, by_epoch)), tuple(shown))
