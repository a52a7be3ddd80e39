"""The types that the whole package shares; most are frozen dataclasses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
AnyItem = TypeVar("AnyItem", covariant=True)
FAILED = "\0failed"
"""The outcome that stands for "no complete word" where failed draws are kept as an outcome."""


@dataclass(frozen=True, slots=True)
class Item:
    """One context and people's answers to it, one entry per person."""

    id: str
    group: str
    context: str
    responses: tuple[str, ...]
    original: str | None = None
    persons: tuple[str, ...] | None = None
    """Who gave each response, in the order of `responses`; `None` if unknown."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A sentence and its translation."""

    id: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Document:
    """A plain text, the unit of resampling at the token level."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class TextItem:
    """One input, in one part or the turns of a dialogue, and what each person wrote for it."""

    id: str
    group: str
    input: tuple[str, ...]
    references: tuple[str, ...]
    original: str | None = None
    persons: tuple[str, ...] | None = None
    """Who wrote each reference, in the order of `references`; `None` if unknown."""


@dataclass(frozen=True, slots=True)
class Texts:
    """What a generator wrote for one input, one text per draw."""

    item_id: str
    texts: tuple[str, ...]
    logprobs: tuple[float, ...] = ()
    """The log-probability of each text in nats, up to where it was cut; empty if not known."""
    n_cut: int = 0
    """Texts that were cut at the longest length, counted together with log-probabilities."""

    def and_more(self, more: Texts) -> Texts:
        """Return these texts and more; log-probabilities are known if all are."""
        values = (*self.logprobs, *more.logprobs) if self.logprobs and more.logprobs else ()
        texts = (*self.texts, *more.texts)
        return Texts(self.item_id, texts, values, self.n_cut + more.n_cut)


class LazyItems(Collection[AnyItem]):
    """Items that are read from their source at every iteration and never held in memory."""

    def __init__(self, read: Callable[[], Iterator[AnyItem]], length: int | None = None) -> None:
        self._read, self._length = read, length

    def __iter__(self) -> Iterator[AnyItem]:
        count = 0
        for item in self._read():
            count += 1
            yield item
        self._length = count

    def __len__(self) -> int:
        return sum(1 for _ in self) if self._length is None else self._length

    def __contains__(self, item: object) -> bool:
        return any(item == other for other in self)


@dataclass(frozen=True)
class Collected(Generic[AnyItem]):
    """Items of any kind with the facts that identify them, and caveats for the reader.

    `items` may be lazy but can be iterated repeatedly; `notes` are complete after one iteration.
    """

    name: str
    version: str
    sha256: str
    licence: str
    items: Collection[AnyItem]
    notes: Iterable[str] = ()


@dataclass(frozen=True)
class Corpus(Collected[Item]):
    """Contexts and people's answers to them: the corpora of the word level."""

    language: str | None = None
    """A code such as `en`; `None` if unknown."""


@dataclass(frozen=True)
class ParallelText(Collected[SentencePair]):
    """Sentences and their translations."""


@dataclass(frozen=True)
class TextCorpus(Collected[Document]):
    """Documents for a language model to read."""


@dataclass(frozen=True)
class MultiRef(Collected[TextItem]):
    """Inputs and the texts that several people wrote for each: the corpora of the text level."""

    language: str = "en"
    is_language_stated: bool = True
    """Whether the corpus is known to be in this language; if not, it is taken to be."""


@dataclass(frozen=True, slots=True)
class Draws:
    """A model's answers for one item: counted words, and the number of draws without a word.

    `row` numbers the rows of a recorded file about the same item; `texts` are raw texts that a word
    rule has yet to cut; `logprobs` are of words; `exact` are probabilities in place of draws.
    """

    item_id: str
    counts: Mapping[str, int]
    failed: int = 0
    row: int = 0
    texts: tuple[str, ...] = ()
    logprobs: Mapping[str, float] | None = None
    exact: Exact | None = None


@dataclass(frozen=True)
class Categorical:
    """A distribution over outcomes; `rest` is unassigned mass, `n` draws, or `None` if exact.

    `agreement` estimates how often two draws agree where unassigned mass hides a part of it.
    """

    support: tuple[str, ...]
    probs: tuple[float, ...]
    rest: float = 0.0
    n: int | None = None
    agreement: float | None = None

    @classmethod
    def from_counts(cls, counts: Mapping[str, int]) -> Categorical:
        """Relative frequencies of `counts`, which must not be empty."""
        total = sum(counts.values())
        return cls(tuple(counts), tuple([n / total for n in counts.values()]), 0.0, total)

    def as_dict(self) -> Mapping[str, float]:
        """A mapping from outcome to probability."""
        return self._mass

    @cached_property
    def assigned(self) -> float:
        """The sum of the probabilities."""
        return sum(self.probs)

    @cached_property
    def outcomes_by_share(self) -> Counter[float]:
        """How many outcomes have each probability; a sample has few distinct ones."""
        return Counter(self.probs)

    @cached_property
    def _mass(self) -> dict[str, float]:
        # Every metric looks words up: the mapping is made once.
        return dict(zip(self.support, self.probs, strict=True))


