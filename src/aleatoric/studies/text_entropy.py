"""Entropy of a generator's distribution over whole texts, and its relation to variability.

The mean of −log p(y|x) over ancestral samples y of an input x is an unbiased Monte Carlo estimate
of the entropy of p(·|x) (App. A of "What Comes Next?"). Probes measure how far samples are from one
another; entropy says over how many token sequences the probability is spread.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from aleatoric.errors import UsageError
from aleatoric.inference.estimate import bounded, estimates
from aleatoric.levels.text_inputs import StudyOptions, TextCase
from aleatoric.metrics.reduction import Correlation, Mean
from aleatoric.result_types import Study, Table
from aleatoric.studies import notes_on
from aleatoric.studies.figure_data import Panels, scatter
from aleatoric.studies.people import with_interval
from aleatoric.types import Estimate, Floats

N_LISTED = 5
INPUT_CHARS = 80
_SIDES = {"mean_M": "mean M", "mean_H": "mean H"}
_NONE = "–"
_UNKNOWN = "–: fewer than three inputs have both values, or one of them is the same for all inputs."


@dataclass(frozen=True, slots=True)
class TextEntropy:
    """The entropy of one input in nats, and its standard error; `None` of a single text."""

    value: float
    error: float | None
    n_texts: int
    n_cut: int


def entropy_of(logprobs: Sequence[float], n_cut: int = 0) -> TextEntropy:
    """Estimate the entropy of a distribution from the log-probabilities of its samples.

    >>> entropy_of([-1.0, -2.0, -3.0]).value, entropy_of([-1.0]).error
    (2.0, None)
    """
    surprisals, n = -np.asarray(logprobs, dtype=np.float64), len(logprobs)
    error = float(surprisals.std(ddof=1)) / math.sqrt(n) if n > 1 else None
    return TextEntropy(float(surprisals.mean()), error, n, n_cut)


def run(cases: Sequence[TextCase], seed: int, options: StudyOptions | None = None) -> Study:
    """Estimate the entropy per input, and correlate it with the variability by each probe."""
    pairs = [
        (case, entropy_of(case.written.logprobs, case.written.n_cut))
        for case in cases
        if case.written.logprobs
    ]
    if not pairs:
        raise UsageError(
            "entropy needs log-probabilities of texts; run aleatoric text --entropy with smollm2, "
            "hf:NAME or gguf:FILE and --decoder ancestral or temperature=T."
        )
    kept, entropies = [case for case, _ in pairs], [entropy for _, entropy in pairs]
    values = np.array([entropy.value for entropy in entropies])
    columns = {name: _column(kept, name) for name in _metrics(kept)}
    tables = (
        _summary(kept, entropies, seed),
        _correlations(kept, values, columns, seed),
        _extremes(kept, entropies),
    )
    return Study("entropy", tables, _figures(values, columns))


def _metrics(cases: Sequence[TextCase]) -> list[str]:
    """Return the probes' means, by side and probe, in the order of the first input."""
    names = dict.fromkeys(name for case in cases for name in case.values)
    return [name for side in _SIDES for name in names if name.startswith(f"{side}/")]


def _column(cases: Sequence[TextCase], name: str) -> Floats:
    values = (case.values.get(name) for case in cases)
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def correlation(first: Floats, second: Floats, groups: Sequence[str], seed: int) -> Estimate:
    """Return Pearson's correlation over inputs that have both values, with groups resampled."""
    both = np.isfinite(first) & np.isfinite(second)
    chunk = {}
    for name, values in (("first", first), ("second", second)):
        own = values[both]
        # Sums of squares would lose digits if values were far from 0.
        chunk[name] = ((values - own.mean()) / (own.std() or 1.0) if len(own) else values)[:, None]
    reductions = {"correlation": Correlation("first", "second")}
    found = estimates([(list(groups), chunk)], reductions, seed)["correlation"]
    return bounded(found, "correlation")


