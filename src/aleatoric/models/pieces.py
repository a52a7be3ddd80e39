"""The bytes that each token of a tokenizer adds to a text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from aleatoric.errors import UsageError

Pieces = tuple[bytes | None, ...]
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_level_alphabet() -> dict[str, int]:
    """Printable character -> byte, as byte-level BPE vocabularies write their tokens.

    >>> byte_level_alphabet()["\\u0120"] == ord(" ")
    True
    """
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


def token_pieces(tokenizer: Any, size: int) -> Pieces:
    """The bytes of tokens 0..size-1; `None` where a token ends the text.

    Special tokens (end of text, turn marks) and rows without a token end the text.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UsageError("this tokenizer has no fast version; convert it to a tokenizer.json.")
    spell = _speller(_decoder_parts(json.loads(backend.to_str()).get("decoder")))
    pieces: list[bytes | None] = [None] * size
    for token, index in backend.get_vocab(with_added_tokens=False).items():
        if index < size:
            pieces[index] = spell(token)
    for index, added in backend.get_added_tokens_decoder().items():
        if index < size:
            pieces[index] = None if added.special else added.content.encode()
    for index in tokenizer.all_special_ids:
        pieces[index] = None
    _check_words_are_told_apart(tokenizer, pieces)
    return tuple(pieces)


def _decoder_parts(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is None:
        return []
    if decoder["type"] == "Sequence":
        return [part for inner in decoder["decoders"] for part in _decoder_parts(inner)]
    return [decoder]


def _speller(parts: Iterable[dict[str, Any]]) -> Callable[[str], bytes]:
    """How one token is written as bytes, told from the tokenizer's decoder."""
    kinds = {part["type"]: part for part in parts}
    if "ByteLevel" in kinds:
        return _byte_level_speller()
    if "Metaspace" in kinds or "ByteFallback" in kinds:
        return _spell_marked_space
    if "WordPiece" in kinds:
        prefix = kinds["WordPiece"]["prefix"]
        return lambda t: (t[len(prefix) :] if t.startswith(prefix) else f" {t}").encode()
    if "BPEDecoder" in kinds:
        suffix = kinds["BPEDecoder"]["suffix"]
        return lambda t: t.replace(suffix, " ").encode()
    if "Fuse" in kinds:
        return lambda t: t.encode()
    raise UsageError(_NO_MARKER)


_NO_MARKER = (
    "this tokenizer does not say where a word begins (its tokens carry no space or word-start "
    "mark), so word probabilities cannot be read off; use a byte-level, SentencePiece or "
    "WordPiece tokenizer."
)


def _byte_level_speller() -> Callable[[str], bytes]:
    alphabet = byte_level_alphabet()

    def spell(token: str) -> bytes:
        try:
            return bytes(alphabet[c] for c in token)
        except KeyError:
            return token.encode()

    return spell


def _spell_marked_space(token: str) -> bytes:
    match = _BYTE_TOKEN.fullmatch(token)
    if match:
        return bytes([int(match[1], 16)])
    return token.replace("\u2581", " ").encode()


def _check_words_are_told_apart(tokenizer: Any, pieces: list[bytes | None]) -> None:
    """Two words must come back as two words; a tokenizer that drops the space is refused."""
    ids = tokenizer("to be", add_special_tokens=False)["input_ids"]
    found = [pieces[i] for i in ids]
    if not found or any(piece is None for piece in found):
        return  # letters outside the vocabulary: nothing to conclude
    if len(b"".join(piece or b"" for piece in found).split()) != 2:
        raise UsageError(_NO_MARKER)
