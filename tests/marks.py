"""Marks of parameters: a sample runs with `make test`, the others with `make test-all`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return all values as parameters; those that are not in `quick` carry the mark `long`."""
    listed = list(values)
    assert set(quick) <= set(listed), "a quick value is not a parameter"
    return [
        value if value in quick else pytest.param(value, marks=pytest.mark.long) for value in listed
    ]


def spread(values: Iterable[Any], step: int) -> list[Any]:
    """Return all values as parameters; all but every `step`-th carry the mark `long`."""
    listed = list(values)
    return sampled(listed, listed[::step])
