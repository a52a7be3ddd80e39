"""`aleatoric finetune`: the options of its job, curves and exported weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aleatoric.cli.jobs import SHOWN, job_from, with_options
from aleatoric.cli.printing import monitored, say, show_run
from aleatoric.errors import UsageError
from aleatoric.inference.bootstrap import check_method
from aleatoric.levels.base import run_job
from aleatoric.runs.disk import command
from aleatoric.tuning.session import Finetune, FinetuneJob

if TYPE_CHECKING:
    from aleatoric.runs import Store

ExportOption = Annotated[
    Path | None,
    typer.Option(help="Write the weights of each fold here for transformers (lora: for peft)."),
]


def _finetune(**options: Any) -> None:
    """Train, test, show, and export the weights."""
    from aleatoric.tuning.exporting import check_export, export_weights

    out, export = options["out"], options["export"]
    if out is None:
        raise UsageError("give a directory for the run, as --out runs/tuned.")
    job = job_from(FinetuneJob, options)
    check_method(options["interval"])
    if export:
        check_export(job, export)
    with monitored(out) as (folder, monitor), run_job(job, folder, monitor) as store:
        show_run(store, options["interval"], options["as_json"], options["layout"])
        draw_curves(store)
    where = (job.device, job.trust_remote_code)
    for written in export_weights(out, export, *where) if export else ():
        say(f"wrote {written}")
    say(f"saved in {out}; see it again with: {command(out, 'score')}")


finetune = with_options(
    _finetune, "finetune", Finetune.help, FinetuneJob, {**SHOWN, "export": (ExportOption, None)}
)


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
