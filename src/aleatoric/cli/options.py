"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aleatoric.errors import UsageError


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
    from aleatoric.report.tables import FORMATS

    if layout not in ("terminal", *FORMATS):
        known = ", ".join(("terminal", *FORMATS))
        raise UsageError(f"there is no format {layout!r}; use {known}.")
    if ctx.params.get("as_json") and is_given(ctx, "layout"):
        raise UsageError(f"--json leaves no room for --format {layout}; give one of them.")
    return layout


RunArgument = Annotated[Path, typer.Argument(help="A run directory.")]
# Read before --format, which is refused beside it.
JsonOption = Annotated[
    bool,
    typer.Option("--json", is_eager=True, help="Print one JSON document; without --format."),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        help="terminal, markdown, latex or csv.",
        show_default=True,
        callback=_known_layout,
    ),
]
IntervalOption = Annotated[
    str,
    typer.Option(
        "--interval",
        help="Confidence intervals over groups: auto, t, studentised, percentile or none.",
    ),
]
SeedOption = Annotated[int, typer.Option(help="The same seed gives the same bytes.")]
DtypeOption = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
AllowedProbeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--probe",
        help="Text level: allow this module:function among the run's probes; repeatable.",
    ),
]
OutOption = Annotated[Path | None, typer.Option(help="Keep the run in this directory.")]
