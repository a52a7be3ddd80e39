"""Causal language models that transformers loads, from a directory or a hub name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from aleatoric.errors import AleatoricError, MissingExtraError, ModelError, UsageError
from aleatoric.models.pieces import Pieces, token_pieces
from aleatoric.models.probing import ProbeTree
from aleatoric.models.tiled import use_tiles
from aleatoric.tiles import Tiles

if TYPE_CHECKING:
    from torch import Tensor

Bos = Literal["none", "add"]
KV = tuple[tuple["Tensor", "Tensor"], ...]
"""One (keys, values) a layer, each of shape [1, heads, tokens, width]."""


@dataclass(frozen=True, eq=False)
class HFModel:
    """A causal LM with its tokenizer, seen as what the word estimators need.

    `pieces` are the bytes of every token (`None`: the token ends the text), `window` is the
    longest sequence the model takes, `bos` says whether encoded texts begin with the
    beginning-of-text token.
    """

    name: str
    revision: str | None
    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    pieces: Pieces = field(repr=False)
    window: int
    bos: Bos = "none"
    tiled: bool = False
    """Whether `forward` takes tiles in place of a mask."""

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
            "bos": self.bos,
        }

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of `text`, after the beginning-of-text token where the policy adds it."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of several texts, cut in one go."""
        if not texts:
            return []
        start = (self.tokenizer.bos_token_id,) if self.bos == "add" else ()
        return [(*start, *row) for row in token_rows(self.tokenizer, list(texts))]

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
    bos: Bos = "none",
    trust_remote_code: bool = False,
    safetensors_only: bool = True,
) -> HFModel:
    """Load a causal LM by directory or hub name.

    Remote code is off and weights must be safetensors unless asked otherwise. `device=None` takes
    a GPU where there is one.
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
    with quiet(transformers):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
            model = getattr(transformers, kind).from_pretrained(name, **options, **weights)
        except (OSError, ValueError, ImportError) as error:
            raise refused(name, error) from error
    model = model.to(device_of(torch, device)).eval()
    return Parts(model, tokenizer, getattr(model.config, "_commit_hash", None) or revision)


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
    try:
        return transformers.AutoConfig.from_pretrained(name, **options)
    except (OSError, ValueError, ImportError) as error:
        raise refused(name, error) from error


def refused(name: str, error: Exception) -> AleatoricError:
    """What transformers says of a checkpoint that it does not load, with what can be done.

    >>> str(refused("gpt3", OSError("gpt3 is not a valid model identifier")))
    "cannot load 'gpt3': gpt3 is not a valid model identifier; check the name and the network, or \
give a folder."
    """
    # Its list of ways to make a tokenizer goes on in further lines, and helps nobody.
    reason = _first_line(error).partition(" from one of:")[0].rstrip(" .:")
    problem = f"cannot load {name!r}: {reason}"
    if "trust_remote_code" in str(error):
        return UsageError(f"{problem}; add --trust-remote-code if you trust its code.")
    if isinstance(error, ImportError):
        return ModelError(f"{problem}; install what is missing.")
    if os.path.isdir(name):
        needed = "config.json, its weights as safetensors and its tokenizer"
        return UsageError(f"{problem}; name a folder that holds a model: {needed}.")
    return ModelError(f"{problem}; check the name and the network, or give a folder.")


def wrap(
    model: Any, tokenizer: Any, *, name: str, revision: str | None = None, bos: Bos = "none"
) -> HFModel:
    """A model and tokenizer already in memory as an `HFModel`; checks that they fit its use."""
    if bos == "add" and tokenizer.bos_token_id is None:
        raise ModelError(f"{name} has no beginning-of-text token; use bos='none'.")
    model.eval()
    pieces = token_pieces(tokenizer, model.config.get_text_config().vocab_size)
    pieces = _without(pieces, end_ids(model))
    lm = HFModel(name, revision, model, tokenizer, pieces, window_of(model.config), bos)
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
    """Whether logits are the same but for rounding; not where any is no number.

    A difference is measured by the spread of a token's logits: probabilities would hide much in a
    model that finds everything about equally likely, and show too much in one that is sure.
    """
    import torch

    # Rounding alone makes 2e-6 in float32 and 0.02 in bfloat16 (SmolLM2), a window of six tokens
    # that only one of them has 0.2 and more.
    is_narrow = torch.finfo(wanted.dtype).bits < 32
    wanted, found = wanted.double(), found.double()
    spread = wanted.max(-1).values - wanted.min(-1).values
    apart = (wanted - found).abs().max(-1).values / spread
    return bool(apart.max() <= (0.05 if is_narrow else 1e-3))


def check_attention(lm: HFModel) -> None:
    """Refuse a model whose attention does not obey a mask that hides a token in the middle."""
    import torch

    a, b, c = (i for i, _ in zip(range(3), lm.pieces, strict=False))
    plain = torch.ones((2, 2), dtype=torch.bool, device=lm.device).tril()
    hidden = torch.ones((3, 3), dtype=torch.bool, device=lm.device).tril()
    hidden[2, 1] = False
    try:
        wanted, _ = lm.forward(*_probe(lm, [a, c], [0, 1]), plain, None, None)
        found, _ = lm.forward(*_probe(lm, [a, b, c], [0, 1, 1]), hidden, None, None)
    except (AttributeError, TypeError, RuntimeError, ValueError) as error:
        raise ModelError(f"{lm.name}: {_NO_TREE} ({_first_line(error)}).") from error
    if not (wanted[-1].softmax(-1) - found[-1].softmax(-1)).abs().max() <= 0.02:  # nor where NaN
        raise ModelError(f"{lm.name}: {_NO_TREE}.")


_NO_TREE = (
    "its attention does not take a mask and a cache of keys and values, which the tree pass needs; "
    "use a decoder-only transformer with the eager or sdpa attention"
)


def _probe(lm: HFModel, ids: list[int], positions: list[int]) -> tuple[Tensor, Tensor]:
    import torch

    return torch.tensor(ids, device=lm.device), torch.tensor(positions, device=lm.device)


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Without transformers' own progress bars, which would write into ours."""
    shown = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers.utils.logging.enable_progress_bar()


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


def window_of(config: Any) -> int:
    """The longest sequence for which every layer sees the whole past."""
    config = config.get_text_config()
    limits = [getattr(config, "max_position_embeddings", None)]
    if getattr(config, "use_sliding_window", True):
        limits.append(getattr(config, "sliding_window", None))
    return min((limit for limit in limits if limit), default=1 << 20)


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
