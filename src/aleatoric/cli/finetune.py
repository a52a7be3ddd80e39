"""The command that trains on people's answers and tests on passages it never saw."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aleatoric.cli.options import (
    BosOption,
    DeviceOption,
    EncodingOption,
    FormatOption,
    JsonOption,
    RemoteCodeOption,
    SeedOption,
)
from aleatoric.cli.printing import print_json, say, show_results, show_tables, shown, track, writing
from aleatoric.inference.bootstrap import DEFAULT_METHOD
from aleatoric.runs.disk import command

if TYPE_CHECKING:
    from aleatoric.runs import Store


def finetune(
    corpus: Annotated[str, typer.Option(help="provo, or a file of next-word answers.")],
    model: Annotated[str, typer.Option(help="smollm2, hf:NAME_OR_DIR or gguf:FILE.")],
    out: Annotated[Path, typer.Option(help="The run: weights, curves and distributions.")],
    loss: Annotated[
        list[str] | None,
        typer.Option(help="text, human (people's distributions) or mixed; repeatable."),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, max=1000, help="Models, each tested once.")] = 4,
    split: Annotated[
        str,
        typer.Option(help="paper (in order), grouped (shuffled), or a FILE with group and fold."),
    ] = "paper",
    validation: Annotated[
        int | None, typer.Option(min=1, help="Passages that only validate; Provo: 15.")
    ] = None,
    train: Annotated[
        str, typer.Option(help="What trains: last-2-blocks, all or lora.")
    ] = "last-2-blocks",
    mix: Annotated[
        float, typer.Option(help="Of mixed: the share of people's distributions.")
    ] = 0.5,
    rate: Annotated[float, typer.Option(help="AdamW's learning rate.")] = 5e-4,
    epsilon: Annotated[float, typer.Option(help="AdamW's epsilon.")] = 1e-8,
    weight_decay: Annotated[float, typer.Option(min=0, help="AdamW's weight decay.")] = 0.01,
    schedule: Annotated[str, typer.Option(help="constant, linear or cosine.")] = "constant",
    warmup: Annotated[int, typer.Option(min=0, help="Steps up to the full rate.")] = 0,
    clip_norm: Annotated[float, typer.Option(min=0, help="Clip gradients; 0 does not.")] = 0.0,
    batch: Annotated[int, typer.Option(min=1, help="Passages a step.")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="Times through the training passages.")] = 10,
    patience: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after so many epochs without a lower validation loss."),
    ] = None,
    lora_rank: Annotated[int, typer.Option(min=1, help="Of --train lora.")] = 8,
    save_every: Annotated[
        int, typer.Option(min=0, help="Also save a checkpoint every so many steps.")
    ] = 0,
    temperatures: Annotated[
        str | None, typer.Option(help="Tried on the training passages, as 0.8,1,1.2; none: skip.")
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            min=0, help="Largest gap between the bounds of an exact TVD or D², and of trees."
        ),
    ] = 0.02,
    export: Annotated[
        Path | None,
        typer.Option(help="Write each fold's weights here for transformers (lora: for peft)."),
    ] = None,
    device: DeviceOption = None,
    bos: BosOption = "auto",
    trust_remote_code: RemoteCodeOption = False,
    seed: SeedOption = 0,
    encoding: EncodingOption = "utf-8",
    as_json: JsonOption = False,
    layout: FormatOption = "terminal",
) -> None:
    """Does training help? Folds of passages, each tested by a model that never saw it.

    Example: `aleatoric finetune --corpus provo --model smollm2 --loss human --out runs/tuned`
    """
    from aleatoric.runs.engine import Loading
    from aleatoric.tuning import FinetuneJob, check_export, export_weights, run_finetune
    from aleatoric.tuning.recipe import Recipe

    losses = tuple(dict.fromkeys(loss or ("text",)))
    recipe = Recipe(
        losses[0],
        mix,
        train,
        rate,
        epsilon,
        weight_decay,
        batch,
        epochs,
        schedule,
        warmup,
        clip_norm,
        patience,
        lora_rank,
        tolerance,
        seed,
    )
    job = FinetuneJob(
        corpus,
        model,
        losses,
        recipe,
        folds,
        split,
        validation,
        _temperatures(temperatures),
        Loading(device=device, bos=bos, trust_remote_code=trust_remote_code),
        tolerance,
        encoding=encoding,
        save_every=save_every,
    )
    if export:
        check_export(job, export)
    with (
        writing(out) as (_, stopping),
        run_finetune(job, out, track, stopping=stopping) as store,
    ):
        show_finetuned(store, DEFAULT_METHOD, as_json, layout)
        draw_curves(store)
    for folder in export_weights(out, export, device, trust_remote_code) if export else ():
        say(f"wrote {folder}")
    say(f"saved in {out}; see it again with: {command(out, 'score')}")


def _temperatures(text: str | None) -> tuple[float, ...]:
    from aleatoric.tuning.losses import GRID, parse_temperatures

    if text is None:
        return GRID
    return () if text == "none" else parse_temperatures(text)


def show_run(store: Store, interval: str, as_json: bool, layout: str) -> None:
    """A saved run as the command that made it shows it."""
    from aleatoric.levels import base

    if base.is_finetuned(store):
        show_finetuned(store, interval, as_json, layout)
        return
    found, notes = base.results(store, interval), base.notes(store)
    with shown():
        show_results(found, notes, as_json, layout, base.level_of(store))


def show_finetuned(store: Store, interval: str, as_json: bool, layout: str) -> None:
    """A fine-tuning run as one JSON document, or as tables: systems, then curves."""
    from aleatoric.levels import word
    from aleatoric.report.finetune import finetune_json, shown_tables

    if as_json:
        document = finetune_json(store, interval)
        with shown():
            print_json(document)
        return
    tables = shown_tables(store, interval)
    with shown():
        show_tables(tables, False, layout)
    for note in word.notes(store):
        say(f"note: {note}")


def draw_curves(store: Store) -> None:
    """Write the curves as a table, and as a picture where matplotlib is there."""
    from aleatoric.errors import MissingExtraError
    from aleatoric.report.figures import draw_all
    from aleatoric.report.finetune import curve_pictures, curve_table
    from aleatoric.report.tables import to_csv

    paths = [store.path / "curves.csv"]
    paths[0].write_text(to_csv(curve_table(store)), encoding="utf-8")
    try:
        paths += draw_all(curve_pictures(store), store.path / "figures")
    except MissingExtraError as missing:
        say(f"note: no picture of the curves; {missing}")
    for path in paths:
        say(f"wrote {path}")
