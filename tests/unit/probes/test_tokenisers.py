"""Tokenisers per language, and clear errors if none is available."""

from __future__ import annotations

import sys

import pytest

from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.probes.taggers import open_tokeniser


@pytest.mark.parametrize(
    ("spec", "text", "tokens"),
    [
        ("spacy:en", "It's  done.", ["It", "'s", " ", "done", "."]),
        ("spacy-words:en", "It's  done.\n", ["It", "'s", "done", "."]),
        ("spacy:de", "Geht's, z.B. morgen?", ["Geht's", ",", "z.B.", "morgen", "?"]),
        ("spacy:en", "Geht's, z.B. morgen?", ["Geht", "'s", ",", "z.", "B.", "morgen", "?"]),
        ("spacy-words:en", " \t", []),
        ("spacy:en", "", []),
        ("whitespace", "It's  done.", ["It's", "done."]),
    ],
)
def test_texts_are_tokenised(spec: str, text: str, tokens: list[str]) -> None:
    if spec.startswith("spacy"):
        pytest.importorskip("spacy")
    assert open_tokeniser(spec).cut([text, text]) == [tokens, tokens]


def test_tokens_match_spacy() -> None:
    spacy = pytest.importorskip("spacy")
    texts = ["Don't!", "中文 🙂 <script>", "a\u00a0b \x00 c", "x" * 5000, "\u202eback"]
    blank = spacy.blank("en")
    assert open_tokeniser("spacy").cut(texts) == [[t.text for t in blank(text)] for text in texts]


def test_labels_contain_version_and_language() -> None:
    pytest.importorskip("spacy")
    assert open_tokeniser("spacy:de").label.startswith("spacy:de@3")


@pytest.mark.parametrize("spec", ["spacy:qq", "spacy:no_such_pipeline", "spacy-words:qq"])
def test_unknown_language_raises_one_line_error(spec: str) -> None:
    pytest.importorskip("spacy")
    with pytest.raises(UsageError, match="spaCy cannot open the language or pipeline"):
        open_tokeniser(spec)


def test_language_that_needs_a_package_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    spacy = pytest.importorskip("spacy")

    def blank(name: str) -> None:
        raise ImportError("Japanese support requires SudachiPy.\nMore lines.")

    monkeypatch.setattr(spacy, "blank", blank)
    with pytest.raises(
        UsageError, match=r"'ja' \(Japanese support requires SudachiPy\); .*"
    ) as hit:
        open_tokeniser("spacy:ja")
    assert "\n" not in str(hit.value)


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="whitespace"):
        open_tokeniser("spcy:en")
    with pytest.raises(UsageError, match="takes no argument"):
        open_tokeniser("whitespace:en")


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r"aleatoric\[nlp\]"):
        open_tokeniser("spacy:en")
