"""Commands that ask models: one per level, with the fields of its job as options, and resume."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

import aleatoric.cli.options as shared
from aleatoric import registry
from aleatoric.cli.options import Output, option, with_options
from aleatoric.cli.printing import monitored, say, show_run
from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.levels.base import Level, ResumeOptions, find_level, level_of, resume_run, run_job
from aleatoric.runs.disk import command
from aleatoric.runs.job import about, flag, shown_fields
from aleatoric.runs.run import Store
from aleatoric.runs.tables import TRAINED_MODEL

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
            if job_field.name in RESUMED and not about(job_field).hidden:
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
