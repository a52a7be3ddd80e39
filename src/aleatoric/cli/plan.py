"""`aleatoric plan`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aleatoric.cli.options import DtypeOption, FormatOption, JsonOption, SeedOption
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
    cost: Annotated[
        bool, typer.Option("--cost", help="Time, memory and disk in place of precision.")
    ] = False,
    contexts: Annotated[
        int, typer.Option(min=1, max=10**12, help="Of --cost: contexts in all.")
    ] = 1000,
    parameters: Annotated[
        list[str] | None, typer.Option(help="Of --cost: a model's size, as 70B; repeatable.")
    ] = None,
    device: Annotated[str, typer.Option(help="Of --cost: cpu, h200, h100, a100 or l4.")] = "cpu",
    dtype: DtypeOption = "float32",
    workers: Annotated[
        list[int] | None, typer.Option(min=1, max=10**6, help="Of --cost: repeatable.")
    ] = None,
    context_tokens: Annotated[
        float, typer.Option(min=0, max=10**6, help="Of --cost: tokens that no context shares.")
    ] = 2.0,
    new_tokens: Annotated[
        int | None, typer.Option(min=1, max=10**6, help="Of --cost: samples are texts this long.")
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """How many people, samples and contexts a target needs, or what a run costs.

    Example: `aleatoric plan runs/gpt2 --system gpt2 --se 0.01 --figure plan.png`, or
    `aleatoric plan --cost --contexts 1000000 --parameters 70B --device h200 --dtype bfloat16`
    """
    if cost:
        work = (contexts, context_tokens, new_tokens)
        where = (device, dtype, tuple(workers or (1,)))
        _show_cost(work, sizes_of(samples), parameters or ["135M"], where, (as_json, layout))
        return
    from aleatoric.planning.designs import Grid, Target
    from aleatoric.planning.shown import plan_table

    target = Target(se, width, power, difference, level)
    grid = Grid(tuple(people or ()), sizes_of(samples, ()), tuple(groups or ()), contexts_per_group)
    target.check()
    found = _plan(run, assume, target, grid, (system, against), correlation, seed)
    if as_json:
        print_json(found.as_dict())
    else:
        show_tables([plan_table(found)], False, layout)
    if figure is not None:
        _draw(found, figure)


def sizes_of(
    samples: list[str] | None, otherwise: tuple[int | None, ...] = (None, 1000)
) -> tuple[int | None, ...]:
    """Numbers of samples as they were written, or the usual ones."""
    from aleatoric.planning.designs import sizes

    return sizes(samples) if samples else otherwise


def _show_cost(
    work: tuple[int, float, int | None],
    samples: tuple[int | None, ...],
    parameters: list[str],
    where: tuple[str, str, tuple[int, ...]],
    shown: tuple[bool, str],
) -> None:
    from aleatoric.planning.cost import Machine, Work, designs, device_named, parse_parameters
    from aleatoric.planning.cost_shown import cost_dicts, cost_table

    (contexts, context_tokens, new_tokens), (name, dtype, workers) = work, where
    device = device_named(name, dtype)
    asked = Work(contexts, None, context_tokens, new_tokens)
    machines = [Machine(device, number, dtype) for number in workers]
    rows = designs(asked, samples, [parse_parameters(own) for own in parameters], machines)
    if shown[0]:
        print_json({"costs": cost_dicts(rows)})
    else:
        show_tables([cost_table(rows)], False, shown[1])


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