@dataclass(frozen=True)
class Exact:
    """Word probabilities computed without sampling, with their error bounds.

    `words` holds people's words and the model's most probable ones; `bounds` maps a metric's name
    to its lower and upper bound against people (an infinite bound is `None`); `certified` says that
    no other word can be more probable than the most probable one here; `failed` is the probability
    of a text without a word.
    """

    words: Categorical
    bounds: Mapping[str, tuple[float, float | None]]
    certified: bool
    failed: float


@dataclass(frozen=True, slots=True)
class Pair:
    """The distributions of people and of a model on one item."""

    item_id: str
    group: str
    human: Categorical
    model: Categorical


@dataclass(frozen=True, slots=True)
class Case:
    """An item together with what one system predicts for it: the input of every study."""

    item: Item
    pair: Pair
    renormalised: bool = False
    """Whether recorded log-probabilities were renormalised over the recorded words (App. A)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval with its nominal level and the method that computed it."""

    low: float
    high: float
    level: float
    method: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty. Undefined is `None` plus a count, never 0."""

    value: float | None
    interval: Interval | None
    n_items: int
    n_groups: int
    n_undefined: int = 0
    n_missing: int = 0
    """Items for which the system has no draws at all."""
    spread: float | None = None
    """Standard deviation over random splits, if the estimate is a mean over splits."""
    reason: str | None = None
    """Why there is no value or no interval."""
    p_calibrated: float | None = None
    """Token calibration errors only: the p-value of "the model is calibrated"."""

    def record(self, name: str = "value") -> dict[str, Any]:
        """Return value, ends of the interval and counts, one number per key."""
        ends, prefix = self.interval, "" if name == "value" else f"{name}_"
        return {
            name: self.value,
            f"{prefix}low": ends and ends.low,
            f"{prefix}high": ends and ends.high,
            "n_items": self.n_items,
            "n_groups": self.n_groups,
            "n_undefined": self.n_undefined,
        }


@dataclass(frozen=True, slots=True)
class Perfect:
    """The expected value of a perfect model at the same sample sizes, for diagnosis only.

    It is given under two estimates of the unknown true distribution of answers.
    """

    low: float | None
    high: float | None
    method: str
    reason: str | None = None
    """Why there is no value."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Every decision of the word protocol that changes a number; by default as corrected."""

    protocol: str = "corrected"
    unit: Literal["word", "token"] = "word"
    """What an answer is: a word, or the first token of one."""
    rule: str = "corrected"
    """A registered word rule, or a user's own as module:function."""
    answers: Literal["rule", "folded"] = "rule"
    """How words given as words are read: with the word rule, or as they are, case-folded."""
    lead: Literal["skip", "condition"] = "skip"
    failed: Literal["reject", "outcome"] = "reject"
    repeats: Literal["pool", "separate"] = "pool"
    original: Literal["normalised", "raw"] = "normalised"
    bins: Literal["closed", "half-open"] = "closed"
    binning: Literal["equal-width", "equal-mass"] = "equal-width"
    splits: Literal["independent", "shared"] = "independent"

    @classmethod
    def paper(cls) -> Choices:
        """As published, for comparison with the literature."""
        return cls(
            protocol="paper",
            rule="paper",
            answers="folded",
            repeats="separate",
            original="raw",
            bins="half-open",
            splits="shared",
        )

    def as_dict(self) -> dict[str, str]:
        """A mapping from choice to value, in a fixed order."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Signature:
    """Everything that makes a number reproducible, as one short line."""

    corpus: str
    corpus_sha256: str
    model: str
    decoder: str
    estimator: str
    protocol: Mapping[str, str]
    n: str
    seed: int
    metric: str
    version: str

    def __str__(self) -> str:
        choices = ",".join(f"{key}={value}" for key, value in self.protocol.items())
        names = ("model", "decoder", "estimator", "n", "seed", "metric")
        fields = {"corpus": f"{self.corpus}#{self.corpus_sha256[:12]}"}
        fields |= {name: getattr(self, name) for name in names}
        fields |= {"protocol": choices, "aleatoric": self.version}
        return "|".join(f"{key}:{value}" for key, value in fields.items())


@dataclass(frozen=True, slots=True)
class Row:
    """One item's value of one metric."""

    item_id: str
    group: str
    value: float | None


Cut = Literal["blank-lines", "lines", "file"]
"""A document in plain text: the lines between blank lines, one line, or the whole file."""
