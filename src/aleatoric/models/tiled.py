"""Attention in tiles for transformers' models: see `aleatoric.tiles`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from aleatoric.tiles import Tiles

NAME = "aleatoric_tiled"


def use_tiles(model: Any) -> bool:
    """Let a model take `tiles=` where it can; whether it can.

    Without `tiles=` it attends as before.
    """
    if getattr(model.config, "_attn_implementation", None) not in ("sdpa", NAME):
        return False
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask

        AttentionInterface.register(NAME, attend)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.set_attn_implementation(NAME)
    except (ImportError, AttributeError, ValueError):
        return False
    return bool(model.config._attn_implementation == NAME)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    tiles: Tiles | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attention of every token to the columns its tile names; without tiles, as `sdpa` has it.

    The mask of the tiles is one to be added.
    """
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if tiles is None:
        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **others
        )
        return found
    _refuse(others)
    heads = query.shape[1]
    out = torch.nn.functional.scaled_dot_product_attention(
        _tile(query, tiles.rows, heads),
        _tile(key, tiles.columns, heads),
        _tile(value, tiles.columns, heads),
        attn_mask=tiles.mask[:, None],
        scale=scaling,
    )
    return out.transpose(1, 2).flatten(0, 1)[tiles.places][None], None


def _tile(values: Tensor, places: Tensor, heads: int) -> Tensor:
    """Columns of [1, heads, tokens, width] by tile: [tiles, heads, slots, width]."""
    own, _, width = values[0].shape
    taken = values[0].index_select(1, places.flatten())
    by_tile = taken.view(own, *places.shape, width).transpose(0, 1)
    return by_tile if own == heads else by_tile.repeat_interleave(heads // own, 1)


def _refuse(others: dict[str, Any]) -> None:
    """Raise where a model attends in a way that tiles do not know."""
    for name in ("softcap", "s_aux", "position_bias"):
        if others.get(name) is not None:
            raise ValueError(f"attention with {name} is not worked out in tiles")
