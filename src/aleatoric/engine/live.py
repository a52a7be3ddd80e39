"""A language model in this process as a source of next words: exact, sampled, or as published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aleatoric.decoding import Decoder
from aleatoric.engine.parts import whole_passages
from aleatoric.errors import UsageError
from aleatoric.metrics.agreement import self_agreement
from aleatoric.types import FAILED, Categorical, Draws, Exact, Item
from aleatoric.words.adaptive import sample_until
from aleatoric.words.bounds import WordProbabilities
from aleatoric.words.distributions import human_counts
from aleatoric.words.exact import Question, Search
from aleatoric.words.head import Head, HeadSearch, Tops, masses
from aleatoric.words.machine import Lead
from aleatoric.words.mc import Prompt, mc
from aleatoric.words.passages import ContextError
from aleatoric.words.survey import survey
from aleatoric.words.tree import Limits
from aleatoric.words.vocabulary import Vocabulary

if TYPE_CHECKING:
    from aleatoric.models.base import Ask
    from aleatoric.models.hf import HFModel

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
