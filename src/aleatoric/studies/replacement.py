"""How large is a TVD difference? Replace k% of a model's distributions by people's (§5, App. E).

For a random k% of the contexts the model's TVD to one half of the people is replaced by the TVD of
the other half. Two criteria on the Kolmogorov-Smirnov distance to the TVDs between people:
`not significant`, the smallest k at which the two-sample test does not reject at 5%, depends on the
number of contexts; `like people`, the smallest k at which the distance is no larger than between
two random splits of the people, does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp, kstwobign

from aleatoric.result_types import Study, Table
from aleatoric.rng import stream
from aleatoric.studies import notes_on, people
from aleatoric.studies.figure_data import Guide, Lines, LineSeries, Panels, density, plain
from aleatoric.studies.people import SplitTVDs, interval_text, mean_interval, split_tvds
from aleatoric.types import Case, Floats, Interval

STEP = 0.05
ALPHA = 0.05
N_REPLICATES = 200
SHOWN = (0.0, 0.3, 0.6, 0.9, 1.0)


class ReplacementPoint(NamedTuple):
    """Results at one share k: mean TVD with its interval, KS distance to people and its p."""

    k: float
    tvd: float
    interval: Interval | None
    ks: float
    ks_spread: float
    """Standard deviation over splits."""
    p: float


class Criterion(NamedTuple):
    """The share k that a criterion requires: its mean over splits, and an interval over groups."""

    name: str
    limit: float
    """The largest KS distance that it allows."""
    k: float
    interval: Interval | None


class Replacement(NamedTuple):
    """The curve over k, and the shares that both criteria require."""

    points: tuple[ReplacementPoint, ...]
    criteria: tuple[Criterion, ...]


def run(cases: Iterable[Case], seed: int) -> Study:
    """The study: its curve, its criteria and the data of Fig. 14."""
    tvds = split_tvds(cases, seed)
    replacement = replace(tvds.model, tvds.oracle, tvds.groups, seed)
    figure = _picture(replacement, tvds, seed)
    return Study("replacement", (_curve_table(replacement), _criteria_table(replacement)), figure)


def _distance_of_splits(oracle: Floats) -> float:
    """The mean KS distance between the people's TVDs of one split and of the next."""
    pairs = zip(oracle.T, np.roll(oracle, 1, axis=1).T, strict=True)
    return float(np.mean([ks_2samp(*pair, method="asymp").statistic for pair in pairs]))


def replace(model: Floats, oracle: Floats, groups: Sequence[str], seed: int) -> Replacement:
    """The replacement experiment on (contexts, splits) TVDs of a model and of the other half."""
    ranks = _ranks(len(model), model.shape[1], seed)
    shares = np.round(np.arange(0, 1 + STEP / 2, STEP), 10)
    replaced, splits = np.round(shares * len(model)), (model.T, oracle.T, ranks.T)
    by_split = np.array([_distances(replaced, *split) for split in zip(*splits, strict=True)])
    points = tuple(
        _point(k, mixed(model, oracle, ranks, k), by_split[:, i], groups, seed)
        for i, k in enumerate(plain(shares))
    )
    # The smallest KS distance of two samples that the test rejects (Smirnov's limit).
    significant = float(kstwobign.isf(ALPHA) * np.sqrt(2 / len(model)))
    limits = {"not significant": significant, "like people": _distance_of_splits(oracle)}
    replicates = _replicates(splits, groups, replaced, seed)
    criteria = tuple(
        _criterion(name, by_split, replicates, shares, limit) for name, limit in limits.items()
    )
    return Replacement(points, criteria)


def mixed(model: Floats, oracle: Floats, ranks: NDArray[np.int64], share: float) -> Floats:
    """TVDs in which the contexts of the lowest ranks, a given share, have the oracle's values."""
    return np.where(ranks < round(share * len(model)), oracle, model)


def _ranks(n: int, n_splits: int, seed: int) -> NDArray[np.int64]:
    """A random order of the contexts per split, in which they are replaced as k grows."""
    orders = [stream(seed, "replacement", s).permutation(n) for s in range(n_splits)]
    return np.array(orders).T


def _distances(replaced: Floats, model: Floats, people: Floats, ranks: NDArray[np.int64]) -> Floats:
    """KS distances of one split, by the number of contexts whose ranks are replaced."""
    # Ranks among all values instead of the values: counting replaces sorting.
    values, places = np.unique(np.concatenate([model, people]), return_inverse=True)
    of_model, of_people = np.split(places, 2)

    def below(coded: NDArray[np.int64]) -> Floats:
        """The empirical distribution function at every value."""
        share: Floats = np.cumsum(np.bincount(coded, minlength=len(values))) / len(coded)
        return share

    mixed, target = (np.where(ranks < m, of_people, of_model) for m in replaced), below(of_people)
    return np.array([np.abs(below(tvds) - target).max() for tvds in mixed])


