"""Load models and tokenizers with transformers, from a directory or a hub name.

Translation models are given their source and target language here.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric import hub
from aleatoric.errors import (
    AleatoricError,
    ModelUsageError,
    UsageError,
    did_you_mean,
    first_line,
    needs,
    quoted,
)
from aleatoric.models import gguf
from aleatoric.models.base import LoadOptions, input_device, is_out_of_memory
from aleatoric.models.gguf import check_folder, import_heavy, located, model_sha256
from aleatoric.models.pieces import load_tokenizer

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model of transformers with its tokenizer."""

    label: str
    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    window: int
    """The longest sequence that it reads at once; for an encoder-decoder, on either side."""

    @property
    def device(self) -> Any:
        """The torch device on which tokens are read."""
        return input_device(self.model)

    @cached_property
    def vocabulary_size(self) -> int:
        """The width of its logits."""
        return int(self.model.get_output_embeddings().weight.shape[0])


QUANTIZED = ("4bit", "8bit")


def load_spec(
    kind: str, argument: str, loading: LoadOptions, check_pairs: Callable[[str], None]
) -> tuple[Any, Any, dict[str, Any]]:
    """Load `smollm2`, `gguf:FILE` or `hf:NAME`: (model, tokenizer, its label and version).

    `check_pairs(label)` is called before an encoder-decoder is loaded.
    """
    name, revision, label = located(kind, argument)
    check = partial(check_pairs, label)
    model, tokenizer, commit = load_parts(name, revision, loading, check)
    version = f"{commit or 'local'},{precision_of(model)}"
    return model, tokenizer, {"label": label, "version": version}


def load_parts(
    name: str,
    revision: str | None = None,
    loading: LoadOptions | None = None,
    check_pairs: Callable[[], None] | None = None,
) -> tuple[Any, Any, str | None]:
    """Return (model, tokenizer, revision) of a checkpoint.

    `check_pairs` is called before an encoder-decoder is loaded; without it, none is loaded.
    """
    options, loading = hub_options(name, revision), loading or LoadOptions()
    torch, transformers = import_heavy("torch", "transformers")
    options |= {"revision": revision, "trust_remote_code": loading.trust_remote_code}
    weights = {"dtype": dtype_of(torch, loading.dtype), "use_safetensors": True}
    device = device_of(torch, loading.device)
    placed = _placed(transformers, device, loading.quantize)
    is_local = os.path.isdir(name)
    n_tensors = check_folder(Path(name)) if is_local else None
    logging.getLogger("transformers.modeling_utils").addFilter(_is_news)
    with hub.quiet(transformers), refusing(name):
        config = transformers.AutoConfig.from_pretrained(name, **options)
        model_class = _class_of(transformers, config, check_pairs or partial(_refuse_pairs, name))
        _check_layers(name, config, n_tensors)
        tokenizer = load_tokenizer(name, **options)
        model = gguf.whole_model(model_class, name, **options, **weights, **placed)
        model = (model if placed else model.to(device)).eval()
        gguf.check_weights(model)
        _check_vocabulary(tokenizer, model)
    if is_local:
        return model, tokenizer, model_sha256(Path(name))[:12]
    return model, tokenizer, getattr(model.config, "_commit_hash", None) or revision


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a warning is not the one about padding: rows without a mask are not padded."""
    return "passing in an `attention_mask`" not in record.getMessage()


def _placed(transformers: Any, device: str, quantize: str | None) -> dict[str, Any]:
    """Return arguments that quantize weights, or split them over devices, as they are loaded."""
    placed = {"device_map": "auto" if device == "auto" else {"": device}}
    if quantize is None:
        return placed if device == "auto" else {}
    if quantize not in QUANTIZED:
        raise UsageError(f"--quantize {quantize} is not known; use {' or '.join(QUANTIZED)}.")
    with needs("bitsandbytes", "quantize"):
        import bitsandbytes  # noqa: F401
    config = transformers.BitsAndBytesConfig(**{f"load_in_{quantize}": True})
    return placed | {"quantization_config": config}


def precision_of(model: Any) -> str:
    """Return the type of a model's numbers, for the signature, such as float32 or float16,4bit."""
    bits = [kind for kind in QUANTIZED if getattr(model, f"is_loaded_in_{kind}", False)]
    return ",".join([str(model.dtype).removeprefix("torch."), *bits])


