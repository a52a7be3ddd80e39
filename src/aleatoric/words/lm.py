"""What the word estimators ask of a language model, as a structural type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from aleatoric.tiles import Tiles

KV = tuple[tuple["Tensor", "Tensor"], ...]
"""One (keys, values) a layer, each of shape [1, heads, tokens, width]."""


class TreeLM(Protocol):
    """A causal language model whose attention can be told which tokens see which."""

    @property
    def pieces(self) -> Sequence[bytes | None]:
        """The bytes of each token; `None` where the token ends the text."""

    @property
    def window(self) -> int:
        """The longest sequence the model takes."""

    @property
    def device(self) -> Any:
        """The torch device of inputs and outputs."""

    @property
    def tiled(self) -> bool:
        """Whether `forward` takes tiles in place of a mask."""

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of a context."""

    def encode_all(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of several contexts."""

    def continuation(self, text: str) -> tuple[int, ...]:
        """The tokens of a text as it follows a context."""

    def check_length(self, tokens: int) -> None:
        """Refuse texts of so many tokens where `forward` is wrong about them."""

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor | Tiles,
        past: KV | None,
        keep: Tensor | None,
    ) -> tuple[Tensor, KV]:
        """Logits of tokens `ids[keep]`, and keys and values of all `ids`.

        `mask[i, j]` is true where token i attends to column j of (past, ids).
        """
