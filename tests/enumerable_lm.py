"""A tiny exact language model whose every text can be enumerated.

Its next-token distributions are drawn once for every token sequence from a seed, and its texts
end after a fixed number of tokens. So the distribution of the first word is a finite sum, which
the fast estimators are checked against.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.errors import ModelError
from aleatoric.rng import stream

if TYPE_CHECKING:
    from torch import Tensor

KV = tuple[tuple["Tensor", "Tensor"], ...]


@dataclass(frozen=True)
class EnumerableLM:
    """A language model over given token bytes; the last token ends the text.

    >>> toy = EnumerableLM((b" a", b"b", b"."), depth=2, seed=0)
    >>> round(sum(p for _, p in toy.texts((0,))), 9)
    1.0
    """

    tokens: tuple[bytes, ...]
    depth: int = 4
    seed: int = 0
    sharpness: float = 2.0
    positions: int = 64
    window: int = 64
    """The longest text in a tree pass; 0 to use plain passes."""
    context: int = field(default=1)

    @property
    def limits(self) -> Any:
        """How much is run at once: what the device suggests."""
        from aleatoric.models.plain import Limits

        return Limits()

    @property
    def pieces(self) -> tuple[bytes | None, ...]:
        """The bytes of each token; `None` for the last, which ends the text."""
        return (*self.tokens, None)

    @property
    def device(self) -> Any:
        """The central processor."""
        import torch

        return torch.device("cpu")

    def encode(self, text: str) -> tuple[int, ...]:
        """Greedy longest-match tokenization of `text`."""
        data, ids = text.encode(), []
        while data:
            fits = [i for i, piece in enumerate(self.tokens) if piece and data.startswith(piece)]
            if not fits:
                raise ModelError(f"the toy vocabulary cannot write {text!r}.")
            best = max(fits, key=lambda i: len(self.tokens[i]))
            ids.append(best)
            data = data[len(self.tokens[best]) :]
        return tuple(ids)

    @property
    def tiled(self) -> bool:
        """Whether attention uses tiles: this model uses masks."""
        return False

    def encode_all(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of several texts."""
        return [self.encode(text) for text in texts]

    def continuation(self, text: str) -> tuple[int, ...]:
        """The tokens of `text`."""
        return self.encode(text)

    def in_tree(self, length: int) -> bool:
        """Whether texts of so many tokens fit a tree pass."""
        return length <= self.window

    @property
    def plain(self) -> EnumerableLM:
        """Its plain passes, which are the methods below."""
        return self

    def check(self, length: int, window: int) -> None:
        """Accept texts of any length."""

    def contexts(self, tokens: tuple[int, ...], stops: Sequence[int]) -> Iterator[Any]:
        """Logits and state after each stop; a state is the text."""
        paths = [tokens[:stop] for stop in stops]
        return zip(self.alone(paths), paths, strict=True)

    def after(self, pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], _: int) -> Tensor:
        """Logits after each text and its continuation."""
        return self.alone([state + row for state, row in pairs])

    def alone(self, texts: Sequence[tuple[int, ...]]) -> Tensor:
        """Logits after each text."""
        import torch

        return torch.as_tensor(np.stack([self.next_log_probs(text) for text in texts]))

    def next_log_probs(self, path: Sequence[int]) -> NDArray[np.float64]:
        """Log-probabilities of the next token after a token sequence."""
        size = len(self.tokens) + 1
        if len(path) >= self.context + self.depth:
            return np.where(np.arange(size) == size - 1, 0.0, -np.inf)
        draws = stream(self.seed, *map(int, path)).normal(size=size) * self.sharpness
        top = draws.max()
        return np.asarray(draws - top - np.log(np.exp(draws - top).sum()), dtype=np.float64)

    def texts(self, path: tuple[int, ...]) -> Iterator[tuple[bytes, float]]:
        """Every text that can follow `path`, with its probability."""
        for token, logp in enumerate(self.next_log_probs(path)):
            if token == len(self.tokens):
                yield b"", float(np.exp(logp))
            elif np.isfinite(logp):
                for rest, p in self.texts((*path, token)):
                    yield self.tokens[token] + rest, p * float(np.exp(logp))

    def forward(
        self, ids: Tensor, positions: Tensor, mask: Tensor, past: KV | None, keep: Tensor | None
    ) -> tuple[Tensor, KV]:
        """Logits in the format of a model; the cached keys are the tokens themselves."""
        import torch

        own = ids.double()[None, None, :, None]
        seen = own if past is None else torch.cat([past[0][0], own], 2)
        tokens = seen[0, 0, :, 0].long()
        rows = range(len(ids)) if keep is None else keep.tolist()
        paths = [tokens[mask[i]].tolist() for i in rows]
        logits = np.stack([self.next_log_probs(path) for path in paths])
        return torch.as_tensor(logits), ((own, own),)
