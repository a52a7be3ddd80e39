"""`aleatoric compare`: do two systems differ?"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from aleatoric.cli.options import FormatOption, IntervalOption, JsonOption, SeedOption
from aleatoric.cli.printing import print_json, say, show_tables, track
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import DEFAULT_METHOD


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN [RUN]", help="Run directories.")],
    system: Annotated[
        list[str] | None, typer.Option(help="Only these systems, controls too; repeatable.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Only these, or a pattern like 'w1_*'; repeatable.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Significance level of the letters.")] = 0.05,
    matched: Annotated[
        bool, typer.Option("--matched", help="Draw all systems down to the same number of draws.")
    ] = False,
    interval: IntervalOption = DEFAULT_METHOD,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Do systems differ? Paired differences on common items, with tests.

    Example: `aleatoric compare runs/gpt2 runs/bloom --metric overlap`
    """
    from aleatoric.levels import base
    from aleatoric.report.comparisons import comparison_tables
    from aleatoric.runs import Store
    from aleatoric.studies import compare as comparing

    if not 0 < alpha < 1:
        raise UsageError(
            f"--alpha {alpha:g} is no significance level; use a number between 0 and 1, as 0.05."
        )
    if len({run.resolve() for run in runs}) < len(runs):
        raise UsageError(f"{runs[-1]}: is named twice; name each run once.")
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.open(run)) for run in runs]
        for store in stores:
            base.score(store, base.Monitor(track), again=False)
        found = comparing.compare(
            stores, system or (), metric or (), alpha, seed, interval, matched=matched
        )
    if as_json:
        print_json(found.as_dict())
        return
    show_tables(comparison_tables(found), False, layout)
    for note in found.notes:
        say(f"note: {note}")
