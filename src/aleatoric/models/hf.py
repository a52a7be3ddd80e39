"""Causal language models of transformers for next-word probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from aleatoric.models import attention
from aleatoric.models.attention import KV, SHALLOW, ProbeTree, Tiles, are_same
from aleatoric.models.base import LoadOptions, input_device, is_out_of_memory
from aleatoric.models.gguf import located, short_name
from aleatoric.models.loading import (
    end_ids,
    failing_pass,
    kept,
    load_parts,
    positions_of,
    precision_of,
    window_of,
)
from aleatoric.models.pieces import start_tokens, token_pieces
from aleatoric.models.plain import LanguageModel, PlainPass


def _load(kind: str, argument: str, loading: LoadOptions) -> HFModel:
    """Load a causal LM of `smollm2`, `gguf:FILE` or `hf:NAME[@REVISION]`."""
    name, revision, _ = located(kind, argument)
    model, tokenizer, commit = load_parts(name, revision, loading)
    return wrap(model, tokenizer, name=short_name(name), revision=commit, bos=loading.bos)


load_smollm2, load_gguf, load_hf = (partial(_load, kind) for kind in ("smollm2", "gguf", "hf"))


@dataclass(frozen=True, eq=False)
class HFModel(LanguageModel):
    """A causal LM of transformers; `window` is the longest sequence in a tree pass (0: none)."""

    model: Any = field(repr=False, kw_only=True)
    _checked_lengths: list[int] = field(default_factory=lambda: [SHALLOW], repr=False)
    """Ascending text lengths at which the tree pass was compared with a plain pass."""

    @property
    def device(self) -> Any:
        """The torch device the model runs on."""
        return input_device(self.model)

    def in_tree(self, length: int) -> bool:
        """Whether texts of so many tokens get the same numbers in a tree pass as in a plain pass.

        This detects attention windows that the configuration does not name.
        """
        if length > self.window:
            return False
        last = self._checked_lengths[-1]
        if length <= last:
            return True
        length = min(self.window, max(length, last + last // 4))
        ids = torch.from_numpy(attention.probe_tokens(min(len(self.pieces), 997), length))
        ids = ids.to(self.device)
        positions = torch.arange(length, device=self.device)
        mask = torch.ones((length, length), dtype=torch.bool, device=self.device).tril()
        keep = positions[-SHALLOW:]
        with torch.inference_mode():
            options = {"use_cache": False, "logits_to_keep": kept(self.model, keep)}
            plain = self.model(input_ids=ids[None], **options)
        logits, _ = self.forward(ids, positions, mask, None, keep)
        if not are_same(plain.logits[0], logits):
            return False
        self._checked_lengths.append(length)
        return True

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor | Tiles,
        past: KV | None,
        keep: Tensor | None,
    ) -> tuple[Tensor, KV]:
        """Run tokens in a tree pass; see `LanguageModel.forward`."""
        from transformers import DynamicCache

        with torch.inference_mode():
            cache = DynamicCache()
            for layer, (keys, values) in enumerate(past or ()):
                cache.update(keys, values, layer)
            out = self.model(
                input_ids=ids[None],
                position_ids=positions[None],
                **_attention(mask, self.model.dtype),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=0 if keep is None else kept(self.model, keep),
            )
            new, layers = slice(-len(ids), None), out.past_key_values.layers
            return out.logits[0], tuple((x.keys[:, :, new], x.values[:, :, new]) for x in layers)


def _attention(mask: Tensor | Tiles, dtype: Any) -> dict[str, Any]:
    if not isinstance(mask, Tiles):
        return {"attention_mask": _additive(mask, dtype)[None, None]}
    # A mask that is not read, so that the model does not build its own.
    unread = mask.rows.new_empty((1, 1, 1, 1), dtype=dtype)
    return {"attention_mask": unread, "tiles": replace(mask, mask=_additive(mask.mask, dtype))}


def _additive(mask: Tensor, dtype: Any) -> Tensor:
    zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill_(~mask, torch.finfo(dtype).min)


def wrap(
    model: Any, tokenizer: Any, *, name: str, revision: str | None = None, bos: str = "auto"
) -> HFModel:
    """Wrap a model and tokenizer already in memory."""
    start = start_tokens(tokenizer, bos, name)
    model.eval()
    config = model.config.get_text_config()
    pieces = token_pieces(tokenizer, config.vocab_size, end_ids(model))
    lm = HFModel(
        name, revision, tokenizer, pieces, positions_of(model.config), start,
        model=model, plain=PlainPass(model), precision=precision_of(model),
        window=window_of(model.config),
    )  # fmt: skip
    if not has_tree_pass(lm):
        reason = f"a tree pass does not hold for models of type {config.model_type}"
        return replace(lm, window=0, plain_reason=reason)
    return in_tiles(lm) if lm.device.type == "cuda" else lm


def in_tiles(lm: HFModel) -> HFModel:
    """Return the same model with tiles, if it gives the same numbers with them."""
    if not attention.use_tiles(lm.model):
        return lm
    tree = ProbeTree.of(len(lm.pieces), lm.window)
    arrays = (tree.ids, tree.positions, tree.mask)
    ids, positions, mask = (torch.from_numpy(x).to(lm.device) for x in arrays)
    tiles = Tiles.of(tree.spans, tree.others, lm.device)
    expected, _ = lm.forward(ids, positions, mask, None, None)
    try:
        logits, _ = lm.forward(ids, positions, tiles, None, None)
    except (TypeError, ValueError, RuntimeError):
        return lm
    # Rounding alone gives 2e-6 in float32 and 0.02 in bfloat16 (SmolLM2); an attention window of
    # six tokens that only one of them has gives 0.2 and more.
    most = 0.05 if torch.finfo(expected.dtype).bits < 32 else 1e-3
    return replace(lm, tiled=attention.distances(expected, logits).max().item() <= most)


def has_tree_pass(lm: HFModel) -> bool:
    """Whether a model's tree pass gives the logits of plain forward passes."""
    tree = ProbeTree.of(len(lm.pieces), min(lm.window, SHALLOW))
    try:
        expected = attention.plain_logits(lm.model, tree.texts)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise failing_pass(lm.name, error) from error
    try:
        logits = attention.tree_logits(lm, tree)
    except Exception as error:  # models without mask, cache or positions fail in many ways
        if is_out_of_memory(error):
            raise
        return False
    return all(are_same(expected[rows], logits[rows]) for rows in tree.levels)
