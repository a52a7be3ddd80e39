"""What fine-tuning did: systems beside floor and control, differences from the base, curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from aleatoric import pipeline
from aleatoric.analyses.pictures import Line, Lines, Panels, Picture
from aleatoric.comparing import Compared, compare
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.report.comparison import p_value
from aleatoric.report.numbers import UNDEFINED, floor_range, number, with_interval
from aleatoric.store import FINETUNING, Store
from aleatoric.types import Result, Table
from aleatoric.words.scoring import ORACLE


def finetune_tables(store: Store, interval: str = DEFAULT_METHOD) -> list[Table]:
    """The systems of a fine-tuning run, then the curves of its folds."""
    curves = curve_table(store)
    return [systems_table(store, interval), *([curves] if curves.rows else [])]


def finetune_json(store: Store, interval: str = DEFAULT_METHOD) -> dict[str, Any]:
    """Results, differences and all that training told, for `--json`."""
    compared = differences(store)
    return {
        "results": [result.as_dict() for result in pipeline.results(store, interval)],
        "comparisons": compared.as_dict()["comparisons"] if compared else [],
        "finetuning": store.meta(FINETUNING) or {},
    }


def systems_table(store: Store, interval: str = DEFAULT_METHOD) -> Table:
    """A row a system: distance, floor, excess, difference from the base, perplexity."""
    results = {r.system: r for r in pipeline.results(store, interval) if r.metric == "tvd"}
    compared = differences(store)
    facts = store.meta(FINETUNING) or {}
    models = pipeline.model_systems(store)
    rows = [_control_row(results[ORACLE])] if ORACLE in results else []
    rows += [_row(results[name], compared, facts.get(name, {}), models[0]) for name in models]
    columns = ("system", "TVD", "floor", "excess", "TVD − base", "p Holm", "perplexity")
    notes = (
        f"TVD: exact, mean over contexts with 95% interval; base is {models[0]}.",
        "TVD − base: paired over the contexts of held-out passages, passages resampled.",
        "perplexity: a token of the held-out passages, each by the model that never saw it.",
        *_temperature_notes(facts),
    )
    return Table("Fine-tuning", columns, tuple(rows), notes)


def differences(store: Store) -> Compared | None:
    """Every two systems' paired difference, `None` where there is one system."""
    models = pipeline.model_systems(store)
    return compare([store], models, ["tvd"]) if len(models) > 1 else None


def _control_row(result: Result) -> tuple[str, ...]:
    floor = floor_range(result.floor)
    own = (result.system, with_interval(result.estimate), floor, number(result.excess))
    return (*own, UNDEFINED, UNDEFINED, UNDEFINED)


def _row(
    result: Result, compared: Compared | None, facts: Mapping[str, Any], base: str
) -> tuple[str, ...]:
    floor = floor_range(result.floor)
    own = (result.system, with_interval(result.estimate), floor, number(result.excess))
    return (*own, *_difference(compared, result.system, base), _perplexity(facts))


def _difference(compared: Compared | None, system: str, base: str) -> tuple[str, str]:
    """A system minus the base; the comparison has the base first."""
    for one in compared.comparisons if compared else ():
        if (one.first, one.second) == (base, system):
            found = one.paired.difference
            return _turned(found), p_value(one.p_holm)
    return UNDEFINED, UNDEFINED


def _turned(estimate: Any) -> str:
    """An estimate with its sign changed."""
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
    """The exponential of a mean negative log-likelihood, infinite where that is too large.

    >>> perplexity(0.0), perplexity(1e9)
    (1.0, inf)
    """
    return math.exp(nll) if nll < 700 else math.inf


def _temperature_notes(facts: Mapping[str, Any]) -> Iterator[str]:
    for own in facts.values():
        if "temperatures" in own:
            listed = ", ".join(f"{fold}: {value:g}" for fold, value in own["temperatures"].items())
            yield f"best temperatures on the training passages, by fold: {listed}."
    if "grid" in facts:
        listed = ", ".join(f"{value}: {number(own)}" for value, own in facts["grid"].items())
        yield f"TVD of the base by temperature: {listed}."


def curve_table(store: Store) -> Table:
    """A row a system, fold and epoch: losses and perplexities in training and validation."""
    columns = (
        *("system", "fold", "epoch", "training loss", "validation loss"),
        *("training perplexity", "validation perplexity", "validation cross-entropy"),
    )
    rows = tuple(
        (
            system,
            fold,
            str(epoch["number"]),
            number(epoch["train_loss"]),
            number(epoch["validation_loss"]),
            f"{perplexity(epoch['train_nll']):.2f}",
            f"{perplexity(epoch['validation_nll']):.2f}",
            number(epoch["validation_human"]),
        )
        for system, fold, epoch in _epochs(store)
    )
    return Table("Curves", columns, rows, ("Losses are in nats; epoch 0 is before training.",))


def _epochs(store: Store) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for system, facts in (store.meta(FINETUNING) or {}).items():
        for fold, epochs in facts.get("curves", {}).items():
            yield from ((system, str(fold), epoch) for epoch in epochs)


def curve_pictures(store: Store) -> dict[str, Picture]:
    """Losses and perplexities by epoch, a panel a system."""
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


def _mean_line(store: Store, system: str, name: str, column: str) -> Line:
    """The mean over folds by epoch."""
    found: dict[int, list[float]] = {}
    for own, _, epoch in _epochs(store):
        if own == system and epoch[column] is not None:
            value = epoch[column]
            shown = perplexity(value) if column.endswith("nll") else value
            found.setdefault(epoch["number"], []).append(shown)
    x = tuple(float(number) for number in sorted(found))
    return Line(name, x, tuple(sum(found[int(n)]) / len(found[int(n)]) for n in x))
