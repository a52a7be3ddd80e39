"""Tables of what a token does to a word."""

from __future__ import annotations

from aleatoric.nextword.rules import WORD
from aleatoric.nextword.vocabulary import Vocabulary


def test_no_table_follows_a_token_that_ends_the_word() -> None:
    vocabulary = Vocabulary([b"a", b" ", b".", b"-", None])
    after = vocabulary.after(vocabulary.number((WORD, b""))).tolist()
    assert after[0] == WORD
    assert after[1] == after[2] == -1
    assert after[3] >= 0
