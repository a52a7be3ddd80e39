"""Part-of-speech taggers and tokenizers.

A tagger tags each word as the continuation of a context, with one of the 12 tags of Petrov et al.
(2012). It reads the last `WINDOW` words of the context, because tags depend on near neighbors. The
built-in taggers also tag tokenized texts, with the tagger's own tags (spaCy: PROPN, AUX, SCONJ).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from aleatoric import registry
from aleatoric.errors import UsageError, first_line, needs, refuse_argument

Tagger = Callable[[str, Sequence[str]], list[str]]
"""(context, words) -> universal tags of the words."""
Tokens = Sequence[str]
TextTagger = Callable[[Sequence[Tokens]], list[list[str]]]
"""Tokenized texts -> the tags of each text's tokens."""
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
"""Penn Treebank -> universal; all others (FW, LS, SYM, UH) are X."""
UNIVERSAL_DEPENDENCIES = {
    **{tag: tag for tag in ("ADJ", "ADP", "ADV", "DET", "NOUN", "NUM", "PRON", "VERB", "X")},
    "AUX": "VERB",
    **dict.fromkeys(("CCONJ", "CONJ"), "CONJ"),
    "SCONJ": "ADP",
    "PART": "PRT",
    "PROPN": "NOUN",
    **dict.fromkeys(("PUNCT", "SYM"), "."),
    **dict.fromkeys(("INTJ", "SPACE"), "X"),
}
"""The tags of Universal Dependencies, as spaCy names them -> universal."""
_PARTS = "tok2vec transformer tagger morphologizer parser senter ner attribute_ruler lemmatizer"
"""The components of a spaCy pipeline besides its tokenizer."""


def from_penn(tag: str) -> str:
    """The universal tag of a Penn tag, ignoring a finer label after a hyphen."""
    return PENN.get(tag) or PENN.get(tag.partition("-")[0], "X")


class UniversalTagger:
    """A tagger of both kinds: called, it tags words that continue a context.

    The tags of the latest context, which several systems share, are cached. `tagset` is that of
    `tag_texts`, for signatures.
    """

    def __init__(
        self, label: str, in_context: Tagger, tag_texts: TextTagger, tagset: str = "petrov-2012"
    ) -> None:
        self.label, self.tag_texts, self.tagset = label, tag_texts, tagset
        self._in_context, self._context = in_context, ""
        self._known: dict[str, str] = {}

    def __call__(self, context: str, words: Sequence[str]) -> list[str]:
        """The tags of the words, each as the continuation of the last words of the context."""
        window = " ".join(context.split()[-WINDOW:])
        if window != self._context:
            self._context, self._known = window, {}
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        if new:
            self._known |= zip(new, self._in_context(window, new), strict=True)
        return [self._known[word] for word in words]


@cache
def textblob(argument: str = "") -> UniversalTagger:
    """TextBlob's rule-based tagger (Brill), for English; needs no downloaded data."""
    refuse_argument("tagger", "--tagger textblob", argument)
    with needs("textblob", "nlp"):
        from textblob.en import parser

    def in_context(context: str, words: Sequence[str]) -> list[str]:
        # Find the sentence that the answer belongs to, with any word in its place.
        before = parser.find_tokens(f"{context} word")[-1].split()[:-1]
        tags = []
        for word in words:
            answer = " ".join(parser.find_tokens(word)).split()
            tagged = parser.find_tags([*before, *answer]) if answer else []
            # Of an answer with several tokens, such as it's, the first one counts.
            tags.append(from_penn(tagged[len(before)][1]) if answer else "X")
        return tags

    return UniversalTagger(
        f"textblob@{version('textblob')}",
        in_context,
        lambda texts: [
            [from_penn(tag) if token.strip() else "X" for token, tag, *_ in tagged]
            for tagged in (parser.find_tags(list(tokens)) for tokens in texts)
        ],
    )


def nltk(argument: str = "") -> UniversalTagger:
    """NLTK's averaged perceptron, the tagger of the paper; needs its data."""
    refuse_argument("tagger", "--tagger nltk", argument)
    with needs("nltk", "nlp"):
        from nltk.tag import PerceptronTagger
        from nltk.tokenize import NLTKWordTokenizer
    try:
        tagger = PerceptronTagger()
    except LookupError:
        raise UsageError(
            "the tagger nltk needs its data: run python -m nltk.downloader "
            "averaged_perceptron_tagger_eng, or use --tagger textblob."
        ) from None
    tokens = NLTKWordTokenizer().tokenize

    def in_context(context: str, words: Sequence[str]) -> list[str]:
        before, answers = tokens(context), map(tokens, words)
        tagged = (tagger.tag([*before, *answer]) if answer else None for answer in answers)
        return [from_penn(line[len(before)][1]) if line else "X" for line in tagged]

    return UniversalTagger(
        f"nltk@{version('nltk')}",
        in_context,
        lambda texts: [[from_penn(tag) for _, tag in tagger.tag(list(text))] for text in texts],
    )


