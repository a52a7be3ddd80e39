"""Which passages train, stop and test a model, with nothing on two sides.

The paper's split of Provo: passages 1-40 in four folds of ten, the last fifteen for validation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from aleatoric.data import files
from aleatoric.errors import DataError, UsageError, quoted
from aleatoric.rng import stream
from aleatoric.types import Item

if TYPE_CHECKING:
    pass


SPLITS = ("paper", "grouped")
"""Splits that need no file."""
VALIDATION = "validation"
RUN_OF_WORDS = 13
"""So many words in a row that stand in two passages make them one text."""
PAPER_FOLDED, PAPER_ALL = 40, 55
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, eq=False)
class Passage:
    """A group of items: one text with its contexts, the longest last."""

    group: str
    items: tuple[Item, ...]

    @property
    def text(self) -> str:
        """The longest context with the word that follows it.

        >>> Passage("1", (Item("1:2", "1", "There", ("are",), "are"),)).text
        'There are'
        """
        return self.texts[0]

    @property
    def texts(self) -> list[str]:
        """All contexts with their next words that are no beginnings of others, the longest first.

        >>> Passage("1", (Item("a", "1", "He", ("is",)), Item("b", "1", "We all", ("are",)))).texts
        ['We all', 'He']
        """
        by_length = sorted(self.items, key=lambda item: len(item.context), reverse=True)
        found: list[str] = []
        for item in by_length:
            if not any(text.startswith(item.context) for text in found):
                found.append(f"{item.context} {item.original}" if item.original else item.context)
        return found


@dataclass(frozen=True, eq=False)
class Fold:
    """The passages that one model is trained, validated and tested on."""

    number: int
    train: tuple[Passage, ...]
    validation: tuple[Passage, ...]
    held_out: tuple[Passage, ...]


def passages_of(items: Iterable[Item]) -> list[Passage]:
    """Items collected by their group, in the order of first appearance.

    >>> some = [Item("1:2", "1", "a", ("b",)), Item("2:2", "2", "a", ("b",))]
    >>> [passage.group for passage in passages_of(some)]
    ['1', '2']
    """
    found: dict[str, list[Item]] = {}
    for item in items:
        found.setdefault(item.group, []).append(item)
    return [Passage(group, tuple(own)) for group, own in found.items()]


def assign(
    groups: Sequence[str], split: str, folds: int, validation: int | None, seed: int
) -> dict[str, int | str]:
    """The fold (from 1) of each group, or `validation`.

    `paper` takes the groups in their order: of Provo's 55 the first 40 are cut into folds and the
    others validate; of any other number, the last `validation`. `grouped` shuffles them first.

    >>> assign(["a", "b", "c"], "paper", 2, 1, seed=0)
    {'a': 1, 'b': 2, 'c': 'validation'}
    """
    if split not in SPLITS:
        raise UsageError(f"there is no split {split!r}; use paper, grouped or a file.")
    kept = _held_for_validation(len(groups), validation)
    if not 2 <= folds <= len(groups) - kept:
        raise UsageError(
            f"--folds {folds} does not fit {len(groups)} passages with {kept} for validation; "
            f"use 2 to {max(2, len(groups) - kept)}."
        )
    ordered = list(groups)
    if split == "grouped":
        ordered = [ordered[i] for i in stream(seed, "folds").permutation(len(ordered))]
    folded = ordered[: len(ordered) - kept]
    numbers: dict[str, int | str] = {
        group: 1 + place * folds // len(folded) for place, group in enumerate(folded)
    }
    return numbers | dict.fromkeys(ordered[len(folded) :], VALIDATION)


def _held_for_validation(n_groups: int, asked: int | None) -> int:
    """How many passages validate: as many as asked for, else the paper's share."""
    if asked is not None and not 1 <= asked <= n_groups - 2:
        needed = f"{n_groups} passages, of which the folds need two or more"
        fix = f"use 1 to {n_groups - 2}" if n_groups > 2 else "use a corpus of more passages"
        raise UsageError(f"--validation {asked} does not fit {needed}; {fix}.")
    if asked is not None:
        return asked
    if n_groups == PAPER_ALL:
        return PAPER_ALL - PAPER_FOLDED
    return max(1, round(n_groups * (PAPER_ALL - PAPER_FOLDED) / PAPER_ALL))


def read_assignment(path: Path) -> dict[str, int | str]:
    """Folds by hand: a table or JSON lines with `group` and `fold` (a number or `validation`).

    A group that is named for two folds is refused.
    """
    found: dict[str, int | str] = {}
    for place, row in _rows(path):
        group = files.key_of(files.required(row, "group", place), "group", place)
        fold = _fold_of(files.required(row, "fold", place), place)
        if found.setdefault(group, fold) != fold:
            problem = f"passage {quoted(group)} stands in fold {found[group]} and in fold {fold}"
            raise DataError.at(*place, problem, "name every passage once, or it would leak")
    return found


