"""Part-of-speech taggers: the universal tag of a word that continues a context.

A tagger maps (context, words) to one tag a word, each word tagged as the context's continuation.
It sees the last `WINDOW` words of the context: a tagger decides by near neighbours, and a long
passage would otherwise be read again for every word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aleatoric.errors import MissingExtraError, UsageError

Tagger = Callable[[str, Sequence[str]], list[str]]
"""(context, words) -> universal tags of the words."""

WINDOW = 16
TAGS = ("ADJ", "ADP", "ADV", "CONJ", "DET", "NOUN", "NUM", "PRON", "PRT", "VERB", ".", "X")
"""The universal tags of Petrov et al. (2012), as nltk names them."""

PENN = {
    **dict.fromkeys(("JJ", "JJR", "JJS"), "ADJ"),
    "IN": "ADP",
    **dict.fromkeys(("RB", "RBR", "RBS", "WRB"), "ADV"),
    "CC": "CONJ",
    **dict.fromkeys(("DT", "EX", "PDT", "WDT"), "DET"),
    **dict.fromkeys(("NN", "NNS", "NNP", "NNPS"), "NOUN"),
    "CD": "NUM",
    **dict.fromkeys(("PRP", "PRP$", "WP", "WP$"), "PRON"),
    **dict.fromkeys(("POS", "RP", "TO"), "PRT"),
    **dict.fromkeys(("MD", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ"), "VERB"),
    **dict.fromkeys(("#", "$", "''", "(", ")", ",", "-LRB-", "-RRB-", ".", ":", "``"), "."),
}
"""Penn Treebank -> universal; what is not here (FW, LS, SYM, UH) is X."""

UNIVERSAL_DEPENDENCIES = {
    **{tag: tag for tag in ("ADJ", "ADP", "ADV", "DET", "NOUN", "NUM", "PRON", "VERB", "X")},
    "AUX": "VERB",
    "CCONJ": "CONJ",
    "CONJ": "CONJ",
    "SCONJ": "ADP",
    "PART": "PRT",
    "PROPN": "NOUN",
    "PUNCT": ".",
    "SYM": ".",
    "INTJ": "X",
    "SPACE": "X",
}
"""The tags of Universal Dependencies, as spaCy has them -> universal."""


def from_penn(tag: str) -> str:
    """The universal tag of a Penn tag, whatever finer label follows a hyphen.

    >>> from_penn("VBZ"), from_penn("NNP-PERS"), from_penn("UH")
    ('VERB', 'NOUN', 'X')
    """
    return PENN.get(tag) or PENN.get(tag.partition("-")[0], "X")


def near(context: str, size: int = WINDOW) -> str:
    """The last words of a context.

    >>> near("a b c d", size=2)
    'c d'
    """
    return " ".join(context.split()[-size:])


class Remembering:
    """A tagger that keeps the tags of the latest context: its words come again, system by system.

    >>> tagger = Remembering(lambda context, words: ["NOUN" for _ in words])
    >>> tagger("the", ["dog", "cat"])
    ['NOUN', 'NOUN']
    """

    def __init__(self, tagger: Tagger) -> None:
        self._tagger = tagger
        self._context: str | None = None
        self._known: dict[str, str] = {}

    def __call__(self, context: str, words: Sequence[str]) -> list[str]:
        """The tags of the words, from memory where the context is the same as before."""
        window = near(context)
        if window != self._context:
            self._context, self._known = window, {}
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        if new:
            self._known |= zip(new, self._tagger(window, new), strict=True)
        return [self._known[word] for word in words]


def textblob(argument: str = "") -> Tagger:
    """TextBlob's rule-based tagger (Brill); needs no downloaded data.

    >>> textblob()("The man wants to", ["eat", "food", "7"])
    ['VERB', 'NOUN', 'NUM']
    """
    _no_argument("textblob", argument)
    try:
        from textblob.en import parser
    except ModuleNotFoundError:
        raise MissingExtraError("textblob", "nlp") from None
    return Remembering(lambda context, words: _textblob_tags(parser, context, words))


def nltk(argument: str = "") -> Tagger:
    """NLTK's averaged perceptron, the tagger of the paper; needs its data."""
    _no_argument("nltk", argument)
    try:
        from nltk.tag import PerceptronTagger
        from nltk.tokenize import NLTKWordTokenizer
    except ModuleNotFoundError:
        raise MissingExtraError("nltk", "nlp") from None
    try:
        tagger = PerceptronTagger()
    except LookupError:
        raise UsageError(
            "the tagger nltk needs its data: run python -m nltk.downloader "
            "averaged_perceptron_tagger_eng, or use --tagger textblob."
        ) from None
    tokens = NLTKWordTokenizer().tokenize
    return Remembering(lambda context, words: _nltk_tags(tagger, tokens, context, words))


def spacy(argument: str = "") -> Tagger:
    """A spaCy pipeline: `spacy:NAME`, by default en_core_web_sm; needs to be installed."""
    name = argument or "en_core_web_sm"
    try:
        from spacy import load
    except ModuleNotFoundError:
        raise MissingExtraError("spacy", "nlp") from None
    try:
        pipeline = load(name, exclude=["ner", "parser", "lemmatizer"])
    except OSError:
        raise UsageError(
            f"the spaCy pipeline {name} is not installed: run python -m spacy download {name}, "
            "or use --tagger textblob."
        ) from None
    return Remembering(lambda context, words: _spacy_tags(pipeline, context, words))


def _no_argument(name: str, argument: str) -> None:
    if argument:
        raise UsageError(f"the tagger {name} takes no argument; write --tagger {name}.")


def _textblob_tags(parser: Any, context: str, words: Sequence[str]) -> list[str]:
    # The sentence that the answer belongs to: told with any word in its place.
    sentences = parser.find_tokens(f"{context} word")
    before = sentences[-1].split()[:-1]
    tags = []
    for word in words:
        own = " ".join(parser.find_tokens(word)).split()
        tagged = parser.find_tags([*before, *own]) if own else []
        # Of an answer of several tokens, as it's, the first one counts.
        tags.append(from_penn(tagged[len(before)][1]) if own else "X")
    return tags


def _nltk_tags(
    tagger: Any, tokens: Callable[[str], list[str]], context: str, words: Sequence[str]
) -> list[str]:
    before = tokens(context)
    answers = [tokens(word) for word in words]
    tagged = (tagger.tag([*before, *own]) if own else None for own in answers)
    return [from_penn(line[len(before)][1]) if line else "X" for line in tagged]


def _spacy_tags(pipeline: Any, context: str, words: Sequence[str]) -> list[str]:
    start = len(context) + 1 if context else 0
    lead = f"{context} " if context else ""
    documents = pipeline.pipe(lead + word for word in words)
    return [_spacy_tag(document, start) for document in documents]


def _spacy_tag(document: Any, start: int) -> str:
    """The tag of the token that stands at a character, or X where none starts there."""
    found = (token.pos_ for token in document if token.idx >= start)
    return UNIVERSAL_DEPENDENCIES.get(next(found, "X"), "X")
