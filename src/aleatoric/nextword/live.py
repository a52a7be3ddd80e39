"""A language model loaded in this process as a source of next words, exact or sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from aleatoric.errors import UsageError
from aleatoric.metrics.agreement import self_agreement
from aleatoric.models.base import WithoutNotes, whole_passages
from aleatoric.models.decoding import Decoder
from aleatoric.nextword.adaptive import sample_until
from aleatoric.nextword.answers import human_counts
from aleatoric.nextword.biased import biased, next_tokens, vocabulary_key, with_first_tokens
from aleatoric.nextword.bounds import (
    TopWords,
    WordProbabilities,
    agreement_bounds,
    expected_agreement,
    joint_probabilities,
)
from aleatoric.nextword.exact import Asking, Question, Search, Searches
from aleatoric.nextword.head import Head, HeadSearch, OpenWords, grow
from aleatoric.nextword.rules import Lead, WordRule, check_rule_of, is_code, text_rule
from aleatoric.nextword.sampled import mc
from aleatoric.nextword.tree import ContextError, Tree, contexts_at_once, for_contexts
from aleatoric.nextword.vocabulary import LogitReader, NodeCache, vocabulary_of
from aleatoric.types import FAILED, Categorical, Draws, Exact, Item

if TYPE_CHECKING:
    from aleatoric.models.base import Ask
    from aleatoric.models.plain import LanguageModel


DEFAULT_TOLERANCE, DEFAULT_LOSS_NODES, MOST_LOSS_NODES = 0.02, 25, 200
WORD_WAVE = 32
"""Tokens per round and context: with many, a small tolerance would spend all of them at once."""
NO_WORD = 0.99
"""A context has no next word if texts without one are found to be so likely, and no word is."""


def survey(
    lm: LanguageModel,
    questions: Sequence[Question],
    *,
    search: Search,
    head_search: HeadSearch,
    decoder: Decoder | None = None,
    lead: Lead = "skip",
) -> list[tuple[WordProbabilities, Head]]:
    """Return the words' probabilities and the head per question, at about the cost of `exact`."""
    vocabulary = vocabulary_of(lm.pieces, lead)
    reader = LogitReader(lm, vocabulary, decoder)
    asking = Asking(questions, search, reader)

    def work(tree: Tree) -> Iterator[tuple[int, tuple[WordProbabilities, Head]] | None]:
        # Nodes of the word search with much mass are cached for the head search.
        cache = NodeCache(reader, head_search.branch, least=0.01)
        known = {}
        for pair in Searches(tree, asking, cache).found():
            if pair is None:
                yield None
            else:
                words, weights = questions[pair[0]].words, questions[pair[0]].weights
                known[pair[0]] = pair[1], dict(zip(words, weights or (), strict=bool(weights)))
        for index, head in grow(tree, reader, head_search, cache, known):
            yield index, (known[index][0], head)

    return for_contexts(lm, [question.context for question in questions], work)


