"""Commands that ask models, one per level, with the fields of its job as options; resume; plan."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer

import aleatoric.cli.options as shared
from aleatoric import registry
from aleatoric.cli.options import Output, Signature, option, with_options
from aleatoric.cli.printing import monitored, say, show_run, show_tables
from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.levels.base import Level, find_level, level_of, resume_run, run_job
from aleatoric.runs.disk import command
from aleatoric.runs.job import about, flag, shown_fields
from aleatoric.runs.run import Store
from aleatoric.runs.tables import TRAINED_MODEL

if TYPE_CHECKING:
    from aleatoric.studies.plan import Grid, RunPlan, Target


SHOWN: shared.Signature = {"interval": (shared.IntervalOption, DEFAULT_METHOD), **shared.OUTPUT}
"""How results are shown, for all of these commands."""
_EXPORT = "Write the weights of each fold here for transformers (lora: for peft)."
RESUMED = (
    *("device", "batch_tokens", "trust_remote_code", "engine", "address"),
    *("actors", "actor_cpus", "actor_gpus"),
)
"""Fields of jobs that may be given again when a run is resumed."""


def level_command(level: Level) -> Callable[..., None]:
    """Return the command of a level, with one option per field of its job."""

    def run(**options: Any) -> None:
        out, export = options["out"], options.get("export")
        # Bad options are refused before the job is created.
        if level.needs_out and out is None:
            raise UsageError("give a directory for the run, as --out runs/first.")
        check_method(options["interval"])
        values = {f.name: _value(f, options[f.name]) for f in shown_fields(level.job_type)}
        job: Any = level.job_type(**values)
        beside = options.get("beside")
        if beside:
            from aleatoric.studies.production_rows import check_corpus

            check_corpus(level.open(job).name, f"{job.corpus}: ")
        if export:
            from aleatoric.tuning.exporting import check_export, export_weights

            check_export(job, export)
        with monitored(out) as (folder, monitor), run_job(job, folder, monitor) as store:
            _show(store, *(options[name] for name in SHOWN), beside=beside)
        if export:
            for path in export_weights(out, export, job.device, job.trust_remote_code):
                say(f"wrote {path}")
        if out is not None:
            say(f"saved in {out}; see it again with: {command(out, 'score')}")

    job_type = level.job_type
    kinds = get_type_hints(job_type)
    options = {f.name: _annotated(f, kinds[f.name]) for f in shown_fields(job_type)}
    out = option(Path, "Keep the run in this directory.")
    options |= {"interval": SHOWN["interval"], "out": out, **SHOWN}
    options |= {"export": option(Path, _EXPORT)} if job_type.command == "finetune" else {}
    options |= {"beside": (shared.BesideOption, None)} if job_type.command == "text" else {}
    return with_options(run, job_type.command, level.help, options)


def _show(store: Store, interval: str, *output: Any, beside: str | None = None) -> None:
    """Print a run's results; write the curves of fine-tuning as a table and, if possible, drawn."""
    show_run(store, interval, Output(*output), beside)
    if (folder := store.path / TRAINED_MODEL).is_dir():
        say(f"the trained model is here: --model hf:{folder}")
    if not level_of(store).needs_out:
        return
    from aleatoric.reporting.figures import draw_all
    from aleatoric.reporting.finetune import curve_pictures, curve_table
    from aleatoric.reporting.tables import to_csv

    paths = [store.path / "curves.csv"]
    paths[0].write_text(to_csv(curve_table(store)), encoding="utf-8")
    try:
        paths += draw_all(curve_pictures(store), store.path / "figures")
    except MissingExtraError as missing:
        say(f"note: no figure of the curves; {missing}")
    for path in paths:
        say(f"wrote {path}")


def resume_command() -> Callable[..., None]:
    """Return the command that resumes a run of any level."""

    def run(run: Path, salvage: Path | None, **options: Any) -> None:
        shown = {name: options.pop(name) for name in SHOWN}
        check_method(shown["interval"])
        probes, key_for = tuple(options.pop("probe") or ()), tuple(options.pop("key_for") or ())
        word_rule = options.pop("word_rule")
        # An option that is not given is None, or False for a flag.
        overrides = {key: v for key, v in options.items() if v is not None and v is not False}
        changes: Any = {"overrides": overrides, "key_for": key_for, "word_rule": word_rule}
        if salvage is not None:
            defaults = {name: default for name, (_, default) in SHOWN.items()}
            if any(changes.values()) or probes or shown != defaults:
                raise UsageError("--salvage only copies what is intact; give it no other option.")
            _salvage(run, salvage)
            return
        watched = monitored(run, probes)
        with watched as (folder, monitor), resume_run(folder, monitor, **changes) as store:
            _show(store, *shown.values())

    help_text = """Resume an interrupted run; finished work is not repeated.

    Example: `aleatoric resume runs/gpt2`
    """
    options = {
        "run": (shared.RunArgument, inspect.Parameter.empty),
        "salvage": option(Path, "For a damaged run: save what is intact as a new run here."),
        **_resumed_fields(),
        "probe": (shared.AllowedProbeOption, None),
        "word_rule": option(str, "Word level: allow the run's own rule, module:function."),
        "key_for": option(list[str], "Host of a server that may be sent your key; repeatable."),
        **SHOWN,
    }
    return with_options(run, "resume", help_text, options)


def _resumed_fields() -> dict[str, tuple[Any, Any]]:
    """Return the options of fields that may be given again, from the first level that has them."""
    options: dict[str, tuple[Any, Any]] = {}
    for name in registry.names("levels"):
        job_type = find_level(name).job_type
        kinds = get_type_hints(job_type)
        for job_field in fields(job_type):
            if job_field.name in RESUMED and job_field.name not in job_type.hidden:
                kind = kinds[job_field.name]
                optional, default = (kind, False) if kind is bool else (kind | None, None)
                entry = (Annotated[optional, _option_of(job_field)], default)
                options.setdefault(job_field.name, entry)
    return {name: options[name] for name in RESUMED if name in options}


def _salvage(run: Path, out: Path) -> None:
    from aleatoric.runs.salvage import salvage

    for line in salvage(run, out):
        say(line)
    say(f"saved in {out}; what is lost is made again by {command(out)}")


def _annotated(job_field: Field[Any], kind: Any) -> tuple[Any, Any]:
    default = job_field.default
    if about(job_field).single:
        kind, default = get_args(kind)[0], MISSING
    elif get_origin(kind) is tuple:
        kind, default = list[get_args(kind)[0]] | None, None  # type: ignore[misc]
    required = inspect.Parameter.empty
    return Annotated[kind, _option_of(job_field)], required if default is MISSING else default


def _option_of(job_field: Field[Any]) -> Any:
    facts = about(job_field)
    return typer.Option(flag(job_field), help=facts.help, min=facts.low, max=facts.high)


def _value(job_field: Field[Any], value: Any) -> Any:
    """Return the value of a field; a repeatable option that is not given has its default."""
    if about(job_field).single:
        return (value,)
    chosen = (value or job_field.default) if isinstance(job_field.default, tuple) else value
    return tuple(chosen) if isinstance(chosen, list) else chosen


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
