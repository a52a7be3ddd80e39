"""Exact probabilities of given words as the first word of a model's continuation.

Every token sequence that begins one of the words is followed, most massive first: other cases,
other segmentations, leading newlines and punctuation, apostrophes and hyphens that may or may not
belong to the word. What is not followed is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from aleatoric.decoding import Decoder
from aleatoric.errors import UsageError
from aleatoric.words.beginnings import Beginnings
from aleatoric.words.bounds import WordProbabilities
from aleatoric.words.digest import Reader
from aleatoric.words.lm import TreeLM
from aleatoric.words.machine import Lead
from aleatoric.words.notebook import Notebook
from aleatoric.words.passages import encode_contexts, packs_of, passages_of
from aleatoric.words.plans import Plans
from aleatoric.words.searches import Asked, Searches
from aleatoric.words.tree import Limits, Tree, each_pack
from aleatoric.words.vocabulary import Vocabulary

Failed = Literal["reject", "outcome"]


@dataclass(frozen=True, slots=True)
class Question:
    """A context and the words whose probabilities are asked.

    With `weights`, people's probabilities of the words, the search goes where the total variation
    distance is still open, and leaves alone what cannot change it.
    """

    context: str
    words: tuple[str, ...]
    weights: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Search:
    """How far to look: until the bounds are `tolerance` apart, or `nodes` tokens are run.

    The bounds are those of the total variation distance for a question with weights, and the mass
    left open for one without. With `every_word`, at least one spelling of every word is run, so
    that every probability has a lower bound above 0.
    """

    tolerance: float = 0.02
    nodes: int = 200
    failed: Failed = "reject"
    every_word: bool = False

    def __post_init__(self) -> None:
        if not self.tolerance >= 0:  # nor NaN
            raise UsageError(f"a tolerance of {self.tolerance:g} is none; use 0.02, say.")


def exact(
    lm: TreeLM,
    questions: Sequence[Question],
    *,
    decoder: Decoder | None = None,
    lead: Lead = "skip",
    search: Search | None = None,
    limits: Limits | None = None,
    vocabulary: Vocabulary | None = None,
) -> list[WordProbabilities]:
    """For each question the probability of each word, with bounds, in the order given."""
    limits, search = limits or Limits(), search or Search()
    vocabulary = vocabulary or Vocabulary(lm.pieces, lead)
    reader = Reader(lm, vocabulary, decoder or Decoder())
    asking = Asking(questions, vocabulary)
    encoded = encode_contexts(lm, [q.context for q in questions])
    packs = packs_of(passages_of(encoded), limits.contexts_at_once(lm))
    answers = dict(
        each_pack(lm, packs, lambda pack: answer(Tree(lm, pack, limits), reader, asking, search))
    )
    return [answers[i] for i in range(len(questions))]


class Asking:
    """Questions with the words of all of them numbered together."""

    def __init__(self, questions: Sequence[Question], vocabulary: Vocabulary) -> None:
        self.questions = questions
        words = dict.fromkeys(word for question in questions for word in question.words)
        self._numbers = {word: number for number, word in enumerate(words)}
        self.beginnings = Beginnings(list(words))
        self.plans = Plans(vocabulary, self.beginnings)

    def about(self, indices: Sequence[int]) -> Asked:
        """What some of the questions ask, as arrays."""
        chosen = [self.questions[i] for i in indices]
        return Asked.of(
            [[self._numbers[word] for word in question.words] for question in chosen],
            [question.weights or (1.0,) * len(question.words) for question in chosen],
            self.beginnings,
        )


def answer(
    tree: Tree, reader: Reader, asking: Asking, search: Search, notebook: Notebook | None = None
) -> Iterator[tuple[int, WordProbabilities] | None]:
    """Search the continuations of a pack's contexts; gives each question's answer.

    Gives `None` where it waits for the device. A notebook is told of every node that is run.
    """
    spans = tree.spans()
    asked, places = asking.about(list(spans)), list(spans.values())
    searches = Searches(asked, places, asking, reader, search, tree.lm.window, notebook)
    yield from work_through(tree, searches)
    words = [asking.questions[index].words for index in spans]
    yield from zip(spans, searches.answers(words), strict=True)


def work_through(tree: Tree, searches: Searches) -> Iterator[None]:
    """Run the contexts of a tree, and then what the searches choose, until they choose nothing."""
    owner = {index: place for place, index in enumerate(tree.spans())}
    for indices, logits in tree.run_trunk():
        yield from searches.begin([owner[i] for i in indices], logits)
    while len(chosen := searches.choose()):
        for part, numbers, logits in tree.extend(
            searches.spans[chosen["owner"]], chosen["parent"], chosen["token"]
        ):
            yield from searches.take(chosen[part], numbers, logits)
