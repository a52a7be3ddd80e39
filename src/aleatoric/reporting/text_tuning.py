"""How fine-tuning runs of the text level are shown: like any texts, with the curves of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aleatoric.reporting.finetune import curve_pictures, perplexity
from aleatoric.reporting.tables import number
from aleatoric.reporting.texts import TextView
from aleatoric.result_types import Result, Table
from aleatoric.runs.run import Store
from aleatoric.runs.tables import FINETUNING
from aleatoric.studies.figure_data import Picture


class FinetuneTextView(TextView):
    """Whole texts before and after fine-tuning; also the losses of training by epoch."""

    def document(self, store: Store, results: Sequence[Result], interval: str) -> dict[str, Any]:
        """Return the results, and the losses of training."""
        training = {"finetuning": store.meta(FINETUNING) or {}}
        return super().document(store, results, interval) | training

    def run_tables(self, store: Store) -> list[Table]:
        """Return the labels of inputs, and the losses of training by epoch."""
        rows, notes = [], ["Losses are in nats per token of texts; epoch 0 is before training."]
        for facts in (store.meta(FINETUNING) or {}).values():
            for epoch in facts["curves"]["1"]:
                sides = [epoch["train_loss"], epoch["validation_loss"]]
                shown = f"{perplexity(epoch['validation_loss']):.2f}"
                rows.append((str(epoch["number"]), *map(number, sides), shown))
            notes.append(f"Epoch kept: {facts['kept']['1']}.")
        columns = ("epoch", "training loss", "validation loss", "validation perplexity")
        training = Table("Training", columns, tuple(rows), tuple(notes))
        return [*super().run_tables(store), *([training] if rows else [])]

    def run_figures(self, store: Store) -> dict[str, Picture]:
        """Return losses and perplexities by epoch."""
        return curve_pictures(store)
