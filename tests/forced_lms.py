"""Tiny random-weight causal and encoder-decoder models, saved in the format of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

TEXT = (
    "The ferry left at seven and nobody waved. Bread is made of flour, water, salt and time. "
    "When the lights went out the old man kept reading. Ein Hund läuft. A dog runs. "
) * 3
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
WINDOW = 24


def words(template: str | None = None) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer that adds special tokens by `template`."""
    inner = Tokenizer(models.BPE(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options: dict[str, Any] = {"special_tokens": SPECIALS, "initial_alphabet": alphabet}
    trainer = trainers.BpeTrainer(vocab_size=320, show_progress=False, **options)
    inner.train_from_iterator([TEXT], trainer)
    if template:
        ids = [(name, inner.token_to_id(name)) for name in SPECIALS]
        inner.post_processor = processors.TemplateProcessing(template, special_tokens=ids)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def tiny(kind: str) -> tuple[Any, PreTrainedTokenizerFast]:
    """A model of an architecture with its tokenizer; distributions are peaked."""
    torch.manual_seed(0)
    tokenizer = words({"bart": "<s> $A </s>", "gpt2": None}.get(kind, "$A </s>"))
    size = len(tokenizer)
    ids: dict[str, Any] = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    layers = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "init_std": 0.4}
    layers |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    layers |= {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64}
    model: Any
    if kind == "gpt2":
        shape = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": WINDOW}
        config = GPT2Config(vocab_size=size, initializer_range=0.4, **shape, **ids)
        model = GPT2LMHeadModel(config)
    elif kind == "t5":
        shape = {"d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 4}
        model = T5ForConditionalGeneration(
            T5Config(vocab_size=size, decoder_start_token_id=1, **shape, **ids)
        )
    elif kind == "bart":
        config = BartConfig(vocab_size=size, decoder_start_token_id=2, **layers, **ids)
        model = BartForConditionalGeneration(config)
    else:
        config = MarianConfig(vocab_size=size, decoder_start_token_id=1, **layers, **ids)
        model = MarianMTModel(config)
    return model.eval(), tokenizer


def saved(kind: str, folder: Path) -> Path:
    """Save the model in the format that `hf:DIR` reads."""
    model, tokenizer = tiny(kind)
    model.save_pretrained(folder / kind)
    tokenizer.save_pretrained(folder / kind)
    return folder / kind
