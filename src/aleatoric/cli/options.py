"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aleatoric.errors import UsageError

# Read before --format, which is refused beside it.
JsonOption = Annotated[
    bool,
    typer.Option("--json", is_eager=True, help="One JSON document on stdout; without --format."),
]


def is_given(ctx: typer.Context, name: str) -> bool:
    """Whether an option or argument was written in the command, be it with its default."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _known_layout(ctx: typer.Context, layout: str) -> str:
    """Refuse a bad --format before the work, not after it."""
    from aleatoric.report.tables import FORMATS

    if layout not in ("terminal", *FORMATS):
        known = ", ".join(("terminal", *FORMATS))
        raise UsageError(f"there is no format {layout!r}; use {known}.")
    if ctx.params.get("as_json") and is_given(ctx, "layout"):
        raise UsageError(f"--json leaves no room for --format {layout}; give one of them.")
    return layout


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
        "--interval", help="Intervals over groups: auto, t, studentised, percentile or none."
    ),
]
SeedOption = Annotated[int, typer.Option(help="The same seed gives the same bytes.")]
SchemeOption = Annotated[
    list[str] | None,
    typer.Option(
        help="One more e-ECE, as temperature=0.5 or ancestral,samples=1; repeatable.",
    ),
]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda, ...; a GPU if there is.")]
DtypeOption = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
BosOption = Annotated[
    str,
    typer.Option(
        help="Beginning-of-text token: auto (as the model's tokenizer starts a text), none or add."
    ),
]
RemoteCodeOption = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run the code of a model's repository.")
]
OwnProbeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--probe", help="Of texts: call this module:function of the run's probes; repeatable."
    ),
]
WordRuleOption = Annotated[
    str | None,
    typer.Option(
        help="How words are cut, for people and models alike: corrected, paper, characters, or "
        "your own module:function."
    ),
]
OutOption = Annotated[Path | None, typer.Option(help="Keep the run in this directory.")]
EncodingOption = Annotated[str, typer.Option(help="Of the corpus file.")]
EngineOption = Annotated[
    str, typer.Option("--engine", help="Where models work: local, or ray (actors on a cluster).")
]
AddressOption = Annotated[
    str | None,
    typer.Option(help="Of a running Ray cluster: auto or HOST:PORT; else one of this machine."),
]
ActorsOption = Annotated[
    int | None, typer.Option(min=1, max=10**5, help="Of ray: copies of the model; else all fit.")
]
ActorCpusOption = Annotated[
    float | None, typer.Option(min=0, max=10**4, help="Of ray: CPUs of an actor; else 1 to 4.")
]
ActorGpusOption = Annotated[
    float | None,
    typer.Option(min=0, max=10**3, help="Of ray: GPUs of an actor, as 1 or 0.5; else 1 if any."),
]
