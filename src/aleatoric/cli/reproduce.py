"""The command that reproduces the text level's paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aleatoric.cli.options import FormatOption, JsonOption, SeedOption
from aleatoric.cli.printing import print_json, show_tables, track


def reproduce_production(
    data: Annotated[Path, typer.Option(help="A folder with ASSET, WMT'14 or other texts.")],
    protocol: Annotated[str, typer.Option(help="paper, corrected or both.")] = "both",
    probe: Annotated[
        list[str] | None, typer.Option(help="lexical-1, syntactic-2, semantic, ...; repeatable.")
    ] = None,
    splits: Annotated[int, typer.Option(min=1, max=10_000, help="Splits of the people.")] = 20,
    recorded: Annotated[
        Path | None, typer.Option(help="Recorded pair distances; else those near the data.")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Print every pair distance too.")] = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """The human control of "What Comes Next?" (Tables 2 to 5): printed, as published, corrected.

    Example: `aleatoric reproduce production --data texts/ --protocol paper`
    """
    from aleatoric.levels.text_variability import Splitting
    from aleatoric.studies import production_paper

    found = production_paper.reproduce(
        data,
        production_paper.chosen_protocols(protocol),
        tuple(probe or production_paper.PROBES),
        Splitting(seed, splits),
        recorded,
        track,
    )
    if as_json:
        print_json(found.as_dict())
        return
    listed = production_paper.pair_tables(found.pairs) if pairs else []
    show_tables([*production_paper.to_tables(found), *listed], False, layout)


def reproduce_e_ece(
    data: Annotated[Path, typer.Option(help="The folder of Multi30K's parallel text.")],
    rows: Annotated[
        Path | None,
        typer.Option(help="rows-*.npz of the recipe; else those in DATA or in recipes/multi30k."),
    ] = None,
    bins: Annotated[int, typer.Option(min=1, max=1000, help="Bins of confidence.")] = 15,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Tables 1 to 4 of the e-ECE paper for Multi30K DE→EN: printed, and ours.

    Example: `aleatoric reproduce e-ece --data parallel/ --rows multi30k/rows-loss.npz`
    """
    from aleatoric.studies import e_ece_paper

    found = e_ece_paper.reproduce(data, rows, bins, seed)
    if as_json:
        print_json({"results": [line.as_dict() for line in found.lines]})
    else:
        show_tables(list(found.tables), False, layout)