def _ranks(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Return ranks among the inputs that have both values; NaN for the others."""
    both = np.isfinite(first) & np.isfinite(second)
    ranked = np.full((2, len(first)), np.nan)
    ranked[:, both] = rankdata(first[both]), rankdata(second[both])
    return ranked[0], ranked[1]


def _summary(cases: Sequence[TextCase], entropies: Sequence[TextEntropy], seed: int) -> Table:
    values = np.array([entropy.value for entropy in entropies])
    pages = [([case.item.group for case in cases], {"entropy": values[:, None]})]
    mean = bounded(estimates(pages, {"entropy": Mean("entropy")}, seed)["entropy"], "entropy")
    squares = [entropy.error**2 for entropy in entropies if entropy.error is not None]
    noise = float(np.mean(squares)) if squares else math.nan
    spread = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    n_texts, n_cut = (sum(getattr(e, name) for e in entropies) for name in ("n_texts", "n_cut"))
    reliability = max(1 - noise / spread, 0.0) if spread > 0 else math.nan
    cut = notes_on("entropy_cut", n_cut=n_cut, n_texts=n_texts) if n_cut else ()
    row = (with_interval(mean), _number(math.sqrt(noise)), _number(reliability))
    return Table(
        "Entropy of texts in nats",
        ("entropy", "standard error per input", "reliability", "inputs", "texts", "cut"),
        ((*row, str(len(cases)), str(n_texts), str(n_cut)),),
        (*notes_on("entropy"), *cut),
    )


def _correlations(
    cases: Sequence[TextCase], values: Floats, columns: Mapping[str, Floats], seed: int
) -> Table:
    groups, rows = [case.item.group for case in cases], []
    for name, other in columns.items():
        side, _, probe = name.partition("/")
        pearson = correlation(values, other, groups, seed)
        spearman = correlation(*_ranks(values, other), groups, seed)
        shown = (with_interval(pearson), with_interval(spearman))
        rows.append((probe, _SIDES[side], *shown, str(int(np.isfinite(other).sum()))))
    unknown = [_UNKNOWN] if any(_NONE in row for row in rows) else []
    notes = (*notes_on("entropy_correlations"), *unknown)
    columns_shown = ("probe", "entropy with", "Pearson", "Spearman", "inputs")
    return Table("Entropy and variability over inputs", columns_shown, tuple(rows), notes)


def _extremes(cases: Sequence[TextCase], entropies: Sequence[TextEntropy]) -> Table:
    pairs = zip(cases, entropies, strict=True)
    ordered = sorted(pairs, key=lambda pair: (-pair[1].value, pair[0].item.id))
    n = min(N_LISTED, (len(ordered) + 1) // 2)
    parts = {"highest": ordered[:n], "lowest": ordered[::-1][: min(n, len(ordered) - n)]}
    rows = [
        (end, case.item.id, _number(entropy.value), _number(entropy.error), *_counts(case, entropy))
        for end, part in parts.items()
        for case, entropy in part
    ]
    columns = ("entropy", "id", "nats", "standard error", "texts", "cut", "input")
    return Table("Inputs of highest and lowest entropy", columns, tuple(rows))


def _counts(case: TextCase, entropy: TextEntropy) -> tuple[str, str, str]:
    last = case.item.input[-1]
    shown = textwrap.shorten(last, INPUT_CHARS, placeholder="…") or "∅"
    return str(entropy.n_texts), str(entropy.n_cut), shown


def _figures(values: Floats, columns: Mapping[str, Floats]) -> Mapping[str, Panels]:
    pictures = []
    for name, other in columns.items():
        side, _, probe = name.partition("/")
        both = np.isfinite(other)
        if side == "mean_M" and both.any():
            labels = (probe, "entropy in nats", f"mean M, {probe}")
            pictures.append(scatter(*labels, values[both], other[both]))
    title = "Entropy and variability of a generator's texts"
    return {"entropy": Panels(title, tuple(pictures))} if pictures else {}


def _number(value: float | None) -> str:
    return _NONE if value is None or math.isnan(value) else f"{value:.3f}"
