"""Folds of passages for cross-validation, and the settings of fine-tuning.

No passage is both trained and tested on. The paper's split of Provo: passages 1-40 in four folds of
ten, the last fifteen for validation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

from aleatoric.data import files
from aleatoric.data.columns import table_rows
from aleatoric.errors import DataError, UsageError, check_choice, quoted
from aleatoric.rng import stream
from aleatoric.runs.job import Job, option
from aleatoric.runs.tables import TRAINING
from aleatoric.types import Choices, Item

SPLITS = ("paper", "grouped")
"""Splits that need no file."""
VALIDATION = "validation"
RUN_OF_WORDS = 13
"""Passages that share this many words in a row count as one text."""
PAPER_FOLDED, PAPER_ALL = 40, 55
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, eq=False)
class FoldPassage:
    """A group of items: one text with its contexts, the longest last."""

    group: str
    items: tuple[Item, ...]

    @property
    def texts(self) -> list[str]:
        """All contexts with their next words that no other begins with, the longest first.

        >>> items = Item("a", "1", "He", ("is",)), Item("b", "1", "We all", ("are",))
        >>> FoldPassage("1", items).texts
        ['We all', 'He']
        """
        by_length = sorted(self.items, key=lambda item: len(item.context), reverse=True)
        texts: list[str] = []
        for item in by_length:
            if not any(text.startswith(item.context) for text in texts):
                texts.append(f"{item.context} {item.original}" if item.original else item.context)
        return texts


@dataclass(frozen=True, eq=False)
class Fold:
    """The passages that one model is trained, validated and tested on."""

    number: int
    train: tuple[FoldPassage, ...]
    validation: tuple[FoldPassage, ...]
    held_out: tuple[FoldPassage, ...]


def passages_of(items: Iterable[Item]) -> list[FoldPassage]:
    """Return items grouped into passages, in the order of first appearance."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.group, []).append(item)
    return [FoldPassage(group, tuple(contexts)) for group, contexts in groups.items()]


def _folds_that_fit(n_groups: int, n_held: int) -> str:
    """Return how to choose a number of folds that fits."""
    most = n_groups - n_held
    if most < 2:
        return "use a corpus of more passages, or a smaller --validation"
    return "use 2" if most == 2 else f"use 2 to {most}"


def assign(
    groups: Sequence[str], split: str, folds: int, validation: int | None, seed: int
) -> dict[str, int | str]:
    """Return the fold (from 1) of each group, or `validation`.

    `paper` takes the groups in order: the first 40 of Provo's 55 are cut into folds and the others
    validate; of any other number, the last `validation` do. `grouped` shuffles them first.
    """
    if split not in SPLITS:
        raise UsageError(f"there is no split {split!r}; use paper, grouped or a file.")
    n_held = _held_for_validation(len(groups), validation)
    if not 2 <= folds <= len(groups) - n_held:
        problem = f"does not fit {len(groups)} passages with {n_held} for validation"
        raise UsageError(f"--folds {folds} {problem}; {_folds_that_fit(len(groups), n_held)}.")
    ordered = list(groups)
    if split == "grouped":
        ordered = [ordered[i] for i in stream(seed, "folds").permutation(len(ordered))]
    folded = ordered[: len(ordered) - n_held]
    numbers: dict[str, int | str] = {
        group: 1 + place * folds // len(folded) for place, group in enumerate(folded)
    }
    return numbers | dict.fromkeys(ordered[len(folded) :], VALIDATION)


def _held_for_validation(n_groups: int, requested: int | None) -> int:
    if requested is None:  # the paper's share
        return max(1, round(n_groups * (PAPER_ALL - PAPER_FOLDED) / PAPER_ALL))
    if not 1 <= requested <= n_groups - 2:
        needed = f"{n_groups} passages, of which the folds need two or more"
        fix = f"use 1 to {n_groups - 2}" if n_groups > 2 else "use a corpus of more passages"
        raise UsageError(f"--validation {requested} does not fit {needed}; {fix}.")
    return requested


def read_assignment(path: Path) -> dict[str, int | str]:
    """Read folds from a table or JSON lines with `group` and `fold` (a number or `validation`)."""
    folds: dict[str, int | str] = {}
    read = table_rows if files.is_table(path) else files.read_json_lines
    for place, row in read(path):
        group = files.key_of(files.required(row, "group", place), "group", place)
        fold = _fold_of(files.required(row, "fold", place), place)
        if folds.setdefault(group, fold) != fold:
            problem = f"passage {quoted(group)} stands in fold {folds[group]} and in fold {fold}"
            raise DataError.at(*place, problem, "name every passage once, or it would leak")
    return folds


def _fold_of(value: object, place: files.Place) -> int | str:
    text = str(value).strip()
    if text == VALIDATION:
        return VALIDATION
    if not text.isdecimal() or int(text) < 1:
        problem = f"fold {quoted(text, 40)} is no number from 1 up"
        raise DataError.at(*place, problem, f"use 1, 2, ... or {VALIDATION}")
    return int(text)


