"""The phrases that a generator repeats most, across inputs and on single inputs."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from aleatoric.levels.text_inputs import StudyOptions, TextCase
from aleatoric.result_types import Study, Table
from aleatoric.studies import notes_on

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


def run(cases: Sequence[TextCase], seed: int, options: StudyOptions) -> Study:
    """List the phrases that a generator repeats, beside how often people's texts have them."""
    people = [_lowered(case.item.references, options.tokens) for case in cases]
    model = [_lowered(case.texts, options.tokens) for case in cases]
    return Study("phrases", (_across(model, people), _within(cases, model, people)))


def counted(inputs: Sequence[Texts], phrases: Iterable[Phrase]) -> dict[Phrase, tuple[int, int]]:
    """Return how many texts, of how many inputs, have each of these phrases."""
    wanted = frozenset(phrases)
    orders = sorted({len(phrase) for phrase in wanted})
    texts, by_input = Counter[Phrase](), Counter[Phrase]()
    for own in inputs:
        found = [wanted & {g for n in orders for g in ngrams(text, n)} for text in own]
        texts.update(phrase for phrases_of in found for phrase in phrases_of)
        by_input.update(frozenset().union(*found))
    return {phrase: (texts[phrase], by_input[phrase]) for phrase in wanted}


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


def _across(model: Sequence[Texts], people: Sequence[Texts]) -> Table:
    """Return the phrases that occur for the most inputs."""
    phrases = repeated(model, SHORTEST, COVERING)
    own = {p: (n, inputs) for p, (n, inputs) in counted(model, phrases).items() if inputs > 1}
    order = sorted(own, key=lambda p: (-own[p][1], -own[p][0], -len(p), p))[:N_LISTED]
    n_model, n_people = (sum(map(len, side)) for side in (model, people))
    sides = ((own, n_model), (counted(people, order), n_people))
    rows = tuple(
        (_shown(p), *(c for counts, n in sides for c in _cells(*counts[p], n))) for p in order
    )
    columns = ("phrase", "texts", "inputs", "people's texts", "people's inputs")
    notes = notes_on(
        "phrases_across", shortest=SHORTEST, covering=COVERING, n_model=n_model, n_people=n_people
    )
    return Table("Phrases repeated across inputs", columns, rows, notes)


def _within(cases: Sequence[TextCase], model: Sequence[Texts], people: Sequence[Texts]) -> Table:
    """Return, per input, the phrase whose share of texts exceeds people's share most."""
    found = []
    for case, texts, own in zip(cases, model, people, strict=True):
        if len(texts) > 1 and own and (best := _most_repeated(texts, own)):
            found.append((*best, case.item.id))
    found.sort(key=lambda row: (-row[0], -len(row[1]), row[-1]))
    rows = tuple((item_id, _shown(p), n, m) for _, p, n, m, item_id in found[:N_LISTED])
    notes = notes_on("phrases_within", shortest=SHORTEST_OF_INPUT)
    columns = ("input", "phrase", "generator", "people")
    return Table("Phrases repeated on one input", columns, rows, notes)


def _most_repeated(texts: Texts, people: Texts) -> tuple[float, Phrase, str, str] | None:
    """Return the largest excess, its phrase and the numbers of texts of both sides."""
    phrases = repeated([texts], SHORTEST_OF_INPUT)
    of_people = {p: n for p, (n, _) in counted([people], phrases).items()}
    excess = {p: n / len(texts) - of_people[p] / len(people) for p, n in phrases.items()}
    if not excess:
        return None
    best = min(excess, key=lambda phrase: (-excess[phrase], -len(phrase), phrase))
    numbers = f"{phrases[best]} of {len(texts)}", f"{of_people[best]} of {len(people)}"
    return excess[best], best, *numbers


def _lowered(texts: Sequence[str], tokens: Tokens) -> Texts:
    by_text = tokens(texts)
    return [[token.lower() for token in by_text[text]] for text in texts]


def _is_word(token: str) -> bool:
    return any(map(str.isalnum, token))


def _shown(phrase: Phrase) -> str:
    return textwrap.shorten(" ".join(phrase), PHRASE_CHARS, placeholder="…")


def _cells(n: int, n_inputs: int, total: int) -> tuple[str, str]:
    return f"{n} ({n / total:.1%})" if total else f"{n}", str(n_inputs)