@dataclass(frozen=True)
class LiveModel:
    """A loaded language model with an estimator of its next-word distribution."""

    lm: LanguageModel
    label: str
    estimator: str

    @property
    def version(self) -> str:
        """Revision, precision and beginning-of-text policy."""
        identity, prompting = self.lm.identity, str(self.lm.prompting)
        parts = identity["revision"], identity["dtype"], f"bos={identity['bos']}", prompting
        return ",".join(filter(None, parts))

    @property
    def at_once(self) -> int:
        """Number of contexts that are processed together."""
        return contexts_at_once(self.lm)

    @property
    def together(self) -> int | None:
        """Contexts per batch if the last digits of results depend on it, as all but samples do."""
        return None if self.estimator == "mc" else self.at_once

    def notes(self) -> Sequence[str]:
        """Say that the model has no tree pass, if so."""
        if (reason := self.lm.plain_reason) is None:
            return ()
        return (
            f"{self.label}: run in plain forward passes, because {reason}; the numbers mean the "
            "same, and take longer",
        )

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Yield words per item, a few passages at a time."""
        is_word = ask.choices.unit == "word"
        if is_word:
            check_rule_of(self.estimator, ask.choices.rule)
        answers = {"mc": self._sampled, "biased": self._biased, "exact": self._exact}
        answer = answers[self.estimator] if is_word else self._next_tokens
        options = {"decoder": Decoder.parse(ask.decoder)}
        for part in whole_passages(items, self.at_once):
            try:
                yield from answer(part, ask, options)
            except ContextError as error:
                raise UsageError(f"item {part[error.place].id!r}: {error}") from None

    def with_first_tokens(self, items: Iterable[Item], read: WordRule) -> Iterator[Item]:
        """Yield items whose answers are first tokens, for `--unit token`."""
        return (with_first_tokens(self.lm, item, read) for item in items)

    @property
    def tokens_key(self) -> str:
        """A short hash of the vocabulary, for signatures with `--unit token`."""
        return vocabulary_key(self.lm)

    def _sampled(self, items: Sequence[Item], ask: Ask, options: dict[str, Any]) -> Iterable[Draws]:
        by_id = {item.id: item for item in items}
        rule = ask.choices.rule
        how = {"lead": ask.choices.lead} if rule == "corrected" else {"rule": text_rule(rule)}
        options = options | how

        def draw(ids: Sequence[str], first: int, samples: int) -> list[Draws]:
            chosen = [by_id[item_id] for item_id in ids]
            drawn = mc(self.lm, chosen, samples=samples, first=first, seed=ask.seed, **options)
            return [*map(_as_texts, drawn)] if is_code(rule) else drawn

        if ask.until is None:
            return draw(list(by_id), 0, ask.samples)
        people = {i.id: Categorical.from_counts(human_counts(i.responses)) for i in items}
        keep_failed = ask.choices.failed == "outcome"
        return sample_until(people, draw, ask.until, ask.samples, keep_failed).values()

    def _biased(self, items: Sequence[Item], ask: Ask, options: dict[str, Any]) -> Iterable[Draws]:
        rule = text_rule(ask.choices.rule, ask.choices.lead)
        return biased(self.lm, items, rule, samples=ask.samples, seed=ask.seed)

    def _next_tokens(
        self, items: Sequence[Item], ask: Ask, options: dict[str, Any]
    ) -> Iterator[Draws]:
        people = [Categorical.from_counts(human_counts(item.responses)) for item in items]
        found = next_tokens(self.lm, [item.context for item in items], people, **options)
        for item, human, (estimate, top) in zip(items, people, found, strict=True):
            yield Draws(item.id, {}, exact=_joined(human, estimate, top, keep_failed=False))

    def _exact(self, items: Sequence[Item], ask: Ask, options: dict[str, Any]) -> Iterator[Draws]:
        options = options | {"lead": ask.choices.lead}
        people = [Categorical.from_counts(human_counts(item.responses)) for item in items]
        questions = [
            Question(item.context, human.support, human.probs)
            for item, human in zip(items, people, strict=True)
        ]
        # A decoder that truncates gives some words no probability: do not search for them.
        search, head_search = searches(ask.tolerance, every_word=not options["decoder"].truncates)
        search = replace(search, failed=ask.choices.failed)
        results = survey(self.lm, questions, search=search, head_search=head_search, **options)
        for item, human, (estimate, top) in zip(items, people, results, strict=True):
            combined = _joined(human, estimate, top, ask.choices.failed == "outcome")
            yield Draws(item.id, {}, exact=combined) if combined else Draws(item.id, {}, failed=1)


def _as_texts(draws: Draws) -> Draws:
    """Return counted texts one by one, for a user-defined rule to cut."""
    texts = (text for text, count in draws.counts.items() for _ in range(count))
    return Draws(draws.item_id, {}, texts=tuple(texts))


def searches(tolerance: float, every_word: bool) -> tuple[Search, HeadSearch]:
    """Return the searches for a tolerance: smaller ones may take more tokens per context.

    >>> [(words.nodes, words.loss_nodes, head.nodes)
    ...  for words, head in (searches(tolerance, True) for tolerance in (0.02, 0.005, 0))]
    [(200, 25, 32), (400, 100, 64), (2000, 200, 320)]
    """
    share = max(tolerance / DEFAULT_TOLERANCE, 0.01)
    more = max(1.0, share**-0.5)
    loss = min(MOST_LOSS_NODES, round(DEFAULT_LOSS_NODES / share)) if every_word else 0
    words = Search(
        tolerance, round(200 * more), every_word=every_word, wave=WORD_WAVE, loss_nodes=loss
    )
    return words, HeadSearch(tolerance, "distance", nodes=round(32 * more), wave=16)


def unknown_notes(lm: LanguageModel, context: str) -> tuple[str, ...]:
    """Note that the tokenizer reads a part of the context as its unknown token, or drops most."""
    (tokens,), unknown = lm.encode_all([context]), lm.tokenizer.unk_token
    own = list(tokens[len(lm.start) :])
    if unknown is not None and lm.tokenizer.unk_token_id in own:
        return (f"The model's tokenizer reads a part of the context as {unknown} (unknown).",)
    if 2 * len("".join(lm.tokenizer.decode(own).split())) < len("".join(context.split())):
        return ("The model's tokenizer drops most characters of the context.",)
    return ()


def _joined(
    people: Categorical, estimate: WordProbabilities, top: Head, keep_failed: bool
) -> Exact | None:
    """Combine people's words with the model's likeliest words; `None` if no word can follow."""
    tops, open_words, failed = top.tops, top.open_words, _failed_share(estimate, top)
    if keep_failed:
        tops, open_words = _with_failed(estimate, top)
    else:
        estimate = estimate.given_word(failed)
    words = joint_probabilities(tops, estimate)
    if not max(words.values(), default=0.0) > 0.0 and estimate.failed > NO_WORD:
        return None
    rest = max(0.0, 1.0 - sum(words.values()))
    agreement = expected_agreement(tops, estimate, people.as_dict(), open_words)
    joint = Categorical(tuple(words), tuple(words.values()), rest, agreement=agreement)
    return Exact(joint, _bounds(people, estimate, tops), top.certified, failed)


def _failed_share(estimate: WordProbabilities, top: Head) -> float:
    """Estimate the probability of no word: what a search found, with its share of open mass."""
    open_ = sum(half.get(None, 0.0) for half in top.open_words) / max(len(top.open_words), 1)
    share = max(estimate.failed, top.failed + (1.0 - top.failed) * open_)
    return min(share, estimate.failed + estimate.open, 1.0)


def _with_failed(estimate: WordProbabilities, top: Head) -> tuple[TopWords, OpenWords]:
    """The likeliest words with the outcome that there is no word; a head is conditional on one."""
    share, least = 1.0 - top.failed, max(estimate.failed, top.failed)
    low = tuple(q * share for q in top.tops.low)
    ends = (*low, least), (*top.tops.high, min(1.0, estimate.failed + estimate.open))
    halves: list[dict[str | None, float]]
    halves = [{w or FAILED: x * share for w, x in half.items()} for half in top.open_words]
    for half in halves:  # the word search may have found a part of it
        half[FAILED] = half.get(FAILED, 0.0) + top.failed - least
    return TopWords((*top.tops.words, FAILED), *ends, top.tops.unseen), tuple(halves)


def _bounds(
    people: Categorical, estimate: WordProbabilities, tops: TopWords
) -> dict[str, tuple[float, float | None]]:
    human = people.as_dict()
    agreements = agreement_bounds(tops, estimate, human)
    tvd, human_agreement = estimate.tvd(human), self_agreement(people)
    bounds: dict[str, tuple[float, float | None]] = {
        "tvd": (tvd.low, tvd.high),
        "agreement_M": agreements["M"],
        "agreement_C": agreements["C"],
        "log_loss": estimate.log_loss(human),
    }
    if human_agreement is not None:
        low_, high_ = agreements["M-2C"]
        bounds["sq_distance"] = human_agreement + low_, human_agreement + high_
    return bounds


@dataclass(frozen=True)
class FoldedModel(WithoutNotes):
    """A live model whose weights (and decoder) are switched per cross-validation fold.

    `ready(fold)` loads the weights of a fold; `decoders` may name the decoder of each fold.
    """

    live: LiveModel
    label: str
    version: str
    folds: Mapping[str, int]
    """Group -> the fold that holds it out."""
    ready: Callable[[int], None] = field(default=lambda fold: None, repr=False)
    decoders: Mapping[int, str] = field(default_factory=dict)

    @property
    def estimator(self) -> str:
        """The estimator of the live model."""
        return self.live.estimator

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Yield words per item; fastest if items are sorted by fold."""
        for fold, held_out in groupby(items, key=lambda item: self.folds[item.group]):
            self.ready(fold)
            decoder = self.decoders.get(fold, ask.decoder)
            yield from self.live.draws(held_out, replace(ask, decoder=decoder))


def by_fold(items: Iterable[Item], folds: Mapping[str, int]) -> list[Item]:
    """Sort items by the folds of their groups, folds in order of first appearance.

    >>> items = [Item(f"{n}", group, "There", ()) for n, group in enumerate("abab")]
    >>> [item.id for item in by_fold(items, {"a": 2, "b": 1})]
    ['0', '2', '1', '3']
    """
    items = list(items)
    order = list(dict.fromkeys(folds[item.group] for item in items))
    return sorted(items, key=lambda item: order.index(folds[item.group]))
