"""Part-of-speech taggers: universal tags of whole texts, and of words that continue a context.

A tagger maps (context, words) to one tag a word, each word tagged as the context's continuation.
It sees the last `WINDOW` words of the context: a tagger decides by near neighbours, and a long
passage would otherwise be read again for every word. Those that ship here also tag texts that are
cut into tokens already: `tag_texts`. There, tags are as the tagger gives them: spaCy's are those of
Universal Dependencies, which keep PROPN, AUX and SCONJ apart; words in context are reduced to the
12 tags of Petrov et al. (2012).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from aleatoric import registry
from aleatoric.errors import MissingExtraError, UsageError

Tagger = Callable[[str, Sequence[str]], list[str]]
"""(context, words) -> universal tags of the words."""

Tokens = Sequence[str]
TextTagger = Callable[[Sequence[Tokens]], list[list[str]]]
"""Texts cut into tokens -> the universal tags of each text's tokens."""

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


@dataclass(frozen=True)
class UniversalTagger:
    """A tagger of both kinds: called, it tags words that continue a context."""

    label: str
    in_context: Tagger
    tag_texts: TextTagger
    tagset: str = "petrov-2012"
    """The tags that `tag_texts` gives, for signatures."""

    def __call__(self, context: str, words: Sequence[str]) -> list[str]:
        """The tags of the words, each as the context's continuation."""
        return self.in_context(context, words)


def textblob(argument: str = "") -> UniversalTagger:
    """TextBlob's rule-based tagger (Brill), for English; needs no downloaded data.

    >>> textblob()("The man wants to", ["eat", "food", "7"])
    ['VERB', 'NOUN', 'NUM']
    >>> textblob().tag_texts([["He", "wants", "food", "."], []])
    [['PRON', 'VERB', 'NOUN', '.'], []]
    """
    _no_argument("textblob", argument)
    try:
        from textblob.en import parser
    except ModuleNotFoundError:
        raise MissingExtraError("textblob", "nlp") from None
    return UniversalTagger(
        f"textblob@{version('textblob')}",
        Remembering(lambda context, words: _textblob_tags(parser, context, words)),
        lambda texts: [_textblob_text(parser, tokens) for tokens in texts],
    )


def nltk(argument: str = "") -> UniversalTagger:
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
    return UniversalTagger(
        f"nltk@{version('nltk')}",
        Remembering(lambda context, words: _nltk_tags(tagger, tokens, context, words)),
        lambda texts: [[from_penn(tag) for _, tag in tagger.tag(list(own))] for own in texts],
    )


def spacy(argument: str = "") -> UniversalTagger:
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
    return UniversalTagger(
        f"spacy:{name}@{version('spacy')}",
        Remembering(lambda context, words: _spacy_tags(pipeline, context, words)),
        lambda texts: _spacy_texts(pipeline, texts),
        tagset="universal-dependencies",
    )


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


def _textblob_text(parser: Any, tokens: Tokens) -> list[str]:
    tagged = parser.find_tags(list(tokens))
    return [from_penn(tag) if token.strip() else "X" for token, tag, *_ in tagged]


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


def _spacy_texts(pipeline: Any, texts: Sequence[Tokens]) -> list[list[str]]:
    """The pipeline reads the tokens as they are, so that tags and tokens go together."""
    from spacy.tokens import Doc

    # A zone gives back what a batch added to the vocabulary: memory stays flat.
    with pipeline.memory_zone():
        documents = pipeline.pipe(Doc(pipeline.vocab, words=list(own)) for own in texts)
        return [[token.pos_ or "X" for token in document] for document in documents]


def _spacy_tag(document: Any, start: int) -> str:
    """The tag of the token that stands at a character, or X where none starts there."""
    found = (token.pos_ for token in document if token.idx >= start)
    return UNIVERSAL_DEPENDENCIES.get(next(found, "X"), "X")


Cut = Callable[[Sequence[str]], list[list[str]]]


@dataclass(frozen=True)
class Tokeniser:
    """How texts are cut into tokens; `label` names it in signatures."""

    label: str
    cut: Cut


def open_tokeniser(spec: str) -> Tokeniser:
    """The tokeniser NAME or NAME:ARGUMENT.

    >>> open_tokeniser("whitespace").cut(["Two words.", ""])
    [['Two', 'words.'], []]
    """
    name, _, argument = spec.partition(":")
    found: Tokeniser = registry.find("tokenisers", name)(argument)
    return found


def whitespace(argument: str = "") -> Tokeniser:
    """Runs of characters that are not white space."""
    if argument:
        raise UsageError("the tokeniser whitespace takes no argument; write whitespace.")
    return Tokeniser("whitespace", lambda texts: [text.split() for text in texts])


def spacy_tokens(argument: str = "en") -> Tokeniser:
    """The tokens of spaCy, all of them: `spacy:LANGUAGE` needs no download, `spacy:PIPELINE` does.

    Superfluous white space is a token of its own, as in the published procedure.

    >>> spacy("de").cut(["Das  ist's, z.B. hier."])
    [['Das', ' ', "ist's", ',', 'z.B.', 'hier', '.']]
    """
    language = _language(argument or "en")
    label = f"spacy:{argument or 'en'}@{version('spacy')}"
    return Tokeniser(label, lambda texts: _cut(language, texts, lambda token: True))


def spacy_words(argument: str = "en") -> Tokeniser:
    """The tokens of spaCy without those of white space alone: `spacy-words:LANGUAGE`.

    >>> spacy_words("en").cut(["Well  done!", " "])
    [['Well', 'done', '!'], []]
    """
    language = _language(argument or "en")
    label = f"spacy-words:{argument or 'en'}@{version('spacy')}"
    return Tokeniser(label, lambda texts: _cut(language, texts, str.strip))


def _cut(language: Any, texts: Sequence[str], wanted: Callable[[str], object]) -> list[list[str]]:
    # A zone gives back what a batch added to the vocabulary: memory stays flat.
    with language.memory_zone():
        words = _Words(language.vocab.strings)
        numbers = (language.tokenizer(text).to_array("ORTH").tolist() for text in texts)
        return [list(filter(wanted, map(words.__getitem__, own))) for own in numbers]


class _Words(dict[int, str]):
    """The word of a number of spaCy's; equal words are one object, which is faster to look up."""

    def __init__(self, strings: Any) -> None:
        self._strings = strings

    def __missing__(self, number: int) -> str:
        word: str = self._strings[number]
        self[number] = word
        return word


def _language(name: str) -> Any:
    """The rules of a language, by its two or three letters, or of an installed pipeline."""
    try:
        import spacy as package
    except ModuleNotFoundError:
        raise MissingExtraError("spacy", "nlp") from None
    try:
        return package.blank(name) if len(name) <= 3 else package.load(name, exclude=_ALL)
    except (ImportError, OSError) as error:
        # Some languages need a package more, which the first line names.
        said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
        raise UsageError(
            f"spaCy cannot open the language or pipeline {name!r} ({said}); write spacy:en, "
            "spacy:de or another language's code, or install what is missing (a pipeline: "
            "python -m spacy download NAME)."
        ) from None


_PARTS = ("tok2vec", "transformer", "tagger", "morphologizer", "parser", "senter", "ner")
_ALL = (*_PARTS, "attribute_ruler", "lemmatizer")
"""What a pipeline has beside its tokeniser."""
