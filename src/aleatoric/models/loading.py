"""Load models and tokenizers with transformers, from a directory or a hub name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.errors import AleatoricError, ModelError, UsageError
from aleatoric.models.base import is_out_of_memory
from aleatoric.models.checkpoints import (
    check_folder,
    check_weights,
    import_heavy,
    model_sha256,
    quiet,
    whole_model,
)
from aleatoric.models.pieces import load_tokenizer

if TYPE_CHECKING:
    from torch import Tensor


def load_parts(
    name: str,
    kind: str,
    revision: str | None = None,
    dtype: str = "float32",
    device: str | None = None,
    trust_remote_code: bool = False,
    safetensors_only: bool = True,
) -> tuple[Any, Any, str | None]:
    """Return (model, tokenizer, revision) of a checkpoint; `kind` is a class of transformers."""
    torch, transformers = import_heavy("torch", "transformers")
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    weights = {"dtype": dtype_of(torch, dtype), "use_safetensors": safetensors_only or None}
    device = device_of(torch, device)
    if is_local := os.path.isdir(name):
        n_tensors = check_folder(Path(name))
        _check_layers(name, load_config(name, revision, trust_remote_code), n_tensors)
    with quiet(transformers), refusing(name):
        tokenizer = load_tokenizer(name, **options)
        model = whole_model(getattr(transformers, kind), name, **options, **weights)
        model = model.to(device).eval()
        check_weights(model)
        _check_vocabulary(tokenizer, model)
    if is_local:
        return model, tokenizer, model_sha256(Path(name))[:12]
    return model, tokenizer, getattr(model.config, "_commit_hash", None) or revision


def load_config(name: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """Load the configuration of a checkpoint."""
    _, transformers = import_heavy("torch", "transformers")
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    with refusing(name):
        return transformers.AutoConfig.from_pretrained(name, **options)


def _check_layers(name: str, config: Any, n_tensors: int | None) -> None:
    """Raise for more layers than tensors before they are built, which may take hours."""
    layers = getattr(config.get_text_config(), "num_hidden_layers", 0)
    if n_tensors is not None and isinstance(layers, int) and layers > n_tensors:
        problem = f"config.json names {layers} layers, and there are {n_tensors} tensors"
        raise refused(name, ValueError(problem))


def _check_vocabulary(tokenizer: Any, model: Any) -> None:
    """Raise for a tokenizer without tokens, or with tokens that have no embedding."""
    added = tokenizer.get_added_vocab()
    last = max((i for token, i in tokenizer.get_vocab().items() if token not in added), default=-1)
    rows = model.get_input_embeddings().weight.shape[0]
    if last < 0:
        raise ValueError("its tokenizer has no tokens but special ones")
    if last >= rows:
        raise ValueError(f"its tokenizer has a token {last}, and the model has {rows} embeddings")


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Turn any failure to load a checkpoint into an error of one sentence."""
    try:
        yield
    except AleatoricError:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or is_out_of_memory(error):
            fix = "use a smaller model, or --dtype bfloat16"
            raise ModelError(f"{name}: does not fit into memory; {fix}.") from error
        raise refused(name, error) from error


def refused(name: str, error: Exception) -> AleatoricError:
    """Return the error for a checkpoint that transformers cannot load, with a fix.

    >>> str(refused("gpt3", OSError("gpt3 is not a valid model identifier")))
    "cannot load 'gpt3': gpt3 is not a valid model identifier; check the name and the network, or \
give a folder."
    """
    # Leave out the list of ways to build a tokenizer, which follows.
    reason = first_line(error).partition(" from one of:")[0].rstrip(" .:")
    if "ignore_mismatched_sizes" in reason:
        reason = "the shapes of its weights do not fit config.json"
    if not isinstance(error, OSError | ValueError | ImportError | RuntimeError):
        reason = f"{type(error).__name__}: {reason}"
    problem = f"cannot load {name!r}: {reason}"
    if "trust_remote_code" in str(error):
        return UsageError(f"{problem}; add --trust-remote-code if you trust its code.")
    if isinstance(error, ImportError):
        return UsageError(f"{problem}; install what is missing.")
    if os.path.isdir(name):
        needed = "config.json, its weights as safetensors and its tokenizer"
        return UsageError(f"{problem}; name a folder that holds a whole model: {needed}.")
    return ModelError(f"{problem}; check the name and the network, or give a folder.")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def device_of(torch: Any, name: str | None) -> str:
    """Return the device; by default a GPU if one is available. Raises if it cannot be used."""
    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"--device {name} cannot be used ({first_line(error)}).") from None
    return name


def dtype_of(torch: Any, name: str) -> Any:
    """Return a torch dtype by name."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise UsageError(f"--dtype {name} is not known; use float32, bfloat16 or float16.")
    return dtype


def token_rows(tokenizer: Any, texts: list[str]) -> Iterable[list[int]]:
    """Tokenize texts without special tokens."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is None:
        rows: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
        return rows
    fast.no_truncation()
    fast.no_padding()
    # Called directly: the wrapper of transformers takes longer than the tokenization.
    encode = getattr(fast, "encode_batch_fast", fast.encode_batch)
    return (row.ids for row in encode(texts, add_special_tokens=False))


def padded(
    rows: Sequence[Sequence[int]], device: Any, filler: int = 0, left: bool = False
) -> tuple[Tensor, Tensor]:
    """Return token rows as one tensor, padded at the end (or at the start), with a mask."""
    import torch

    width = max(map(len, rows))
    ids = torch.full((len(rows), width), filler, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for i, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(len(row))
        ids[i, place] = torch.tensor(row)
        mask[i, place] = 1
    return ids.to(device), mask.to(device)


def end_ids(model: Any) -> set[int]:
    """Return the tokens that end a text according to a model's configuration."""
    end_tokens: set[int] = set()
    for config in (model.config, getattr(model, "generation_config", None)):
        ids = getattr(config, "eos_token_id", None)
        end_tokens.update([ids] if isinstance(ids, int) else ids or ())
    return end_tokens


def decoder_start(model: Any, label: str) -> int:
    """Return the start token of a decoder."""
    for config in (model.config, getattr(model, "generation_config", None)):
        start = getattr(config, "decoder_start_token_id", None)
        if start is not None:
            return int(start)
    raise UsageError(f"{label}: its config.json names no decoder_start_token_id; add it.")


def window_of(config: Any) -> int:
    """Return the longest sequence for which every layer sees the whole past in the same way."""
    config = config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    limits = [getattr(config, "max_position_embeddings", None)]
    rope = getattr(config, "rope_parameters", None) or {}
    settings = (rope, *(value for value in rope.values() if isinstance(value, dict)))
    # Beyond these lengths rotary positions depend on the longest text of a batch.
    scaled = [rule for rule in settings if rule.get("rope_type") in ("longrope", "dynamic")]
    limits += [rule.get("original_max_position_embeddings") for rule in scaled]
    if getattr(config, "use_sliding_window", True) and _has_layers(kinds, "sliding"):
        limits.append(getattr(config, "sliding_window", None))
    if _has_layers(kinds, "chunked"):
        limits.append(getattr(config, "attention_chunk_size", None))
    return min((limit for limit in limits if limit), default=1 << 20)


def _has_layers(kinds: Sequence[str] | None, name: str) -> bool:
    """Whether there are layers of a kind; without a list of kinds, there may be."""
    return kinds is None or any(name in kind for kind in kinds)
