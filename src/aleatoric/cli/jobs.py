"""Commands that ask models: word, token, text, finetune, new levels, and resume.

Their options are the fields of jobs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from aleatoric import registry
from aleatoric.cli.options import (
    AllowedProbeOption,
    FormatOption,
    IntervalOption,
    JsonOption,
    OutOption,
    RunArgument,
    Signature,
    option,
    with_options,
)
from aleatoric.cli.printing import monitored, say, show_run
from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.levels.base import Level, ResumeOptions, find_level, resume_run, run_job
from aleatoric.runs.disk import check_place, check_run, command
from aleatoric.runs.job import Job, about, flag, shown_fields
from aleatoric.runs.run import Store

J = TypeVar("J", bound=Job)
SHOWN: Signature = {
    "interval": (IntervalOption, DEFAULT_METHOD),
    "as_json": (JsonOption, False),
    "layout": (FormatOption, "terminal"),
}
"""How results are shown, for all of these commands."""
EXPORT = Annotated[
    Path | None,
    typer.Option(help="Write the weights of each fold here for transformers (lora: for peft)."),
]
RESUMED = (
    *("device", "batch_tokens", "trust_remote_code", "engine", "address"),
    *("actors", "actor_cpus", "actor_gpus"),
)
"""Fields of jobs that may be given again when a run is resumed."""


def _export(job: Any, run: Path, to: Path) -> None:
    from aleatoric.tuning.exporting import export_weights

    for written in export_weights(run, to, job.device, job.trust_remote_code):
        say(f"wrote {written}")


def level_command(level: Level) -> Callable[..., None]:
    """Return the command of a level, with one option per field of its job."""

    def run(**options: Any) -> None:
        out, export = options["out"], options.get("export")
        # Bad options are refused before the job is created.
        if level.needs_out and out is None:
            raise UsageError("give a directory for the run, as --out runs/first.")
        check_method(options["interval"])
        job: Any = job_from(level.job_type, options)
        if export:
            from aleatoric.tuning.exporting import check_export

            check_export(job, export)
        with monitored(out) as (folder, monitor), run_job(job, folder, monitor) as store:
            _show(store, *(options[name] for name in SHOWN))
        if export:
            _export(job, out, export)
        if out is not None:
            say(f"saved in {out}; see it again with: {command(out, 'score')}")

    return _with_job_options(run, level)


def _show(store: Store, interval: str, as_json: bool, layout: str) -> None:
    """Print a run's results; write the curves of fine-tuning as a table and, if possible, drawn."""
    show_run(store, interval, as_json, layout)
    if store.manifest["command"] != "finetune":
        return
    from aleatoric.report.figures import draw_all
    from aleatoric.report.finetune import curve_pictures, curve_table
    from aleatoric.report.tables import to_csv

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
        changes = ResumeOptions(overrides, key_for, word_rule)
        if salvage is not None:
            defaults = {name: default for name, (_, default) in SHOWN.items()}
            if changes != ResumeOptions() or probes or shown != defaults:
                raise UsageError("--salvage only copies what is intact; give it no other option.")
            _salvage(run, salvage)
            return
        watched = monitored(run, probes)
        with watched as (folder, monitor), resume_run(folder, changes, monitor) as store:
            _show(store, *shown.values())

    help_text = """Resume an interrupted run; finished work is not repeated.

    Example: `aleatoric resume runs/gpt2`
    """
    options = {
        "run": (RunArgument, inspect.Parameter.empty),
        "salvage": option(Path, "For a damaged run: save what is intact as a new run here."),
        **_resumed_fields(),
        "probe": (AllowedProbeOption, None),
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
            if job_field.name in RESUMED and not about(job_field).hidden:
                kind = kinds[job_field.name]
                optional, default = (kind, False) if kind is bool else (kind | None, None)
                entry = (Annotated[optional, _option_of(job_field)], default)
                options.setdefault(job_field.name, entry)
    return {name: options[name] for name in RESUMED if name in options}


def _salvage(run: Path, out: Path) -> None:
    from aleatoric.runs.salvage import salvage

    check_run(run)
    check_place(out)
    for line in salvage(run, out):
        say(line)
    say(f"saved in {out}; what is lost is made again by {command(out)}")


def _with_job_options(run: Callable[..., None], level: Level) -> Callable[..., None]:
    job_type = level.job_type
    kinds = get_type_hints(job_type)
    options = {f.name: _annotated(f, kinds[f.name]) for f in shown_fields(job_type)}
    options |= {"interval": SHOWN["interval"], "out": (OutOption, None), **SHOWN}
    options |= {"export": (EXPORT, None)} if job_type.command == "finetune" else {}
    return with_options(run, job_type.command, level.help, options)


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


def job_from(job_type: type[J], options: Mapping[str, Any]) -> J:
    """Return the job that the options of a command ask for."""
    job_fields = shown_fields(job_type)
    return job_type(**{f.name: _value(f, options[f.name]) for f in job_fields})


def _value(job_field: Field[Any], value: Any) -> Any:
    """Return the value of a field; a repeatable option that is not given has its default."""
    if about(job_field).single:
        return (value,)
    if isinstance(job_field.default, tuple) and not value:
        return job_field.default
    return tuple(value) if isinstance(value, list) else value
