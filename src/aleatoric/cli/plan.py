"""`aleatoric plan`: how many people, samples and contexts a target needs, and what runs cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aleatoric.cli.options import DtypeOption, FormatOption, JsonOption, SeedOption, is_given
from aleatoric.cli.printing import print_json, say, show_tables
from aleatoric.errors import UsageError

if TYPE_CHECKING:
    from aleatoric.studies.plan import Grid, RunPlan, Target

_OF_PRECISION = (
    *("run", "assume", "se", "width", "power", "difference", "system", "against", "correlation"),
    *("people", "groups", "contexts_per_group", "level", "figure", "seed"),
)
_OF_COST = (
    *("contexts", "parameters", "device", "dtype", "workers", "context_tokens", "new_tokens"),
)


def plan(
    ctx: typer.Context,
    run: Annotated[Path | None, typer.Argument(help="A word-level run to learn from.")] = None,
    assume: Annotated[
        list[str] | None,
        typer.Option(help="Without a run: sd, icc, tvd, entropy, support, group, as sd=0.2."),
    ] = None,
    se: Annotated[float | None, typer.Option(help="Target: a standard error.")] = None,
    width: Annotated[float | None, typer.Option(help="Target: an interval's width.")] = None,
    power: Annotated[
        float | None, typer.Option(help="Target: the power to detect --difference.")
    ] = None,
    difference: Annotated[
        float | None, typer.Option(help="Difference between two systems' TVDs to plan for.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="The run's system to plan for.")] = None,
    against: Annotated[
        str | None, typer.Option(help="Plan for its difference to this system.")
    ] = None,
    correlation: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Correlation of two systems over contexts if only one is known."
        ),
    ] = None,
    people: Annotated[
        list[int] | None, typer.Option(min=2, max=10**6, help="People per context; repeatable.")
    ] = None,
    samples: Annotated[
        list[str] | None, typer.Option(help="Draws per context, or exact; repeatable.")
    ] = None,
    groups: Annotated[
        list[int] | None,
        typer.Option(min=2, max=10**9, help="Groups; by default as many as needed; repeatable."),
    ] = None,
    contexts_per_group: Annotated[
        float | None, typer.Option(help="Contexts per group; by default as in the run.")
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of intervals and tests.")] = 0.95,
    figure: Annotated[Path | None, typer.Option(help="Draw it to FILE.png, .pdf or .svg.")] = None,
    cost: Annotated[
        bool, typer.Option("--cost", help="Estimate time, memory and disk instead of precision.")
    ] = False,
    contexts: Annotated[
        int, typer.Option(min=1, max=10**12, help="With --cost: contexts in all.")
    ] = 1000,
    parameters: Annotated[
        list[str] | None, typer.Option(help="With --cost: size of the model, as 70B; repeatable.")
    ] = None,
    device: Annotated[str, typer.Option(help="With --cost: cpu, h200, h100, a100 or l4.")] = "cpu",
    dtype: DtypeOption = "float32",
    workers: Annotated[
        list[int] | None,
        typer.Option(min=1, max=10**6, help="With --cost: number of workers; repeatable."),
    ] = None,
    context_tokens: Annotated[
        float,
        typer.Option(
            min=0, max=10**6, help="With --cost: tokens per context that no other shares."
        ),
    ] = 2.0,
    new_tokens: Annotated[
        int | None,
        typer.Option(min=1, max=10**6, help="With --cost: samples are texts of this many tokens."),
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Plan how many people, samples and contexts a target needs, or what a run costs.

    Example: `aleatoric plan runs/gpt2 --system gpt2 --se 0.01 --figure plan.png`, or
    `aleatoric plan --cost --contexts 1000000 --parameters 70B --device h200 --dtype bfloat16`
    """
    _check_form(ctx, cost)
    if cost:
        work = (contexts, context_tokens, new_tokens)
        where = (device, dtype, tuple(workers or (1,)))
        _show_cost(work, samples, parameters or ["135M"], where, (as_json, layout))
        return
    from aleatoric.report.plan import plan_picture, plan_table
    from aleatoric.studies.plan import Grid, Target, sizes

    target = Target(se, width, power, difference, level)
    n_samples = sizes(samples) if samples else ()
    grid = Grid(tuple(people or ()), n_samples, tuple(groups or ()), contexts_per_group)
    target.check()
    grid.check()
    if figure is not None:
        from aleatoric.report.figures import check_formats, draw_all

        forms = (figure.suffix.lstrip("."),)
        check_formats(forms)
    found = _plan(run, assume, target, grid, (system, against), correlation, seed)
    if as_json:
        print_json(found.as_dict())
    else:
        show_tables([plan_table(found)], False, layout)
    if figure is not None:
        (path,) = draw_all({figure.stem: plan_picture(found)}, figure.parent, forms)
        say(f"wrote {path}")


def _check_form(ctx: typer.Context, cost: bool) -> None:
    """Refuse options that only the other form of the command uses."""
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name not in (_OF_PRECISION if cost else _OF_COST) or not is_given(ctx, name):
            continue
        shown = parameter.opts[0] if parameter.param_type_name == "option" else name.upper()
        if cost:
            raise UsageError(f"--cost does not use {shown}; leave one of them out.")
        raise UsageError(f"{shown} is an option of --cost; add --cost, or leave it out.")


def _show_cost(
    work: tuple[int, float, int | None],
    samples: list[str] | None,
    parameters: list[str],
    where: tuple[str, str, tuple[int, ...]],
    shown: tuple[bool, str],
) -> None:
    from aleatoric.report.plan import cost_dicts, cost_table
    from aleatoric.studies.cost import (
        Machine,
        Work,
        check_samples,
        designs,
        device_named,
        parse_parameters,
    )
    from aleatoric.studies.plan import sizes

    (contexts, context_tokens, new_tokens), (name, dtype, workers) = work, where
    device = device_named(name, dtype)
    default = (None, 1000) if new_tokens is None else (1000,)
    n_samples = sizes(samples) if samples else default
    one_run = Work(contexts, None, context_tokens, new_tokens)
    check_samples(one_run, n_samples)
    machines = [Machine(device, number, dtype) for number in workers]
    rows = designs(one_run, n_samples, [parse_parameters(size) for size in parameters], machines)
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
) -> RunPlan:
    from aleatoric.runs.run import Store
    from aleatoric.studies.plan import Assumptions, assumed_source, make_plan
    from aleatoric.studies.plan_from_run import pilot_source

    if (run is None) == (not assume):
        raise UsageError("give a run to learn from, or --assume sd=0.2,icc=0.05, and not both.")
    differs = target.difference is not None or systems[1] is not None
    if correlation is not None and not differs:
        raise UsageError(
            "--correlation is of two systems; add --difference or --against, or leave it out."
        )
    if run is None:
        _check_no_system(systems)
        paired = (0.5 if correlation is None else correlation) if differs else None
        return make_plan(
            assumed_source(Assumptions.parse(assume or ()), paired, seed), target, grid
        )
    with Store.open(run) as store:
        source = pilot_source(store, *systems, correlation, differs, seed)
        return make_plan(source, target, grid)


def _check_no_system(systems: tuple[str | None, str | None]) -> None:
    for option, name in zip(("--system", "--against"), systems, strict=True):
        if name is not None:
            raise UsageError(f"{option} names a system of a run; leave it out beside --assume.")