def _point(
    k: float, values: Floats, ks: Floats, groups: Sequence[str], seed: int
) -> ReplacementPoint:
    by_case = values.mean(axis=1)
    distance = float(ks.mean())
    p = float(kstwobign.sf(distance * np.sqrt(len(values) / 2)))
    spread = float(ks.std(ddof=1)) if len(ks) > 1 else 0.0
    interval = mean_interval(by_case, groups, seed)
    return ReplacementPoint(k, float(by_case.mean()), interval, distance, spread, p)


def _replicates(
    splits: tuple[Floats, Floats, NDArray[np.int64]],
    groups: Sequence[str],
    replaced: Floats,
    seed: int,
) -> Floats:
    """KS distances by share on resampled groups, each replicate under the next split."""
    names = list(dict.fromkeys(groups))
    if len(names) < 2:
        return np.zeros((0, len(replaced)))
    members = [np.flatnonzero(np.array(groups) == name) for name in names]
    rng = stream(seed, "replacement groups")
    rows = []
    for b in range(N_REPLICATES):
        drawn = rng.integers(len(names), size=len(names))
        chosen = np.concatenate([members[g] for g in drawn])
        rows.append(_distances(replaced, *(part[b % len(part), chosen] for part in splits)))
    return np.array(rows)


def _criterion(
    name: str, by_split: Floats, replicates: Floats, shares: Floats, limit: float
) -> Criterion:
    value, interval = float(_smallest(by_split, shares, limit).mean()), None
    if len(replicates):
        low, high = np.quantile(_smallest(replicates, shares, limit), [0.025, 0.975])
        interval = Interval(float(low), float(high), 0.95, "group bootstrap, percentile")
    return Criterion(name, limit, value, interval)


def _smallest(distances: Floats, shares: Floats, limit: float) -> Floats:
    """Per row, the smallest share from which on the distance stays within the limit."""
    beyond = distances > limit
    first = beyond.shape[1] - np.argmax(beyond[:, ::-1], axis=1)
    # k = 100% is never beyond: its distance is 0.
    return shares[np.where(beyond.any(axis=1), first, 0)]


def _curve_table(replacement: Replacement) -> Table:
    rows = tuple(
        (f"{p.k:.0%}", f"{p.tvd:.3f}", interval_text(p.interval), f"{p.ks:.3f}", f"{p.p:.2g}")
        for p in replacement.points
    )
    notes = (
        *notes_on("replacement_curve"),
        people.interval_note(replacement.points[0].interval),
    )
    columns = ("replaced", "TVD", "[low, high]", "KS", "p")
    return Table("k% replacement", columns, rows, notes)


def _criteria_table(replacement: Replacement) -> Table:
    rows = tuple(
        (c.name, f"{c.limit:.3f}", f"{c.k:.1%}", interval_text(c.interval, ".0%"))
        for c in replacement.criteria
    )
    notes = notes_on("replacement_criteria")
    columns = ("criterion", "KS at most", "smallest k", "[low, high]")
    return Table("Share to replace until TVDs are distributed like people's", columns, rows, notes)


def _picture(replacement: Replacement, tvds: SplitTVDs, seed: int) -> dict[str, Panels]:
    ranks = _ranks(len(tvds.cases), tvds.model.shape[1], seed)
    densities = tuple(
        density(f"k = {k:.0%}", mixed(tvds.model, tvds.oracle, ranks, k).ravel()) for k in SHOWN
    )
    k = plain([100 * point.k for point in replacement.points])
    ks, spread = np.array([(point.ks, point.ks_spread) for point in replacement.points]).T
    labels = ("significant at 5%", "people against people")
    limits = zip(labels, replacement.criteria, strict=True)
    marks = tuple(Guide(label, y=criterion.limit) for label, criterion in limits)
    left = Lines("TVD after replacing k%", "TVD to the disjoint half", "density", densities)
    ends = (plain(ks - spread), plain(ks + spread))
    curve = LineSeries("KS distance ± sd over splits", k, plain(ks), *ends)
    right = Lines("Distance to people's TVDs", "replaced k (%)", "KS distance", (curve,), marks)
    return {"fig14_replacement": Panels("k% replacement", (left, right))}
