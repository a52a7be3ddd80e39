"""The phrases that a generator repeats most, across inputs and on single inputs."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aleatoric.levels.text_inputs import StudyOptions, TextCase
from aleatoric.result_types import Study, Table

SHORTEST, LONGEST = 3, 20
"""Tokens of a phrase that is repeated across inputs."""
SHORTEST_OF_INPUT = 2
COVERING = 0.8
"""A phrase is not listed if a longer one around it has this share of its texts."""
N_LISTED = 20
PHRASE_CHARS = 60
Phrase = tuple[str, ...]
Tokens = Callable[[Sequence[str]], Mapping[str, list[str]]]
Texts = list[list[str]]
"""Texts as lower-cased tokens."""


@dataclass(frozen=True)
class TokenizedTexts:
    """The texts of people or of a generator, by input."""

    inputs: tuple[Texts, ...]

    @classmethod
    def of(cls, inputs: Iterable[Sequence[str]], tokens: Tokens) -> TokenizedTexts:
        """Tokenize texts."""
        return cls(tuple(_lowered(texts, tokens) for texts in inputs))

    @property
    def n_texts(self) -> int:
        """The number of texts."""
        return sum(map(len, self.inputs))

    def counts(self, phrases: Iterable[Phrase]) -> dict[Phrase, PhraseCount]:
        """Return how many texts and inputs have each of these phrases."""
        wanted = frozenset(phrases)
        orders = sorted({len(phrase) for phrase in wanted})
        texts, inputs = Counter[Phrase](), Counter[Phrase]()
        for own in self.inputs:
            found = [wanted & {g for n in orders for g in ngrams(text, n)} for text in own]
            texts.update(phrase for phrases_of in found for phrase in phrases_of)
            inputs.update(frozenset().union(*found))
        return {phrase: PhraseCount(texts[phrase], inputs[phrase]) for phrase in wanted}


@dataclass(frozen=True)
class PhraseCount:
    """How many texts, of how many inputs, have a phrase."""

    texts: int
    inputs: int


def run(cases: Sequence[TextCase], seed: int, options: StudyOptions) -> Study:
    """List the phrases that a generator repeats, beside how often people's texts have them."""
    people = TokenizedTexts.of((case.item.references for case in cases), options.tokens)
    model = TokenizedTexts.of((case.texts for case in cases), options.tokens)
    return Study("phrases", (_across(model, people), _within(cases, model, people)))


def ngrams(text: Sequence[str], order: int) -> Iterator[Phrase]:
    """Yield the n-grams of a text."""
    return (tuple(text[i : i + order]) for i in range(len(text) - order + 1))


def repeated(inputs: Sequence[Texts], shortest: int, covering: float = 1.0) -> dict[Phrase, int]:
    """Return phrases that two or more texts have, with their numbers of texts.

    They begin and end with a word. A phrase is left out if a longer one that contains it occurs in
    at least the share `covering` of its texts.
    """
    found: dict[Phrase, int] = {}
    shorter: dict[Phrase, int] | None = None
    for order in range(shortest, LONGEST + 1):
        shorter = _frequent(inputs, order, shorter)
        found |= {p: n for p, n in shorter.items() if _is_word(p[0]) and _is_word(p[-1])}
        if not shorter:
            break
    covered = {
        inner
        for phrase, n in found.items()
        for order in range(shortest, len(phrase))
        for inner in ngrams(phrase, order)
        if n >= covering * found.get(inner, n + 1)
    }
    return {phrase: n for phrase, n in found.items() if phrase not in covered}


def _frequent(
    inputs: Sequence[Texts], order: int, shorter: dict[Phrase, int] | None
) -> dict[Phrase, int]:
    """Return the n-grams that two or more texts have; both their parts are in `shorter`."""
    counts = Counter[Phrase]()
    for texts in inputs:
        for text in texts:
            own = frozenset(ngrams(text, order))
            counts.update(
                g for g in own if shorter is None or (g[1:] in shorter and g[:-1] in shorter)
            )
    return {phrase: n for phrase, n in counts.items() if n > 1}


def _across(model: TokenizedTexts, people: TokenizedTexts) -> Table:
    """Return the phrases that occur for the most inputs."""
    phrases = repeated(model.inputs, SHORTEST, COVERING)
    own = {p: count for p, count in model.counts(phrases).items() if count.inputs > 1}
    order = sorted(own, key=lambda p: (-own[p].inputs, -own[p].texts, -len(p), p))[:N_LISTED]
    of_people = people.counts(order)
    rows = tuple(
        (
            _shown(phrase),
            _share(own[phrase].texts, model.n_texts),
            str(own[phrase].inputs),
            _share(of_people[phrase].texts, people.n_texts),
            str(of_people[phrase].inputs),
        )
        for phrase in order
    )
    columns = ("phrase", "texts", "inputs", "people's texts", "people's inputs")
    notes = (
        f"Phrases of {SHORTEST} or more lower-cased tokens in the generator's texts to the most "
        f"inputs; a phrase inside a longer one that {COVERING:.0%} of its texts have is left out.",
        f"texts: those with the phrase, and their share of {model.n_texts}; people's: of "
        f"{people.n_texts}.",
    )
    return Table("Phrases repeated across inputs", columns, rows, notes)


def _within(cases: Sequence[TextCase], model: TokenizedTexts, people: TokenizedTexts) -> Table:
    """Return, per input, the phrase whose share of texts exceeds people's share most."""
    found = []
    for case, texts, own in zip(cases, model.inputs, people.inputs, strict=True):
        if len(texts) > 1 and own and (best := _most_repeated(texts, own)):
            found.append((*best, case.item.id))
    found.sort(key=lambda row: (-row[0], -len(row[1]), row[-1]))
    rows = tuple((item_id, _shown(p), n, m) for _, p, n, m, item_id in found[:N_LISTED])
    notes = (
        f"The phrase of {SHORTEST_OF_INPUT} or more tokens of each input whose share of the "
        "generator's texts exceeds its share of people's most; inputs with the largest excess.",
    )
    columns = ("input", "phrase", "generator", "people")
    return Table("Phrases repeated on one input", columns, rows, notes)


def _most_repeated(texts: Texts, people: Texts) -> tuple[float, Phrase, str, str] | None:
    """Return the largest excess, its phrase and the numbers of texts of both sides."""
    phrases = repeated([texts], SHORTEST_OF_INPUT)
    of_people = TokenizedTexts((people,)).counts(phrases)
    excess = {p: n / len(texts) - of_people[p].texts / len(people) for p, n in phrases.items()}
    if not excess:
        return None
    best = min(excess, key=lambda phrase: (-excess[phrase], -len(phrase), phrase))
    numbers = f"{phrases[best]} of {len(texts)}", f"{of_people[best].texts} of {len(people)}"
    return excess[best], best, *numbers


def _lowered(texts: Sequence[str], tokens: Tokens) -> Texts:
    by_text = tokens(texts)
    return [[token.lower() for token in by_text[text]] for text in texts]


def _is_word(token: str) -> bool:
    return any(map(str.isalnum, token))


def _shown(phrase: Phrase) -> str:
    return textwrap.shorten(" ".join(phrase), PHRASE_CHARS, placeholder="…")


def _share(n: int, total: int) -> str:
    return f"{n} ({n / total:.1%})" if total else f"{n}"
