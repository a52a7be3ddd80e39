"""Models that transformers loads, as readers of references: causal or encoder-decoder."""

from __future__ import annotations

from pathlib import Path

from aleatoric.errors import UsageError
from aleatoric.models import gguf, smollm2
from aleatoric.models.base import ForcedModel, Forcing
from aleatoric.models.forced_causal import causal_forced
from aleatoric.models.forced_seq2seq import seq2seq_forced
from aleatoric.models.hf import load_config, load_parts, short_name
from aleatoric.models.starts import check_bos


def load_smollm2(argument: str, forcing: Forcing) -> ForcedModel:
    """The embedded SmolLM2-135M-Instruct, on documents."""
    return _load(str(smollm2.directory()), None, "smollm2", forcing)


def load_gguf(argument: str, forcing: Forcing) -> ForcedModel:
    """The causal LM in a GGUF file, on documents."""
    return _load(str(gguf.convert(argument)), None, Path(argument).name, forcing)


def load_hf(argument: str, forcing: Forcing) -> ForcedModel:
    """A directory or `NAME[@REVISION]`: a causal LM on documents, an encoder-decoder on pairs."""
    name, _, revision = argument.partition("@")
    return _load(name, revision or None, short_name(name.rstrip("/")), forcing)


def _load(name: str, revision: str | None, label: str, forcing: Forcing) -> ForcedModel:
    config = load_config(name, revision, forcing.trust_remote_code)
    pairs = bool(getattr(config, "is_encoder_decoder", False))
    if pairs:
        _check_pairs(label, forcing)
    parts = load_parts(
        name,
        "AutoModelForSeq2SeqLM" if pairs else "AutoModelForCausalLM",
        revision,
        forcing.dtype,
        forcing.device,
        forcing.trust_remote_code,
    )
    version = f"{parts.revision or 'local'},{forcing.dtype}"
    if pairs:
        return seq2seq_forced(parts.model, parts.tokenizer, label=label, version=version)
    return causal_forced(
        parts.model,
        parts.tokenizer,
        label=label,
        version=version,
        window=forcing.window,
        stride=forcing.stride,
        bos=forcing.bos,
    )


def _check_pairs(label: str, forcing: Forcing) -> None:
    """Options of documents mean nothing for sentence pairs."""
    check_bos(forcing.bos)
    if forcing.window is not None or forcing.stride is not None or forcing.bos == "add":
        raise UsageError(
            f"{label} reads whole sentence pairs; leave --window, --stride and --bos out."
        )
