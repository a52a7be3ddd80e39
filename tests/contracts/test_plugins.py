"""What every registered plugin must hold to."""

from __future__ import annotations

import math

import pytest

from aleatoric import registry
from aleatoric.errors import AleatoricError, UsageError
from aleatoric.types import Categorical, Pair

EVERYTHING = [(kind, name) for kind in registry.PLUGINS for name in registry.names(kind)]
SAME = Categorical.from_counts({"a": 3, "b": 1})
OTHER = Categorical.from_counts({"b": 2, "c": 5})
EXACT = Categorical(("a", "z"), (0.5, 0.25), rest=0.25)


@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_every_name_leads_to_a_documented_callable(kind: str, name: str) -> None:
    plugin = registry.find(kind, name)
    assert callable(plugin)
    assert plugin.__doc__


@pytest.mark.parametrize("name", registry.names("metrics"))
@pytest.mark.parametrize("model", [SAME, OTHER, EXACT])
def test_a_metric_gives_a_finite_number_or_none(name: str, model: Categorical) -> None:
    value = registry.find("metrics", name)(Pair("i", "g", SAME, model))
    assert value is None or math.isfinite(value)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="provo"):
        registry.find("corpora", "prvo")


def test_errors_carry_an_exit_status() -> None:
    assert AleatoricError.status == 1
    assert UsageError.status == 2
