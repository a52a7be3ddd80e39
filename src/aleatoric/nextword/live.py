"""A language model in this process as a source of next words: exact, sampled, or as published."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from aleatoric.errors import UsageError
from aleatoric.metrics.agreement import self_agreement
from aleatoric.models.base import whole_passages
from aleatoric.models.decoding import Decoder
from aleatoric.nextword.answers import human_counts, model_distribution, pool
from aleatoric.nextword.digest import Notebook, Reader, WordProbabilities
from aleatoric.nextword.exact import Asking, Question, Search, answer
from aleatoric.nextword.head import Head, HeadSearch, Tops, grow, masses
from aleatoric.nextword.sampled import Prompt, mc
from aleatoric.nextword.tree import (
    ContextError,
    Limits,
    Passage,
    Tree,
    TreeLM,
    each_pack,
    encode_contexts,
    packs_of,
    passages_of,
)
from aleatoric.nextword.vocabulary import Lead, Vocabulary
from aleatoric.types import FAILED, Categorical, Draws, Exact, Item, Pair

if TYPE_CHECKING:
    from aleatoric.models.base import Ask
    from aleatoric.models.hf import HFModel


MASSIVE = 0.01
"""Nodes of the first search with at least this mass are remembered for the second."""
Found = tuple[WordProbabilities, Head]


def survey(
    lm: TreeLM,
    questions: Sequence[Question],
    *,
    search: Search,
    head_search: HeadSearch,
    decoder: Decoder | None = None,
    lead: Lead = "skip",
    limits: Limits | None = None,
    vocabulary: Vocabulary | None = None,
) -> list[Found]:
    """What `exact` and `head` give for each question, at little more than the cost of `exact`.

    The weights of a question are people's probabilities; the head may be searched until the squared
    distance to them is known.
    """
    limits = limits or Limits()
    vocabulary = vocabulary or Vocabulary(lm.pieces, lead)
    reader = Reader(lm, vocabulary, decoder or Decoder())
    asking = Asking(questions, vocabulary)
    packs = packs_of(
        passages_of(encode_contexts(lm, [q.context for q in questions])),
        limits.contexts_at_once(lm),
    )

    def work(pack: list[Passage]) -> Iterator[tuple[int, Found] | None]:
        return _both(Tree(lm, pack, limits), reader, asking, search, head_search)

    found = dict(each_pack(lm, packs, work))
    return [found[i] for i in range(len(questions))]


def _both(
    tree: Tree, reader: Reader, asking: Asking, search: Search, head_search: HeadSearch
) -> Iterator[tuple[int, Found] | None]:
    notebook = Notebook(reader, head_search.branch, MASSIVE)
    answers: dict[int, WordProbabilities] = {}
    for found in answer(tree, reader, asking, search, notebook):
        if found is None:
            yield None
        else:
            answers[found[0]] = found[1]
    known = {index: (own, _people(asking.questions[index])) for index, own in answers.items()}
    for index, head in grow(tree, reader, head_search, notebook, known):
        yield index, (answers[index], head)


def _people(question: Question) -> dict[str, float]:
    if question.weights is None:
        return {}
    return dict(zip(question.words, question.weights, strict=True))


FIRST = 50
"""Draws before a context is judged for the first time."""


def parse_until(text: str) -> float:
    """The standard error of `se=0.01`.

    >>> parse_until("se=0.01")
    0.01
    """
    name, _, value = text.partition("=")
    try:
        error = float(value)
    except ValueError:
        error = 0.0
    if name != "se" or not 0 < error < 1:
        raise UsageError(f"--until {text} is no target; write --until se=0.01.")
    return error


def rounds(most: int, first: int = FIRST) -> Iterator[tuple[int, int]]:
    """Numbers of draws so far, and to add: what there is doubles, and ends at `most`.

    >>> list(rounds(1000, 100))
    [(0, 100), (100, 100), (200, 200), (400, 400), (800, 200)]
    """
    done = 0
    while done < most:
        more = min(max(done, first), most - done)
        yield done, more
        done += more


def sampling_error(people: Categorical, model: Categorical) -> float:
    """The standard error of a context's TVD that the sampling of the model leaves.

    TVD falls by 1/n with every draw that hits a word which people gave more often than the model
    does, and changes with no other draw: the variance is that of this share of draws. Two draws
    are added, one that hits and one that misses, so that a few draws all alike promise nothing.

    >>> people = Categorical.from_counts({"a": 3, "b": 1})
    >>> round(sampling_error(people, Categorical.from_counts({"a": 49, "z": 49})), 4)
    0.0505
    """
    if model.n is None:
        return 0.0
    own = model.as_dict()
    hits = sum(own.get(w, 0.0) for w, p in people.as_dict().items() if own.get(w, 0.0) < p)
    share = (hits * model.n + 1) / (model.n + 2)
    return math.sqrt(share * (1 - share) / model.n)


def sample_until(
    people: Mapping[str, Categorical],
    draw: Callable[[Sequence[str], int, int], Sequence[Draws]],
    error: float,
    most: int,
    keep_failed: bool,
) -> dict[str, Draws]:
    """Draws of each item until its distance to people has this standard error, or `most` draws.

    `draw(items, first, n)` gives samples first..first+n-1 of each item.
    """
    found: dict[str, Draws] = {}
    waiting = list(people)
    for first, more in rounds(most):
        for one in draw(waiting, first, more):
            before = [found[one.item_id]] if one.item_id in found else []
            found[one.item_id] = _added([*before, one])
        waiting = [i for i in waiting if not reaches(people[i], found[i], error, keep_failed)]
        if not waiting:
            break
    return found


def reaches(people: Categorical, draws: Draws, error: float, keep_failed: bool) -> bool:
    """Whether a context's draws give its distance with at most this standard error."""
    model = model_distribution(draws, keep_failed)
    return model is not None and sampling_error(people, model) <= error


