"""Fine-tuning on Provo: base, best temperature, text-tuned, soft-label-tuned and mixed.

    python benchmarks/finetune_table.py measure --model FOLDER --corpus FILE --out FOUND.json.gz
    python benchmarks/finetune_table.py table FOUND.json.gz --corpus FILE

`measure` trains four folds per loss and writes the exact distributions of every context with their
bounds, which takes minutes on a GPU. It needs only torch, transformers, safetensors, numpy and
scipy. `table` needs no model: it computes the human control, intervals and paired differences from
that file.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aleatoric.data.opening import open_corpus
from aleatoric.levels.base import Monitor, run_job
from aleatoric.levels.word import score_word
from aleatoric.nextword.answers import Reading, ReadItems
from aleatoric.runs import formats
from aleatoric.runs.run import Store
from aleatoric.runs.tables import FINETUNING
from aleatoric.tuning.finetuning import FinetuneJob
from aleatoric.tuning.recipe import LOSSES, VALIDATION
from aleatoric.types import Choices


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--model", type=Path, required=True)
    measuring.add_argument("--corpus", type=Path, required=True)
    measuring.add_argument("--out", type=Path, required=True)
    measuring.add_argument("--run", type=Path, help="keep the run here; else it is thrown away")
    measuring.add_argument("--device")
    measuring.add_argument("--loss", action="append", choices=LOSSES)
    measuring.add_argument("--split", default="paper")
    measuring.add_argument("--train", default=FinetuneJob.train)
    measuring.add_argument("--epochs", type=int, default=FinetuneJob.epochs)
    measuring.add_argument("--rate", type=float, default=FinetuneJob.rate)
    measuring.add_argument("--patience", type=int)
    measuring.add_argument("--temperatures", default=FinetuneJob.temperatures)
    measuring.set_defaults(work=measure)
    showing = commands.add_parser("table")
    showing.add_argument("found", type=Path)
    showing.add_argument("--corpus", type=Path, required=True)
    showing.set_defaults(work=table)
    options = parser.parse_args()
    gc.set_threshold(200_000, 20, 100)  # as the command line does
    options.work(options)


def measure(options: argparse.Namespace) -> None:
    job = FinetuneJob(
        str(options.corpus),
        (f"hf:{options.model}",),
        tuple(options.loss or LOSSES),
        split=options.split,
        train=options.train,
        epochs=options.epochs,
        rate=options.rate,
        patience=options.patience,
        temperatures=options.temperatures,
        device=options.device,
    )
    clock = Clock()
    with _folder(options.run) as folder, run_job(job, folder, Monitor(clock.track)) as run:
        document = _document(run) | {"seconds": clock.seconds(), "device": _device()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(options.out, "wt", encoding="utf-8") as file:
        file.write(formats.dump(document))
    print(f"wrote {options.out} ({options.out.stat().st_size / 2**20:.1f} MiB)")


class Clock:
    """Prints what is begun and how long each part took."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._parts: dict[str, float] = {}

    def track(self, work: Iterable[Any], total: int, description: str) -> Iterator[Any]:
        """Work with its time taken."""
        started = time.perf_counter()
        yield from work
        took = time.perf_counter() - started
        self._parts[description] = self._parts.get(description, 0.0) + took
        print(f"{self._passed():7.1f} s  {description}: {total} in {took:.1f} s", flush=True)

    def seconds(self) -> dict[str, float]:
        """How long each part took, and all."""
        return self._parts | {"all": self._passed()}

    def _passed(self) -> float:
        return time.perf_counter() - self._started


def _device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "run"


def _document(run: Store) -> dict[str, Any]:
    systems = {
        name: {
            "facts": facts,
            "draws": {
                item.id: [formats.dump_draws(own) for own in draws]
                for item, draws in run.walk_system(name)
            },
        }
        for name, facts in run.systems().items()
    }
    notes = run.meta("notes")
    return {"manifest": run.manifest, "notes": notes, FINETUNING: run.meta(FINETUNING)} | {
        "systems": systems
    }


def table(options: argparse.Namespace) -> None:
    from aleatoric.reporting.finetune import curve_table, systems_table
    from aleatoric.reporting.tables import to_markdown

    with gzip.open(options.found, "rt", encoding="utf-8") as file:
        document = json.load(file)
    with (
        tempfile.TemporaryDirectory() as folder,
        restored(document, options.corpus, Path(folder) / "run") as run,
    ):
        for one in (systems_table(run), curve_table(run)):
            print(to_markdown(one))
    print(f"{document['device']}: {document['seconds']['all']:.0f} s in all")


def restored(document: dict[str, Any], corpus: Path, folder: Path) -> Store:
    """The run that `measure` made, with its statistics."""
    run = Store.create(folder, document["manifest"])
    split = document["manifest"]["split"]
    held_out = {group for group, fold in split.items() if fold != VALIDATION}
    items = (item for item in open_corpus(str(corpus)).items if item.group in held_out)
    choices = Choices(**document["manifest"]["choices"])
    run.add_items(ReadItems(list(items), Reading.of(choices)))
    for name, own in document["systems"].items():
        run.add_system(name, own["facts"])
        run.add_draws(name, _draws(own["draws"]))
        run.set_meta(f"done {name}", True)
    run.set_meta("notes", document["notes"])
    run.set_meta(FINETUNING, document[FINETUNING])
    score_word(run)
    return run


def _draws(found: dict[str, list[str]]) -> Iterator[Any]:
    for item_id, rows in found.items():
        for number, row in enumerate(rows):
            yield formats.load_draws(item_id, number, row)


if __name__ == "__main__":
    main()
