"""Commands whose options are the fields of a job: word, token, text, finetune and new levels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from aleatoric.cli.options import FormatOption, IntervalOption, JsonOption, OutOption
from aleatoric.cli.printing import monitored, say, show_run
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.levels.base import Level, run_job
from aleatoric.runs.disk import command
from aleatoric.runs.job import Job, about, flag, shown_fields

J = TypeVar("J", bound=Job)
SHOWN: dict[str, tuple[Any, Any]] = {
    "interval": (IntervalOption, DEFAULT_METHOD),
    "out": (OutOption, None),
    "as_json": (JsonOption, False),
    "layout": (FormatOption, "terminal"),
}
"""The options of every such command that are no part of its job."""


def level_command(level: Level) -> Callable[..., None]:
    """Return the command of a level, with one option per field of its job."""

    def run(**options: Any) -> None:
        out, interval = options["out"], options["interval"]
        if level.needs_out and out is None:
            raise UsageError("give a directory for the run, as --out runs/first.")
        job = job_from(level.job_type, options)
        check_method(interval)
        with (
            monitored(out, getattr(job, "probes", ())) as (folder, monitor),
            run_job(job, folder, monitor) as store,
        ):
            show_run(store, interval, options["as_json"], options["layout"])
            if out is not None:
                say(f"saved in {out}; see it again with: {command(out, 'score')}")

    return with_options(run, level.job_type.command, level.help, level.job_type, SHOWN)


def with_options(
    run: Callable[..., None],
    name: str,
    text: str,
    job_type: type[Job],
    more: Mapping[str, tuple[Any, Any]],
) -> Callable[..., None]:
    """Give a function the signature of a command: the fields of a job, and more options."""
    kinds = get_type_hints(job_type)
    options = {own.name: option_of(own, kinds[own.name]) for own in shown_fields(job_type)}
    options |= dict(more)
    run.__name__, run.__doc__ = name, text
    run.__annotations__ = {key: kind for key, (kind, _) in options.items()}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for key, (kind, default) in options.items()
        ]
    )
    return run


def option_of(own: Field[Any], kind: Any) -> tuple[Any, Any]:
    """Return the annotation and default of a field's option, as typer takes them."""
    option, default = about(own), own.default
    if option.single:
        kind, default = get_args(kind)[0], MISSING
    elif get_origin(kind) is tuple:
        kind, default = list[get_args(kind)[0]] | None, None  # type: ignore[misc]
    shown = typer.Option(flag(own), help=option.help, min=option.low, max=option.high)
    return Annotated[kind, shown], inspect.Parameter.empty if default is MISSING else default


def job_from(job_type: type[J], options: Mapping[str, Any]) -> J:
    """Return the job that the options of a command ask for."""
    known = shown_fields(job_type)
    given: dict[str, Any] = {own.name: options[own.name] for own in known}
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    return job_type(**{own.name: _given(values[own.name], own) for own in known})


def _given(value: Any, own: Field[Any]) -> Any:
    """An option that may be repeated and is not given at all has its default."""
    if about(own).single:
        return (value,)
    return own.default if isinstance(own.default, tuple) and not value else value
