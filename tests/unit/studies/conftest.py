"""Fixtures: cases with a known truth, and hand-made cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from aleatoric.data.simulated import sample, truth
from aleatoric.nextword.answers import human_counts
from aleatoric.rng import stream
from aleatoric.types import Case, Categorical, Item, Pair


def case_of(
    item_id: str,
    answers: Mapping[str, int],
    model: Categorical,
    context: str = "They saw the",
    original: str | None = None,
) -> Case:
    """One case from human counts and a model distribution."""
    responses = tuple(word for word, count in answers.items() for _ in range(count))
    group = item_id.partition(":")[0]
    item = Item(item_id, group, context, responses, original)
    human = Categorical.from_counts(human_counts(responses))
    return Case(item, Pair(item_id, group, human, model))


def simulated(contexts: int, draws: int, temperature: float, people: int = 40) -> list[Case]:
    """Cases of the simulated language, ten contexts per passage; temperature 1 is perfect."""
    found = []
    for i in range(contexts):
        item_id, context = f"{i // 10}:{i}", f"passage{i // 10} the baba {i}"
        answers = sample(truth(context), people, stream(1, "people", item_id))
        model = sample(truth(context, temperature), draws, stream(1, "model", item_id))
        found.append(case_of(item_id, answers, Categorical.from_counts(model), context))
    return found


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    return case_of


@pytest.fixture(scope="session")
def flat_model() -> list[Case]:
    """A model that spreads its probability more than people do."""
    return simulated(200, draws=400, temperature=4.0)


@pytest.fixture(scope="session")
def perfect_model() -> list[Case]:
    """A model that draws from the human distribution, with half as many draws as answers."""
    return simulated(200, draws=20, temperature=1.0)
