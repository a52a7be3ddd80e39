"""Tables and curves of fine-tuning runs: systems, differences from the base, losses by epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.levels import word
from aleatoric.levels.word_scoring import ORACLE
from aleatoric.report.tables import UNDEFINED, number, p_value, with_interval
from aleatoric.runs.run import Store
from aleatoric.runs.tables import FINETUNING
from aleatoric.studies.compare import Compared, compare
from aleatoric.studies.figure_data import Lines, LineSeries, Panels, Picture
from aleatoric.types import Result, Table


def shown_tables(
    store: Store, interval: str = DEFAULT_METHOD, results: Sequence[Result] | None = None
) -> list[Table]:
    """Return what fits a screen: the systems, then the curves as means over folds."""
    curves = mean_curve_table(store)
    return [systems_table(store, interval, results), *([curves] if curves.rows else [])]


def facts(store: Store, interval: str = DEFAULT_METHOD) -> dict[str, Any]:
    """Return the differences from the base and the facts of training, for `--json`."""
    compared = differences(store, interval)
    return {
        "comparisons": compared.as_dict()["comparisons"] if compared else [],
        "finetuning": store.meta(FINETUNING) or {},
    }


def systems_table(
    store: Store, interval: str = DEFAULT_METHOD, results: Sequence[Result] | None = None
) -> Table:
    """One row per system: overlap, squared distance, log loss, differences from the base, TVD."""
    own = word.results(store, interval) if results is None else results
    found = {(result.system, result.metric): result for result in own}
    compared = differences(store, interval)
    facts = store.meta(FINETUNING) or {}
    models = word.model_systems(store)
    rows = [
        (
            name,
            *_values(found, name),
            *_differences(compared, name, models[0]),
            _perplexity(facts.get(name, {})),
        )
        for name in (ORACLE, *models)
        if (name, "overlap") in found
    ]
    columns = (
        *("system", "overlap ↑", "D² ↓", "log loss ↓", "TVD"),
        *("D² − base", "p Holm", "log loss − base", "p Holm", "perplexity"),
    )
    base = f"; base is {models[0]}" if models else ""
    notes = (
        f"overlap, D², log loss, TVD: exact, on held-out passages{base}.",
        "− base: paired over the contexts of held-out passages, passages resampled.",
        *_family_notes(compared),
        "perplexity: per token of the held-out passages, each by the model that never saw it.",
        *_temperature_notes(facts),
    )
    return Table("Fine-tuning", columns, tuple(rows), notes)


def _values(found: Mapping[tuple[str, str], Result], system: str) -> tuple[str, ...]:
    own = [found.get((system, m)) for m in ("overlap", "sq_distance", "log_loss", "tvd")]
    return tuple(with_interval(one.estimate) if one else UNDEFINED for one in own)


def differences(store: Store, interval: str = DEFAULT_METHOD) -> Compared | None:
    """Compare the base with every other system, paired; `None` if there is one system.

    The differences of one metric are the family that p-values are adjusted over.
    """
    models = word.model_systems(store)
    if len(models) < 2:
        return None
    return compare([store], models, COMPARED, interval=interval, against=models[0])


def _family_notes(compared: Compared | None) -> Iterator[str]:
    tested = [one.metric for one in compared.comparisons if one.paired.test] if compared else []
    if tested:
        n = max(tested.count(metric) for metric in tested)
        listed = "the difference" if n == 1 else f"the {n} differences"
        yield (
            "p Holm: permutation tests, passages swapped; adjusted over "
            f"{listed} from the base, per metric."
        )


def _differences(compared: Compared | None, system: str, base: str) -> Iterator[str]:
    """Yield a system minus the base by each metric; the comparison has the base first."""
    found = {
        one.metric: one
        for one in (compared.comparisons if compared else ())
        if (one.first, one.second) == (base, system)
    }
    for metric in COMPARED:
        one = found.get(metric)
        yield _turned(one.paired.difference) if one else UNDEFINED
        yield p_value(one.p_holm) if one else UNDEFINED


def _turned(estimate: Any) -> str:
    """Return an estimate with its sign changed."""
    if estimate.value is None:
        return UNDEFINED
    shown = f"{-estimate.value:+.3f}"
    if estimate.interval is None:
        return shown
    return f"{shown} [{-estimate.interval.high:+.3f}, {-estimate.interval.low:+.3f}]"


def _perplexity(facts: Mapping[str, Any]) -> str:
    fluency = facts.get("fluency")
    return f"{perplexity(fluency['nll']):.1f}" if fluency else UNDEFINED


def perplexity(nll: float) -> float:
    """Return the exponential of a mean negative log-likelihood; infinite if it is too large.

    >>> perplexity(0.0), perplexity(1e9)
    (1.0, inf)
    """
    return math.exp(nll) if nll < 700 else math.inf


def _temperature_notes(facts: Mapping[str, Any]) -> Iterator[str]:
    for own in facts.values():
        for key, score in (("temperatures", "D²"), ("temperatures_by_log_loss", "log loss")):
            if key in own:
                listed = ", ".join(f"{fold}: {value:g}" for fold, value in own[key].items())
                yield f"best temperatures on the training passages by {score}, per fold: {listed}."
    if "grid" in facts:
        for metric, score in (("sq_distance", "D²"), ("log_loss", "log loss")):
            listed = ", ".join(f"{t}: {number(own[metric])}" for t, own in facts["grid"].items())
            yield f"{score} of the base per temperature: {listed}."


COMPARED = ("sq_distance", "log_loss")
"""Two proper scores that show whether fine-tuning brought a model closer to people."""
_LOSSES = ("train_loss", "validation_loss", "train_nll", "validation_nll", "validation_human")
_CURVES = (
    *("training loss", "validation loss", "training perplexity", "validation perplexity"),
    "validation cross-entropy",
)
_IN_NATS = "Losses are in nats; epoch 0 is before training."


def curve_table(store: Store) -> Table:
    """One row per system, fold and epoch: losses and perplexities in training and validation."""
    rows = tuple(
        (system, fold, str(epoch["number"]), *_curve_cells(epoch))
        for system, fold, epoch in _epochs(store)
    )
    return Table("Curves", ("system", "fold", "epoch", *_CURVES), rows, (_IN_NATS,))


def mean_curve_table(store: Store) -> Table:
    """One row per system and epoch: the means over the folds that came so far."""
    rows = tuple(
        (system, str(epoch["number"]), str(epoch["folds"]), *_curve_cells(epoch))
        for system, epoch in _mean_epochs(store)
    )
    notes = (f"Means over folds. {_IN_NATS}", *_kept_notes(store))
    return Table("Training curves", ("system", "epoch", "folds", *_CURVES), rows, notes)


def _curve_cells(epoch: Mapping[str, Any]) -> tuple[str, ...]:
    texts = (f"{perplexity(epoch[name]):.2f}" for name in ("train_nll", "validation_nll"))
    first, second = number(epoch["train_loss"]), number(epoch["validation_loss"])
    return (first, second, *texts, number(epoch["validation_human"]))


def _mean_epochs(store: Store) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the means over folds, by system and epoch; undefined if a loss is so in every fold."""
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for system, _, epoch in _epochs(store):
        found.setdefault((system, epoch["number"]), []).append(epoch)
    for (system, place), own in found.items():
        known = {name: [e[name] for e in own if e[name] is not None] for name in _LOSSES}
        means = {
            name: sum(values) / len(values) if values else None for name, values in known.items()
        }
        yield system, {"number": place, "folds": len(own)} | means