def load_config(name: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """Load the configuration of a checkpoint."""
    _, transformers = import_heavy("torch", "transformers")
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    options |= hub_options(name, revision)
    with refusing(name):
        return transformers.AutoConfig.from_pretrained(name, **options)


def check_hub(specs: Iterable[str]) -> None:
    """Raise for a model of the hub that is not in the cache if the hub cannot be reached."""
    for kind, _, argument in (spec.partition(":") for spec in specs):
        if kind in gguf.OF_HUB and argument:
            hub_options(*located(kind, argument)[:2], kind)


def hub_options(name: str, revision: str | None, kind: str = "hf") -> dict[str, Any]:
    """Return options for loading a model of the hub, as `hub.options`."""
    with refusing(name):
        return hub.options(name, revision, f"{kind}:FOLDER")


def _class_of(transformers: Any, config: Any, check_pairs: Callable[[], None]) -> Any:
    if not getattr(config, "is_encoder_decoder", False):
        return transformers.AutoModelForCausalLM
    check_pairs()
    return transformers.AutoModelForSeq2SeqLM


def _refuse_pairs(name: str) -> None:
    problem = f"{name!r} is an encoder-decoder, and words need a causal language model"
    raise UsageError(f"{problem}; use it at the token or text level.")


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
            raise ModelUsageError(f"{name}: does not fit into memory; {fix}.") from error
        raise refused(name, error) from error


def refused(name: str, error: Exception) -> AleatoricError:
    """Return the error for a checkpoint that transformers cannot load, with a fix.

    >>> str(refused("gpt3", OSError("gpt3 is not a valid model identifier")))
    "cannot load 'gpt3': gpt3 is not a valid model identifier; check the name and the network, or \
give a folder."
    """
    if known := _of_hub(error):
        return ModelUsageError(f"cannot load {name!r}: {known[0]}; {known[1]}.")
    reason = _reason(name, first_line(error))
    if not isinstance(error, OSError | ValueError | ImportError | RuntimeError):
        reason = f"{type(error).__name__}: {reason}"
    problem = f"cannot load {name!r}: {reason}"
    if "trust_remote_code" in str(error):
        return UsageError(f"{problem}; add --trust-remote-code if you trust its code.")
    if isinstance(error, ImportError):
        return UsageError(f"{problem}; install what is missing.")
    if "has no model type" in reason:
        return UsageError(f"{problem}; update it with pip install -U transformers.")
    if os.path.isdir(name):
        needed = "config.json, its weights as safetensors and its tokenizer"
        return UsageError(f"{problem}; name a folder that holds a whole model: {needed}.")
    return ModelUsageError(f"{problem}; check the name and the network, or give a folder.")


def _reason(name: str, line: str) -> str:
    """Say in our words why a checkpoint cannot be loaded, where transformers takes sentences."""
    files = os.listdir(name) if os.path.isdir(name) else None
    if files is not None and "config.json" not in files:
        return "it has no config.json"
    if files is not None and "tokenizer" in line and not any(map(_TOKENIZER_FILE.match, files)):
        return "it has no files of a tokenizer, such as tokenizer.json and tokenizer_config.json"
    if kind := re.search("has model type (`.*?`) but", line):
        return f"the installed transformers has no model type {kind[1]}"
    if "Should have a `model_type` key" in line:
        return "its config.json names no model_type"
    if "ignore_mismatched_sizes" in line:
        return "the shapes of its weights do not fit config.json"
    # Leave out the list of ways to build a tokenizer, which follows.
    return line.partition(" from one of:")[0].rstrip(" .:")


_TOKENIZER_FILE = re.compile(r"tokenizer\.|vocab|tekken|.*\.(model|spm|tiktoken)$")
_OF_HUB = {
    "GatedRepoError": (
        "access to it is restricted",
        "accept its terms on its page of the hub, then run hf auth login or set HF_TOKEN",
    ),
    "RepositoryNotFoundError": (
        "the hub has no such model, or it is private",
        "check the name, run hf auth login or set HF_TOKEN",
    ),
    "RevisionNotFoundError": (
        "the hub has no such revision of it",
        "name a branch, a tag or a commit after @",
    ),
}
"""Errors of huggingface_hub, which transformers replaces by others -> problem and fix."""


def _of_hub(error: BaseException | None) -> tuple[str, str] | None:
    """Return problem and fix of the hub's error that caused another error, if there is one."""
    if error is None:
        return None
    # A gated model is also one that is not found.
    return _OF_HUB.get(type(error).__name__) or _of_hub(error.__cause__ or error.__context__)


def failing_pass(name: str, error: Exception) -> UsageError:
    """Return the error for a model whose plain forward pass fails."""
    problem = f"its forward pass fails: {first_line(error).rstrip('.')}"
    fix = "check that weights, tokenizer and --dtype fit together"
    return UsageError(f"{name}: {problem}; {fix}.")


def device_of(torch: Any, name: str | None) -> str:
    """Return the device; by default a GPU if one is available. Raises if it cannot be used."""
    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "auto":
        return name
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        # A list of all kinds of devices follows.
        reason = first_line(error).partition("Expected one of")[0].rstrip(" .")
        problem = f"--device {name} cannot be used ({reason or 'there is no such device'})"
        raise UsageError(f"{problem}; use cpu or auto, or leave it out.") from None
    return name


def kept(model: Any, places: Tensor) -> Any:
    """Return places as `logits_to_keep`; a list for a model that is split over devices.

    accelerate would move a tensor to the first device, and the last layer is on another one.
    """
    return places.tolist() if len(set(getattr(model, "hf_device_map", {}).values())) > 1 else places


def dtype_of(torch: Any, name: str) -> Any:
    """Return a torch dtype by name."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
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


def seq2seq_logits(
    model: Any, tokenizer: Any, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> Tensor:
    """Return the logits after each token of targets, given their sources, padded at the end."""
    filler, device = tokenizer.pad_token_id or 0, input_device(model)
    source, mask = padded(sources, device, filler)
    target, target_mask = padded(targets, device, filler)
    inputs = {"input_ids": source, "attention_mask": mask, "use_cache": False}
    out = model(**inputs, decoder_input_ids=target, decoder_attention_mask=target_mask)
    logits: Tensor = out.logits
    return logits


def end_ids(model: Any) -> set[int]:
    """Return the tokens that end a text according to a model's configuration."""
    settings = _configured(model, "eos_token_id")
    return {i for ids in settings for i in ([ids] if isinstance(ids, int) else ids)}


def decoder_start(model: Any, label: str) -> int:
    """Return the start token of a decoder."""
    starts = _configured(model, "decoder_start_token_id")
    if not starts:
        raise UsageError(f"{label}: its config.json names no decoder_start_token_id; add it.")
    return int(starts[0])


def _configured(model: Any, name: str) -> list[Any]:
    """The values of a setting in the model's configuration and in that for generation."""
    configs = (model.config, getattr(model, "generation_config", None))
    return [value for config in configs if (value := getattr(config, name, None)) is not None]


NO_LIMIT = 1 << 20
"""The longest sequence of a model that states no limit."""


def positions_of(config: Any) -> int:
    """Return the longest sequence that a model accepts."""
    config = config.get_text_config()
    limits = [getattr(config, name, None) for name in ("max_position_embeddings", "max_seq_len")]
    rope = getattr(config, "rope_parameters", None) or {}
    settings = (rope, *(value for value in rope.values() if isinstance(value, dict)))
    # Beyond these lengths rotary positions depend on the longest text of a batch.
    scaled = [rule for rule in settings if rule.get("rope_type") in ("longrope", "dynamic")]
    limits += [rule.get("original_max_position_embeddings") for rule in scaled]
    return min((limit for limit in limits if limit), default=NO_LIMIT)


def window_of(config: Any) -> int:
    """Return the longest sequence for which every layer sees the whole past in the same way."""
    limits: list[int | None] = [positions_of(config)]
    config = config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    if getattr(config, "use_sliding_window", True) and _has_layers(kinds, "sliding"):
        limits.append(getattr(config, "sliding_window", None))
    if _has_layers(kinds, "chunked"):
        limits.append(getattr(config, "attention_chunk_size", None))
    return min(limit for limit in limits if limit)


def _has_layers(kinds: Sequence[str] | None, name: str) -> bool:
    """Whether there are layers of a kind; without a list of kinds, there may be."""
    return kinds is None or any(name in kind for kind in kinds)


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
