"""`aleatoric finetune-text`: train a text generator on people's texts, and test it on others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from aleatoric.data.opening import open_text_corpus
from aleatoric.errors import UsageError
from aleatoric.levels.base import Monitor, Opening
from aleatoric.levels.text import TRANSFORMERS, Text, TextJob
from aleatoric.models.base import TextTally
from aleatoric.models.trained import PROMPT, write_record
from aleatoric.runs import session
from aleatoric.runs.engine import Engine
from aleatoric.runs.job import about, option
from aleatoric.runs.run import Store
from aleatoric.runs.tables import FINETUNING, TRAINED_MODEL, TRAINING
from aleatoric.tuning.recipe import ONE_PROCESS, TrainingJob
from aleatoric.types import LazyItems, MultiRef, TextItem

TRAINING_SHA256 = "training_sha256"
"""The fact that identifies the texts of `--training`."""


def _training_option(name: str, default: Any, help: str = "") -> Any:
    """Declare an option of training with another default, and perhaps another help."""
    own = about(TrainingJob.__dataclass_fields__[name])
    facts = vars(own) | {"help": help or own.help}
    return option(default, **facts)


@dataclass(frozen=True)
class FinetuneTextJob(TrainingJob, TextJob):
    """The options of `aleatoric finetune-text`."""

    command = "finetune-text"

    corpus: str = option(help="A corpus name, or a file of inputs with people's texts.")
    training: str | None = option(
        None, "Train on this corpus, and evaluate on all of --corpus; by default a part of it."
    )
    held_out: float = option(
        0.2, "Without --training: the share of groups that is evaluated.", low=0, high=1
    )
    validation: float = option(
        0.1, "Share of the other groups that is used for validation only.", low=0, high=1
    )
    train: str = _training_option("train", "all", "What is trained: all, last-N-blocks or lora.")
    rate: float = _training_option("rate", 5e-5)
    weight_decay: float = _training_option("weight_decay", 0.0)
    schedule: str = _training_option("schedule", "linear")
    clip_norm: float = _training_option("clip_norm", 1.0)
    batch: int = _training_option("batch", 8, "Texts per step.")
    epochs: int = _training_option("epochs", 3, "Passes over the training texts.")
    max_target_tokens: int = option(
        512, "Cut texts to this many tokens for training.", low=1, high=10**6
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("held_out", "validation"):
            share = getattr(self, name)
            if not 0 < share < 1:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} {share} is no share; use a number between 0 and 1.")
        self.check_settings()

    def training_corpus(self) -> MultiRef | None:
        """Open the corpus that trains, if it is another one than is evaluated."""
        if self.training is None:
            return None
        return open_text_corpus(self.training, self.encoding, self.table_options)


class FinetuneText(Text):
    """Whole texts of a model before and after fine-tuning, on inputs that did not train it.

    The trained model is saved in the run, as a directory that transformers can load.
    """

    help = """Fine-tune a text generator on people's texts, and test it on other inputs.

    Example: `aleatoric finetune-text --corpus asset.jsonl --model hf:google/flan-t5-large
    --template 'Simplify: {input}' --out runs/tuned`
    """
    job_type = FinetuneTextJob
    needs_out = True
    one_process = ONE_PROCESS

    def check(self, job: Any) -> None:
        """Refuse a job without exactly one model of transformers."""
        kinds = ", ".join(TRANSFORMERS)
        if len(job.models) != 1 or job.models[0].partition(":")[0] not in TRANSFORMERS:
            raise UsageError(f"give one model to train ({kinds}), as --model hf:FOLDER.")
        super().check(job)

    def facts(self, job: Any, corpus: MultiRef) -> dict[str, Any]:
        """Return facts as of any text-level run, and what identifies the training texts."""
        split, training = self._split(job, corpus), job.training_corpus()
        job.check_warmup(job.steps(sum(len(item.references) for item in split.train)))
        sha256 = {} if training is None else {TRAINING_SHA256: training.sha256}
        return super().facts(job, corpus) | sha256

    def save_items(self, store: Store, job: TextJob, corpus: MultiRef, monitor: Monitor) -> None:
        """Save the inputs that are evaluated."""
        assert isinstance(job, FinetuneTextJob)
        split = self._split(job, corpus)
        held_out = split.held_out

        def evaluated() -> Iterator[TextItem]:
            return (i for i in corpus.items if held_out is None or i.group in held_out)

        super().save_items(store, job, replace(corpus, items=LazyItems(evaluated)), monitor)
        session.add_notes(store, split.notes(store.n_items))

    def ask(
        self, store: Store, job: Any, spec: str, engine: Engine, corpus: Opening, monitor: Monitor
    ) -> None:
        """Train the model; save the texts of the base model and of the trained one."""
        from aleatoric.models.sampling import LiveWriter
        from aleatoric.tuning import text_pairs, training
        from aleatoric.tuning.exporting import save_model

        other = job.training_corpus()
        if other is not None and other.sha256 != store.manifest.get(TRAINING_SHA256):
            problem = f"{job.training}: is not what it was when the run began"
            raise UsageError(f"{problem}; restore it, or begin another run.")
        writer = engine.text_model(spec, job.loading)
        assert isinstance(writer, LiveWriter)  # all models of transformers are
        split, ask = self._split(job, corpus()), job.writing("ancestral")
        tunable = training.make_tunable(writer.network, job.train, job.lora_rank, job.seed)
        train, validation = (
            text_pairs.token_pairs(writer.network, items, ask, job.max_target_tokens)
            for items in (split.train, split.validation)
        )
        session.add_notes(store, train.notes(job.max_target_tokens))
        objective = text_pairs.TextObjective(writer.network, train, validation)
        weights = store.path / TRAINING / "texts"
        trained = training.train(tunable, objective, job, weights, monitor.checked)
        folder = store.path / TRAINED_MODEL
        if not folder.exists():
            with save_model(tunable, trained.weights, folder) as unfinished:
                facts = {"model": f"{spec}@{writer.version}", "train": job.train}
                facts |= {name: getattr(ask, name) for name in PROMPT}
                write_record(unfinished, facts, (*split.train, *split.validation))
        tunable.reset()
        self.save_texts(store, job, spec, writer, monitor)
        tunable.load(trained.weights)
        name, version = f"{writer.label} tuned", training.digest_of(trained.weights)
        changes: Any = {"version": f"{writer.version},{version}", "tally": TextTally()}
        tuned = replace(writer, label=name, **changes)
        self.save_texts(store, job, f"{spec} tuned", tuned, monitor)
        store.set_meta(FINETUNING, {name: training.curve_facts({1: trained})})

    def _split(self, job: FinetuneTextJob, corpus: MultiRef) -> Any:
        from aleatoric.tuning.text_pairs import split_texts

        shares = job.held_out, job.validation
        return split_texts(corpus, job.training_corpus(), *shares, job.seed)
