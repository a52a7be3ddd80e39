"""Results, tables and studies: what is computed, and how it shows itself in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from aleatoric import registry
from aleatoric.types import Estimate, Perfect, Row, Signature


class Showable:
    """An object that a notebook shows as a table and that can be plotted."""

    __slots__ = ()

    def plot(self, *args: Any, **options: Any) -> Any:
        """Plot on matplotlib axes with `aleatoric.report.notebook`; pass `axes` to draw into.

        A result shows its items and interval; several results, one `metric` of every system; a
        study, one `figure` by its name.
        """
        return registry.find("notebook", "plot")(self, *args, **options)

    def _repr_html_(self) -> str:
        return str(registry.find("notebook", "to_html")(self))


@dataclass(frozen=True)
class Result(Showable):
    """One metric of one system, with its interval and signature."""

    system: str
    metric: str
    signature: Signature
    estimate: Estimate
    perfect: Perfect | None = None
    rows: Iterable[Row] = field(default=(), repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form printed by `--json`."""
        return {
            "system": self.system,
            "metric": self.metric,
            "estimate": asdict(self.estimate),
            "perfect": asdict(self.perfect) if self.perfect else None,
            "signature": str(self.signature),
        }


class Results(Showable, list[Result]):
    """A list of results that a notebook shows as a table."""


@dataclass(frozen=True)
class Table(Showable):
    """A study's numbers, ready to print, paste or draw."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study(Showable):
    """The result of an analysis: tables to print, and the data of its figures by figure name."""

    name: str
    tables: tuple[Table, ...]
    figures: Mapping[str, Any] = field(default_factory=dict)
