"""How notebooks show results, tables and studies: escaped HTML, and plots on matplotlib axes."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from html import escape
from typing import Any

from aleatoric.errors import UsageError, needs
from aleatoric.reporting.comparisons import comparison_tables, task_tables
from aleatoric.reporting.figures import draw, safe
from aleatoric.reporting.plan import plan_table
from aleatoric.reporting.tables import MORE, UNDEFINED, between, interval_ends, printable
from aleatoric.reporting.tables import to_text as as_text
from aleatoric.reporting.views import view_of_results
from aleatoric.result_types import Result, Results, Study, Table, Tabular
from aleatoric.studies.compare import Compared
from aleatoric.studies.plan import RunPlan
from aleatoric.studies.tasks import ComparedTasks

MAIN = ("overlap", "ece", "energy")
"""The main metric of each level."""


@singledispatch
def to_html(what: Any) -> str:
    """The HTML that a notebook shows; preformatted text for unknown types."""
    return f"<pre>{_text(what)}</pre>"


@singledispatch
def plot(what: Any) -> Any:
    """Plot an object on matplotlib axes."""
    raise UsageError(f"a {type(what).__name__.lower()} has nothing to plot.")


def to_text(table: Table) -> str:
    """A table as plain text of 80 columns, numbers with four digits."""
    rows = tuple(
        tuple(f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row)
        for row in table.rows
    )
    text = as_text(replace(table, rows=rows))
    return text.replace(MORE, "More in to_pandas():")


@to_html.register
def table_html(table: Table) -> str:
    """A table as HTML, every cell escaped."""
    head = "".join(f"<th>{_text(column)}</th>" for column in table.columns)
    body = "\n".join(
        f'<tr><th scope="row">{_text(row[0])}</th>'
        + "".join(f"<td>{_text(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in table.rows
    )
    notes = "".join(f"<p><small>{_text(note)}</small></p>" for note in table.notes)
    return (
        f"<table><caption>{_text(table.title)}</caption><thead><tr>{head}</tr></thead>\n"
        f"<tbody>{body}</tbody></table>{notes}"
    )


@to_html.register
def result_html(result: Result) -> str:
    """One result with all its details."""
    estimate, ends = result.estimate, result.estimate.interval
    interval = f"[{ends.low:.4g}, {ends.high:.4g}]" if ends else UNDEFINED
    value = UNDEFINED if estimate.value is None else f"{estimate.value:.4g}"
    rows = [("value", value), ("interval", interval)]
    if result.perfect is not None:
        rows.append(("if perfect", between(result.perfect.low, result.perfect.high)))
    counts = (estimate.n_items, estimate.n_groups, estimate.n_undefined)
    rows += zip(("items", "groups", "undefined"), map(str, counts), strict=True)
    notes = (estimate.reason,) if estimate.reason else ()
    table = Table(f"{result.system}, {result.metric}", ("", ""), tuple(rows), notes)
    return table_html(table) + _signed(result)


@to_html.register
def results_html(results: Results) -> str:
    """Results as the tables of their level, with one signature below."""
    if not results:
        return "<p>no results</p>"
    return "".join(map(table_html, results.tables)) + _signed(results[0])


@to_html.register
def tabular_html(what: Tabular) -> str:
    """Everything else that prints as tables."""
    return "".join(map(table_html, what.tables))


def tables_of(what: Any) -> tuple[Table, ...]:
    """The tables that the command line prints of an object."""
    if isinstance(what, Results):
        return tuple(view_of_results(what).tables(what)) if what else ()
    if isinstance(what, ComparedTasks):
        return tuple(task_tables(what, whole=True, intervals=True))
    if isinstance(what, Compared):
        return tuple(comparison_tables(what))
    if isinstance(what, RunPlan):
        return (plan_table(what),)
    raise UsageError(f"a {type(what).__name__.lower()} has no tables.")


def _signed(result: Result) -> str:
    return f"<p><small><code>{_text(str(result.signature))}</code></small></p>"


@to_html.register
def study_html(study: Study) -> str:
    """A study's tables, and the names of its figures."""
    names = ", ".join(study.figures)
    figures = f"<p><small>figures: {_text(names)}; .plot(name) draws one</small></p>"
    return "".join(table_html(table) for table in study.tables) + (figures if names else "")


@plot.register
def plot_result(result: Result, axes: Any = None) -> Any:
    """Histogram of the item values, if there are any, with the result and its interval."""
    values = [row.value for row in result.rows if row.value is not None]
    if not values:
        return plot_results(Results([result]), axes)
    axes = _axes(3.0) if axes is None else axes
    axes.hist(values, 30, color="white", edgecolor="black", hatch="///", label="items")
    low, value, high = interval_ends(result.estimate)
    axes.axvspan(low, high, color="black", alpha=0.25, label="interval")
    axes.axvline(value, color="black", label=f"{value:.3f}")
    axes.set_xlabel(safe(f"{result.metric}, {result.system}"))
    axes.set_ylabel("items")
    axes.legend()
    return axes


def _results_of(results: Results, metric: str | None) -> list[Result]:
    defined = [result for result in results if result.estimate.value is not None]
    if not defined:
        raise UsageError("there is no result to plot.")
    names = dict.fromkeys(result.metric for result in defined)
    main = next((name for name in names if name.partition("/")[0] in MAIN), next(iter(names)))
    chosen = metric if metric is not None else main
    if chosen not in names:
        raise UsageError(f"there is no metric {chosen!r}; there are: {', '.join(names)}.")
    return [result for result in defined if result.metric == chosen]


@plot.register
def plot_results(results: Results, axes: Any = None, metric: str | None = None) -> Any:
    """One metric of every system, by default the level's main one, with intervals."""
    chosen = _results_of(results, metric)
    axes = _axes(1.0 + 0.35 * len(chosen)) if axes is None else axes
    for place, result in enumerate(chosen):
        low, value, high = interval_ends(result.estimate)
        axes.plot([low, high], [place, place], "-", color="black", linewidth=1.2)
        axes.plot([value], [place], "o", color="black", markersize=5)
    axes.set_yticks(range(len(chosen)), [safe(result.system) for result in chosen])
    axes.set_ylim(len(chosen) - 0.5, -0.5)
    axes.set_xlabel(safe(view_of_results(results).heading_of(chosen[0].metric)))
    return axes


@plot.register
def plot_study(study: Study, figure: str | None = None) -> Any:
    """A figure of a study by name, by default the first."""
    if not study.figures:
        raise UsageError(f"{study.name} has no figure.")
    name = figure if figure is not None else next(iter(study.figures))
    if name not in study.figures:
        names = ", ".join(study.figures)
        raise UsageError(f"{study.name} has no figure {name!r}; it has: {names}.")
    return draw(study.figures[name])[0]


def _axes(height: float) -> Any:
    """Axes of a new pyplot figure, which a notebook shows."""
    with needs("matplotlib", "report"):
        from matplotlib import pyplot
    return pyplot.subplots(figsize=(6, height), layout="constrained")[1]


def _text(value: object) -> str:
    return escape(printable(str(value)))
