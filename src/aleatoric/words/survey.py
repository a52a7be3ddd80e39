"""Exact probabilities of people's words and the model's own likeliest words, from one tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aleatoric.decoding import Decoder
from aleatoric.words.bounds import WordProbabilities
from aleatoric.words.digest import Reader
from aleatoric.words.exact import Asking, Question, Search, answer
from aleatoric.words.head import Head, HeadSearch, grow
from aleatoric.words.lm import TreeLM
from aleatoric.words.machine import Lead
from aleatoric.words.notebook import Notebook
from aleatoric.words.passages import Passage, encode_contexts, packs_of, passages_of
from aleatoric.words.tree import Limits, Tree, each_pack
from aleatoric.words.vocabulary import Vocabulary

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
