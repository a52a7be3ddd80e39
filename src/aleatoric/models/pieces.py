"""Tokenizers: the bytes of each token, and the tokens before a text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from aleatoric.errors import UsageError

Pieces = tuple[bytes | None, ...]


def byte_level_alphabet() -> dict[str, int]:
    """Map printable characters to bytes, as byte-level BPE vocabularies write their tokens."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


def token_pieces(tokenizer: Any, size: int, ends: Collection[int] = ()) -> Pieces:
    """The bytes of tokens 0..size-1; `None` for what ends a text: special tokens, unused rows.

    The tokens `ends` end a text too.
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
            pieces[index] = None if added.special else spell(added.content)
    for index in tokenizer.all_special_ids:
        pieces[index] = None
    _check_marker(tokenizer, pieces)
    return tuple(None if token in ends else piece for token, piece in enumerate(pieces))


def _check_marker(tokenizer: Any, pieces: Sequence[bytes | None]) -> None:
    """Raise if the space between two words that the vocabulary can spell is lost."""
    own = tokenizer.backend_tokenizer.get_vocab(with_added_tokens=False).values()
    known = (pieces[i] for i in own if i < len(pieces))
    marked = [f"to{p.decode()}" for p in known if p and p[:1] == b" " and p[1:].isalpha()]
    # A small vocabulary may lack a letter, or a space by itself.
    texts = {text: _spelled(tokenizer, pieces, text) for text in ("to be", *marked[:3])}
    if texts["to be"] == ["tobe"] and all(len(words) < 2 for words in texts.values()):
        raise UsageError(_NO_MARKER)


def _spelled(tokenizer: Any, pieces: Sequence[bytes | None], text: str) -> list[str]:
    """Return the words that the pieces of a text spell, without special tokens."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return b"".join(pieces[i] or b"" for i in ids).decode(errors="replace").split()


def _decoder_parts(decoder: dict[str, Any] | None) -> list[dict[str, Any]]:
    if decoder is not None and decoder["type"] == "Sequence":
        return [part for inner in decoder["decoders"] for part in _decoder_parts(inner)]
    return [] if decoder is None else [decoder]


def _speller(parts: Iterable[dict[str, Any]]) -> Callable[[str], bytes]:
    """The function that turns a token into bytes, given the tokenizer's decoder."""
    kinds = {part["type"]: part for part in parts}
    if "ByteLevel" in kinds:
        alphabet = byte_level_alphabet()
        is_plain = frozenset(alphabet).issuperset
        return lambda t: bytes(alphabet[c] for c in t) if is_plain(t) else t.encode()
    if "Metaspace" in kinds or "ByteFallback" in kinds:
        is_byte = re.compile("<0x[0-9A-Fa-f]{2}>").fullmatch
        return lambda t: bytes.fromhex(t[3:5]) if is_byte(t) else t.replace("\u2581", " ").encode()
    if "WordPiece" in kinds:
        prefix = kinds["WordPiece"]["prefix"]
        return lambda t: (t[len(prefix) :] if t.startswith(prefix) else f" {t}").encode()
    if "BPEDecoder" in kinds:
        return lambda t: t.replace(kinds["BPEDecoder"]["suffix"], " ").encode()
    if "Fuse" in kinds:
        return lambda t: t.encode()
    raise UsageError(_NO_MARKER)


_NO_MARKER = (
    "this tokenizer does not say where a word begins (its tokens carry no space or word-start "
    "mark), so word probabilities cannot be read off; use a byte-level, SentencePiece or "
    "WordPiece tokenizer."
)


def start_tokens(tokenizer: Any, bos: str, name: str) -> tuple[int, ...]:
    """Return the tokens before every text under a policy; `name` is for messages.

    `auto` starts a text as the tokenizer does, `add` with its beginning-of-text token.
    """
    check_bos(bos)
    if bos == "auto":
        return own_start(tokenizer)
    if bos == "none":
        return ()
    if tokenizer.bos_token_id is None:
        raise UsageError(f"{name} has no beginning-of-text token; use --bos auto or none.")
    return (int(tokenizer.bos_token_id),)


def check_bos(bos: str) -> None:
    """Raise for an unknown policy."""
    if bos not in ("auto", "none", "add"):
        raise UsageError(f"--bos {bos} is not known; use auto, none or add.")


def own_start(tokenizer: Any) -> tuple[int, ...]:
    """Return the special tokens that a tokenizer puts before a text (not those after it)."""
    rows = (tokenizer(text, return_special_tokens_mask=True) for text in ("a", "The", "1"))
    # A tokenizer may know no letter of a text.
    row = next((row for row in rows if 0 in row["special_tokens_mask"]), None)
    return tuple(row["input_ids"][: row["special_tokens_mask"].index(0)]) if row else ()


def policy_of(tokenizer: Any, start: tuple[int, ...]) -> str:
    """Return the policy for signatures: none, add, or the tokens' names."""
    if start in ((), (tokenizer.bos_token_id,)):
        return "add" if start else "none"
    return "".join(tokenizer.convert_ids_to_tokens(list(start)))


def load_tokenizer(name: str, **options: Any) -> Any:
    """Load a tokenizer, with `add_bos_token` of its settings if its files leave that open.

    transformers ignores `add_bos_token` even if tokenizer.json does not define special tokens.
    """
    from transformers import AutoTokenizer
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    tokenizer = AutoTokenizer.from_pretrained(name, **options)
    settings = get_tokenizer_config(name, **options)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if settings.get("add_bos_token") and backend is not None:
        processor = json.loads(backend.to_str())["post_processor"]
        # transformers fills a gap with a template without special tokens.
        if processor is None or processor.get("special_tokens") == {}:
            set_bos(tokenizer, True)
    return tokenizer


def set_bos(tokenizer: Any, add: bool) -> None:
    """Switch a tokenizer's beginning-of-text token on or off."""
    if tokenizer.bos_token_id is not None and bool(own_start(tokenizer)) != add:
        tokenizer.add_bos_token = add
