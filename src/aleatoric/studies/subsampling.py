"""How many samples of a model are enough? Subsamples against the full sample (App. C.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.result_types import Study, Table
from aleatoric.rng import stream
from aleatoric.studies.figure_data import histograms
from aleatoric.studies.people import (
    N_SPLITS,
    interval_note,
    interval_text,
    mean_interval,
    model_tvd,
    words_and_halves,
)
from aleatoric.types import Case, Categorical, Floats, Interval

SIZES = (10, 20, 40, 100)


class SampleError(NamedTuple):
    """The error of TVD at one sample size; `by_case` is the mean square over subsamples."""

    size: int
    mean: float
    interval: Interval | None
    bias: float
    by_case: Floats


def run(cases: Iterable[Case], seed: int) -> Study:
    """The study: squared error of TVD by sample size, and the data of Fig. 11."""
    cases = list(cases)
    answered = [case for case in cases if len(case.item.responses) >= 2]
    usable = [case for case in answered if (case.pair.model.n or 0) > max(SIZES)]
    if not usable:
        raise UsageError(
            f"subsampling needs contexts with more than {max(SIZES)} draws of the model and at "
            "least two answers; there is none."
        )
    errors = [errors_at(size, usable, seed) for size in SIZES]
    table = _table(errors, usable, len(cases))
    top = max(float(np.quantile(error.by_case, 0.99)) for error in errors) or 1.0
    samples = {f"{error.size} draws": error.by_case for error in errors}
    label, edges = "squared error of TVD, by context", np.linspace(0, top, 31)
    picture = histograms(table.title, label, samples, edges)
    return Study("subsampling", (table,), {"fig11_subsampling": picture})


def errors_at(size: int, cases: list[Case], seed: int) -> SampleError:
    """The error of TVD with `size` draws, compared with all draws and the same people."""
    gaps = np.array([_gaps(case, size, seed) for case in cases])
    squared = (gaps**2).mean(axis=1)
    interval = mean_interval(squared, [case.pair.group for case in cases], seed)
    return SampleError(size, float(squared.mean()), interval, float(gaps.mean()), squared)


def _gaps(case: Case, size: int, seed: int) -> Floats:
    """TVD of a subsample minus TVD of the full sample, against the target half of each split."""
    words, halves = words_and_halves(case.item.id, case.item.responses, seed)
    targets = halves.target.counts / halves.target.n
    sampled = _subsamples(
        case.pair.model, words, size, stream(seed, "subsampling", size, case.item.id)
    )
    small = (np.abs(targets - sampled).sum(axis=1) + (1 - sampled.sum(axis=1))) / 2
    gaps: Floats = small - model_tvd(case.pair.model, words, targets)
    return gaps


def _subsamples(
    model: Categorical, words: Sequence[str], size: int, rng: np.random.Generator
) -> Floats:
    """Shares of `words` in `size` of the model's draws without replacement, one row per split."""
    n = model.n or 0
    counts = [round(model.as_dict().get(word, 0.0) * n) for word in words]
    # The model's other words are one outcome: TVD does not depend on which of them are drawn.
    counts.append(n - sum(counts))
    return rng.multivariate_hypergeometric(counts, size, size=N_SPLITS)[:, :-1] / size


def _table(errors: list[SampleError], usable: list[Case], n_contexts: int) -> Table:
    n = len(usable)
    over = f"all {n} contexts" if n == n_contexts > 1 else f"{n} of {n_contexts} contexts"
    sizes = sorted({case.pair.model.n or 0 for case in usable})
    draws = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    notes: tuple[str, ...] = (
        f"Over {over} with more than {max(SIZES)} draws and at least "
        "two answers: mean squared error (MSE) and its standard deviation over contexts (sd).",
        f"The error of a context is that of TVD against its full sample of {draws} draws, each "
        f"against a random half of the people, squared; mean over {N_SPLITS} subsamples.",
        "bias: mean of TVD minus TVD of the full sample: small samples look worse than they are.",
        interval_note(errors[0].interval),
    )
    if n == 1:
        notes += ("One context says nothing about the corpus.",)
    columns = ("draws", "MSE", "sd", "[low, high]", "RMSE", "median", "90%", "99%", "bias")
    return Table(f"Subsampling, {over}", columns, tuple(map(_row, errors)), notes)


def _row(error: SampleError) -> tuple[str, ...]:
    quantiles = (f"{q:.5f}" for q in np.quantile(error.by_case, [0.5, 0.9, 0.99]))
    mean, root = f"{error.mean:.5f}", f"{np.sqrt(error.mean):.3f}"
    spread = f"{error.by_case.std(ddof=1):.5f}" if len(error.by_case) > 1 else "–"
    ends = interval_text(error.interval, ".5f")
    return (str(error.size), mean, spread, ends, root, *quantiles, f"{error.bias:+.4f}")
