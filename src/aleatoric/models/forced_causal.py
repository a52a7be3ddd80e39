"""Causal language models on documents, with the document itself as the prefix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aleatoric.errors import UsageError
from aleatoric.models.base import Reads, Strip
from aleatoric.models.hf import token_rows, window_of
from aleatoric.models.starts import policy_of, start_tokens
from aleatoric.types import Document

if TYPE_CHECKING:
    from torch import Tensor

LONGEST_BY_DEFAULT = 1024
"""Tokens a window where the user names none: logits of a longer one would fill small machines."""


@dataclass(frozen=True)
class Windows:
    """How documents are cut: windows of `length` tokens that begin `stride` tokens apart.

    >>> Windows(4, 2).of(7)
    [(0, 4, 1), (2, 6, 4), (4, 7, 6)]
    """

    length: int
    stride: int

    def of(self, n_tokens: int, given: int = 1) -> list[tuple[int, int, int]]:
        """(start, stop, first scored) of each window; every token after `given` is scored once."""
        found: list[tuple[int, int, int]] = []
        scored = given
        while scored < n_tokens:
            start = len(found) * self.stride
            stop = min(start + self.length, n_tokens)
            found.append((start, stop, scored))
            scored = stop
        return found


@dataclass(frozen=True, eq=False)
class CausalForced:
    """A causal LM that reads documents in windows; the first token of a document has no context."""

    label: str
    version: str
    windows: Windows
    start: tuple[int, ...]
    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    reads: Reads = "text"

    @property
    def vocabulary_size(self) -> int:
        """The width of its logits."""
        return int(self.model.get_output_embeddings().weight.shape[0])

    @property
    def conventions(self) -> Mapping[str, str]:
        """Window, stride, and which special tokens are read or scored."""
        cut = {"window": str(self.windows.length), "stride": str(self.windows.stride)}
        return cut | {"bos": policy_of(self.tokenizer, self.start), "eos": "none"}

    def strips(self, items: Sequence[Document]) -> list[list[Strip]]:
        """The windows of each document."""
        rows = token_rows(self.tokenizer, [item.text for item in items])
        return [
            self._windows(item.id, (*self.start, *row))
            for item, row in zip(items, rows, strict=True)
        ]

    def logits(self, strips: Sequence[Strip]) -> Tensor:
        """What the model expects after each given token."""
        import torch

        ids, mask = padded([strip.given for strip in strips], self.model.device)
        with torch.inference_mode():
            found: Tensor = self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        return found

    def _windows(self, group: str, tokens: tuple[int, ...]) -> list[Strip]:
        return [
            Strip(
                group,
                tokens[start : stop - 1],
                tokens[start + 1 : stop],
                tuple(range(scored - start - 1, stop - start - 1)),
                start + 1 - len(self.start),
            )
            for start, stop, scored in self.windows.of(len(tokens), max(1, len(self.start)))
        ]


def causal_forced(
    model: Any,
    tokenizer: Any,
    *,
    label: str,
    version: str,
    window: int | None = None,
    stride: int | None = None,
    bos: str = "auto",
) -> CausalForced:
    """A loaded causal LM as a reader of documents; refuses a window that the model cannot take."""
    longest = window_of(model.config)
    length = min(longest, LONGEST_BY_DEFAULT) if window is None else window
    if not 2 <= length <= longest:
        raise UsageError(
            f"{label}: --window {length} is out of range; it reads 2 to {longest} tokens at once."
        )
    step = max(1, length // 2) if stride is None else stride
    if not 1 <= step < length:
        raise UsageError(
            f"--stride {step} is out of range; it is 1 to {length - 1}, below --window."
        )
    start = start_tokens(tokenizer, bos, label)
    if length <= len(start):
        raise UsageError(
            f"{label}: --window {length} holds no more than what begins a text; use more."
        )
    return CausalForced(label, version, Windows(length, step), start, model, tokenizer)


def padded(rows: Sequence[Sequence[int]], device: Any, filler: int = 0) -> tuple[Tensor, Tensor]:
    """Token rows as one tensor, filled at the end, with a mask of what is real.

    >>> [part.tolist() for part in padded([[5, 6], [7]], "cpu")]
    [[[5, 6], [7, 0]], [[1, 1], [1, 0]]]
    """
    import torch

    width = max(map(len, rows))
    ids = torch.full((len(rows), width), filler, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row)] = 1
    return ids.to(device), mask.to(device)
