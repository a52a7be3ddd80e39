"""Tokenisers: texts in, the tokens of each out, as they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from aleatoric import registry
from aleatoric.errors import MissingExtraError, UsageError

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


def spacy(argument: str = "en") -> Tokeniser:
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
