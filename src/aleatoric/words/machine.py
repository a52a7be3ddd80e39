"""The corrected word rule as a machine that reads a text piece by piece.

`rules.first_word` looks at a whole text. A model writes token by token, and a token may be part of
a character, hold a space and half a word, or end one word and begin the next. The machine says
after every piece whether the first word is settled, and agrees with `rules.first_word` on the
whole text (tested).
"""

from __future__ import annotations

import codecs
import unicodedata
from dataclasses import dataclass, replace
from typing import Literal

from aleatoric.words.rules import JOINERS, STRAIGHT, is_alphanumeric, is_word_character

Lead = Literal["skip", "condition"]


Mode = int
LEAD, WORD, JOIN, DONE, FAILED = range(5)
"""Where the text stands: before the word, in it, after an undecided joiner, done, wordless."""


@dataclass(frozen=True, slots=True)
class State:
    """What is known of the first word after some bytes.

    `word` is the word so far, `joiner` an apostrophe, hyphen or the like that is inner only if a
    letter or digit follows, `pending` the first bytes of a character not yet complete.
    """

    mode: Mode = LEAD
    word: str = ""
    joiner: str = ""
    pending: bytes = b""

    @property
    def settled(self) -> bool:
        """Whether nothing that follows can change the word."""
        return self.mode >= DONE


def advance(state: State, piece: bytes | None, lead: Lead = "skip") -> State:
    """The state after one more token; `piece=None` ends the text.

    >>> advance(State(), b" it'").joiner
    "'"
    >>> advance(advance(State(), b" it'"), b"s ").word
    "it's"
    """
    if state.settled:
        return state
    if piece is None:
        return _finish(state)
    text, pending = decode(state.pending + piece)
    if state.pending and text:
        state = State(state.mode, state.word, state.joiner)
    for character in text:
        state = _step(state, character, lead)
        if state.settled:
            return state
    return replace(state, pending=pending) if pending else state


def _finish(state: State) -> State:
    """The text ends: the word so far stands, and without a word there is none."""
    if state.mode == LEAD:
        return State(FAILED)
    return State(DONE, state.word)


def _step(state: State, character: str, lead: Lead) -> State:
    if state.mode == LEAD:
        if is_alphanumeric(character):
            return State(WORD, character)
        at_once = lead == "condition" and not character.isspace()
        return State(FAILED) if at_once else state
    if state.mode == JOIN:
        if is_alphanumeric(character):
            return State(WORD, state.word + state.joiner + character)
        return State(DONE, state.word)
    if is_word_character(character):
        return State(WORD, state.word + character)
    if character in JOINERS:
        return State(JOIN, state.word, character)
    return State(DONE, state.word)


def decode(data: bytes) -> tuple[str, bytes]:
    """The complete characters of UTF-8 `data` and the bytes of an incomplete last one.

    >>> decode("é".encode()[:1])
    ('', b'\\xc3')
    """
    try:
        return data.decode(), b""  # the common case, and fast
    except UnicodeDecodeError:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data)
        return text, decoder.getstate()[0]


def fold(text: str) -> str:
    """Case-folded, decomposed, with straight marks: equal where `rules.normalise` is equal.

    Decomposed, because then a part of a word folds to a part of the folded word.

    >>> fold("É") == "e\\u0301"
    True
    """
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFD", text).casefold()
    return unicodedata.normalize("NFD", folded.translate(STRAIGHT))


def compose(folded: str) -> str:
    """A folded word as `rules.normalise` writes it.

    >>> compose(fold("CAFÉ"))
    'café'
    """
    return unicodedata.normalize("NFC", folded)