def _kept_notes(store: Store) -> Iterator[str]:
    """Yield the epoch whose weights each fold kept."""
    for system, facts in (store.meta(FINETUNING) or {}).items():
        if "kept" in facts:
            listed = ", ".join(f"{fold}: {epoch}" for fold, epoch in facts["kept"].items())
            yield f"{system}: epoch kept, by fold: {listed}."


def _epochs(store: Store) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for system, facts in (store.meta(FINETUNING) or {}).items():
        for fold, epochs in facts.get("curves", {}).items():
            yield from ((system, str(fold), epoch) for epoch in epochs)


def curve_pictures(store: Store) -> dict[str, Picture]:
    """Return losses and perplexities by epoch, one panel per system."""
    systems = list(dict.fromkeys(system for system, _, _ in _epochs(store)))
    if not systems:
        return {}
    panels = [panel for system in systems for panel in _panels(store, system)]
    return {"training": Panels("Training and validation", tuple(panels))}


def _panels(store: Store, system: str) -> Iterator[Lines]:
    kinds = {
        "loss, nats": (("training", "train_loss"), ("validation", "validation_loss")),
        "perplexity": (("training", "train_nll"), ("validation", "validation_nll")),
    }
    for label, columns in kinds.items():
        lines = tuple(_mean_line(store, system, name, column) for name, column in columns)
        yield Lines(f"{system}: {label}", "epoch", label, lines)


def _mean_line(store: Store, system: str, name: str, column: str) -> LineSeries:
    """Return the mean over folds by epoch, losses of texts as perplexities."""
    own = {e["number"]: e[column] for label, e in _mean_epochs(store) if label == system}
    known = {place: value for place, value in sorted(own.items()) if value is not None}
    shown = map(perplexity, known.values()) if column.endswith("nll") else known.values()
    return LineSeries(name, tuple(map(float, known)), tuple(shown))
