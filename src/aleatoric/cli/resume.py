"""`aleatoric resume`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aleatoric.cli.finetune import draw_curves
from aleatoric.cli.options import (
    ActorCpusOption,
    ActorGpusOption,
    ActorsOption,
    AddressOption,
    DeviceOption,
    EngineOption,
    FormatOption,
    IntervalOption,
    JsonOption,
    OwnProbeOption,
    RemoteCodeOption,
)
from aleatoric.cli.printing import monitored, say, show_run
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.levels.base import ResumeOptions, resume_run


def resume(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    salvage: Annotated[
        Path | None, typer.Option(help="Of a damaged run: save what is intact as a new run here.")
    ] = None,
    device: DeviceOption = None,
    batch_tokens: Annotated[
        int | None, typer.Option(min=1, max=10**7, help="Of the token level: tokens in a batch.")
    ] = None,
    trust_remote_code: RemoteCodeOption = False,
    probe: OwnProbeOption = None,
    word_rule: Annotated[
        str | None,
        typer.Option(help="Of the word level: call the run's own word rule, module:function."),
    ] = None,
    key_for: Annotated[
        list[str] | None, typer.Option(help="A server's host that may be sent your key.")
    ] = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    actors: ActorsOption = None,
    actor_cpus: ActorCpusOption = None,
    actor_gpus: ActorGpusOption = None,
    interval: IntervalOption = DEFAULT_METHOD,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Resume an interrupted run; finished work is not repeated.

    Example: `aleatoric resume runs/gpt2`
    """
    check_method(interval)
    given: dict[str, Any] = {"device": device, "batch_tokens": batch_tokens, "address": address}
    given |= {"actors": actors, "actor_cpus": actor_cpus, "actor_gpus": actor_gpus}
    given |= {"trust_remote_code": trust_remote_code or None}
    given |= {"engine": engine if engine != "local" else None}
    options = {name: value for name, value in given.items() if value is not None}
    changes = ResumeOptions(options, tuple(key_for or ()), word_rule)
    if salvage is not None:
        shown = (interval, as_json, layout) != (DEFAULT_METHOD, False, "terminal")
        if changes != ResumeOptions() or probe or shown:
            raise UsageError("--salvage only copies what is intact; give it no other option.")
        _salvage(run, salvage)
        return
    with (
        monitored(run, probe or ()) as (folder, monitor),
        resume_run(folder, changes, monitor) as store,
    ):
        show_run(store, interval, as_json, layout)
        if store.manifest["command"] == "finetune":
            draw_curves(store)


def _salvage(run: Path, out: Path) -> None:
    from aleatoric.runs.disk import check_place, check_run, command
    from aleatoric.runs.salvage import salvage

    check_run(run)
    check_place(out)
    for line in salvage(run, out):
        say(line)
    say(f"saved in {out}; what is lost is made again by {command(out)}")
