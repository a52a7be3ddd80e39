"""Adaptive sampling: the same draws, stopped when the target precision is reached."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aleatoric.errors import UsageError
from aleatoric.nextword.adaptive import parse_until, rounds, sample_until, sampling_error
from aleatoric.nextword.answers import pool
from aleatoric.types import Categorical, Draws


def tvd(people: np.ndarray, model: np.ndarray) -> np.ndarray:
    distance: np.ndarray = 1 - np.minimum(people, model).sum(axis=-1)
    return distance


@settings(max_examples=25, deadline=None)
@example(362879, 2, 1000)
@given(st.integers(0, 10**6), st.integers(2, 30), st.sampled_from([200, 1000]))
def test_sampling_error_matches_repeated_sampling(seed: int, k: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    people, model = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k))
    again = tvd(people, rng.multinomial(n, model, size=4000) / n).std()
    names = tuple(map(str, range(k)))
    found = sampling_error(Categorical(names, tuple(people)), Categorical(names, tuple(model), n=n))
    # Words on which both nearly agree change sides from sample to sample: that lowers the spread.
    nearly = np.abs(people - model) < 2 * np.sqrt(model * (1 - model) / n)
    most = 1.35 * again if model[nearly].sum() < 0.1 else 0.5 / np.sqrt(n)
    assert 0.85 * again - 1 / n < found < most + 2 / n


@pytest.mark.parametrize("probs", [(0.5, 0.5), (0.2, 0.3, 0.5), (0.25, 0.25, 0.25, 0.25)])
def test_sampling_error_of_equal_distributions_is_not_too_small(probs: tuple[float, ...]) -> None:
    names, n = tuple("abcd"[: len(probs)]), 200
    draws = np.random.default_rng(0).multinomial(n, probs, size=20_000) / n
    people = Categorical(names, probs)
    found = sampling_error(people, Categorical(names, probs, n=n))
    assert tvd(np.array(probs), draws).std() < found <= 0.5 / np.sqrt(n)


def test_few_identical_draws_do_not_meet_target() -> None:
    people = Categorical(("a",), (1.0,))
    assert sampling_error(people, Categorical(("z",), (1.0,), n=50)) > 0.01
    assert sampling_error(people, Categorical(("z",), (1.0,), n=200)) < 0.01
    assert sampling_error(people, Categorical(("z",), (1.0,))) == 0.0


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(1, 300))
def test_rounds_are_contiguous_and_end_at_maximum(most: int, first: int) -> None:
    found = list(rounds(most, first))
    assert found[0][0] == 0
    assert all(a[0] + a[1] == b[0] for a, b in pairwise(found))
    assert sum(found[-1]) == most


def drawer(probs: dict[str, np.ndarray]) -> Callable[..., list[Draws]]:
    """Draws by index: sample i of an item is always the same."""
    fixed = {
        item: np.random.default_rng(no).choice(len(p), size=5000, p=p)
        for no, (item, p) in enumerate(probs.items())
    }

    def draw(items: list[str], first: int, n: int) -> list[Draws]:
        chosen = {item: fixed[item][first : first + n].tolist() for item in items}
        return [
            Draws(item, {str(w): found.count(w) for w in sorted(set(found))})
            for item, found in chosen.items()
        ]

    return draw


def test_items_stop_at_target_with_prefix_of_full_draws() -> None:
    probs = {"flat": np.full(10, 0.1), "certain": np.array([1.0]), "wide": np.full(40, 0.025)}
    names = {item: tuple(map(str, range(len(p)))) for item, p in probs.items()}
    people = {item: Categorical(names[item], tuple(p)) for item, p in probs.items()}
    draw = drawer(probs)
    found = sample_until(people, draw, 0.02, 2000, False)
    taken = {item: sum(d.counts.values()) for item, d in found.items()}
    assert taken["certain"] < taken["flat"] <= 2000
    for item, own in found.items():
        (whole,) = draw([item], 0, taken[item])
        assert own.counts == whole.counts
        model = Categorical.from_counts(own.counts)
        assert sampling_error(people[item], model) <= 0.02


def test_maximum_number_of_draws_is_respected() -> None:
    people = {"a": Categorical(("0", "1"), (0.7, 0.3))}
    found = sample_until(people, drawer({"a": np.array([0.4, 0.6])}), 0.0001, 300, False)
    assert sum(found["a"].counts.values()) == 300


def test_early_stopping_bias_is_negligible() -> None:
    rng = np.random.default_rng(0)
    people, model = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(8))
    names = tuple(map(str, range(8)))
    values, errors = [], []
    for no in range(300):
        fixed = np.random.default_rng(no).choice(8, size=1600, p=model)
        own = {"a": Categorical(names, tuple(people))}
        done = sample_until(
            own,
            lambda _, first, n, fixed=fixed: [
                Draws("a", {str(w): int((fixed[first : first + n] == w).sum()) for w in range(8)})
            ],
            0.03,
            1600,
            False,
        )
        shares = Categorical.from_counts(done["a"].counts)
        values.append(tvd(people, np.array(shares.probs)))
        errors.append(sampling_error(own["a"], shares))
    assert abs(np.mean(values) - tvd(people, model)) < 0.01
    assert np.std(values) == pytest.approx(np.mean(errors), rel=0.2)
    assert max(errors) <= 0.03


@pytest.mark.parametrize("text", ["0.01", "se=0", "se=x", "width=0.1", "se=nan", "se="])
def test_invalid_target_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match=r"se=0\.01"):
        parse_until(text)


def test_samples_continue_from_first_index() -> None:
    pytest.importorskip("torch")
    from lms import tiny
    from prompts import prompt

    from aleatoric.nextword.sampled import mc

    lm, prompts = tiny("gpt2"), [prompt("1", "There are"), prompt("2", "The cat said")]
    whole = mc(lm, prompts, samples=60)
    parts = [mc(lm, prompts, samples=n, first=first) for first, n in ((0, 20), (20, 40))]
    for one, *own in zip(whole, *parts, strict=True):
        joined = pool(own)
        assert dict(sorted(joined.counts.items())) == one.counts
        assert joined.failed == one.failed


def test_until_requires_live_sampling_model(cli: Callable, tmp_path: Path) -> None:
    asked = ("word", "--corpus", "simulated:contexts=4", "--until", "se=0.01")
    ran = cli(*asked, "--model", "toy", "--estimator", "mc", "--out", tmp_path / "a")
    assert ran.status == 2
    assert "live model" in ran.err
    ran = cli(*asked, "--model", "smollm2", "--out", tmp_path / "b")
    assert ran.status == 2
    assert "use mc" in ran.err
