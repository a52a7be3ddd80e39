"""Parameter marks: `make test` runs a sample, `make test-all` runs all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return all values as parameters; those that are not in `quick` carry the mark `long`."""
    listed = list(values)
    assert all(value in listed for value in quick), "a quick value is not a parameter"
    return [value if value in quick else _long(value) for value in listed]


def spread(values: Iterable[Any], step: int) -> list[Any]:
    """Return all values as parameters; all but every `step`-th carry the mark `long`."""
    return [_long(value) if place % step else value for place, value in enumerate(values)]


def _long(value: Any) -> Any:
    return pytest.param(value, marks=pytest.mark.long)
