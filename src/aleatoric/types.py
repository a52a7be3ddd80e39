"""The frozen objects that every room passes to the next. Imports nothing of ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from aleatoric.errors import Showable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AnyItem = TypeVar("AnyItem", covariant=True)

FAILED = "\0failed"
"""The outcome that stands for "no complete word" where failed draws are kept as an outcome."""


@dataclass(frozen=True, slots=True)
class Item:
    """One context and what people answered to it, one entry per person.

    >>> Item("1:2", "1", "There", ("are", "is", "are")).group
    '1'
    """

    id: str
    group: str
    context: str
    responses: tuple[str, ...]
    original: str | None = None
    persons: tuple[str, ...] | None = None
    """Who gave each response, in the order of `responses`; `None` where that is not known."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """A sentence and its translation.

    >>> SentencePair("1", "Ein Hund .", "A dog .").target
    'A dog .'
    """

    id: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Document:
    """A text as it stands, the unit of resampling at the token level.

    >>> Document("1", "There are many.").id
    '1'
    """

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class TextItem:
    """One input and what people wrote to it, one text a person.

    `input` has one part, or the turns of a dialogue in their order.

    >>> TextItem("1", "1", ("Adjacent counties are Marin.",), ("Nearby is Marin.",)).id
    '1'
    """

    id: str
    group: str
    input: tuple[str, ...]
    references: tuple[str, ...]
    original: str | None = None


@dataclass(frozen=True, slots=True)
class Texts:
    """What a generator wrote to one input, one text a draw.

    >>> len(Texts("1", ("Marin is near.", "Near Marin.")).texts)
    2
    """

    item_id: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Collected(Generic[AnyItem]):
    """Items of any kind with the facts that identify them.

    `items` may be lazy but can be walked repeatedly; `notes` say what a reader should know, and
    those of lazy items are complete after a walk.
    """

    name: str
    version: str
    sha256: str
    licence: str
    items: Collection[AnyItem]
    notes: Iterable[str] = ()


@dataclass(frozen=True)
class Corpus(Collected[Item]):
    """Contexts and what people answered to them: the corpora of the word level."""

    language: str | None = None
    """A code such as `en`; `None` where it is not known."""


@dataclass(frozen=True)
class ParallelText(Collected[SentencePair]):
    """Sentences and their translations."""


@dataclass(frozen=True)
class TextCorpus(Collected[Document]):
    """Documents, for a language model to read."""


@dataclass(frozen=True)
class MultiRef(Collected[TextItem]):
    """Inputs and the texts that several people wrote to each: the corpora of the text level."""

    language: str = "en"


@dataclass(frozen=True, slots=True)
class Draws:
    """What a model gave for one item: counted words, and how many draws held no word.

    `row` numbers the rows of a recorded file that speak of the same item. `texts`, where given,
    are raw texts still to be cut by a word rule; `logprobs` are log-probabilities of words;
    `exact` are probabilities of words in place of draws.
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
    """A distribution over outcomes; `rest` is unassigned mass, `n` the draws behind it.

    `n=None` says that the probabilities are exact.

    >>> Categorical.from_counts({"a": 3, "b": 1})
    Categorical(support=('a', 'b'), probs=(0.75, 0.25), rest=0.0, n=4)
    """

    support: tuple[str, ...]
    probs: tuple[float, ...]
    rest: float = 0.0
    n: int | None = None

    @classmethod
    def from_counts(cls, counts: Mapping[str, int]) -> Categorical:
        """Relative frequencies of `counts`, which must not be empty."""
        total = sum(counts.values())
        probs = tuple([count / total for count in counts.values()])
        return cls(tuple(counts), probs, 0.0, total)

    def as_dict(self) -> Mapping[str, float]:
        """Outcome -> probability.

        >>> Categorical(("a",), (1.0,)).as_dict()
        {'a': 1.0}
        """
        return self._mass

    @cached_property
    def outcomes_by_share(self) -> Counter[float]:
        """Probability -> how many outcomes have it: those of a sample are few.

        >>> dict(Categorical(("a", "b", "c"), (0.5, 0.25, 0.25)).outcomes_by_share)
        {0.5: 1, 0.25: 2}
        """
        return Counter(self.probs)

    @cached_property
    def _mass(self) -> dict[str, float]:
        # Every metric looks words up: the mapping is made once.
        return dict(zip(self.support, self.probs, strict=True))


