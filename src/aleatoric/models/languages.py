"""Source and target language of translation models: what the encoder and the decoder are given."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from aleatoric.errors import UsageError, did_you_mean, quoted
from aleatoric.models.base import LoadOptions
from aleatoric.models.loading import decoder_start


@dataclass(frozen=True)
class Direction:
    """The tokens that start a decoder, and a text before every source.

    In `start`, the token of the target language (if there is one) is given, never drawn or scored.
    """

    start: tuple[int, ...]
    prefix: str = ""
    has_language_token: bool = False
    conventions: Mapping[str, str] = field(default_factory=dict)

    def target(self, tokenizer: Any, texts: list[str]) -> list[tuple[int, ...]]:
        """Tokenize target texts as they follow `start`, with the special tokens around them."""
        if not self.has_language_token:
            return list(map(tuple, tokenizer(text_target=texts)["input_ids"]))
        rows = tokenizer(text_target=texts, add_special_tokens=False)["input_ids"]
        return [(*row, tokenizer.eos_token_id) for row in rows]


def direction(model: Any, tokenizer: Any, options: LoadOptions, label: str) -> Direction:
    """Return how an encoder-decoder translates; sets the source language of its tokenizer.

    NLLB, M2M100 and mBART-50 start with decoder_start_token_id and the target language; mBART with
    the target language alone; multilingual Marian models read `>>xxx<<` before the source.
    """
    if languages := language_tokens(tokenizer):
        return _by_token(model, tokenizer, options, label, languages)
    codes, target = prefix_codes(tokenizer), options.target_language
    start = (decoder_start(model, label),)
    if options.source_language is not None or (target is not None and not codes):
        option = "--target-language" if options.source_language is None else "--source-language"
        raise UsageError(f"{label}: its tokenizer has no language codes; leave {option} out.")
    if target is None and len(codes) < 2:
        return Direction(start)
    _check(target, "--target-language", codes, label)
    return Direction(start, f">>{target}<< ", conventions={"target": str(target)})


def _by_token(
    model: Any, tokenizer: Any, options: LoadOptions, label: str, languages: Mapping[str, int]
) -> Direction:
    """Return how a model translates whose languages are tokens."""
    configured = getattr(tokenizer, "init_kwargs", {})
    source = options.source_language or configured.get("src_lang")
    target = options.target_language or configured.get("tgt_lang")
    _check(source, "--source-language", languages, label)
    _check(target, "--target-language", languages, label)
    tokenizer.src_lang, tokenizer.tgt_lang = source, target
    stated, token = {"source": str(source), "target": str(target)}, languages[str(target)]
    if _starts_with_language(model, tokenizer, token):
        return Direction((token,), "", True, stated)
    return Direction((decoder_start(model, label), token), "", True, stated)


def check_no_languages(options: LoadOptions, label: str) -> None:
    """Refuse languages for a causal model."""
    if options.source_language is not None or options.target_language is not None:
        fix = "leave --source-language and --target-language out"
        raise UsageError(f"{label} is no translation model; {fix}.")


def language_tokens(tokenizer: Any) -> dict[str, int]:
    """Return the language codes of a tokenizer with their tokens; none if it has no languages."""
    if not hasattr(tokenizer, "src_lang"):
        return {}
    if named := getattr(tokenizer, "lang_code_to_id", None):
        return dict(named)
    others = {token for token in tokenizer.special_tokens_map.values() if isinstance(token, str)}
    codes = [token for token in tokenizer.all_special_tokens if token not in others]
    return {code: tokenizer.convert_tokens_to_ids(code) for code in codes}


def prefix_codes(tokenizer: Any) -> list[str]:
    """Return the codes xxx of tokens `>>xxx<<` in the vocabulary of a Marian model."""
    tokens = sorted(tokenizer.get_vocab())
    return [token[2:-2] for token in tokens if token.startswith(">>") and token.endswith("<<")]


def _check(code: str | None, option: str, codes: Collection[str], label: str) -> None:
    some = ", ".join(sorted(codes)[:3])
    if code is None:
        raise UsageError(
            f"{label} translates between several languages; add {option} ({some}, ...)."
        )
    if code not in codes:
        near = did_you_mean(code, codes)
        fix = f"use one of its {len(codes)} codes ({some}, ...)"
        raise UsageError(f"{label}: {option} {quoted(code, 40)} is not known{near}; {fix}.")


def _starts_with_language(model: Any, tokenizer: Any, token: int) -> bool:
    """Whether the decoder starts with the language alone: mBART, where it comes after the end."""
    row = tokenizer(text_target="")["input_ids"]
    return bool(model.config.model_type == "mbart" and row[-1] == token)
