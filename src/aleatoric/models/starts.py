"""How a text begins: the special tokens that stand in front of it."""

from __future__ import annotations

import json
from typing import Any, Literal

from aleatoric.errors import UsageError

Bos = Literal["auto", "none", "add"]
"""`auto` starts a text as the model's tokenizer does, `add` with its beginning-of-text token."""


def start_tokens(tokenizer: Any, bos: str, name: str) -> tuple[int, ...]:
    """The tokens in front of every text under a policy; `name` is the model's, for messages."""
    check_bos(bos)
    if bos == "auto":
        return own_start(tokenizer)
    if bos == "none":
        return ()
    if tokenizer.bos_token_id is None:
        raise UsageError(f"{name} has no beginning-of-text token; use --bos auto or none.")
    return (int(tokenizer.bos_token_id),)


def check_bos(bos: str) -> None:
    """Refuse what is no policy.

    >>> check_bos("auto")
    """
    if bos not in ("auto", "none", "add"):
        raise UsageError(f"--bos {bos} is not known; use auto, none or add.")


def own_start(tokenizer: Any) -> tuple[int, ...]:
    """The special tokens that a tokenizer puts in front of a text.

    What it puts behind a text is left out: a context goes on.
    """
    for text in ("a", "The", "1"):
        found = tokenizer(text, return_special_tokens_mask=True)
        added = found["special_tokens_mask"]
        if 0 in added:  # a tokenizer may know no letter of the text
            return tuple(found["input_ids"][: added.index(0)])
    return ()


def policy_of(tokenizer: Any, start: tuple[int, ...]) -> str:
    """What is done at the beginning of a text, for signatures: none, add, or the tokens' names."""
    if not start:
        return "none"
    if start == (tokenizer.bos_token_id,):
        return "add"
    return "".join(tokenizer.convert_ids_to_tokens(list(start)))


def load_tokenizer(name: str, **options: Any) -> Any:
    """The tokenizer of a checkpoint, with `add_bos_token` of its settings where that is needed.

    A tokenizer.json that says what stands around a text has the last word. transformers drops
    `add_bos_token` also where the file says nothing.
    """
    from transformers import AutoTokenizer
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    tokenizer = AutoTokenizer.from_pretrained(name, **options)
    settings = get_tokenizer_config(name, **options)
    if settings.get("add_bos_token") and says_nothing(tokenizer):
        set_bos(tokenizer, True)
    return tokenizer


def says_nothing(tokenizer: Any) -> bool:
    """Whether a tokenizer's files left open what stands around a text."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return False
    processor = json.loads(backend.to_str())["post_processor"]
    # transformers fills what is open with a template without special tokens.
    return processor is None or processor.get("special_tokens") == {}


def set_bos(tokenizer: Any, add: bool) -> None:
    """Let a tokenizer put its beginning-of-text token in front of texts, or not."""
    if tokenizer.bos_token_id is not None and bool(own_start(tokenizer)) != add:
        tokenizer.add_bos_token = add