@dataclass(frozen=True)
class Exact:
    """Word probabilities that needed no sampling, with what is known of their error.

    `words` holds people's words and the model's own likeliest ones; `bounds` the lower and upper
    bounds of metrics against people, by the metric's name (an infinite bound is `None`);
    `certified` says that no word can be likelier than the likeliest one here; `failed` is the
    probability of a text without a word.
    """

    words: Categorical
    bounds: Mapping[str, tuple[float, float | None]]
    certified: bool
    failed: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Real-valued draws, for example the pair distances of one input."""

    values: tuple[float, ...]
    n: int


@dataclass(frozen=True, slots=True)
class Pair:
    """People and a model on one item."""

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
    """An interval with its nominal level and the method that made it."""

    low: float
    high: float
    level: float
    method: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its noise. Undefined is `None` plus a count, never 0."""

    value: float | None
    interval: Interval | None
    n_items: int
    n_groups: int
    n_undefined: int = 0
    n_missing: int = 0
    """Items for which the system has no draws at all."""
    spread: float | None = None
    """Standard deviation over random splits, where the estimate is a mean over splits."""
    reason: str | None = None
    """Why there is no value, or no interval."""
    p_calibrated: float | None = None
    """Calibration errors of tokens only: the p-value of "the model is calibrated"."""


@dataclass(frozen=True, slots=True)
class Perfect:
    """The expected value of a perfect model at the same sample sizes, between two ends.

    A diagnostic: a difference from it ranks nothing. The truth that people and a perfect model
    share is not known, so the expectation is given under two estimates of it.
    """

    low: float | None
    high: float | None
    method: str
    reason: str | None = None
    """Why there is no value."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Every decision of the word protocol that changes a number, each by name.

    >>> Choices.paper().bins, Choices.corrected().bins
    ('half-open', 'closed')
    """

    protocol: str = "corrected"
    rule: str = "corrected"
    """A registered word rule, or a user's own as module:function."""
    answers: Literal["rule", "folded"] = "rule"
    """How words given as words (people's answers, recorded counts) are read: by the word rule, or
    as they are, with their case folded."""
    lead: Literal["skip", "condition"] = "skip"
    failed: Literal["reject", "outcome"] = "reject"
    repeats: Literal["pool", "separate"] = "pool"
    original: Literal["normalised", "raw"] = "normalised"
    bins: Literal["closed", "half-open"] = "closed"
    binning: Literal["equal-width", "equal-mass"] = "equal-width"
    splits: Literal["independent", "shared"] = "independent"

    @classmethod
    def corrected(cls) -> Choices:
        """The default: without the defects of the published procedure."""
        return cls()

    @classmethod
    def paper(cls) -> Choices:
        """As published, so that the literature can be compared."""
        return cls(
            protocol="paper",
            rule="paper",
            answers="folded",
            repeats="separate",
            original="raw",
            bins="half-open",
            splits="shared",
        )

    @classmethod
    def saved(cls, choices: Mapping[str, Any]) -> Choices:
        """The choices of a saved run; older versions did not apply the word rule to answers.

        >>> Choices.saved({"rule": "corrected"}).answers
        'folded'
        """
        return cls(**{"answers": "folded", **choices})

    def as_dict(self) -> dict[str, str]:
        """Choice -> value, in a fixed order."""
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
        fields = {
            "corpus": f"{self.corpus}#{self.corpus_sha256[:12]}",
            "model": self.model,
            "decoder": self.decoder,
            "estimator": self.estimator,
            "n": self.n,
            "seed": self.seed,
            "metric": self.metric,
            "protocol": choices,
            "aleatoric": self.version,
        }
        return "|".join(f"{key}:{value}" for key, value in fields.items())


@dataclass(frozen=True, slots=True)
class Row:
    """One item's value of one metric."""

    item_id: str
    group: str
    value: float | None


@dataclass(frozen=True)
class Result(Showable):
    """One metric of one system, with its interval and what makes it reproducible."""

    system: str
    metric: str
    signature: Signature
    estimate: Estimate
    perfect: Perfect | None = None
    rows: Iterable[Row] = field(default=(), repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form printed by `--json`."""
        return {
            "system": self.system,
            "metric": self.metric,
            "estimate": asdict(self.estimate),
            "perfect": asdict(self.perfect) if self.perfect else None,
            "signature": str(self.signature),
        }


class Results(Showable, list[Result]):
    """Results in a row: a list that a notebook shows as a table."""


@dataclass(frozen=True)
class Table(Showable):
    """A study's numbers, ready to print, paste or draw."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study(Showable):
    """What an analysis found: tables to print, and the data of its figures by figure name."""

    name: str
    tables: tuple[Table, ...]
    figures: Mapping[str, Any] = field(default_factory=dict)
