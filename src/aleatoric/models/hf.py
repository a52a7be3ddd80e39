"""Causal language models that transformers loads, from a directory or a hub name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aleatoric.errors import AleatoricError, MissingExtraError, ModelError, UsageError
from aleatoric.models.attention import (
    KV,
    SHALLOW,
    ProbeTree,
    Tiles,
    are_same,
    distances,
    plain_logits,
    probe_tokens,
    tree_logits,
    use_tiles,
)
from aleatoric.models.base import is_out_of_memory
from aleatoric.models.checkpoints import check_folder, listed, model_sha256
from aleatoric.models.pieces import (
    Bos,
    Pieces,
    load_tokenizer,
    policy_of,
    start_tokens,
    token_pieces,
)

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class HFModel:
    """A causal LM with its tokenizer, seen as what the word estimators need.

    `pieces` are the bytes of every token (`None`: the token ends the text), `window` is the
    longest sequence the model takes, `start` the special tokens in front of every encoded text.
    """

    name: str
    revision: str | None
    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    pieces: Pieces = field(repr=False)
    window: int
    start: tuple[int, ...] = ()
    tiled: bool = False
    """Whether `forward` takes tiles in place of a mask."""
    _checked_lengths: list[int] = field(default_factory=lambda: [SHALLOW], repr=False)
    """Text lengths at which the tree pass was compared with a plain pass, in ascending order."""

    @property
    def device(self) -> Any:
        """The torch device the model runs on."""
        return self.model.device

    @property
    def identity(self) -> dict[str, str]:
        """What makes the model's numbers reproducible, for a signature."""
        dtype = str(self.model.dtype).removeprefix("torch.")
        return {
            "model": self.name,
            "revision": self.revision or "local",
            "dtype": dtype,
            "bos": policy_of(self.tokenizer, self.start),
        }

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of `text`, after the special tokens in front of it."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of several texts, cut in one go."""
        if not texts:
            return []
        return [(*self.start, *row) for row in token_rows(self.tokenizer, list(texts))]

    def check_length(self, tokens: int) -> None:
        """Refuse the model where texts of so many tokens get other numbers than in a plain pass.

        This finds attention windows that the configuration does not name.
        """
        last = self._checked_lengths[-1]
        if tokens > last:
            length = min(self.window, max(tokens, last + last // 4))
            _check_length(self, length)
            self._checked_lengths.append(length)

    def continuation(self, text: str) -> tuple[int, ...]:
        """The tokens of `text` as it follows a context (nothing is put before it)."""
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor | Tiles,
        past: KV | None,
        keep: Tensor | None,
    ) -> tuple[Tensor, KV]:
        """Logits of the tokens `ids[keep]` (all for `None`) and every token's keys and values.

        `mask[i, j]` says that token i attends to column j: first the columns of `past`, then the
        tokens of this call.
        """
        import torch

        with torch.inference_mode():
            cache = _cache_of(past, self.model.config)
            out = self.model(
                input_ids=ids[None],
                position_ids=positions[None],
                **_attention(mask, self.model.dtype),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=0 if keep is None else keep,
            )
            return out.logits[0], _new_columns(out.past_key_values, len(ids))


def token_rows(tokenizer: Any, texts: list[str]) -> Iterable[list[int]]:
    """The tokens of each text, without special ones."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is None:
        rows: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
        return rows
    fast.no_truncation()
    fast.no_padding()
    # Asked directly: what transformers puts around each row takes longer than the cutting.
    encode = getattr(fast, "encode_batch_fast", fast.encode_batch)
    return (row.ids for row in encode(texts, add_special_tokens=False))


def _attention(mask: Tensor | Tiles, dtype: Any) -> dict[str, Any]:
    """What tells a model who attends to whom."""
    import torch

    if isinstance(mask, torch.Tensor):
        return {"attention_mask": _additive(mask, dtype)[None, None]}
    # A mask that nobody reads, so that no other is made.
    unread = torch.empty((1, 1, 1, 1), dtype=dtype, device=mask.rows.device)
    return {"attention_mask": unread, "tiles": replace(mask, mask=_additive(mask.mask, dtype))}


def _additive(mask: Tensor, dtype: Any) -> Tensor:
    import torch

    zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill_(~mask, torch.finfo(dtype).min)


def _cache_of(past: KV | None, config: Any) -> Any:
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer, (keys, values) in enumerate(past or ()):
        cache.update(keys, values, layer)
    return cache


def _new_columns(cache: Any, count: int) -> KV:
    return tuple((layer.keys[:, :, -count:], layer.values[:, :, -count:]) for layer in cache.layers)


def load(
    name: str,
    *,
    revision: str | None = None,
    dtype: str = "float32",
    device: str | None = None,
    bos: Bos = "auto",
    trust_remote_code: bool = False,
    safetensors_only: bool = True,
) -> HFModel:
    """Load a causal LM by directory or hub name.

    Remote code is off and weights must be safetensors unless asked otherwise. `device=None` takes
    a GPU where there is one. `bos="auto"` starts texts as the tokenizer does.
    """
    parts = load_parts(
        name, "AutoModelForCausalLM", revision, dtype, device, trust_remote_code, safetensors_only
    )
    return wrap(
        parts.model, parts.tokenizer, name=short_name(name), revision=parts.revision, bos=bos
    )


@dataclass(frozen=True, eq=False)
class Parts:
    """What a checkpoint holds."""

    model: Any
    tokenizer: Any
    revision: str | None


def load_parts(
    name: str,
    kind: str,
    revision: str | None = None,
    dtype: str = "float32",
    device: str | None = None,
    trust_remote_code: bool = False,
    safetensors_only: bool = True,
) -> Parts:
    """Model and tokenizer of a checkpoint, the model by the class `kind` of transformers."""
    torch, transformers = _import_heavy()
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    weights = {
        "dtype": dtype_of(torch, dtype),
        "use_safetensors": True if safetensors_only else None,
    }
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
        return Parts(model, tokenizer, model_sha256(Path(name))[:12])
    return Parts(model, tokenizer, getattr(model.config, "_commit_hash", None) or revision)


def whole_model(kind: Any, name: str, **options: Any) -> Any:
    """A model all of whose weights are in its checkpoint, which holds no others.

    transformers fills what is missing with random numbers. It does not count tied heads and
    buffers that a model class declares as ignorable.
    """
    model, info = kind.from_pretrained(name, **options, output_loading_info=True)
    for problem in ("missing", "unexpected", "mismatched"):
        if keys := info[f"{problem}_keys"]:
            names = sorted(key if isinstance(key, str) else key[0] for key in keys)
            raise ValueError(f"the weights do not fit config.json ({problem}: {listed(names)})")
    return model


def check_weights(model: Any) -> None:
    """Refuse weights that are not finite numbers."""
    for name, own in model.named_parameters():
        if not own.is_floating_point() or own.itemsize == 1:
            continue  # quantised
        # A sum needs no second copy of the weights; it may overflow where they are finite.
        if not own.sum().isfinite() and not own.isfinite().all():
            dtype = str(own.dtype).removeprefix("torch.")
            raise ValueError(f"{name} holds values that are not finite in {dtype}")


def _check_layers(name: str, config: Any, n_tensors: int | None) -> None:
    """Refuse more layers than tensors before the layers are made, which may take hours."""
    layers = getattr(config.get_text_config(), "num_hidden_layers", 0)
    if n_tensors is not None and isinstance(layers, int) and layers > n_tensors:
        problem = f"config.json names {layers} layers, and there are {n_tensors} tensors"
        raise refused(name, ValueError(problem))


def _check_vocabulary(tokenizer: Any, model: Any) -> None:
    """Refuse a tokenizer without tokens, or with tokens that the model has no embedding of."""
    added = tokenizer.get_added_vocab()
    last = max((i for token, i in tokenizer.get_vocab().items() if token not in added), default=-1)
    rows = model.get_input_embeddings().weight.shape[0]
    if last < 0:
        raise ValueError("its tokenizer has no tokens but special ones")
    if last >= rows:
        raise ValueError(f"its tokenizer has a token {last}, and the model has {rows} embeddings")


def device_of(torch: Any, name: str | None) -> str:
    """The device asked for, or a GPU where there is one; refuses one that is not there."""
    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"--device {name} cannot be used ({_first_line(error)}).") from None
    return name


def load_config(name: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """The configuration of a checkpoint."""
    _, transformers = _import_heavy()
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    with refusing(name):
        return transformers.AutoConfig.from_pretrained(name, **options)


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Say in one sentence why a checkpoint is not loaded: a broken one fails in many ways."""
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
    """What transformers says of a checkpoint that it does not load, with what can be done.

    >>> str(refused("gpt3", OSError("gpt3 is not a valid model identifier")))
    "cannot load 'gpt3': gpt3 is not a valid model identifier; check the name and the network, or \
give a folder."
    """
    # Its list of ways to make a tokenizer goes on in further lines, and helps nobody.
    reason = _first_line(error).partition(" from one of:")[0].rstrip(" .:")
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


def wrap(
    model: Any, tokenizer: Any, *, name: str, revision: str | None = None, bos: Bos = "auto"
) -> HFModel:
    """A model and tokenizer already in memory as an `HFModel`; checks that they fit its use."""
    start = start_tokens(tokenizer, bos, name)
    model.eval()
    pieces = token_pieces(tokenizer, model.config.get_text_config().vocab_size)
    pieces = _without(pieces, end_ids(model))
    lm = HFModel(name, revision, model, tokenizer, pieces, window_of(model.config), start)
    check_attention(lm)
    return in_tiles(lm) if lm.device.type == "cuda" else lm


def in_tiles(lm: HFModel) -> HFModel:
    """The same model taking tiles, where it gives the same numbers with them."""
    import torch

    if not use_tiles(lm.model):
        return lm
    tree = ProbeTree.of(len(lm.pieces), lm.window)
    arrays = (tree.ids, tree.positions, tree.mask)
    ids, positions, seen = (torch.from_numpy(x).to(lm.device) for x in arrays)
    tiles = Tiles.of(tree.spans, tree.others, lm.device)
    wanted, _ = lm.forward(ids, positions, seen, None, None)
    try:
        found, _ = lm.forward(ids, positions, tiles, None, None)
    except (TypeError, ValueError, RuntimeError):
        return lm
    return replace(lm, tiled=True) if _alike(wanted, found) else lm


def _alike(wanted: Tensor, found: Tensor) -> bool:
    """Whether logits are the same but for rounding; not where any is no number."""
    import torch

    # Rounding alone makes 2e-6 in float32 and 0.02 in bfloat16 (SmolLM2), a window of six tokens
    # that only one of them has 0.2 and more.
    is_narrow = torch.finfo(wanted.dtype).bits < 32
    return bool(distances(wanted, found).max() <= (0.05 if is_narrow else 1e-3))


def check_attention(lm: HFModel) -> None:
    """Refuse a model whose tree pass does not give the logits of plain forward passes."""
    tree = ProbeTree.of(len(lm.pieces), min(lm.window, SHALLOW))
    try:
        wanted = plain_logits(lm.model, tree.texts)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        reason = _first_line(error).rstrip(".")
        raise UsageError(
            f"{lm.name}: its forward pass fails: {reason}; check that weights, tokenizer and "
            "--dtype fit together."
        ) from error
    try:
        found = tree_logits(lm, tree)
    except Exception as error:  # a model that takes no mask, cache or position fails in many ways
        if is_out_of_memory(error):
            raise
        raise _no_tree(lm) from error
    if not all(are_same(wanted[rows], found[rows]) for rows in tree.levels):
        raise _no_tree(lm)


def _check_length(lm: HFModel, length: int) -> None:
    """Compare the last tokens of a long text in a tree pass and in a plain pass."""
    import torch

    ids = torch.from_numpy(probe_tokens(min(len(lm.pieces), 997), length)).to(lm.device)
    positions = torch.arange(length, device=lm.device)
    mask = torch.ones((length, length), dtype=torch.bool, device=lm.device).tril()
    keep = positions[-SHALLOW:]
    with torch.inference_mode():
        plain = lm.model(input_ids=ids[None], use_cache=False, logits_to_keep=keep)
    found, _ = lm.forward(ids, positions, mask, None, keep)
    if not are_same(plain.logits[0], found):
        raise _no_tree(lm)


def _no_tree(lm: HFModel) -> UsageError:
    kind = lm.model.config.get_text_config().model_type
    return UsageError(
        f"{lm.name}: models of type {kind!r} are not supported at the word level, because one "
        "forward pass over many continuations does not give their plain forward passes' numbers "
        "(ALiBi, a recurrence or an attention window can be the reason); use another model, or "
        "words that a server (openai:MODEL@URL) or a file (recorded:FILE) gives."
    )


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Without transformers' own progress bars and reports, which would write into ours."""
    logging = transformers.utils.logging
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(max(level, logging.ERROR))
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def _without(pieces: Pieces, ends: Iterable[int]) -> Pieces:
    ends = set(ends)
    return tuple(None if i in ends else piece for i, piece in enumerate(pieces))


def end_ids(model: Any) -> set[int]:
    """The tokens that a model says end a text."""
    found: set[int] = set()
    for config in (model.config, getattr(model, "generation_config", None)):
        ids = getattr(config, "eos_token_id", None)
        found.update([ids] if isinstance(ids, int) else ids or ())
    return found


def decoder_start(model: Any, label: str) -> int:
    """The token that a decoder starts with."""
    for config in (model.config, getattr(model, "generation_config", None)):
        start = getattr(config, "decoder_start_token_id", None)
        if start is not None:
            return int(start)
    raise UsageError(f"{label}: its config.json names no decoder_start_token_id; add it.")


def window_of(config: Any) -> int:
    """The longest sequence for which every layer sees the whole past in the same way."""
    config = config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    limits = [getattr(config, "max_position_embeddings", None), *_rope_limits(config)]
    if getattr(config, "use_sliding_window", True) and _has_layers(kinds, "sliding"):
        limits.append(getattr(config, "sliding_window", None))
    if _has_layers(kinds, "chunked"):
        limits.append(getattr(config, "attention_chunk_size", None))
    return min((limit for limit in limits if limit), default=1 << 20)


def _has_layers(kinds: Sequence[str] | None, name: str) -> bool:
    """Whether layers of a kind are there; without a list of kinds, all may be."""
    return kinds is None or any(name in kind for kind in kinds)


def _rope_limits(config: Any) -> Iterator[int | None]:
    """Lengths beyond which rotary positions depend on the longest text of a forward pass."""
    found = getattr(config, "rope_parameters", None) or {}
    for own in (found, *(value for value in found.values() if isinstance(value, dict))):
        if own.get("rope_type") in ("longrope", "dynamic"):
            yield own.get("original_max_position_embeddings")


def dtype_of(torch: Any, name: str) -> Any:
    """A torch dtype by its name."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"--dtype {name} is not known; use float32, bfloat16 or float16.")
    return found


def _import_heavy() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "hf") from error
    return torch, transformers


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def short_name(name: str) -> str:
    """A directory's own name, or the whole name of a model on a hub."""
    return Path(name).name if os.path.isdir(name) else name
