"""Results, tables and studies: what is computed, and how it shows itself in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

from aleatoric import registry
from aleatoric.errors import needs
from aleatoric.types import Estimate, Floats, Perfect, Row, Signature

if TYPE_CHECKING:
    import pandas


class Showable:
    """An object that a notebook shows as a table and that can be plotted."""

    __slots__ = ()

    def records(self) -> list[dict[str, Any]]:
        """Return one dict per row, one number per cell."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """Return the records as a DataFrame."""
        with needs("pandas", "pandas"):
            from pandas import DataFrame
        return DataFrame(self.records())

    def plot(self, *args: Any, **options: Any) -> Any:
        """Plot on matplotlib axes with `aleatoric.reporting.notebook`; pass `axes` to draw into.

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

    def to_dict(self) -> dict[str, Any]:
        """The JSON form printed by `--json`."""
        return {
            "system": self.system,
            "metric": self.metric,
            "estimate": asdict(self.estimate),
            "perfect": asdict(self.perfect) if self.perfect else None,
            "signature": str(self.signature),
        }

    def record(self) -> dict[str, Any]:
        """Return the main facts, one number per key."""
        return {
            "system": self.system,
            "metric": self.metric,
            **self.estimate.record(),
            "signature": str(self.signature),
        }


class Tabular(Showable):
    """An object that prints as tables."""

    __slots__ = ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that the command line prints."""
        return tuple(registry.find("notebook", "tables_of")(self))

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self.tables)) or f"{type(self).__name__}()"


class Results(Tabular, tuple[Result, ...]):
    """A sequence of results that prints as tables, one row per system."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form printed by `--json`."""
        return {"results": [result.to_dict() for result in self]}

    def table(self) -> Table:
        """Return one row per system (and probe), one number per cell, as `--format csv` prints."""
        return cast(Table, registry.find("notebook", "results_data")(self))

    def records(self) -> list[dict[str, Any]]:
        """Return one dict per system and metric."""
        return [result.record() for result in self]


@dataclass(frozen=True)
class Table(Showable):
    """A study's numbers, ready to print, paste or draw."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()
    wide: tuple[str, ...] = ()
    """Columns that a terminal shows only with `--wide`."""

    def __str__(self) -> str:
        return str(registry.find("notebook", "to_text")(self))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns by name."""
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        return dict(zip(self.columns, map(list, columns), strict=True))

    def records(self) -> list[dict[str, Any]]:
        """Return one dict per row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the records as a DataFrame; a column without any value is NaN."""
        frame = super().to_pandas()
        return frame.astype({name: float for name in frame if frame[name].isna().all()})


@dataclass(frozen=True)
class Labels:
    """A label per item: its code, NaN if undefined, and the names of the codes."""

    codes: Floats
    names: Mapping[int, str]

    def __iter__(self) -> Iterator[str | None]:
        return (None if code != code else self.names[int(code)] for code in self.codes.tolist())

    @property
    def n_undefined(self) -> int:
        """The number of items without a label."""
        return int((self.codes != self.codes).sum())

    def count(self, code: int) -> int:
        """Return the number of items with a code."""
        return int((self.codes == code).sum())


@dataclass(frozen=True)
class Study(Showable):
    """The result of an analysis: tables to print, and the data of its figures by figure name."""

    name: str
    tables: tuple[Table, ...]
    figures: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.tables))