def until_note(system: str, pairs: Sequence[Pair], error: float, most: int) -> str:
    """How many draws a system's contexts took, and how many had to stop short of the target."""
    taken = [pair.model.n or 0 for pair in pairs]
    short = sum(sampling_error(pair.human, pair.model) > error for pair in pairs)
    return (
        f"{system}: {sum(taken)} draws in place of {most * len(pairs)}, {min(taken, default=0)} to "
        f"{max(taken, default=0)} a context, until se={error:g}; {short} of {len(pairs)} contexts "
        f"did not reach it with --samples {most}"
    )


def _added(parts: Sequence[Draws]) -> Draws:
    """Further draws of an item added up, words in order as in a sample drawn at once."""
    whole = pool(parts)
    return replace(whole, counts=dict(sorted(whole.counts.items())))


NODES = 32
"""Tokens run per context to find the likeliest word and to bound the squared distance."""


@dataclass(frozen=True)
class LiveModel:
    """A loaded language model with an estimator of its next-word distribution."""

    lm: HFModel
    label: str
    estimator: str
    limits: Limits
    _vocabularies: dict[str, Vocabulary] = field(default_factory=dict, repr=False)

    @property
    def version(self) -> str:
        """Revision, precision and the policy for the beginning-of-text token."""
        found = self.lm.identity
        return f"{found['revision']},{found['dtype']},bos={found['bos']}"

    @property
    def at_once(self) -> int:
        """Contexts that are worked on together."""
        return self.limits.contexts_at_once(self.lm)

    @property
    def together(self) -> int | None:
        """Contexts on which each other's exact probabilities depend; words drawn do not."""
        return self.at_once if self.estimator == "exact" else None

    def notes(self) -> Sequence[str]:
        """Nothing beyond its numbers."""
        return ()

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Words for items, a few passages at a time, so that they can be saved as they come."""
        if ask.choices.rule != "corrected":
            raise UsageError(
                f"{self.label}: live models follow the corrected word rule, and this run asks for "
                f"{ask.choices.rule}; add --word-rule corrected, or record the model's texts and "
                "use recorded:FILE."
            )
        decoder = Decoder.parse(ask.decoder)
        vocabulary = self.vocabulary(ask.choices.lead)
        for part in whole_passages(items, self.at_once):
            answer = self._sampled if self.estimator == "mc" else self._exact
            try:
                yield from answer(part, ask, decoder, vocabulary)
            except ContextError as error:
                raise UsageError(f"item {part[error.place].id!r}: {error}") from None

    def vocabulary(self, lead: Lead) -> Vocabulary:
        """What every token does to a word."""
        # Sorting a vocabulary takes seconds: once for all decoders.
        if lead not in self._vocabularies:
            self._vocabularies[lead] = Vocabulary(self.lm.pieces, lead)
        return self._vocabularies[lead]

    def _sampled(
        self, items: Sequence[Item], ask: Ask, decoder: Decoder, vocabulary: Vocabulary
    ) -> Iterable[Draws]:
        prompts = {item.id: Prompt(item.id, item.context) for item in items}

        def draw(ids: Sequence[str], first: int, samples: int) -> list[Draws]:
            return mc(
                self.lm,
                [prompts[item_id] for item_id in ids],
                samples=samples,
                first=first,
                seed=ask.seed,
                decoder=decoder,
                lead=ask.choices.lead,
                limits=self.limits,
                vocabulary=vocabulary,
            )

        if ask.until is None:
            return draw(list(prompts), 0, ask.samples)
        people = {i.id: Categorical.from_counts(human_counts(i.responses)) for i in items}
        keep_failed = ask.choices.failed == "outcome"
        return sample_until(people, draw, ask.until, ask.samples, keep_failed).values()

    def _exact(
        self, items: Sequence[Item], ask: Ask, decoder: Decoder, vocabulary: Vocabulary
    ) -> Iterator[Draws]:
        people = [Categorical.from_counts(human_counts(item.responses)) for item in items]
        questions = [
            Question(item.context, own.support, own.probs)
            for item, own in zip(items, people, strict=True)
        ]
        # A decoder that truncates gives some words no probability: looking for them is in vain.
        every_word = not decoder.truncates
        search = Search(ask.tolerance, failed=ask.choices.failed, every_word=every_word)
        found = survey(
            self.lm,
            questions,
            search=search,
            head_search=HeadSearch(ask.tolerance, "distance", nodes=NODES, wave=16),
            decoder=decoder,
            lead=ask.choices.lead,
            limits=self.limits,
            vocabulary=vocabulary,
        )
        for item, own, (asked, top) in zip(items, people, found, strict=True):
            known = _joined(own, asked, top, ask.choices.failed == "outcome")
            # A context after which no word was found has no next-word distribution.
            yield Draws(item.id, {}, exact=known) if known else Draws(item.id, {}, failed=1)


def _joined(
    people: Categorical, found: WordProbabilities, top: Head, keep_failed: bool
) -> Exact | None:
    """People's words with their probabilities, and the model's likeliest words beside them.

    A text without a word is an outcome of its own where such texts are kept. `None` where nothing
    has any probability.
    """
    words = dict(zip(found.words, found.value, strict=True))
    scale = 1.0 - top.failed if keep_failed else 1.0  # a head is given that there is a word
    for word, probability in top.words.as_dict().items():
        words.setdefault(word, probability * scale)
    if keep_failed:
        words[FAILED] = found.failed
    if not max(words.values(), default=0.0) > 0.0:
        return None
    rest = max(0.0, 1.0 - sum(words.values()))
    known = Categorical(tuple(words), tuple(words.values()), rest)
    return Exact(known, _bounds(people, found, top, keep_failed), top.certified, found.failed)


def _bounds(
    people: Categorical, found: WordProbabilities, top: Head, keep_failed: bool
) -> dict[str, tuple[float, float | None]]:
    """Bounds of the metrics against people that the search left open."""
    tops, human = top.tops, people.as_dict()
    if keep_failed:
        low = tuple(q * (1.0 - top.failed) for q in tops.low)
        ends = (*low, found.failed), (*tops.high, min(1.0, found.failed + found.open))
        tops = Tops((*tops.words, FAILED), *ends, tops.unseen)
    agreements = masses(tops, found, human).agreements()
    tvd, own = found.tvd(human), self_agreement(people)
    bounds: dict[str, tuple[float, float | None]] = {
        "tvd": (tvd.low, tvd.high),
        "agreement_M": agreements["M"],
        "agreement_C": agreements["C"],
        "log_loss": found.log_loss(human),
    }
    if own is not None:
        low_, high_ = agreements["M-2C"]
        bounds["sq_distance"] = own + low_, own + high_
    return bounds


@dataclass(frozen=True)
class FoldedModel:
    """A live model that is made ready for a fold before it answers the fold's items.

    `decoders` names, where given, the decoder of each fold; `ready` puts its weights in place.
    """

    live: LiveModel
    label: str
    version: str
    folds: Mapping[str, int]
    """Group -> the fold that it is held out of."""
    ready: Callable[[int], None] = field(default=lambda fold: None, repr=False)
    decoders: Mapping[int, str] = field(default_factory=dict)

    @property
    def estimator(self) -> str:
        """That of the live model."""
        return self.live.estimator

    def notes(self) -> Sequence[str]:
        """Nothing beyond its numbers."""
        return ()

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Words for items, which are taken as they are needed; best fold by fold."""
        for fold, own in groupby(items, key=lambda item: self.folds[item.group]):
            self.ready(fold)
            decoder = self.decoders.get(fold, ask.decoder)
            yield from self.live.draws(own, replace(ask, decoder=decoder))


def by_fold(items: Iterable[Item], folds: Mapping[str, int]) -> list[Item]:
    """Items sorted by their groups' folds, which come as they first appear.

    >>> items = [Item(f"{n}", group, "There", ()) for n, group in enumerate("abab")]
    >>> [item.id for item in by_fold(items, {"a": 2, "b": 1})]
    ['0', '2', '1', '3']
    """
    found: dict[int, list[Item]] = {}
    for item in items:
        found.setdefault(folds[item.group], []).append(item)
    return [item for own in found.values() for item in own]