def _rows(path: Path) -> Iterator[tuple[files.Place, Mapping[str, Any]]]:
    return files.read_table(path) if files.is_table(path) else files.read_json_lines(path)


def _fold_of(value: object, place: files.Place) -> int | str:
    text = str(value).strip()
    if text == VALIDATION:
        return VALIDATION
    if not text.isdecimal() or int(text) < 1:
        problem = f"fold {quoted(text, 40)} is no number from 1 up"
        raise DataError.at(*place, problem, f"use 1, 2, ... or {VALIDATION}")
    return int(text)


def make_folds(passages: Sequence[Passage], assigned: Mapping[str, int | str]) -> list[Fold]:
    """One fold a number: it tests on its own passages and trains on those of the others."""
    missing = [passage.group for passage in passages if passage.group not in assigned]
    if missing:
        raise UsageError(f"passage {missing[0]!r} has no fold; name it, or leave it out.")
    where = {p.group: assigned[p.group] for p in passages}
    numbers = sorted({fold for fold in where.values() if isinstance(fold, int)})
    if len(numbers) < 2 or VALIDATION not in where.values():
        raise UsageError("a split needs two folds or more and passages for validation.")
    found = [
        Fold(
            number,
            tuple(p for p in passages if where[p.group] not in (number, VALIDATION)),
            tuple(p for p in passages if where[p.group] == VALIDATION),
            tuple(p for p in passages if where[p.group] == number),
        )
        for number in numbers
    ]
    for fold in found:
        check_no_leak(fold)
    return found


def check_no_leak(fold: Fold) -> None:
    """Refuse a fold that has a passage, or the text of one under another name, on two sides."""
    sides = {"training": fold.train, "validation": fold.validation, "evaluation": fold.held_out}
    for (first, one), (second, other) in combinations(sides.items(), 2):
        for own, again in _shared(one, other):
            raise UsageError(
                f"fold {fold.number} leaks: passage {own.group!r} of {first} and passage "
                f"{again.group!r} of {second} are one text; put them in one fold or drop one."
            )


def _shared(one: Sequence[Passage], other: Sequence[Passage]) -> Iterator[tuple[Passage, Passage]]:
    """Pairs of passages with the same id, the same item, or a long run of the same words."""
    marks = {mark: passage for passage in one for mark in _marks(passage)}
    for passage in other:
        for mark in _marks(passage):
            if mark in marks:
                yield marks[mark], passage
                break


def _marks(passage: Passage) -> Iterator[tuple[str, ...]]:
    """What no other passage may have in common with this one."""
    yield ("group", passage.group)
    yield from (("item", item.id) for item in passage.items)
    for place, text in enumerate(passage.texts):
        words = _WORD.findall(text.casefold())
        # Short contexts may be alike by chance; a passage that is all short is told by its longest.
        if place == 0 and len(words) <= RUN_OF_WORDS:
            yield ("words", *words)
        for start in range(len(words) - RUN_OF_WORDS + 1):
            yield ("words", *words[start : start + RUN_OF_WORDS])


PAPER = "last-2-blocks"
_BLOCKS = re.compile(r"last-(\d+)-blocks?")


def check_trainable(which: str) -> None:
    """Refuse what names no parameters.

    >>> check_trainable("last-2-blocks")
    """
    if which not in ("all", "lora"):
        block_count(which)


def block_count(which: str) -> int:
    """Return the number of blocks that `last-N-blocks` names."""
    found = _BLOCKS.fullmatch(which)
    if found is None or int(found[1]) < 1:
        raise UsageError(f"--train {which} is not known; use {PAPER}, all or lora.")
    return int(found[1])


Loss = Literal["text", "human", "mixed"]
Schedule = Literal["constant", "linear", "cosine"]
LOSSES: tuple[str, ...] = get_args(Loss)
SCHEDULES: tuple[str, ...] = get_args(Schedule)
MOST = 1e30
"""AdamW's numbers must fit single precision, with room for its corrections."""


