"""Tables of how each token extends or ends a word."""

from __future__ import annotations

from aleatoric.nextword.rules import WORD
from aleatoric.nextword.vocabulary import Vocabulary


def test_token_that_ends_a_word_has_no_next_state() -> None:
    vocabulary = Vocabulary([b"a", b" ", b".", b"-", None])
    after = vocabulary.after(vocabulary.number((WORD, b""))).tolist()
    assert after[0] == WORD
    assert after[1] == after[2] == -1
    assert after[3] >= 0
