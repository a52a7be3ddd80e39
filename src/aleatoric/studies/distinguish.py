"""On how many contexts do model and people differ? One test per context, FDR over contexts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from aleatoric.errors import UsageError
from aleatoric.inference.control import N_PERMUTATIONS, ItemTest, fits, one_population
from aleatoric.inference.noise import Side
from aleatoric.inference.two_samples import benjamini_hochberg
from aleatoric.metrics.distances import tvd
from aleatoric.result_types import Study, Table
from aleatoric.rng import stream
from aleatoric.studies import notes_on
from aleatoric.studies.figure_data import histograms
from aleatoric.studies.people import halves_of, interval_text, mean_interval
from aleatoric.types import Case, Categorical, Interval

ALPHA = 0.05
N_SHOWN = 10
N_WORDS = 3
_CONTEXT_END = 40
_EDGES = tuple(i / 20 for i in range(21))


@dataclass(frozen=True)
class Distinguished:
    """One p-value per case, before and after Benjamini-Hochberg; `None` if there is no test."""

    cases: tuple[Case, ...]
    tests: tuple[ItemTest | None, ...]

    @property
    def p_values(self) -> list[float | None]:
        """The p-values before adjustment."""
        return [test.p if test else None for test in self.tests]

    @property
    def adjusted(self) -> list[float | None]:
        """The p-values after adjustment."""
        return benjamini_hochberg(self.p_values)

    def share(self, p_values: Sequence[float | None], seed: int) -> tuple[float, Interval | None]:
        """The share of tested contexts with p ≤ `ALPHA`, and its interval unless all agree."""
        groups = [c.pair.group for c, p in zip(self.cases, p_values, strict=True) if p is not None]
        significant = np.array([p <= ALPHA for p in p_values if p is not None], dtype=np.float64)
        share = float(significant.mean())
        return share, mean_interval(significant, groups, seed) if 0 < share < 1 else None


def run(cases: Iterable[Case], seed: int) -> Study:
    """The study: the share of contexts where model and people differ, and people's halves."""
    all_cases = list(cases)
    model, people = distinguish(all_cases, seed), distinguish_people(all_cases, seed)
    if not any(model.tests):
        raise UsageError("distinguish needs a context with answers and draws; there is none.")
    results = {"model": model} | ({"people, half v half": people} if any(people.tests) else {})
    samples = {name: [p for p in r.p_values if p is not None] for name, r in results.items()}
    label, title = "p-value, by context", "Do model and people differ?"
    figures = {"distinguish_p_values": histograms(title, label, samples, _EDGES)}
    return Study("distinguish", (_table(results, seed), _farthest(model)), figures)


def distinguish(cases: Sequence[Case], seed: int) -> Distinguished:
    """Test every case: people against the model's draws, or against its exact probabilities."""
    return Distinguished(tuple(cases), tuple(_test(case, seed) for case in cases))


def distinguish_people(cases: Sequence[Case], seed: int) -> Distinguished:
    """The control: one random half of the people against the other, who are one population."""
    return Distinguished(tuple(cases), tuple(_test_people(case, seed) for case in cases))


def _test(case: Case, seed: int) -> ItemTest | None:
    human, model = case.pair.human, case.pair.model
    words = list(dict.fromkeys((*human.support, *model.support)))
    rng = stream(seed, "distinguish", case.item.id)
    people, other = (Side.of(side, words).mass for side in (human, model))
    if model.n is not None:
        return one_population(people.astype(np.int64), other.astype(np.int64), rng)
    return fits(people.astype(np.int64), other, model.rest, rng)


def _test_people(case: Case, seed: int) -> ItemTest | None:
    if len(case.item.responses) < 2:
        return None
    halves = halves_of(case, seed, n_splits=1)
    rng = stream(seed, "distinguish people", case.item.id)
    return one_population(halves.target.counts[0], halves.player.counts[0], rng)


def _table(results: dict[str, Distinguished], seed: int) -> Table:
    columns = ("against people", "contexts", "differ (FDR)", "p ≤ .05", "exact", "untested")
    rows = tuple(_row(name, result, seed) for name, result in results.items())
    notes = notes_on("distinguish", alpha=ALPHA, n_permutations=N_PERMUTATIONS)
    return Table("Contexts on which model and people differ", columns, rows, notes)


def _row(name: str, result: Distinguished, seed: int) -> tuple[str, ...]:
    tests = [test for test in result.tests if test]
    both = (result.share(result.adjusted, seed), result.share(result.p_values, seed))
    shares = (f"{share:.3f} {interval_text(ends) if ends else '[–]'}" for share, ends in both)
    exact, untested = sum(test.exact for test in tests), len(result.tests) - len(tests)
    return (name, str(len(tests)), *shares, str(exact), str(untested))


def _farthest(result: Distinguished) -> Table:
    """The contexts with the lowest p-values; ties are ordered by distance, largest first."""
    results = zip(result.cases, result.tests, result.adjusted, strict=True)
    tested = [(case, test.p, adjusted or 0.0) for case, test, adjusted in results if test]
    tested.sort(key=lambda row: (row[1], -tvd(row[0].pair)))
    rows = []
    for case, *p_values in tested[:N_SHOWN]:
        context = case.item.context
        end = context if len(context) <= _CONTEXT_END else f"…{context[-_CONTEXT_END:]}"
        tops = (_top(case.pair.human), _top(case.pair.model), f"{tvd(case.pair):.3f}")
        rows.append((case.item.id, end, *tops, *map(_p_text, p_values)))
    columns = ("item", "context", "people", "model", "TVD", "p", "p BH")
    return Table("Contexts with the lowest p-values", columns, tuple(rows))


def _p_text(p: float) -> str:
    return "<.0001" if p < 0.0001 else f"{p:.4f}".removeprefix("0")


def _top(side: Categorical) -> str:
    ranked = sorted(side.as_dict().items(), key=lambda pair: -pair[1])[:N_WORDS]
    return ", ".join(f"{word} {share:.2f}" for word, share in ranked)
