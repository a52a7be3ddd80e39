"""Which contexts have a high TVD? Bayesian regression with automatic relevance determination.

The target is TVD(model, half of the people); the predictors, standardized, describe how much a
context constrains its continuation (§5, App. B). The fits under each random split of the people are
combined as in multiple imputation (Rubin 1987).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aleatoric.errors import UsageError
from aleatoric.metrics.agreement import chao_shen
from aleatoric.probes.taggers import TAGS, Tagger, textblob
from aleatoric.result_types import Study, Table
from aleatoric.studies import notes_on
from aleatoric.studies.figure_data import Boxes, Coefficients, Picture, plain, scatter
from aleatoric.studies.people import SplitTVDs, split_tvds
from aleatoric.types import Case, Floats

POS = TAGS[:10]
Z = 1.959964
ORACLE = "TVD between oracles"
NUMBERS = ("human entropy", "model entropy", ORACLE, "context length")


class Coefficient(NamedTuple):
    """The change of TVD per standard deviation of a predictor, with a 95% posterior interval."""

    name: str
    value: float
    low: float
    high: float
    spread: float
    """The predictor's standard deviation; 0 if it is constant and so left out of every fit."""
    kept: int
    """The number of fits in which the predictor was not pruned."""


class ArdFit(NamedTuple):
    """One regression: coefficients, their posterior variances, which were kept, and R²."""

    values: Floats
    variances: Floats
    kept: NDArray[np.bool_]
    r_squared: float


def run(cases: Iterable[Case], seed: int, tagger: Tagger | None = None) -> Study:
    """The study: coefficients, and the data of Fig. 3 and 6-10."""
    tvds = split_tvds(cases, seed)
    if len(tvds.cases) <= len(NUMBERS) + 1 + len(POS):
        raise UsageError("the regression needs more contexts than it has predictors (15).")
    if any(case.pair.model.rest > 0 for case in tvds.cases):
        raise UsageError("the regression needs model entropies, which unassigned mass hides.")
    fixed = predictors(tvds.cases, tagger or textblob())
    fits, spreads = fit_splits(tvds, fixed)
    coefficients = combine(fits, list(_named(fixed, tvds.oracle[:, 0])), spreads)
    explained = float(np.mean([fit.r_squared for fit in fits]))
    table = _table(coefficients, len(fits), len(tvds.cases), explained)
    figures = {"fig3_coefficients": _figure(coefficients), **_scatters(tvds, fixed)}
    return Study("ard", (table,), figures)


def predictors(cases: Iterable[Case], tagger: Tagger) -> dict[str, Floats]:
    """Predictors that do not depend on the split, by name."""
    cases = list(cases)
    tags = [last_tag(case.item.context, tagger) for case in cases]
    features = {
        "human entropy": np.array([chao_shen(case.pair.human) for case in cases]),
        "model entropy": np.array([chao_shen(case.pair.model) for case in cases]),
        "context length": np.array([float(len(case.item.context.split())) for case in cases]),
        "punctuation": np.array([float(tag == ".") for tag in tags]),
    }
    return features | {name: np.array([float(tag == name) for tag in tags]) for name in POS}


@lru_cache(maxsize=4096)  # systems answer the same contexts
def last_tag(context: str, tagger: Tagger) -> str:
    """The universal tag of a context's last token, which may be a punctuation mark."""
    before, _, last = context.rstrip().rpartition(" ")
    if not last[-1:].isalnum():
        return "." if last else "X"
    return tagger(before, [last])[0]


def fit_splits(tvds: SplitTVDs, fixed: Mapping[str, Floats]) -> tuple[list[ArdFit], Floats]:
    """One fit per split, and the predictors' standard deviations."""
    fits, spreads = [], []
    for split in range(tvds.model.shape[1]):
        table = np.column_stack(list(_named(fixed, tvds.oracle[:, split]).values()))
        # np.ptp decides: the standard deviation of equal numbers may be 1e-17.
        spread = np.where(np.ptp(table, axis=0) > 0, table.std(axis=0), 0.0)
        fits.append(_fit_varying(table, spread, tvds.model[:, split]))
        spreads.append(spread)
    return fits, np.mean(spreads, axis=0)


def _fit_varying(table: Floats, spread: Floats, target: Floats) -> ArdFit:
    """Fit on the predictors that vary; the others have coefficient 0 and are not kept."""
    varies = spread > 0
    if not varies.any():
        raise UsageError("the regression needs a predictor that varies over contexts.")
    fitted = fit((table[:, varies] - table[:, varies].mean(axis=0)) / spread[varies], target)
    values, variances, kept = np.zeros(len(varies)), np.zeros(len(varies)), np.zeros_like(varies)
    values[varies], variances[varies], kept[varies] = fitted.values, fitted.variances, fitted.kept
    return ArdFit(values, variances, kept, fitted.r_squared)