def make_folds(passages: Sequence[FoldPassage], assigned: Mapping[str, int | str]) -> list[Fold]:
    """Return one fold per number: tested on its own passages, trained on those of the others."""
    missing = [passage.group for passage in passages if passage.group not in assigned]
    if missing:
        raise UsageError(f"passage {missing[0]!r} has no fold; name it, or leave it out.")
    where = {p.group: assigned[p.group] for p in passages}
    numbers = sorted({fold for fold in where.values() if isinstance(fold, int)})
    if len(numbers) < 2 or VALIDATION not in where.values():
        raise UsageError("a split needs two folds or more and passages for validation.")
    validation = tuple(p for p in passages if where[p.group] == VALIDATION)
    folds = []
    for number in numbers:
        tested = tuple(p for p in passages if where[p.group] == number)
        trained = tuple(p for p in passages if where[p.group] not in (number, VALIDATION))
        folds.append(Fold(number, trained, validation, tested))
        check_no_leak(folds[-1])
    return folds


def check_no_leak(fold: Fold) -> None:
    """Refuse a fold with the same text in two of training, validation and evaluation."""
    sides = {"training": fold.train, "validation": fold.validation, "evaluation": fold.held_out}
    for (first, passages), (second, others) in combinations(sides.items(), 2):
        # Passages with the same id, the same item, or a long run of the same words.
        owners = {key: passage for passage in passages for key in _keys(passage)}
        copies = ((owners[key], copy) for copy in others for key in _keys(copy) if key in owners)
        for passage, copy in copies:
            raise UsageError(
                f"fold {fold.number} leaks: passage {passage.group!r} of {first} and passage "
                f"{copy.group!r} of {second} are one text; put them in one fold or drop one."
            )


def _keys(passage: FoldPassage) -> Iterator[tuple[str, ...]]:
    """Yield what no other passage may share with this one."""
    yield ("group", passage.group)
    yield from (("item", item.id) for item in passage.items)
    for place, text in enumerate(passage.texts):
        words = _WORD.findall(text.casefold())
        # Short contexts may agree by chance; a passage of short ones is identified by its longest.
        if place == 0 and len(words) <= RUN_OF_WORDS:
            yield ("words", *words)
        for start in range(len(words) - RUN_OF_WORDS + 1):
            yield ("words", *words[start : start + RUN_OF_WORDS])


PAPER = "last-2-blocks"
_BLOCKS = re.compile(r"last-(\d+)-blocks?")


def block_count(which: str) -> int:
    """Return the number of blocks that `last-N-blocks` names."""
    match = _BLOCKS.fullmatch(which)
    if match is None or int(match[1]) < 1:
        raise UsageError(f"--train {which} is not known; use {PAPER}, all or lora.")
    return int(match[1])


ONE_PROCESS = "fine-tuning works in one process; leave out --engine."
LOSSES = ("text", "human", "mixed")
SCHEDULES = ("constant", "linear", "cosine")
MOST = 1e30
"""AdamW's numbers must fit single precision, with room for its corrections."""


GRID = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5)
_RECIPE = (
    *("mix", "train", "rate", "epsilon", "weight_decay", "batch", "epochs", "schedule", "warmup"),
    *("clip_norm", "patience", "lora_rank", "tolerance", "seed"),
)


