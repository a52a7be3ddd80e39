"""A population whose next word depends only on the last one, and a tiny model of its words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from aleatoric.models.hf import HFModel, wrap
from aleatoric.rng import stream
from aleatoric.types import Item

WORDS = ("alder", "birch", "cedar", "elder", "hazel", "larch", "maple", "olive", "poplar", "rowan")


def truth(context: str) -> NDArray[np.float64]:
    """The known distribution of the word after a context."""
    weights = stream(0, "population", context.split()[-1]).gamma(0.5, size=len(WORDS)) + 0.01
    return weights / weights.sum()


def population(passages: int, length: int, people: int = 40) -> Iterator[Item]:
    """Passages drawn from the truth, and people who draw from it too."""
    for number in range(1, passages + 1):
        rng = stream(0, "passage", number)
        context = WORDS[rng.integers(len(WORDS))]
        for position in range(2, length + 2):
            known = truth(context)
            answers = tuple(WORDS[i] for i in rng.choice(len(WORDS), size=people, p=known))
            original = WORDS[rng.choice(len(WORDS), p=known)]
            yield Item(f"{number}:{position}", str(number), context, answers, original)
            context = f"{context} {original}"


def words_lm(layers: int = 2, width: int = 32, dropout: float = 0.0, seed: int = 0) -> HFModel:
    """A random model with one token per word, with and without a leading space."""
    tokenizer = _tokenizer()
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=width, n_layer=layers, n_head=2, n_positions=64,
        eos_token_id=0, bos_token_id=0,
        resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
    )  # fmt: skip
    return wrap(GPT2LMHeadModel(config), tokenizer, name="words")


def _tokenizer() -> PreTrainedTokenizerFast:
    pieces = ["<end>", *(f"Ġ{word}" for word in WORDS), *WORDS, ".", "s"]
    inner = Tokenizer(models.WordLevel({p: i for i, p in enumerate(pieces)}, unk_token="<end>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>", bos_token="<end>")


def save_lm(folder: Path, **shape: float) -> Path:
    """Save such a model in the format that `hf:` reads."""
    lm = words_lm(**shape)  # type: ignore[arg-type]
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    return folder


def save_corpus(path: Path, items: Sequence[Item]) -> Path:
    """Save items as a cloze corpus."""
    rows = [
        {"id": i.id, "group": i.group, "context": i.context, "original": i.original}
        | {"responses": list(i.responses)}
        for i in items
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
