"""Attention with arbitrary masks: probing whether a model supports it, and tiles on a GPU.

Before the first tree pass a model is tried on a small tree: two passages packed one after another,
with branches of depth 3 below three contexts of different lengths. Tokens far apart in the pack are
close in their text and vice versa, so a model that ignores masks or positions gives other numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.models.base import input_device
from aleatoric.types import Ints

if TYPE_CHECKING:
    from torch import Tensor

KV = tuple[tuple["Tensor", "Tensor"], ...]
"""(keys, values) per layer, each of shape [1, heads, tokens, width]."""

SHALLOW = 12
"""Longest text of a probe tree that is compared with plain forward passes, which run every text."""


@dataclass(frozen=True)
class ProbeTree:
    """Tokens of one forward pass, and the columns that each attends to.

    The first `trunk` tokens are the passages, the others the branches. A token attends to the
    columns start..stop-1 of `spans` and to those in its row of `others` (padded with -1).
    """

    ids: Ints
    positions: Ints
    spans: Ints
    others: Ints
    trunk: int

    @classmethod
    def of(cls, vocabulary: int, window: int) -> ProbeTree:
        """Build a tree of tokens below `vocabulary` with texts of at most `window` tokens."""
        depth = max(2, min(window, 24))
        long, short = max(1, depth - 3), max(1, depth // 4)
        trunk = [(0, place) for place in range(long)] + [(long, place) for place in range(short)]
        rows: list[Sight] = [
            (place, start, start + place, (start + place,)) for start, place in trunk
        ]
        for start, length in ((0, max(1, long // 2)), (0, long), (long, short)):
            rows += _branches(start, length, len(rows), depth)
        positions, starts, stops, further = zip(*rows, strict=True)
        others = np.array(list(zip_longest(*further, fillvalue=-1))).T
        spans, ids = np.array([starts, stops]).T, probe_tokens(vocabulary, len(rows))
        return cls(ids, np.array(positions), spans, others, len(trunk))

    @property
    def mask(self) -> NDArray[np.bool_]:
        """`mask[i, j]`: whether token i attends to token j."""
        return dense_mask(self.spans, self.others, len(self.ids), "cpu").numpy()

    @property
    def texts(self) -> list[tuple[int, ...]]:
        """The text of each token: all tokens before it, and itself."""
        return [tuple(self.ids[row].tolist()) for row in self.mask]

    @property
    def levels(self) -> list[Ints]:
        """The tokens of the passages, then those of the branches by depth."""
        depth = (self.others >= 0).sum(1)
        depth[: self.trunk] = 0
        return [np.flatnonzero(depth == level) for level in range(int(depth.max()) + 1)]


Sight = tuple[int, int, int, tuple[int, ...]]
"""Position of a token, start and stop of the columns it attends to, and further columns."""


def dense_mask(spans: Ints, others: Ints, width: int, device: Any) -> Tensor:
    """Return whether each token attends to each of `width` columns; arguments as in `ProbeTree`."""
    import torch

    bounds, columns = send(spans, device), torch.arange(width, device=device)
    mask = (columns >= bounds[:, :1]) & (columns < bounds[:, 1:])
    rows, places = np.nonzero(others >= 0)
    # A Python bool would be copied to the device, and wait for all work queued there.
    true = torch.ones((), dtype=torch.bool, device=device)
    mask.index_put_((send(rows, device), send(others[rows, places], device)), true)
    return mask


def probe_tokens(vocabulary: int, count: int) -> Ints:
    """Return probe tokens of which neighbors differ, however small the vocabulary is."""
    step = 7 if vocabulary % 7 else 1
    tokens: Ints = (1 + step * np.arange(count)) % vocabulary
    return tokens


def _branches(start: int, length: int, first: int, depth: int) -> list[Sight]:
    """The nodes below a context of `length` tokens that starts at the column `start`."""
    nodes: list[Sight] = []
    for place, parent in enumerate((-1, -1, 0, 0, 1, 2)):
        above = () if parent < 0 else nodes[parent][3]
        position = length + len(above)
        if position >= depth:  # the model accepts no longer texts
            break
        nodes.append((position, start, start + length, (*above, first + place)))
    return nodes


def plain_logits(model: Any, texts: list[tuple[int, ...]]) -> Tensor:
    """Return the next-token logits of texts by forward passes without mask, positions or cache."""
    import torch

    device = input_device(model)
    by_prefix: dict[tuple[int, ...], Tensor] = {}  # a prefix uses the pass of a longer text
    for text in sorted(set(texts), key=len, reverse=True):
        if text not in by_prefix:
            with torch.inference_mode():
                ids = torch.tensor([text], device=device)
                logits = model(input_ids=ids, use_cache=False).logits[0]
            for stop in range(1, len(text) + 1):
                by_prefix.setdefault(text[:stop], logits[stop - 1])
    return torch.stack([by_prefix[text] for text in texts])


def tree_logits(lm: Any, tree: ProbeTree) -> Tensor:
    """Return the next-token logits of all tokens, passages first and then depth by depth.

    Columns that no token attends to come before the deepest branches, as in a large tree.
    """
    import torch

    attends = tree.mask
    outputs: list[Tensor] = []
    blocks: list[Any] = []
    columns: list[int] = []
    for level in (levels := tree.levels):
        if level is levels[-1]:
            blocks.append(_unseen(lm, blocks[0], tree.trunk))
            columns += [-1] * blocks[-1][0][0].shape[2]
        columns += level.tolist()
        column_ids = np.array(columns)
        visible = (column_ids >= 0) & attends[level[:, None], column_ids]
        arrays = (tree.ids[level], tree.positions[level], visible)
        ids, positions, mask = (torch.from_numpy(x).to(lm.device) for x in arrays)
        past = joined_kv(blocks) if blocks else None
        logits, fresh = lm.forward(ids, positions, mask, past, None)
        outputs.append(logits)
        blocks.append(fresh)
    order = np.argsort(np.concatenate(levels))
    return torch.cat(outputs)[torch.from_numpy(order).to(lm.device)]


def _unseen(lm: Any, trunk: Any, columns: int) -> Any:
    """Copies of the passages' keys and values, enough to exceed every limit that is configured.

    A model may use column numbers only beyond its window, or keep tables of positions. At most 8256
    columns are copied, and 1 GiB.
    """
    size = sum(x.numel() * x.element_size() for layer in trunk for x in layer) // columns
    longest = max(_limits(lm.model.config.get_text_config().to_dict()), default=0)
    count = min(longest + 1, 8256, (1 << 30) // max(1, size))
    return columns_of(trunk, np.arange(count) % columns)


def columns_of(kv: KV, columns: Ints) -> KV:
    """Return some columns of keys and values, which may be on several devices."""
    devices = {k.device for k, _ in kv}
    indices = {device: send(columns, device) for device in devices}
    return tuple((k[:, :, indices[k.device]], v[:, :, indices[k.device]]) for k, v in kv)


def joined_kv(blocks: Sequence[KV]) -> KV:
    """Concatenate keys and values along the tokens, per layer."""
    import torch

    layers = (zip(*layer, strict=True) for layer in zip(*blocks, strict=True))
    return tuple((torch.cat(keys, 2), torch.cat(values, 2)) for keys, values in layers)


def _limits(settings: dict[str, Any]) -> Iterator[int]:
    """How far attention reaches, and the sizes of position tables (up to 2048)."""
    for name, value in settings.items():
        if isinstance(value, int) and re.search("window|chunk|floor_scale", name):
            yield value
        elif isinstance(value, int) and re.search("position|seq_len|context_length", name):
            yield min(value, 2048)


def are_same(expected: Tensor, actual: Tensor) -> bool:
    """Whether rows of logits are equal up to rounding; false if any is NaN."""
    # Rounding alone gives 2e-6 in float32 and 0.02 in bfloat16 (SmolLM2). In half precision it may
    # also route single tokens of a mixture of experts to other experts.
    is_narrow = expected.dtype.itemsize < 4
    same = distances(expected, actual) <= (0.05 if is_narrow else 1e-4)
    return bool(same.double().mean() >= (0.6 if is_narrow else 1.0))


def distances(expected: Tensor, actual: Tensor) -> Tensor:
    """Return the largest difference per row of logits, divided by the range of the row.

    Differences of probabilities would be small for a model whose distributions are nearly uniform.
    """
    expected, actual = expected.double(), actual.to(expected.device).double()
    spread = expected.max(-1).values - expected.min(-1).values
    return (expected - actual).abs().max(-1).values / spread


NAME = "aleatoric_tiled"


def use_tiles(model: Any) -> bool:
    """Let a model accept `tiles=`, else leave it unchanged; return whether it accepts them."""
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
    module: Any, *tensors: Any, tiles: Tiles | None = None, **options: Any
) -> tuple[Tensor, None]:
    """Compute attention of every token to its tile (additive mask); without tiles, `sdpa`.

    `tensors` are query, key, value and a mask, which is not read if there are tiles.
    """
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if tiles is None:
        result: tuple[Tensor, None] = sdpa_attention_forward(module, *tensors, **options)
        return result
    for name in ("softcap", "s_aux", "position_bias"):
        if options.get(name) is not None:
            raise ValueError(f"attention with {name} is not supported in tiles")
    heads, places = tensors[0].shape[1], (tiles.rows, tiles.columns, tiles.columns)
    query, key, value = (_tile(x, y, heads) for x, y in zip(tensors[:3], places, strict=True))
    out = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=tiles.mask[:, None], scale=options.get("scaling")
    )
    return out.transpose(1, 2).flatten(0, 1)[tiles.places][None], None


def _tile(values: Tensor, places: Tensor, heads: int) -> Tensor:
    """Columns of [1, heads, tokens, width] by tile: [tiles, heads, slots, width]."""
    kv_heads, _, width = values[0].shape
    selected = values[0].index_select(1, places.flatten())
    by_tile = selected.view(kv_heads, *places.shape, width).transpose(0, 1)
    return by_tile if kv_heads == heads else by_tile.repeat_interleave(heads // kv_heads, 1)


Arrival = Callable[[], NDArray[Any]]
"""Waits for an array that is being copied, and returns it."""


def send(values: NDArray[Any], device: Any) -> Tensor:
    """Copy an array to a device; on a GPU without waiting for the work queued there."""
    import torch

    host, on_gpu = torch.as_tensor(values), torch.device(device).type == "cuda"
    # From pageable memory the copy would first wait for everything queued on the device.
    return (host.pin_memory() if on_gpu else host).to(device, non_blocking=on_gpu)


def fetch(values: Tensor) -> Arrival:
    """Start to copy an array from its device; call the result to wait for it."""
    import torch

    if values.device.type != "cuda":
        return values.cpu().numpy
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    arrived: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()

    def wait() -> NDArray[Any]:
        arrived.synchronize()
        return host.numpy()

    return wait


SIZE = 64
"""Nodes per tile."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """The tokens of one forward pass in tiles, on the device.

    `rows[t, i]` is the token in slot i of tile t, `columns[t, j]` the tile's j-th column of (past,
    tokens), `mask[t, i, j]` whether that slot attends to it; `places[n]` is the slot of token n,
    counted over all tiles.
    """

    rows: Tensor
    columns: Tensor
    mask: Tensor
    places: Tensor

    def to(self, device: Any, **options: Any) -> Tiles:
        """Copy to another device, as accelerate does with the arguments of a layer."""
        tensors = (self.rows, self.columns, self.mask, self.places)
        return Tiles(*(tensor.to(device, **options) for tensor in tensors))

    @classmethod
    def of(cls, spans: Ints, others: Ints, device: Any) -> Tiles:
        """Build tiles; `spans` and `others` as in `ProbeTree`."""
        tile, slot = _slots(spans[:, 0])
        count = int(tile.max()) + 1
        rows = np.zeros((count, SIZE), dtype=np.int64)
        rows[tile, slot] = np.arange(len(tile))
        columns, mask = _attended(spans, others, tile, slot, count)
        # A slot without a token must attend to something, or it would be NaN.
        mask[..., 0] |= ~mask.any(-1)
        return cls(*(send(x, device) for x in (rows, columns, mask, tile * SIZE + slot)))


def _slots(starts: Ints) -> tuple[Ints, Ints]:
    """The tile and the slot of each token; each passage has its own tiles."""
    _, passage, sizes = np.unique(starts, return_inverse=True, return_counts=True)
    order = np.argsort(passage, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    tiles = -(-sizes // SIZE)
    first = np.cumsum(tiles) - tiles
    return first[passage] + rank // SIZE, rank % SIZE


def _attended(
    spans: Ints, others: Ints, tile: Ints, slot: Ints, count: int
) -> tuple[Ints, NDArray[np.bool_]]:
    """The columns of each tile, and which of them each slot attends to."""
    lengths = spans[:, 1] - spans[:, 0]
    trunk = int(lengths.max(initial=0))
    token, place = np.nonzero(others >= 0)
    wide = int(others.max(initial=0)) + 1
    codes, code = np.unique(tile[token] * wide + others[token, place], return_inverse=True)
    holder, column = np.divmod(codes, wide)
    counts = np.bincount(holder, minlength=count)
    rank = np.arange(len(codes)) - (np.cumsum(counts) - counts)[holder]
    # Attention kernels need masks whose width is a multiple of 8.
    width = -(-(trunk + int(counts.max(initial=0))) // 8) * 8
    columns = np.zeros((count, width), dtype=np.int64)
    starts = np.zeros(count, dtype=np.int64)
    starts[tile] = spans[:, 0]
    reach = np.zeros(count, dtype=np.int64)
    np.maximum.at(reach, tile, lengths)
    within = np.minimum(np.arange(trunk), np.maximum(reach - 1, 0)[:, None])
    columns[:, :trunk] = starts[:, None] + within
    columns[holder, trunk + rank] = column
    mask = np.zeros((count, SIZE, width), dtype=np.bool_)
    mask[tile, slot, :trunk] = np.arange(trunk) < lengths[:, None]
    mask[tile[token], slot[token], trunk + rank[code]] = True
    return columns, mask