@dataclass(frozen=True)
class TrainingJob(Job):
    """The options of training that all fine-tuning jobs share."""

    hidden: ClassVar[tuple[str, ...]] = (
        *("dtype", "quantize", "engine"),
        *("address", "actors", "actor_cpus", "actor_gpus"),
    )

    models: tuple[str, ...] = option(
        (), "smollm2, hf:NAME_OR_DIR or gguf:FILE.", flag="--model", single=True
    )
    _: KW_ONLY
    train: str = option(PAPER, "What is trained: last-2-blocks, all or lora.")
    rate: float = option(5e-4, "Learning rate of AdamW.")
    epsilon: float = option(1e-8, "Epsilon of AdamW.")
    weight_decay: float = option(0.01, "Weight decay of AdamW.", low=0)
    schedule: str = option("constant", "constant, linear or cosine.")
    warmup: int = option(0, "Steps until the full learning rate.", low=0)
    clip_norm: float = option(0.0, "Clip gradients at this norm; 0 does not clip.", low=0)
    batch: int = option(5, "Passages per step.", low=1)
    epochs: int = option(10, "Passes over the training passages.", low=1)
    patience: int | None = option(
        None, "Stop after this many epochs without a lower validation loss.", low=1
    )
    lora_rank: int = option(8, "Rank with --train lora.", low=1)
    save_every: int = option(
        0, "Also save a checkpoint every N steps; 0 saves after epochs only.", low=0, fixed=False
    )

    @property
    def recipe(self) -> dict[str, Any]:
        """The settings of training, which identify its weights."""
        return {name: getattr(self, name) for name in _RECIPE if hasattr(self, name)}

    def check_settings(self) -> None:
        """Refuse settings that cannot be trained with."""
        self.check_values(as_flags=True)
        check_choice("schedule", self.schedule, SCHEDULES)
        if self.train not in ("all", "lora"):
            block_count(self.train)
        for name in ("rate", "epsilon"):
            value, default = getattr(self, name), getattr(type(self), name)
            _check(
                0 < value <= MOST, f"--{name} {value} is no number above 0; use {default:g}, say"
            )

    def check_warmup(self, steps: int) -> None:
        """Refuse a warmup that is not over after `steps`."""
        fix = f"use 0 to {steps - 1}, or more --epochs" if steps > 1 else "use 0"
        problem = f"--warmup {self.warmup} does not end within the {steps} steps of training"
        _check(not self.warmup or self.warmup < steps, f"{problem}; {fix}")

    def steps(self, examples: int) -> int:
        """Return the number of training steps for a number of examples."""
        return self.epochs * math.ceil(examples / self.batch)

    def rate_at(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, counted from 1."""
        if step <= self.warmup:
            return self.rate * step / self.warmup
        progress = (step - 1 - self.warmup) / max(1, steps - self.warmup)
        if self.schedule == "linear":
            return self.rate * (1.0 - progress)
        if self.schedule == "cosine":
            return self.rate * 0.5 * (1.0 + math.cos(math.pi * progress))
        return self.rate


@dataclass(frozen=True)
class FinetuneJob(TrainingJob):
    """The options of `aleatoric finetune`."""

    command = "finetune"
    hidden = (*TrainingJob.hidden, "n_splits")
    first = (*TrainingJob.first, "losses", "folds", "split", "validation")

    corpus: str = option(help="provo, or a file of next-word answers.")
    losses: tuple[str, ...] = option(
        ("text",), "text, human (people's distributions) or mixed; repeatable.", flag="--loss"
    )
    folds: int = option(4, "Number of models, each tested once.", low=2, high=1000)
    split: str = option(
        "paper", "paper (in order), grouped (shuffled), or a FILE with columns group and fold."
    )
    validation: int | None = option(
        None, "Number of passages used for validation only; Provo: 15.", low=1
    )
    mix: float = option(
        0.5, "With --loss mixed: the share of people's distributions.", low=0, high=1
    )
    temperatures: str = option(
        ",".join(f"{value:g}" for value in GRID),
        "Temperatures tried on the training passages; none skips them.",
    )
    tolerance: float = option(
        0.02, "Largest gap between the bounds of an exact TVD or D², and of word trees.", low=0
    )
    n_splits: int = option(20, "Random splits of the people.", flag="--splits")

    def __post_init__(self) -> None:
        _check(len(self.losses) > 0, "name one loss or more")
        for loss in self.losses:
            check_choice("loss", loss, LOSSES)
        self.check_settings()
        _ = self.grid  # refuses bad temperatures

    @property
    def model(self) -> str:
        """The model that is trained."""
        return self.models[0]

    @property
    def choices(self) -> Choices:
        """The decisions of the word protocol."""
        return Choices()

    @property
    def grid(self) -> tuple[float, ...]:
        """The temperatures that are tried."""
        return () if self.temperatures == "none" else parse_temperatures(self.temperatures)

    @property
    def loss(self) -> str:
        """The loss that is trained; a job with several losses trains them one by one."""
        return self.losses[0]

    @property
    def human_share(self) -> float:
        """The share of people's distributions in the loss."""
        return {"text": 0.0, "human": 1.0}.get(self.loss, self.mix)

    @property
    def recipe(self) -> dict[str, Any]:
        """The settings of training, which identify its weights."""
        return {"loss": self.loss} | super().recipe


def _check(good: bool, problem: str) -> None:
    if not good:
        raise UsageError(f"{problem}.")


SCORES = ("sq_distance", "log_loss")
"""The two proper scores of a temperature; the first one chooses."""


def parse_temperatures(text: str) -> tuple[float, ...]:
    """Parse temperatures separated by commas."""
    temperatures: tuple[float, ...] = ()
    with suppress(ValueError):
        temperatures = tuple(float(part) for part in text.split(",") if part.strip())
    if not temperatures:
        raise UsageError(f"--temperatures {text!r}: use numbers above 0 by commas, as 0.8,1,1.2.")
    for value in temperatures:
        if not 0 < value < math.inf:
            raise UsageError(f"--temperatures {value:g}: use numbers above 0, as 0.8,1,1.2.")
    return temperatures


def fold_folder(run: Path, loss: str, number: int) -> Path:
    """Return the folder of the weights of a fold."""
    return run / TRAINING / loss / f"fold-{number}"
