"""Models that transformers loads, as writers of texts: causal or encoder-decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aleatoric.errors import UsageError
from aleatoric.models import gguf, smollm2
from aleatoric.models.base import LoadOptions, TextModel
from aleatoric.models.hf import load_config, load_parts, short_name
from aleatoric.models.starts import check_bos
from aleatoric.models.texts_causal import causal_network
from aleatoric.models.texts_live import Batching, LiveWriter, TextNetwork
from aleatoric.models.texts_seq2seq import seq2seq_network

_OFF: dict[str, tuple[Any, ...]] = {
    "top_k": (None, 0, 50),  # 50: versions before 5 fill it in unasked
    "top_p": (None, 1.0),
    "typical_p": (None, 1.0),
    "temperature": (None, 1.0),
    "num_beams": (None, 1),
    "repetition_penalty": (None, 1.0),
    "length_penalty": (None, 1.0),
    "no_repeat_ngram_size": (None, 0),
    "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,),
    "suppress_tokens": (None, []),
}
"""Settings of a generation_config -> the values that change nothing."""


def load_smollm2(argument: str, loading: LoadOptions) -> TextModel:
    """The embedded SmolLM2-135M-Instruct."""
    if argument:
        raise UsageError(f"'smollm2:{argument}' is no model; write smollm2.")
    return _load(str(smollm2.directory()), None, "smollm2", loading)


def load_gguf(argument: str, loading: LoadOptions) -> TextModel:
    """The causal LM in a GGUF file."""
    return _load(str(gguf.convert(argument)), None, Path(argument).name, loading)


def load_hf(argument: str, loading: LoadOptions) -> TextModel:
    """A directory or `NAME[@REVISION]`, causal or encoder-decoder."""
    name, _, revision = argument.partition("@")
    return _load(name, revision or None, short_name(name.rstrip("/")), loading)


def _load(name: str, revision: str | None, label: str, loading: LoadOptions) -> TextModel:
    config = load_config(name, revision, loading.trust_remote_code)
    is_pair = bool(getattr(config, "is_encoder_decoder", False))
    kind = "AutoModelForSeq2SeqLM" if is_pair else "AutoModelForCausalLM"
    where = (loading.dtype, loading.device, loading.trust_remote_code)
    parts = load_parts(name, kind, revision, *where)
    version = f"{parts.revision or 'local'},{loading.dtype}"
    return text_model(parts.model, parts.tokenizer, label=label, version=version, bos=loading.bos)


def text_model(
    model: Any,
    tokenizer: Any,
    *,
    label: str,
    version: str = "in memory",
    bos: str = "auto",
    batching: Batching | None = None,
) -> LiveWriter:
    """A model and tokenizer already in memory as a writer of texts."""
    network: TextNetwork
    if getattr(model.config, "is_encoder_decoder", False):
        check_bos(bos)
        if bos == "add":
            raise UsageError(f"{label} reads whole inputs by its own rules; leave --bos out.")
        network = seq2seq_network(model, tokenizer, label=label)
    else:
        network = causal_network(model, tokenizer, label=label, bos=bos)
    return LiveWriter(label, version, network, _remarks(model, label), batching or Batching())


def _remarks(model: Any, label: str) -> tuple[str, ...]:
    """The settings that its makers generate with, and that are not applied here."""
    config = getattr(model, "generation_config", None)
    ignored = [
        f"{name}={getattr(config, name)}"
        for name, off in _OFF.items()
        if getattr(config, name, None) not in off
    ]
    if not ignored:
        return ()
    return (f"{label}: settings of its generation_config are not applied: {', '.join(ignored)}",)
