"""Moses tokenization through sacremoses: each rule once."""

from __future__ import annotations

import pytest
from multi30k.subwords import Language, tokenise

pytest.importorskip("sacremoses", reason="pip install sacremoses")


@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("en", "A dog, a cat.", "A dog , a cat ."),
        ("en", "1,000 men", "1,000 men"),
        ("en", "in 1990, he", "in 1990 , he"),
        ("en", "dog's the dogs' ball", "dog &apos;s the dogs &apos; ball"),
        ("en", "the 1990's and 'so'", "the 1990 &apos;s and &apos; so &apos;"),
        ("de", "Lena's Hund", "Lena &apos; s Hund"),
        ("en", "Mr. Smith left.", "Mr. Smith left ."),
        ("en", "the U.S. army", "the U.S. army"),
        ("en", "He left. She came.", "He left . She came ."),
        ("en", "approx. two", "approx. two"),
        ("de", "im 2. Stock", "im 2. Stock"),
        ("en", "well-known t-shirt", "well-known t-shirt"),
        ("en", "Wait... what?!", "Wait ... what ? !"),
        ("en", '"R&B" [a|b] <c>', "&quot; R &amp; B &quot; &#91; a &#124; b &#93; &lt; c &gt;"),
        ("de", "Straße\u00a05 (groß)", "Straße 5 ( groß )"),
        ("en", "  a \t b  ", "a b"),
        ("en", "", ""),
    ],
)
def test_moses_tokenization_rules(language: Language, text: str, words: str) -> None:
    assert tokenise(text, language) == words.split()
