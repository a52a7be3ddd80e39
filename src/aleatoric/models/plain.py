"""Language models as the word estimators need them, and plain forward passes.

In plain passes a context is run once, and copies of its cache are continued. They serve models
without a tree pass (ALiBi, a recurrence, an attention window). How much of a model's cache can be
used is found by comparison with forward passes that use no cache.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from aleatoric.models.attention import KV, SHALLOW, Tiles, are_same, probe_tokens
from aleatoric.models.base import Prompting, input_device, is_out_of_memory, pages
from aleatoric.models.loading import kept, token_rows
from aleatoric.models.pieces import Pieces, policy_of

Tokens = tuple[int, ...]
CacheUse = Literal["mask", "crop", "chunk", "step", "none"]
"""How the cache of a passage serves its contexts, the fastest way first.

mask: one cache for all contexts, with a mask that hides what comes after each of them; crop: its
beginning is copied for each context; chunk: a context's cache is continued by several tokens;
step: by one token at a time; none: whole texts are run.
"""
_USES: tuple[CacheUse, ...] = get_args(CacheUse)
_CACHES = ("past_key_values", "cache_params")
"""Names of the cache among the arguments and outputs of models."""
_NEW = 3
"""Tokens of the continuations that are tried."""


@dataclass(frozen=True, eq=False)
class State:
    """A context that has been run, with a cache that covers it and may go beyond it."""

    tokens: tuple[int, ...]
    cache: Any

    @cached_property
    def size(self) -> int:
        """The size of the cache in bytes."""
        layers = getattr(self.cache, "layers", None) or ()
        tensors = (value for layer in layers for value in _tensors(vars(layer).values()))
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple | dict):
            yield from _tensors(value.values() if isinstance(value, dict) else value)


class Passes(Protocol):
    """Next-token logits after texts, in float32 or wider; log-probabilities serve as logits."""

    def check(self, length: int, window: int) -> None:
        """Prepare for texts of so many tokens."""

    def contexts(self, tokens: Tokens, stops: Sequence[int]) -> Iterator[tuple[Tensor, Any]]:
        """Yield, per ascending stop, the logits after `tokens[:stop]` and the state there."""

    def after(self, pairs: Sequence[tuple[Any, Tokens]], memory: int = 1 << 30) -> Tensor:
        """Return the logits after each state continued by tokens, one row per pair."""

    def alone(self, texts: Sequence[Tokens]) -> Tensor:
        """Return the logits after each text, independent of the other texts."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is run at once; 0 chooses by device.

    `nodes` is the number of tokens per forward pass, `memory` bounds their logits in bytes, `pack`
    is the number of contexts whose trees grow together.
    """

    nodes: int = 0
    memory: int = 0
    pack: int = 0


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A causal language model with its tokenizer, as the word estimators need it.

    `pieces` are the bytes of every token (`None`: the token ends the text), `positions` is the
    longest sequence that the model accepts, `start` the special tokens before every encoded text.
    `plain` are plain forward passes; if `window` (the longest sequence in a tree pass) is above 0,
    a subclass provides `forward`, which accepts tiles instead of a mask if `tiled`.
    """

    name: str
    revision: str | None
    tokenizer: Any = field(repr=False)
    pieces: Pieces = field(repr=False)
    positions: int
    start: tuple[int, ...] = ()
    prompting: Prompting = field(default_factory=Prompting)
    plain: Passes = field(repr=False, kw_only=True)
    precision: str = field(kw_only=True)
    """The type of the model's numbers, and what quantizes or runs them."""
    window: int = field(default=0, kw_only=True)
    tiled: bool = field(default=False, kw_only=True)
    limits: Limits = field(default=Limits(), kw_only=True)
    plain_reason: str | None = field(default=None, kw_only=True)
    """Why words are computed in plain passes; `None` if this needs no note."""

    @property
    def device(self) -> Any:
        """The torch device on which logits arrive."""
        return torch.device("cpu")

    @property
    def identity(self) -> dict[str, str]:
        """What makes the model's numbers reproducible, for a signature."""
        return {
            "model": self.name,
            "revision": self.revision or "local",
            "dtype": self.precision,
            "bos": "template" if self.prompting.chat else policy_of(self.tokenizer, self.start),
        }

    def encode(self, text: str) -> tuple[int, ...]:
        """Tokenize a text, with the special tokens before it."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Tokenize what the model reads of several texts."""
        if not texts:
            return []
        prompts = [self.prompting.text(text, self.tokenizer, self.name) for text in texts]
        # A chat template includes the BOS token.
        start = () if self.prompting.chat else self.start
        return [(*start, *row) for row in token_rows(self.tokenizer, prompts)]

    def continuation(self, text: str) -> tuple[int, ...]:
        """Tokenize a text that follows a context (without special tokens)."""
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def in_tree(self, length: int) -> bool:
        """Whether texts of so many tokens get the numbers of plain passes in a tree pass."""
        return False

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        mask: Tensor | Tiles,
        past: KV | None,
        keep: Tensor | None,
    ) -> tuple[Tensor, KV]:
        """Return the logits of tokens `ids[keep]` (all for `None`), and all keys and values.

        `mask[i, j]`: token i attends to column j; the columns of `past` come first, then the
        tokens of this call.
        """
        raise NotImplementedError


