"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from aleatoric.errors import UsageError

Signature = Mapping[str, tuple[Any, Any]]
"""Parameter -> annotation and default, as typer takes them."""
LAYOUTS = ("terminal", "markdown", "latex", "csv", "json")


@dataclass(frozen=True)
class Output:
    """How a command prints its results."""

    as_json: bool = False
    layout: str = "terminal"
    wide: bool = False

    @property
    def shows_all(self) -> bool:
        """Whether all columns and metrics are shown, not only the leading ones."""
        return self.wide or self.as_json or self.layout != "terminal"


def with_options(
    run: Callable[..., None], name: str, text: str, options: Signature
) -> Callable[..., None]:
    """Give a function the name, help text and signature of a command."""
    run.__name__, run.__doc__ = name, text
    run.__annotations__ = {key: kind for key, (kind, _) in options.items()}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for key, (kind, default) in options.items()
        ]
    )
    return run


def option(kind: Any, text: str, default: Any = None, **limits: float) -> tuple[Any, Any]:
    """Return the annotation and the default of an option."""
    kind = kind | None if default is None else kind
    return Annotated[kind, typer.Option(help=text, **limits)], default  # type: ignore[arg-type]


def is_given(ctx: typer.Context, name: str) -> bool:
    """Whether an option or argument was written in the command, even with its default."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def check_named_once(runs: list[Path]) -> None:
    """Refuse a run that is named twice."""
    if len({run.resolve() for run in runs}) < len(runs):
        raise UsageError(f"{runs[-1]}: is named twice; name each run once.")


def _known_layout(ctx: typer.Context, layout: str) -> str:
    """Refuse a bad --format before the work, not after it."""
    if layout not in LAYOUTS:
        raise UsageError(f"there is no format {layout!r}; use {', '.join(LAYOUTS)}.")
    if ctx.params.get("as_json") and is_given(ctx, "layout"):
        raise UsageError(f"--json leaves no room for --format {layout}; give one of them.")
    return layout


def _known_beside(beside: str | None) -> str | None:
    if beside not in (None, "paper"):
        raise UsageError(f"--beside {beside} is not known; use --beside paper.")
    return beside


RunArgument = Annotated[Path, typer.Argument(help="A run directory.")]
# Read before --format, which cannot be combined with it.
_JSON = typer.Option("--json", is_eager=True, help="Print one JSON document; without --format.")
_LAYOUTS = "terminal, markdown, latex, csv or json; csv and json have one number per cell."
_FORMAT = typer.Option("--format", help=_LAYOUTS, callback=_known_layout)
_WIDE = "Show all columns and metrics in the terminal; other formats always do."
OUTPUT: Signature = {
    "as_json": (Annotated[bool, _JSON], False),
    "layout": (Annotated[str, _FORMAT], "terminal"),
    "wide": (Annotated[bool, typer.Option("--wide", help=_WIDE)], False),
}
"""The options that make an `Output`."""
_METHODS = "Confidence intervals over groups: auto, t, studentised, percentile or none."
IntervalOption = Annotated[str, typer.Option("--interval", help=_METHODS)]
BesideOption = Annotated[
    str | None,
    typer.Option(
        "--beside",
        callback=_known_beside,
        help="Text level: paper prints Tables 2 to 5 of the paper with the run's systems.",
    ),
]
SeedOption = Annotated[int, typer.Option(help="The same seed gives the same bytes.")]
_PROBES = "Text level: allow this module:function among the run's probes; repeatable."
AllowedProbeOption = Annotated[list[str] | None, typer.Option("--probe", help=_PROBES)]


def prints_results(run: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes an `output` the options for it."""
    own = inspect.signature(run, eval_str=True).parameters.values()
    options = {each.name: (each.annotation, each.default) for each in own if each.name != "output"}

    def command(as_json: bool, layout: str, wide: bool, **options: Any) -> None:
        run(**options, output=Output(as_json, layout, wide))

    return with_options(command, run.__name__, run.__doc__ or "", {**options, **OUTPUT})
