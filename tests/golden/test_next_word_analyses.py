"""The studies of "Predict the Next Word" on its recorded data, compared with external numbers.

`METHOD` values were computed from the recordings before this code; where one of them is not
reproduced, the test says so and pins the value that the data give.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from aleatoric.levels import word
from aleatoric.probes.taggers import textblob
from aleatoric.runs.run import Store
from aleatoric.studies import ard, replacement, sample_size
from aleatoric.studies.people import SplitTVDs, split_tvds
from aleatoric.types import Case


@pytest.fixture(scope="module")
def gpt2(provo_run: Store) -> list[Case]:
    return list(word.cases(provo_run, "gpt2"))


@pytest.fixture(scope="module")
def tvds(gpt2: list[Case]) -> SplitTVDs:
    return split_tvds(gpt2, seed=0)


@pytest.fixture(scope="module")
def recorded(tvds: SplitTVDs) -> replacement.Replacement:
    return replacement.replace(tvds.model, tvds.oracle, tvds.groups, seed=0)


def test_tvd_to_half_of_the_answers(tvds: SplitTVDs, provo_expected: dict[str, dict]) -> None:
    recomputed = provo_expected["recomputed_without_the_defects"]["gpt2"]
    assert tvds.model.mean() == pytest.approx(recomputed["tvd_vs_half_oracle"], abs=0.0015)


def test_replacement_on_the_recorded_samples(recorded: replacement.Replacement) -> None:
    at = {round(point.k, 2): point for point in recorded.points}
    # METHOD: .053 at k = .9. Here .047, on the 797 recorded contexts of 2687.
    assert at[0.9].ks == pytest.approx(0.053, abs=0.008)
    # METHOD: .237 at k = .6, which neither these contexts (.187) nor the authors' own values
    # (.217, below) give; a mixture's distance is close to (1 - k) times that of k = 0.
    assert at[0.6].ks == pytest.approx(0.187, abs=0.01)
    assert at[0.6].p < 1e-6
    assert at[0.9].p > 0.05


def test_about_nine_tenths_must_be_replaced(recorded: replacement.Replacement) -> None:
    significant, like_people = recorded.criteria
    assert significant.interval is not None
    assert 0.80 <= significant.interval.low <= significant.k <= significant.interval.high <= 0.95
    # By eye the paper says 60%.
    assert significant.interval.low > 0.6
    assert like_people.k >= significant.k
    low, high = (round(100 * end) for end in (significant.interval.low, significant.interval.high))
    docs = Path(__file__).parents[2] / "docs"
    for name in ("word.md", "methods.md"):
        assert f"{significant.k:.0%} [{low}, {high}]" in (docs / name).read_text()


def test_replacement_on_the_authors_tvds(shared: Path) -> None:
    with gzip.open(shared / "golden" / "provo_authors_tvd.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    both = ("gpt2_vs_oracle1", "oracle2_oracle1")
    known = [row for row in rows if all(row.get(name) is not None for name in both)]
    # One split only: repeated, so that twenty random choices of contexts are averaged.
    model, oracle = (np.tile([[row[name]] for row in known], 20) for name in both)
    found = replacement.replace(model, oracle, [str(row["passage"]) for row in known], seed=0)
    at = {round(point.k, 2): point.ks for point in found.points}
    assert at[0.9] == pytest.approx(0.053, abs=0.002)
    assert at[0.6] == pytest.approx(0.217, abs=0.004)


def test_models_entropy_matters_most(tvds: SplitTVDs) -> None:
    fixed = ard.predictors(tvds.cases, textblob())
    fits, spreads = ard.fit_splits(tvds, fixed)
    names = [*ard.NUMBERS, "punctuation", *ard.POS]
    found = {one.name: one for one in ard.combine(fits, names, spreads)}
    # METHOD: .139 and .022 per standard deviation, of one split; splits differ by .002 and .012.
    assert found["model entropy"].value == pytest.approx(0.139, abs=0.006)
    assert found[ard.ORACLE].value == pytest.approx(0.022, abs=0.013)
    assert max(found.values(), key=lambda one: abs(one.value)).name == "model entropy"
    assert found["model entropy"].low > found[ard.ORACLE].high
    entropy, oracle = (
        f"{found[name].value:.3f}".removeprefix("0") for name in ("model entropy", ard.ORACLE)
    )
    docs = Path(__file__).parents[2] / "docs"
    words, methods = ((docs / name).read_text() for name in ("word.md", "methods.md"))
    assert f"the oracle's TVD little ({oracle})" in words
    assert f"entropy matters most ({entropy} per standard" in words
    assert f"entropy matters most ({entropy}), the oracle's TVD little ({oracle})" in methods


@pytest.mark.long
def test_sampling_error_with_forty_draws(gpt2: list[Case]) -> None:
    errors = {size: sample_size.errors_at(size, gpt2, seed=0) for size in (10, 40, 100)}
    # Sampling error falls as 1/n, and bias on top of it for the smallest.
    assert errors[10].mean / errors[40].mean == pytest.approx(4, rel=0.1)
    assert errors[40].mean == pytest.approx(0.0032, abs=0.0003)