@dataclass(frozen=True)
class Recipe:
    """How one model is trained.

    `loss` is the text's own next tokens, people's distributions, or both: `mix` of the latter and
    the rest of the former. `patience` stops training after so many epochs without a lower
    validation loss and keeps the best weights; without it the last ones are kept. `tolerance` is
    how far the search for the words' token sequences goes, as the exact estimator's does.
    """

    loss: str = "text"
    mix: float = 0.5
    train: str = PAPER
    rate: float = 5e-4
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    batch: int = 5
    epochs: int = 10
    schedule: str = "constant"
    warmup: int = 0
    clip_norm: float = 0.0
    patience: int | None = None
    lora_rank: int = 8
    tolerance: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self.loss in LOSSES, f"there is no loss {self.loss!r}; use {', '.join(LOSSES)}")
        known = ", ".join(SCHEDULES)
        _check(self.schedule in SCHEDULES, f"there is no schedule {self.schedule!r}; use {known}")
        check_trainable(self.train)
        self._check_numbers()

    def _check_numbers(self) -> None:
        _check(_is_number(self.mix) and self.mix <= 1, f"--mix {self.mix} is no share; use 0 to 1")
        for name in ("rate", "epsilon"):
            value = getattr(self, name)
            good = _is_number(value) and 0 < value <= MOST
            _check(good, f"--{name} {value} is no number above 0; use {_DEFAULTS[name]:g}, say")
        for name in ("weight_decay", "clip_norm", "tolerance"):
            value = getattr(self, name)
            _check(_is_number(value), f"{_option(name)} {value} is no number from 0 up")
        for name, least in _COUNTS.items():
            value = getattr(self, name)
            good = type(value) is int and value >= least
            _check(good, f"{_option(name)} {value} is no whole number from {least} up")
        _check_patience(self.patience)

    def check_warmup(self, steps: int) -> None:
        """Refuse a warmup that so many steps never leave: the full rate would not be reached.

        >>> Recipe(warmup=5).check_warmup(6)
        """
        fix = f"use 0 to {steps - 1}, or more --epochs" if steps > 1 else "use 0"
        problem = f"--warmup {self.warmup} does not end within the {steps} steps of training"
        _check(not self.warmup or self.warmup < steps, f"{problem}; {fix}")

    def steps(self, passages: int) -> int:
        """How many steps training on so many passages takes.

        >>> Recipe(batch=5, epochs=10).steps(31)
        70
        """
        return self.epochs * math.ceil(passages / self.batch)

    @property
    def human_share(self) -> float:
        """How much of the loss is people's distributions.

        >>> Recipe(loss="human").human_share, Recipe(loss="text").human_share
        (1.0, 0.0)
        """
        return {"text": 0.0, "human": 1.0}.get(self.loss, self.mix)

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 1, of so many.

        >>> Recipe(schedule="linear", rate=1.0).rate_at(6, 10)
        0.5
        """
        if step <= self.warmup:
            return self.rate * step / self.warmup
        done = (step - 1 - self.warmup) / max(1, steps - self.warmup)
        if self.schedule == "linear":
            return self.rate * (1.0 - done)
        if self.schedule == "cosine":
            return self.rate * 0.5 * (1.0 + math.cos(math.pi * done))
        return self.rate

    def as_dict(self) -> dict[str, Any]:
        """For a run's manifest."""
        return asdict(self)


_DEFAULTS = {"rate": Recipe.rate, "epsilon": Recipe.epsilon}
_COUNTS = {"batch": 1, "epochs": 1, "lora_rank": 1, "warmup": 0}
"""What is counted in whole numbers -> the least of it."""


def _option(name: str) -> str:
    """What a setting is called on the command line.

    >>> _option("weight_decay")
    '--weight-decay'
    """
    return f"--{name.replace('_', '-')}"


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number from 0 up."""
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def _check_patience(patience: Any) -> None:
    good = patience is None or (type(patience) is int and patience >= 1)
    _check(good, f"--patience {patience} is no whole number from 1 up; leave it out not to stop")


def _check(good: bool, problem: str) -> None:
    if not good:
        raise UsageError(f"{problem}.")


GRID = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5)


SCORES = ("sq_distance", "log_loss")
"""The two proper scores of a temperature; the first one chooses."""


def parse_temperatures(text: str) -> tuple[float, ...]:
    """Temperatures by commas.

    >>> parse_temperatures("0.8, 1")
    (0.8, 1.0)
    """
    try:
        found = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = ()
    if not found:
        raise UsageError(f"--temperatures {text!r}: use numbers above 0 by commas, as 0.8,1,1.2.")
    check_temperatures(found)
    return found


def check_temperatures(values: Sequence[float]) -> None:
    """Refuse what is no temperature.

    >>> check_temperatures((0.8, 1.0))
    """
    for value in values:
        if not 0 < value < float("inf"):
            raise UsageError(f"--temperatures {value:g}: use numbers above 0, as 0.8,1,1.2.")
