"""A Transformer for translation with the shape of fairseq's `transformer_iwslt_de_en`.

Post-norm, sinusoidal positions, ReLU, Xavier initialisation, the decoder's input and output
embeddings shared. Own code: only what the recipe needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from multi30k.data import MOST_PIECES
from multi30k.subwords import PAD

# fairseq numbers positions after its padding index.
_FIRST_POSITION = PAD + 1


@dataclass(frozen=True)
class Shape:
    """The sizes of a model; the defaults are those of the IWSLT configuration."""

    layers: int = 6
    width: int = 512
    heads: int = 4
    ffn: int = 1024
    dropout: float = 0.3


class TranslationModel(nn.Module):
    """P(next target token | source sentence, target tokens so far).

    It serves as the translation model and, trained again with another seed, as the conditional
    language model whose entropy stands for intrinsic uncertainty.

    >>> model = TranslationModel(16, 24, Shape(layers=1, width=8, heads=2, ffn=8)).eval()
    >>> model(torch.tensor([[5, 6, 2]]), torch.tensor([[2, 7]])).shape
    torch.Size([1, 2, 24])
    """

    def __init__(self, source_size: int, target_size: int, shape: Shape | None = None) -> None:
        super().__init__()
        shape = shape or Shape()
        self.source = _Embedding(source_size, shape)
        self.target = _Embedding(target_size, shape)
        self.encoder = nn.ModuleList(_EncoderLayer(shape) for _ in range(shape.layers))
        self.decoder = nn.ModuleList(_DecoderLayer(shape) for _ in range(shape.layers))

    def forward(self, source: Tensor, given: Tensor) -> Tensor:
        """Logits [sentences, positions, vocabulary] for what follows each given token."""
        return self.logits(self.decode(given, self.encode(source), source))

    def encode(self, source: Tensor) -> Tensor:
        """What the encoder makes of the source tokens."""
        state: Tensor = self.source(source)
        mask = _key_mask(source)
        for layer in self.encoder:
            state = layer(state, mask)
        return state

    def decode(self, given: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """The decoder's state at each given token."""
        state: Tensor = self.target(given)
        mask = _key_mask(source)
        for layer in self.decoder:
            state = layer(state, memory, mask)
        return state

    def logits(self, state: Tensor) -> Tensor:
        """Scores over the target vocabulary, by the decoder's own input embedding."""
        return functional.linear(state, self.target.table.weight)


def _key_mask(tokens: Tensor) -> Tensor:
    """Which positions may be attended to, for every head and query."""
    return (tokens != PAD)[:, None, None, :]


class _Embedding(nn.Module):
    """Scaled token embeddings with sinusoidal positions added."""

    positions: Tensor

    def __init__(self, size: int, shape: Shape) -> None:
        super().__init__()
        self.table = nn.Embedding(size, shape.width, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=shape.width**-0.5)
        nn.init.zeros_(self.table.weight[PAD])
        self.register_buffer("positions", sinusoids(MOST_PIECES, shape.width), persistent=False)
        self.dropout = nn.Dropout(shape.dropout)
        self.scale = math.sqrt(shape.width)

    def forward(self, tokens: Tensor) -> Tensor:
        state = self.scale * self.table(tokens) + self.positions[: tokens.shape[1]]
        dropped: Tensor = self.dropout(state)
        return dropped


def sinusoids(length: int, width: int) -> Tensor:
    """Position vectors: the sines of all frequencies, then their cosines.

    >>> sinusoids(3, 8).shape
    torch.Size([3, 8])
    """
    half = width // 2
    frequencies = torch.exp(torch.arange(half) * -(math.log(10_000) / (half - 1)))
    angles = (torch.arange(length) + _FIRST_POSITION)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class _Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query = _linear(shape.width, shape.width, gain=2**-0.5)
        self.key = _linear(shape.width, shape.width, gain=2**-0.5)
        self.value = _linear(shape.width, shape.width, gain=2**-0.5)
        self.out = _linear(shape.width, shape.width)

    def forward(
        self, queries: Tensor, memory: Tensor, mask: Tensor | None, causal: bool = False
    ) -> Tensor:
        query, key, value = self.query(queries), self.key(memory), self.value(memory)
        attended = functional.scaled_dot_product_attention(
            self._split(query), self._split(key), self._split(value), mask, is_causal=causal
        )
        mixed: Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return mixed

    def _split(self, state: Tensor) -> Tensor:
        sentences, positions, width = state.shape
        return state.view(sentences, positions, self.heads, width // self.heads).transpose(1, 2)


class _EncoderLayer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention = _Attention(shape)
        self.after_attention = _AddAndNorm(shape)
        self.ffn = _feed_forward(shape)
        self.after_ffn = _AddAndNorm(shape)

    def forward(self, state: Tensor, mask: Tensor) -> Tensor:
        state = self.after_attention(state, self.attention(state, state, mask))
        mixed: Tensor = self.after_ffn(state, self.ffn(state))
        return mixed


class _DecoderLayer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention = _Attention(shape)
        self.after_attention = _AddAndNorm(shape)
        self.cross = _Attention(shape)
        self.after_cross = _AddAndNorm(shape)
        self.ffn = _feed_forward(shape)
        self.after_ffn = _AddAndNorm(shape)

    def forward(self, state: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        # Padding stands on the right: no real token can see it through the causal mask.
        state = self.after_attention(state, self.attention(state, state, None, causal=True))
        state = self.after_cross(state, self.cross(state, memory, mask))
        mixed: Tensor = self.after_ffn(state, self.ffn(state))
        return mixed


class _AddAndNorm(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, state: Tensor, change: Tensor) -> Tensor:
        normed: Tensor = self.norm(state + self.dropout(change))
        return normed


def _feed_forward(shape: Shape) -> nn.Sequential:
    return nn.Sequential(
        _linear(shape.width, shape.ffn), nn.ReLU(), _linear(shape.ffn, shape.width)
    )


def _linear(inputs: int, outputs: int, gain: float = 1.0) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
