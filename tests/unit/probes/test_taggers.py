"""Taggers: universal tags in context, and clear errors if data is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.probes import taggers


@pytest.fixture(scope="module")
def textblob() -> taggers.Tagger:
    pytest.importorskip("textblob")
    return taggers.textblob()


@pytest.mark.parametrize(
    ("context", "word", "tag"),
    [
        ("The man wants to", "eat", "VERB"),
        ("She drank a cup of", "coffee", "NOUN"),
        ("She drank a", "hot", "ADJ"),
        ("He looked at", "her", "PRON"),
        ("They went", "into", "ADP"),
        ("dogs", "and", "CONJ"),
        ("They saw", "the", "DET"),
        ("There were", "seven", "NUM"),
        ("He ran very", "quickly", "ADV"),
        ("It rained. Then", "it's", "PRON"),
        ("", "the", "DET"),
        ("It ended.", "they", "PRON"),
    ],
)
def test_textblob_tags_word_in_context(
    textblob: taggers.Tagger, context: str, word: str, tag: str
) -> None:
    assert textblob(context, [word]) == [tag]


@pytest.mark.parametrize("word", ["", " ", "…", "🙂", "\n", "中文", "x" * 10_000, "a/b", "$5"])
def test_unusual_words_get_a_tag(textblob: taggers.Tagger, word: str) -> None:
    (tag,) = textblob("They saw the", [word])
    assert tag in taggers.TAGS


def test_every_penn_tag_has_a_universal_one() -> None:
    assert set(taggers.PENN.values()) <= set(taggers.TAGS)
    assert set(taggers.UNIVERSAL_DEPENDENCIES.values()) <= set(taggers.TAGS)
    assert [taggers.from_penn(t) for t in ("-LRB-", "NNP-PERS", "??")] == [".", "NOUN", "X"]


def test_context_is_tagged_once() -> None:
    calls = []

    def tagger(context: str, words: Sequence[str]) -> list[str]:
        calls.append(list(words))
        return [word.upper() for word in words]

    remembering = taggers.UniversalTagger("own", tagger, list)
    assert remembering("c", ["a", "b", "a"]) == ["A", "B", "A"]
    assert remembering("c", ["b", "d"]) == ["B", "D"]
    assert remembering("e", ["a"]) == ["A"]
    assert calls == [["a", "b"], ["d"], ["a"]]


def test_context_is_limited_to_last_words() -> None:
    seen = []
    remembering = taggers.UniversalTagger(
        "own", lambda context, words: seen.append(context) or ["X"], list
    )
    remembering(" ".join(str(i) for i in range(100)), ["a"])
    assert seen == [" ".join(str(i) for i in range(84, 100))]


def test_nltk_error_names_missing_data(monkeypatch: pytest.MonkeyPatch) -> None:
    tag = pytest.importorskip("nltk.tag")

    def missing() -> None:
        raise LookupError("many lines")

    monkeypatch.setattr(tag, "PerceptronTagger", missing)
    with pytest.raises(UsageError, match=r"nltk\.downloader averaged_perceptron_tagger_eng"):
        taggers.nltk()


def test_nltk_tags_the_first_token_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    tag = pytest.importorskip("nltk.tag")
    known = {"They": "PRP", "saw": "VBD", "it": "PRP", "'s": "VBZ", "dogs": "NNS"}
    fake = SimpleNamespace(tag=lambda tokens: [(token, known[token]) for token in tokens])
    monkeypatch.setattr(tag, "PerceptronTagger", lambda: fake)
    assert taggers.nltk()("They saw", ["dogs", "it's", ""]) == ["NOUN", "PRON", "X"]


def test_spacy_error_names_missing_pipeline() -> None:
    pytest.importorskip("spacy")
    with pytest.raises(UsageError, match="python -m spacy download no_such_pipeline"):
        taggers.spacy("no_such_pipeline")


def test_spacy_tags_the_token_where_the_answer_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    spacy = pytest.importorskip("spacy")
    blank = spacy.blank("en")

    def pipe(texts: Any) -> Any:
        for text in texts:
            document = blank(text)
            for token in document:
                token.pos_ = "PROPN" if token.text == "Rome" else "AUX"
            yield document

    monkeypatch.setattr(spacy, "load", lambda name, exclude: SimpleNamespace(pipe=pipe))
    assert taggers.spacy()("They saw", ["Rome", "is", ""]) == ["NOUN", "VERB", "X"]
    assert taggers.spacy()("", ["Rome"]) == ["NOUN"]


@pytest.mark.parametrize("factory", [taggers.textblob, taggers.nltk])
def test_argument_is_rejected(factory: Callable[[str], taggers.Tagger]) -> None:
    with pytest.raises(UsageError, match="takes no argument"):
        factory("large")


@pytest.mark.parametrize(
    ("module", "factory"),
    [("textblob.en", taggers.textblob), ("nltk.tag", taggers.nltk), ("spacy", taggers.spacy)],
)
def test_missing_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, factory: Callable[[], taggers.Tagger]
) -> None:
    taggers.textblob.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"aleatoric\[nlp\]"):
        factory()


def test_spacy_tags_of_texts_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Universal Dependencies: PROPN, AUX and SCONJ are not merged with NOUN, VERB and ADP."""
    spacy = pytest.importorskip("spacy")
    blank = spacy.blank("en")

    def pipe(documents: Any) -> Any:
        for document in documents:
            for token, tag in zip(document, ("SCONJ", "PROPN", "AUX", ""), strict=True):
                token.pos_ = tag
            yield document

    monkeypatch.setattr(blank, "pipe", pipe)
    monkeypatch.setattr(spacy, "load", lambda name, exclude: blank)
    texts = [["if", "Rome", "is", "?"]]
    assert taggers.spacy().tag_texts(texts) == [["SCONJ", "PROPN", "AUX", "X"]]
    assert taggers.spacy().tagset == "universal-dependencies"