@dataclass(eq=False)
class PlainPass:
    """Runs a model on texts and their continuations, in the fastest way that was found right."""

    model: Any = field(repr=False)
    use: CacheUse = "mask"
    _checked: int = 0
    """The longest text at which the use of the cache was compared with no use."""

    def check(self, length: int, window: int) -> None:
        """Use a slower way if texts of so many tokens get other numbers than without a cache."""
        length = min(window, max(length, SHALLOW))
        if length <= self._checked or length <= 2 * _NEW:
            return
        width = self.model.config.get_text_config().vocab_size
        tokens = tuple(probe_tokens(min(width, 997), length).tolist())
        stops = sorted({length // 2, length - _NEW})
        rows = [tokens[-_NEW:], tokens[: -_NEW - 1 : -1]]
        texts = [tokens[:stop] for stop in stops]
        expected = self.alone([*texts, *(text + row for text in texts for row in rows)])
        for use in _USES[_USES.index(self.use) :]:
            self.use = use
            if use == "none" or self._holds(tokens, stops, rows, expected):
                break
        self._checked = length

    def _holds(
        self, tokens: Tokens, stops: Sequence[int], rows: Sequence[Tokens], expected: Tensor
    ) -> bool:
        """Whether contexts, and their continuations by rows, have the expected logits."""
        try:
            logits, states = zip(*self.contexts(tokens, stops), strict=True)
            pairs = [(state, row) for state in states for row in rows]
            found = torch.cat([torch.stack(logits), self.after(pairs)])
        except Exception as error:  # caches of unknown kinds fail in many ways
            if is_out_of_memory(error):
                raise
            return False
        return are_same(expected, found)

    def contexts(self, tokens: Tokens, stops: Sequence[int]) -> Iterator[tuple[Tensor, State]]:
        """Yield, per ascending stop, the logits after `tokens[:stop]` and the state there."""
        if self.use in ("chunk", "step"):
            yield from self._one_by_one(tokens, stops)
            return
        keep = torch.tensor(stops, device=self.device) - 1
        out = self._run([tokens], logits_to_keep=kept(self.model, keep))
        rows = out.logits[0] if "logits_to_keep" in self._accepted else out.logits[0][keep]
        whole = None if self.use == "none" else self._cache_of(out)
        for stop, logits in zip(stops, rows, strict=True):
            cache: Any = deepcopy(whole) if self.use == "crop" else whole
            if self.use == "crop":
                cache.crop(stop)
            yield logits, State(tokens[:stop], cache)

    def _one_by_one(self, tokens: Tokens, stops: Sequence[int]) -> Iterator[tuple[Tensor, State]]:
        cache, start = None, 0
        for stop in stops:
            out = self._run([tokens[start:stop]], cache)
            cache = self._cache_of(out)
            yield out.logits[0, -1], State(tokens[:stop], cache)
            # A cache that takes one token at a time cannot be continued to the next context.
            cache, start = (deepcopy(cache), stop) if self.use == "chunk" else (None, 0)

    def after(self, pairs: Sequence[tuple[State, Tokens]], memory: int = 1 << 30) -> Tensor:
        """Return the logits after each state and tokens; copies of caches stay below `memory`."""
        groups: dict[tuple[int, int], list[int]] = {}
        for place, (state, row) in enumerate(pairs):
            # What is run together has one cache and one length.
            shared = len(state.tokens) if state.cache is None else id(state.cache)
            groups.setdefault((shared, len(row)), []).append(place)
        sizes = ((group, memory // max(1, pairs[group[0]][0].size)) for group in groups.values())
        parts = [part for group, size in sizes for part in pages(group, max(1, size))]
        logits = torch.cat([self._after([pairs[place] for place in part]) for part in parts])
        order = torch.tensor([place for part in parts for place in part], device=logits.device)
        return logits[order.argsort()]

    def _after(self, pairs: Sequence[tuple[State, Tokens]]) -> Tensor:
        """Return the logits after pairs that share a cache and a length."""
        states, rows = zip(*pairs, strict=True)
        if states[0].cache is None:
            return self._last([state.tokens + row for state, row in pairs])
        cache = deepcopy(states[0].cache)
        width = cache.get_seq_length() if self.use == "mask" else 0
        cache.reorder_cache(torch.zeros(len(rows), dtype=torch.long, device=self.device))
        if self.use == "mask":
            options = self._masked([len(state.tokens) for state in states], width, len(rows[0]))
            return self._last(rows, cache, **options)
        if self.use != "step":
            return self._last(rows, cache)
        for tokens in zip(*rows, strict=True):
            out = self._run([(token,) for token in tokens], cache)
            cache = self._cache_of(out)
        logits: Tensor = out.logits[:, -1]
        return logits

    def continued(self, rows: Sequence[Tokens], cache: Any = None) -> tuple[Tensor, Any]:
        """Return the logits after rows of one length, and their cache if it can be used."""
        out = self._run(rows, cache)
        return out.logits[:, -1], None if self.use == "none" else self._cache_of(out)

    def alone(self, texts: Sequence[Tokens]) -> Tensor:
        """Return the logits after each text, run by itself and without a cache."""
        return torch.cat([self._last([text], use_cache=False) for text in texts])

    def _masked(self, lengths: Sequence[int], width: int, depth: int) -> dict[str, Tensor]:
        """Arguments that hide what comes after contexts of some lengths in a cache of `width`."""
        device = self.device
        stops = torch.tensor(lengths, device=device)[:, None]
        new = torch.ones((len(lengths), depth), dtype=torch.long, device=device)
        mask = torch.cat([(torch.arange(width, device=device) < stops).long(), new], 1)
        options = {"attention_mask": mask}
        if "position_ids" in self._accepted:
            options["position_ids"] = stops + torch.arange(depth, device=device)
        return options

    @cached_property
    def device(self) -> Any:
        """The torch device on which tokens are read."""
        return input_device(self.model)

    @cached_property
    def _accepted(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.model.forward).parameters)

    def _cache_of(self, out: Any) -> Any:
        return next(out[name] for name in _CACHES if out.get(name) is not None)

    def _last(self, rows: Sequence[Tokens], cache: Any = None, **options: Any) -> Tensor:
        logits: Tensor = self._run(rows, cache, **options).logits[:, -1]
        return logits

    def _run(self, rows: Sequence[Tokens], cache: Any = None, **options: Any) -> Any:
        """Run rows of equal length; by default with a cache, and only the last logits."""
        options = {"use_cache": self.use != "none", "logits_to_keep": 1} | options
        if "logits_to_keep" not in self._accepted:
            del options["logits_to_keep"]
        if cache is not None:
            options[next(name for name in _CACHES if name in self._accepted)] = cache
        with torch.inference_mode():
            return self.model(input_ids=torch.tensor(rows, device=self.device), **options)
