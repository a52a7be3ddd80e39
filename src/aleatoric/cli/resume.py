"""`aleatoric resume`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aleatoric.cli.finetune import draw_curves, show_run
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
from aleatoric.cli.printing import meter, say, track, writing
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method


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
    """Go on with a run that was stopped or died; what is finished is not done again.

    Example: `aleatoric resume runs/gpt2`
    """
    from aleatoric.levels.base import is_finetuned
    from aleatoric.runs.engine import EngineOptions
    from aleatoric.studies import resume as resuming

    check_method(interval)
    where = EngineOptions(engine, address, actors, actor_cpus, actor_gpus)
    said = (tuple(probe or ()), tuple(key_for or ()), word_rule)
    anew = resuming.Anew(device, batch_tokens, trust_remote_code, where, *said)
    if salvage is not None:
        shown = (interval, as_json, layout) != (DEFAULT_METHOD, False, "terminal")
        if anew != resuming.Anew() or shown:
            raise UsageError("--salvage only copies what is intact; give it no other option.")
        _salvage(run, salvage)
        return
    with (
        writing(run) as (folder, stopping),
        resuming.resume(folder, anew, track, meter, stopping) as store,
    ):
        show_run(store, interval, as_json, layout)
        if is_finetuned(store):
            draw_curves(store)


def _salvage(run: Path, out: Path) -> None:
    from aleatoric.runs.disk import check_place, check_run, command
    from aleatoric.runs.salvage import salvage

    check_run(run)
    check_place(out)
    for line in salvage(run, out):
        say(line)
    say(f"saved in {out}; what is lost is made again by {command(out)}")
