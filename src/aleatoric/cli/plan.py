"""`aleatoric plan`: how many people, samples and contexts a target needs, and what runs cost."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import aleatoric.cli.options as shared
from aleatoric.cli.options import Output, Signature, option
from aleatoric.cli.printing import say, show_tables
from aleatoric.errors import UsageError

if TYPE_CHECKING:
    from aleatoric.studies.plan import Grid, RunPlan, Target


_OF_PRECISION: Signature = {
    "run": (
        Annotated[Path | None, typer.Argument(help="A run of words or texts to learn from.")],
        None,
    ),
    "assume": option(list[str], "Without a run: sd, icc, tvd, entropy, support, group, as sd=0.2."),
    "se": option(float, "Target: a standard error."),
    "width": option(float, "Target: an interval's width."),
    "power": option(float, "Target: the power to detect --difference."),
    "difference": option(float, "Difference between two systems to plan for."),
    "metric": option(
        str, "Texts: energy/PROBE (default), dmu_M/PROBE, mean_M/PROBE, ...; words: tvd."
    ),
    "system": option(str, "The run's system to plan for."),
    "against": option(str, "Plan for its difference to this system."),
    "correlation": option(
        float, "Correlation of two systems over contexts if only one is known.", min=0, max=1
    ),
    "people": option(list[int], "People per context; repeatable.", min=2, max=10**6),
    "samples": option(list[str], "Draws per context, or exact; repeatable."),
    "groups": option(
        list[int], "Groups; by default as many as needed; repeatable.", min=2, max=10**9
    ),
    "contexts_per_group": option(float, "Contexts per group; by default as in the run."),
    "level": option(float, "Confidence level of intervals and tests.", 0.95),
    "figure": option(Path, "Draw it to FILE.png, .pdf or .svg."),
}
_OF_COST: Signature = {
    "contexts": option(int, "With --cost: contexts in all.", 1000, min=1, max=10**12),
    "parameters": option(list[str], "With --cost: size of the model, as 70B; repeatable."),
    "device": option(str, "With --cost: cpu, h200, h100, a100 or l4.", "cpu"),
    "dtype": option(str, "float32, bfloat16 or float16.", "float32"),
    "workers": option(list[int], "With --cost: number of workers; repeatable.", min=1, max=10**6),
    "context_tokens": option(
        float, "With --cost: tokens per context that no other shares.", 2.0, min=0, max=10**6
    ),
    "new_tokens": option(
        int, "With --cost: samples are texts of this many tokens.", min=1, max=10**6
    ),
}
_COST = typer.Option("--cost", help="Estimate time, memory and disk instead of precision.")
_HELP = """Plan how many people, samples and contexts a target needs, or what a run costs.

    Example: `aleatoric plan runs/gpt2 --system gpt2 --se 0.01 --figure plan.png`, or
    `aleatoric plan --cost --contexts 1000000 --parameters 70B --device h200 --dtype bfloat16`
    """


_OPTIONS: Signature = {
    "ctx": (typer.Context, inspect.Parameter.empty),
    **_OF_PRECISION,
    "cost": (Annotated[bool, _COST], False),
    **_OF_COST,
    "seed": (shared.SeedOption, 0),
    **shared.OUTPUT,
}


def _run(ctx: typer.Context, cost: bool, **options: Any) -> None:
    _check_form(ctx, cost)
    output = Output(*(options.pop(name) for name in shared.OUTPUT))
    (_show_cost if cost else _show_plan)(options, output)


plan = shared.with_options(_run, "plan", _HELP, _OPTIONS)


def _check_form(ctx: typer.Context, cost: bool) -> None:
    """Refuse options that only the other form of the command uses."""
    unused = {*_OF_PRECISION, "seed"} - {"samples"} if cost else {*_OF_COST}
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name not in unused or not shared.is_given(ctx, name):
            continue
        shown = parameter.opts[0] if parameter.param_type_name == "option" else name.upper()
        if cost:
            raise UsageError(f"--cost does not use {shown}; leave one of them out.")
        raise UsageError(f"{shown} is an option of --cost; add --cost, or leave it out.")


def _show_cost(options: dict[str, Any], output: Output) -> None:
    from aleatoric.reporting.plan import cost_dicts, cost_table
    from aleatoric.reporting.tables import table_of_records
    from aleatoric.studies import cost
    from aleatoric.studies.plan import sizes

    dtype, new_tokens = options["dtype"], options["new_tokens"]
    device = cost.device_named(options["device"], dtype)
    default = (None, 1000) if new_tokens is None else (1000,)
    samples = sizes(options["samples"]) if options["samples"] else default
    one_run = cost.Work(options["contexts"], None, options["context_tokens"], new_tokens)
    cost.check_samples(one_run, samples)
    machines = [cost.Machine(device, number, dtype) for number in options["workers"] or (1,)]
    parameters = [cost.parse_parameters(size) for size in options["parameters"] or ["135M"]]
    rows = cost.designs(one_run, samples, parameters, machines)
    costs = cost_dicts(rows)
    data = [table_of_records("Cost of a run", costs)]
    show_tables([cost_table(rows)], output, {"costs": costs}, data)


def _target_and_grid(options: dict[str, Any]) -> tuple[Target, Grid]:
    from aleatoric.studies.plan import Grid, Target, sizes

    names = ("se", "width", "power", "difference", "level")
    target = Target(*(options[name] for name in names))
    samples = sizes(options["samples"]) if options["samples"] else ()
    people, groups = (tuple(options[name] or ()) for name in ("people", "groups"))
    grid = Grid(people, samples, groups, options["contexts_per_group"])
    target.check()
    grid.check()
    return target, grid


def _show_plan(options: dict[str, Any], output: Output) -> None:
    from aleatoric.reporting.figures import check_formats, draw_all
    from aleatoric.reporting.plan import plan_data, plan_picture, plan_table

    target, grid = _target_and_grid(options)
    figure: Path | None = options["figure"]
    forms = (figure.suffix.lstrip("."),) if figure else ()
    check_formats(forms)
    plan = _plan(options, target, grid)
    show_tables([plan_table(plan)], output, plan.to_dict(), [plan_data(plan)])
    if figure:
        (path,) = draw_all({figure.stem: plan_picture(plan)}, figure.parent, forms)
        say(f"wrote {path}")


def _plan(options: dict[str, Any], target: Target, grid: Grid) -> RunPlan:
    from aleatoric.runs.run import Store
    from aleatoric.studies.plan import Assumptions, assumed_source, make_plan
    from aleatoric.studies.plan_from_run import pilot_source

    run, assume, correlation = options["run"], options["assume"], options["correlation"]
    if (run is None) == (not assume):
        raise UsageError("give a run to learn from, or --assume sd=0.2,icc=0.05, and not both.")
    differs = target.difference is not None or options["against"] is not None
    if correlation is not None and not differs:
        fix = "add --difference or --against, or leave it out"
        raise UsageError(f"--correlation is of two systems; {fix}.")
    if run is None:
        for name, what in (("system", "system"), ("against", "system"), ("metric", "metric")):
            if options[name] is not None:
                raise UsageError(f"--{name} names a {what} of a run; leave it out beside --assume.")
        paired = (0.5 if correlation is None else correlation) if differs else None
        source = assumed_source(Assumptions.parse(assume), paired, options["seed"])
        return make_plan(source, target, grid)
    with Store.open(run) as store:
        systems = (options["system"], options["against"])
        seed, metric = options["seed"], options["metric"]
        source = pilot_source(store, *systems, correlation, differs, seed, metric)
        return make_plan(source, target, grid)
