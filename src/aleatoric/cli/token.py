"""The commands of the token level."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aleatoric.cli.options import (
    BosOption,
    DeviceOption,
    DtypeOption,
    EncodingOption,
    EngineOption,
    FormatOption,
    IntervalOption,
    JsonOption,
    OutOption,
    RemoteCodeOption,
    SchemeOption,
    SeedOption,
)
from aleatoric.cli.printing import meter, print_json, say, show_results, show_tables, shown, writing
from aleatoric.inference.bootstrap import DEFAULT_METHOD, check_method
from aleatoric.runs.disk import command


def token(
    corpus: Annotated[
        str, typer.Option(help="A text file (.txt, .jsonl; .gz), or parallel:SOURCE,TARGET.")
    ],
    model: Annotated[
        list[str],
        typer.Option(help="smollm2, hf:NAME, gguf:FILE; repeatable."),
    ],
    scheme: SchemeOption = None,
    bins: Annotated[int, typer.Option(min=1, max=1000, help="Bins of confidence.")] = 15,
    classwise: Annotated[
        str, typer.Option(help="SCE and ACE: all (slower), predicted or none.")
    ] = "all",
    window: Annotated[
        int | None, typer.Option(min=2, help="Tokens read at once; else 1024, or the model's.")
    ] = None,
    stride: Annotated[
        int | None, typer.Option(min=1, help="Tokens from window to window; else half of one.")
    ] = None,
    documents: Annotated[
        str, typer.Option(help="What a document is in plain text: blank-lines, lines or file.")
    ] = "blank-lines",
    batch_tokens: Annotated[
        int, typer.Option(min=1, max=10**7, help="Tokens in a batch, padding included.")
    ] = 2048,
    keep_rows: Annotated[
        bool, typer.Option("--keep-rows", help="Save one row per token, for studies.")
    ] = False,
    device: DeviceOption = None,
    dtype: DtypeOption = "float32",
    bos: BosOption = "auto",
    trust_remote_code: RemoteCodeOption = False,
    engine: EngineOption = "local",
    interval: IntervalOption = DEFAULT_METHOD,
    seed: SeedOption = 0,
    encoding: EncodingOption = "utf-8",
    out: OutOption = None,
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Reference tokens: is the model's distribution calibrated?

    Example: `aleatoric token --corpus story.txt --model smollm2 --out runs/story`
    """
    from aleatoric.levels import token as token_pipeline
    from aleatoric.models.base import Forcing
    from aleatoric.runs.engine import EngineOptions

    job = token_pipeline.TokenJob(
        corpus,
        tuple(model),
        tuple(scheme or ()),
        bins,
        classwise,
        Forcing(dtype, device, bos, trust_remote_code, window, stride),
        batch_tokens,
        keep_rows,
        documents,
        seed,
        encoding,
        EngineOptions(engine),
    )
    check_method(interval)
    with (
        writing(out) as (folder, stopping),
        token_pipeline.run_token(job, folder, meter, stopping) as store,
    ):
        results, notes = token_pipeline.results(store, interval), token_pipeline.notes(store)
        with shown():
            show_results(results, notes, as_json, layout, "token")
        if out is not None:
            say(f"saved in {out}; see it again with: {command(out, 'score')}")


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
