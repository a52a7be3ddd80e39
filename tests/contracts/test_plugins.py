"""Requirements that every registered plugin meets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aleatoric import registry
from aleatoric.calibration.statistics import PLAIN, Expected, TokenTable
from aleatoric.errors import AleatoricError, UsageError
from aleatoric.models.base import Forcing
from aleatoric.runs.engine import open_forced, open_text_model
from aleatoric.runs.job import Loading
from aleatoric.types import Categorical, Pair

EVERYTHING = [(kind, name) for kind in registry.PLUGINS for name in registry.names(kind)]
SAME = Categorical.from_counts({"a": 3, "b": 1})
OTHER = Categorical.from_counts({"b": 2, "c": 5})
EXACT = Categorical(("a", "z"), (0.5, 0.25), rest=0.25)


@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_every_name_resolves_to_a_documented_callable(kind: str, name: str) -> None:
    plugin = registry.find(kind, name)
    assert callable(plugin)
    assert plugin.__doc__


@pytest.mark.parametrize("name", registry.names("metrics"))
@pytest.mark.parametrize("model", [SAME, OTHER, EXACT])
def test_metrics_return_finite_number_or_none(name: str, model: Categorical) -> None:
    value = registry.find("metrics", name)(Pair("i", "g", SAME, model))
    assert value is None or math.isfinite(value)


@pytest.mark.parametrize("name", registry.names("token_analyses"))
def test_token_studies_return_tables_and_figures(name: str) -> None:
    rng = np.random.default_rng(0)
    confidence, correct = rng.random(120), rng.integers(0, 2, 120).astype(float)
    table = TokenTable(
        unit=np.arange(120) // 6,
        target=rng.integers(0, 9, 120),
        predicted=rng.integers(0, 9, 120),
        confidence=confidence,
        correct=correct,
        expected={PLAIN: Expected(confidence / 2, correct / 2)},
        uncertainty=rng.random(120),
        uncertainty_of="another model",
    )
    study = registry.find("token_analyses", name)(table, 0, 15)
    assert study.name == name
    assert all(len(row) == len(own.columns) for own in study.tables for row in own.rows)
    assert study.figures


@pytest.mark.parametrize("name", registry.names("forced_models"))
def test_invalid_forced_model_spec_is_rejected(name: str) -> None:
    spec = "smollm2:x" if name == "smollm2" else f"{name}:"
    with pytest.raises(UsageError, match="is no model"):
        open_forced(spec, Forcing())


@pytest.mark.parametrize("name", registry.names("text_models"))
def test_invalid_text_model_spec_is_rejected(name: str) -> None:
    spec = "smollm2:x" if name == "smollm2" else f"{name}:"
    with pytest.raises(UsageError, match="is no model"):
        open_text_model(spec, Loading())


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="provo"):
        registry.find("corpora", "prvo")


def test_errors_have_an_exit_status() -> None:
    assert AleatoricError.status == 1
    assert UsageError.status == 2