def spacy(argument: str = "") -> UniversalTagger:
    """A spaCy pipeline: `spacy:NAME`, by default en_core_web_sm; must be installed."""
    name = argument or "en_core_web_sm"
    pipeline = spacy_pipeline(name, ("ner", "parser", "lemmatizer"), ", or use --tagger textblob")
    return UniversalTagger(
        f"spacy:{name}@{version('spacy')}",
        lambda context, words: _spacy_tags(pipeline, context, words),
        lambda texts: _spacy_texts(pipeline, texts),
        tagset="universal-dependencies",
    )


def spacy_pipeline(name: str, exclude: Sequence[str], instead: str = "") -> Any:
    """An installed spaCy pipeline without some of its components."""
    with needs("spacy", "nlp"):
        from spacy import load
    try:
        return load(name, exclude=list(exclude))
    except OSError:
        fix = f"run python -m spacy download {name}{instead}"
        raise UsageError(f"the spaCy pipeline {name} is not installed: {fix}.") from None


def _spacy_tags(pipeline: Any, context: str, words: Sequence[str]) -> list[str]:
    lead = f"{context} " if context else ""
    documents = pipeline.pipe(lead + word for word in words)
    tags = (next((t.pos_ for t in document if t.idx >= len(lead)), "X") for document in documents)
    return [UNIVERSAL_DEPENDENCIES.get(tag, "X") for tag in tags]


def _spacy_texts(pipeline: Any, texts: Sequence[Tokens]) -> list[list[str]]:
    """Tag the given tokens as they are, so that there is one tag per token."""
    from spacy.tokens import Doc

    # A memory zone frees what a batch added to the vocabulary.
    with pipeline.memory_zone():
        documents = pipeline.pipe(Doc(pipeline.vocab, words=list(tokens)) for tokens in texts)
        return [[token.pos_ or "X" for token in document] for document in documents]


@dataclass(frozen=True)
class Tokeniser:
    """A function that splits texts into tokens; `label` names it in signatures."""

    label: str
    cut: Callable[[Sequence[str]], list[list[str]]]


def open_tokeniser(spec: str) -> Tokeniser:
    """The tokenizer NAME or NAME:ARGUMENT."""
    name, _, argument = spec.partition(":")
    tokeniser: Tokeniser = registry.find("tokenisers", name)(argument)
    return tokeniser


def whitespace(argument: str = "") -> Tokeniser:
    """Split at white space."""
    refuse_argument("tokeniser", "whitespace", argument)
    return Tokeniser("whitespace", lambda texts: [text.split() for text in texts])


def spacy_tokens(argument: str = "en") -> Tokeniser:
    """All tokens of spaCy: `spacy:LANGUAGE` needs no download, `spacy:PIPELINE` does.

    Extra white space is a token of its own, as in the published procedure.
    """
    return _spacy_tokeniser("spacy", argument or "en", lambda token: True)


def spacy_words(argument: str = "en") -> Tokeniser:
    """The tokens of spaCy without white space: `spacy-words:LANGUAGE`."""
    return _spacy_tokeniser("spacy-words", argument or "en", str.strip)


def _spacy_tokeniser(kind: str, name: str, keep: Callable[[str], object]) -> Tokeniser:
    language = _language(name)

    def cut(texts: Sequence[str]) -> list[list[str]]:
        # A memory zone frees what a batch added to the vocabulary.
        with language.memory_zone():
            # Equal words are one object, which is faster to look up.
            word = cache(language.vocab.strings.__getitem__)
            numbers = (language.tokenizer(text).to_array("ORTH").tolist() for text in texts)
            return [list(filter(keep, map(word, ids))) for ids in numbers]

    return Tokeniser(f"{kind}:{name}@{version('spacy')}", cut)


def _language(name: str) -> Any:
    """The rules of a language, by its code of two or three letters, or an installed pipeline."""
    with needs("spacy", "nlp"):
        import spacy as package
    try:
        if len(name) <= 3:
            return package.blank(name)
        return package.load(name, exclude=_PARTS.split())
    except (ImportError, OSError) as error:
        # Some languages need another package, which the first line names.
        reason = first_line(error).rstrip(". ")
        raise UsageError(
            f"spaCy cannot open the language or pipeline {name!r} ({reason}); write spacy:en, "
            "spacy:de or another language's code, or install what is missing (a pipeline: "
            "python -m spacy download NAME)."
        ) from None