def fit(features: Floats, target: Floats) -> ArdFit:
    """Fit one ARD regression on standardized features."""
    from sklearn.linear_model import ARDRegression

    model: Any = ARDRegression().fit(features, target)
    kept: NDArray[np.bool_] = model.lambda_ < model.threshold_lambda
    # A pruned coefficient has a posterior variance too.
    centred = features - features.mean(axis=0)
    variances = 1 / (model.lambda_ + model.alpha_ * (centred**2).sum(axis=0))
    variances[kept] = np.diag(model.sigma_)
    return ArdFit(model.coef_, variances, kept, float(model.score(features, target)))


def combine(fits: list[ArdFit], names: list[str], spreads: Floats) -> list[Coefficient]:
    """Rubin's rules: mean coefficient; mean variance plus (1 + 1/m) times that between fits."""
    values, m = np.array([fit.values for fit in fits]), len(fits)
    within = np.mean([fit.variances for fit in fits], axis=0)
    between = values.var(axis=0, ddof=1) if m > 1 else np.zeros(values.shape[1])
    error = Z * np.sqrt(within + (1 + 1 / m) * between)
    kept = np.sum([fit.kept for fit in fits], axis=0).tolist()
    center = values.mean(axis=0)
    columns = [plain(numbers) for numbers in (center, center - error, center + error, spreads)]
    return [Coefficient(*row) for row in zip(names, *columns, kept, strict=True)]


def _named(fixed: Mapping[str, Floats], oracle: Floats) -> dict[str, Floats]:
    """All predictors in the order of the paper's Fig. 3."""
    numbers = {name: oracle if name == ORACLE else fixed[name] for name in NUMBERS}
    return numbers | {name: fixed[name] for name in ("punctuation", *POS)}


def _table(coefficients: list[Coefficient], fits: int, n: int, explained: float) -> Table:
    notes = notes_on("ard", n=n, explained=explained, fits=fits)
    if constant := [c.name for c in coefficients if not c.spread]:
        notes += notes_on("ard_constant", names=", ".join(constant))
    columns = ("predictor", "per sd", "[low, high]", "per unit", "sd", "kept")
    rows = tuple(_row(c, fits) for c in coefficients)
    return Table("ARD regression of TVD", columns, rows, notes)


def _row(c: Coefficient, fits: int) -> tuple[str, ...]:
    if not c.spread:
        return (c.name, "–", "–", "–", "0.000", "constant")
    unit, interval = f"{c.value / c.spread:+.3f}", f"[{c.low:+.3f}, {c.high:+.3f}]"
    return (c.name, f"{c.value:+.3f}", interval, unit, f"{c.spread:.3f}", f"{c.kept}/{fits}")


def _figure(coefficients: list[Coefficient]) -> Coefficients:
    shown = [c for c in coefficients if c.spread]
    names, kept = tuple(c.name for c in shown), tuple(c.kept > 0 for c in shown)
    value, low, high = (plain([getattr(c, n) for c in shown]) for n in ("value", "low", "high"))
    label = "change of TVD per standard deviation"
    return Coefficients("Predictors of TVD", label, names, value, low, high, kept)


def _scatters(tvds: SplitTVDs, fixed: Mapping[str, Floats]) -> dict[str, Picture]:
    """TVD against each predictor under the first split: means over splits would hide the noise."""
    target, label = tvds.model[:, 0], "TVD(model, oracle 1)"
    named = {
        "fig6_oracle_tvd": ("TVD between oracles", tvds.oracle[:, 0]),
        "fig7_context_length": ("context length (words)", fixed["context length"]),
        "fig8_human_entropy": ("human entropy (nats)", fixed["human entropy"]),
        "fig9_model_entropy": ("model entropy (nats)", fixed["model entropy"]),
    }
    pictures: dict[str, Picture] = {
        key: scatter(f"TVD against {name.partition(' (')[0]}", name, label, values, target)
        for key, (name, values) in named.items()
    }
    groups = {"punct.": fixed["punctuation"], **{name: fixed[name] for name in POS}}
    boxes = {name: plain(target[member > 0]) for name, member in groups.items() if member.any()}
    tags = Boxes("TVD by tag of the last context word", "universal tag", label, boxes)
    return {**pictures, "fig10_tags": tags}
