"""`aleatoric plan`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aleatoric.cli.options import FormatOption, JsonOption, SeedOption
from aleatoric.cli.printing import print_json, say, show_tables
from aleatoric.errors import UsageError

if TYPE_CHECKING:
    from aleatoric.planning.designs import Grid, Plan, Target


def plan(
    run: Annotated[Path | None, typer.Argument(help="A word-level run to learn from.")] = None,
    assume: Annotated[
        list[str] | None,
        typer.Option(help="Without a run: sd, icc, tvd, entropy, support, group, as sd=0.2."),
    ] = None,
    se: Annotated[float | None, typer.Option(help="Target: a standard error.")] = None,
    width: Annotated[float | None, typer.Option(help="Target: an interval's width.")] = None,
    power: Annotated[
        float | None, typer.Option(help="Target: the chance to see --difference.")
    ] = None,
    difference: Annotated[
        float | None, typer.Option(help="Between two systems' TVDs; plans for their difference.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="The run's system to plan for.")] = None,
    against: Annotated[
        str | None, typer.Option(help="Plan for its difference to this system.")
    ] = None,
    correlation: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Of two systems over contexts, where only one is known."),
    ] = None,
    people: Annotated[
        list[int] | None, typer.Option(min=2, max=10**6, help="People a context; repeatable.")
    ] = None,
    samples: Annotated[
        list[str] | None, typer.Option(help="Draws a context, or exact; repeatable.")
    ] = None,
    groups: Annotated[
        list[int] | None,
        typer.Option(min=2, max=10**9, help="Groups, else as many as are needed; repeatable."),
    ] = None,
    contexts_per_group: Annotated[
        float | None, typer.Option(min=1, help="Contexts a group, else as in the run.")
    ] = None,
    level: Annotated[float, typer.Option(help="Of intervals and tests.")] = 0.95,
    figure: Annotated[Path | None, typer.Option(help="Draw it to FILE.png, .pdf or .svg.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """How many people, samples and contexts a target needs.

    Example: `aleatoric plan runs/gpt2 --system gpt2 --se 0.01 --figure plan.png`
    """
    from aleatoric.planning.designs import Grid, Target, sizes
    from aleatoric.planning.shown import plan_table

    target = Target(se, width, power, difference, level)
    grid = Grid(tuple(people or ()), sizes(samples or ()), tuple(groups or ()), contexts_per_group)
    target.check()
    found = _plan(run, assume, target, grid, (system, against), correlation, seed)
    if as_json:
        print_json(found.as_dict())
    else:
        show_tables([plan_table(found)], False, layout)
    if figure is not None:
        _draw(found, figure)


def _plan(
    run: Path | None,
    assume: list[str] | None,
    target: Target,
    grid: Grid,
    systems: tuple[str | None, str | None],
    correlation: float | None,
    seed: int,
) -> Plan:
    from aleatoric.planning.assumed import AssumedSource, Assumptions
    from aleatoric.planning.designs import make_plan
    from aleatoric.planning.from_run import pilot_source
    from aleatoric.store import Store

    if (run is None) == (not assume):
        raise UsageError("give a run to learn from, or --assume sd=0.2,icc=0.05, and not both.")
    differs = target.difference is not None or systems[1] is not None
    if run is None:
        paired = (0.5 if correlation is None else correlation) if differs else None
        return make_plan(AssumedSource(Assumptions.parse(assume or ()), paired, seed), target, grid)
    with Store.open(run) as store:
        source = pilot_source(store, *systems, correlation, differs, seed)
        return make_plan(source, target, grid)


def _draw(found: Plan, figure: Path) -> None:
    from aleatoric.planning.shown import plan_picture
    from aleatoric.report.figures import draw_all

    form = figure.suffix.lstrip(".")
    (path,) = draw_all({figure.stem: plan_picture(found)}, figure.parent, (form,))
    say(f"wrote {path}")
