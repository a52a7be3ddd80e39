"""Text generation with transformers: causal LMs and encoder-decoders."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from aleatoric.errors import UsageError
from aleatoric.models import loading
from aleatoric.models.attention import are_same
from aleatoric.models.base import (
    LoadOptions,
    Writing,
    chat_text,
    is_out_of_memory,
    joined,
)
from aleatoric.models.loading import (
    Direction,
    LoadedModel,
    check_no_languages,
    direction,
    end_ids,
    padded,
    positions_of,
    seq2seq_logits,
    token_rows,
)
from aleatoric.models.pieces import check_bos, policy_of, start_tokens
from aleatoric.models.plain import PlainPass
from aleatoric.models.sampling import Batching, Ids, LiveWriter


class CachedBatch:
    """Rows with a model's cache; what belongs to an input is computed once and copied.

    `step(tokens, *tensors)` returns the next logits and the new tensors, which have one row each.
    """

    def __init__(self, step: Callable[..., tuple[Tensor, ...]], cache: Any, *tensors: Any) -> None:
        self._step, self._cache, self._tensors = step, cache, tensors

    def advance(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """Replace the rows by copies of `parents` plus one token each; return the next logits."""
        rows = torch.arange(len(self._tensors[0]), device=parents.device)
        if not torch.equal(parents, rows):
            self._cache.batch_select_indices(parents)
            self._tensors = tuple(tensor[parents] for tensor in self._tensors)
        logits, *tensors = self._step(tokens[:, None], *self._tensors)
        self._tensors = tuple(tensors)
        return logits


class PlainBatch:
    """Rows of a model that cannot be padded, such as a recurrent one.

    Rows of one length run together, and their cache is continued token by token. Whole texts are
    run if the cache cannot be used.
    """

    def __init__(self, plain: PlainPass, prompts: Sequence[Ids]) -> None:
        self._plain, self._texts = plain, list(prompts)
        self._caches: dict[int, tuple[dict[int, int], Any]] = {}
        """Length -> the place of each row in the cache, and the cache."""

    def advance(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """Replace the rows by copies of `parents` plus one token each; return the next logits."""
        rows = parents.tolist()
        pairs = zip(rows, tokens.tolist(), strict=True)
        self._texts = [(*self._texts[parent], token) for parent, token in pairs]
        return self.logits(rows)

    def logits(self, parents: Sequence[int] = ()) -> Tensor:
        """Return the logits after each row; `parents` are their rows before the last token."""
        groups: dict[int, list[int]] = {}
        for row, text in enumerate(self._texts):
            groups.setdefault(len(text), []).append(row)
        before, self._caches = self._caches, {}
        parts = []
        for length, group in groups.items():
            texts, cache = [self._texts[row] for row in group], None
            if length - 1 in before:
                places, cache = before[length - 1]
                chosen = torch.tensor([places[parents[row]] for row in group])
                cache.reorder_cache(chosen.to(self._plain.device))
                texts = [text[-1:] for text in texts]
            logits, cache = self._plain.continued(texts, cache)
            parts.append(logits)
            if cache is not None:
                self._caches[length] = {row: place for place, row in enumerate(group)}, cache
        order = torch.tensor([row for group in groups.values() for row in group])
        return torch.cat(parts)[order.argsort()]


@dataclass(frozen=True, eq=False)
class HFNetwork(LoadedModel):
    """A model of transformers as both kinds of networks need it."""

    def decode(self, ids: Ids) -> str:
        """Return the text of tokens without special ones, with its spaces unchanged."""
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        return str(self.tokenizer.decode(list(ids), **options))

    def bytes_of(self, tokens: int) -> int:
        """Upper bound of the memory of the keys and values of so many tokens."""
        config = self.model.config.get_text_config(decoder=True)
        # Recurrent models without heads keep a state, which takes less than so many tokens.
        n_heads = getattr(config, "num_attention_heads", None) or 1
        heads = getattr(config, "num_key_value_heads", None) or n_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // n_heads
        return int(2 * tokens * config.num_hidden_layers * heads * size * self.model.dtype.itemsize)

    def rendered(self, turns: Sequence[str], ask: Writing, *, is_continued: bool) -> str:
        """Return an input in the template, or in the chat template up to the answer."""
        if ask.chat:
            return chat_text(self.tokenizer, turns, ask, self.label)
        return joined(turns, ask, self.tokenizer.eos_token, is_continued=is_continued)


@dataclass(frozen=True, eq=False)
class CausalNetwork(HFNetwork):
    """A causal LM with its tokenizer. Special tokens end a text, as at the word level."""

    start: Ids = ()
    plain: PlainPass | None = field(default=None, repr=False)
    """Runs rows of a batch that cannot be padded; `None` if they can."""

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The end-of-text token and every other special token."""
        return tuple(sorted({*end_ids(self.model), *self.tokenizer.all_special_ids}))

    @property
    def conventions(self) -> Mapping[str, str]:
        """How a text starts and ends."""
        return {"bos": policy_of(self.tokenizer, self.start), "end": "special"}

    def encode(self, turns: Sequence[str], ask: Writing) -> Ids:
        """Tokenize the input in the template, or in the chat template up to the answer."""
        (row,) = token_rows(self.tokenizer, [self.rendered(turns, ask, is_continued=True)])
        # A chat template includes the BOS token.
        return tuple(row) if ask.chat else (*self.start, *row)

    def room(self, ids: Ids) -> int:
        """Return what the input leaves of the window."""
        return self.window - len(ids)

    def begin(self, prompts: Sequence[Ids]) -> tuple[CachedBatch | PlainBatch, Tensor]:
        """Run prompts in one batch, padded at the start; those of one length if they cannot be."""
        from transformers import DynamicCache

        if self.plain is not None:
            self.plain.check(max(map(len, prompts)) + _AHEAD, self.window)
            rows = PlainBatch(self.plain, prompts)
            return rows, rows.logits()
        cache = DynamicCache()
        ids, mask = padded(prompts, self.device, left=True)

        def step(tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
            mask = torch.cat([mask, torch.ones_like(tokens)], 1)
            return self.forward(tokens, mask, cache), mask

        return CachedBatch(step, cache, mask), self.forward(ids, mask, cache)

    def alone(self, prompt: Ids, written: Ids) -> Tensor:
        """Run one row by itself, without a cache."""
        ids = torch.tensor([(*prompt, *written)], device=self.device)
        return self.forward(ids, torch.ones_like(ids), None)

    def forced(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[Tensor]:
        """Return the logits of the tokens of each target after its prompt, given those before.

        Rows are padded at the end, which no model sees; gradients follow torch's settings.
        """
        ids, mask = padded([(*prompt, *target[:-1]) for prompt, target in pairs], self.device)
        logits = self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        starts = (len(prompt) - 1 for prompt, _ in pairs)
        return [
            row[at : at + len(t)] for row, at, (_, t) in zip(logits, starts, pairs, strict=True)
        ]

    def forward(self, ids: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Return the logits after the last of `ids`; `mask` covers all columns up to there."""
        inputs = {"input_ids": ids, "attention_mask": mask, "use_cache": cache is not None}
        inputs |= {} if cache is None else {"past_key_values": cache}
        if "position_ids" in self._accepted:
            inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp_min(0)[:, -ids.shape[1] :]
        if "logits_to_keep" in self._accepted:
            inputs["logits_to_keep"] = 1
        with torch.inference_mode():
            logits: Tensor = self.model(**inputs).logits[:, -1]
        return logits

    @cached_property
    def _accepted(self) -> frozenset[str]:
        return frozenset(inspect.signature(self.model.forward).parameters)


def causal_network(model: Any, tokenizer: Any, *, label: str, bos: str = "auto") -> CausalNetwork:
    """Wrap a loaded causal LM, with plain passes if rows of a batch cannot be padded."""
    parts = label, model.eval(), tokenizer, positions_of(model.config)
    network = CausalNetwork(*parts, start_tokens(tokenizer, bos, label))
    return network if _can_pad(network) else replace(network, plain=PlainPass(model))


def _can_pad(network: CausalNetwork) -> bool:
    """Whether a short row, padded and copied, gives the same logits as by itself."""
    a, b, c = (token % network.vocabulary_size for token in (1, 2, 3))
    rows = ((b,), (c,)), ((a, b, c), (c,)), ((b,), (a,))
    try:
        expected = torch.cat([network.alone(*row) for row in rows])
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise loading.failing_pass(network.label, error) from error
    try:
        batch, _ = network.begin([(a, b, c), (b,)])
        parents = torch.tensor([1, 0, 1], device=network.device)
        logits = batch.advance(parents, torch.tensor([c, c, a], device=network.device))
    except Exception as error:  # caches of unknown kinds fail in many ways
        if is_out_of_memory(error):
            raise
        return False
    return are_same(expected, logits)


_AHEAD = 128
"""Tokens after the inputs at which the use of a cache is compared with no use."""


@dataclass(frozen=True, eq=False)
class Seq2SeqNetwork(HFNetwork):
    """An encoder-decoder with its tokenizer.

    The padding token is never drawn: it is never a target in training, and some converted
    checkpoints give it a meaningless logit.
    """

    direction: Direction

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The end-of-text token; other special tokens belong to the text and are not shown."""
        end = self.tokenizer.eos_token_id
        return tuple(sorted({*end_ids(self.model), *([] if end is None else [end])}))

    @property
    def conventions(self) -> Mapping[str, str]:
        """How a text ends, and what is never drawn."""
        return {"end": "eos", "pad": "never", **self.direction.conventions}

    def encode(self, turns: Sequence[str], ask: Writing) -> Ids:
        """Tokenize the input, with the special tokens that the tokenizer adds."""
        text = self.direction.prefix + self.rendered(turns, ask, is_continued=False)
        return tuple(self.tokenizer(text)["input_ids"])

    def room(self, ids: Ids) -> int:
        """Return the decoder's window, if the input fits the encoder's."""
        return self.window - len(self.direction.start) if len(ids) <= self.window else 0

    def begin(self, prompts: Sequence[Ids]) -> tuple[CachedBatch, Tensor]:
        """Run the encoder on inputs in one batch, and the decoder's start."""
        from transformers import DynamicCache, EncoderDecoderCache
        from transformers.modeling_outputs import BaseModelOutput

        ids, mask = padded(prompts, self.device, self.tokenizer.pad_token_id or 0)
        with torch.inference_mode():
            states = self.model.get_encoder()(input_ids=ids, attention_mask=mask)[0]
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())

        def step(tokens: Tensor, states: Any, mask: Tensor) -> tuple[Tensor, ...]:
            inputs = {"encoder_outputs": BaseModelOutput(states), "past_key_values": cache}
            return self.forward(tokens, mask, **inputs, use_cache=True), states, mask

        start = torch.tensor([self.direction.start] * len(prompts), device=self.device)
        first, *_ = step(start, states, mask)
        return CachedBatch(step, cache, states, mask), first

    def alone(self, prompt: Ids, written: Ids) -> Tensor:
        """Run one row by itself, without a cache."""
        ids = torch.tensor([prompt], device=self.device)
        target = torch.tensor([(*self.direction.start, *written)], device=self.device)
        mask = torch.ones_like(ids)
        return self.forward(target, mask, input_ids=ids, use_cache=False)

    def forward(self, tokens: Tensor, mask: Tensor, **inputs: Any) -> Tensor:
        """Return the logits after the decoder's last token."""
        with torch.inference_mode():
            out = self.model(decoder_input_ids=tokens, attention_mask=mask, **inputs)
            return self._without_padding(out.logits[:, -1])

    def forced(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[Tensor]:
        """Return the logits of the tokens of each target of a source, given those before.

        Rows are padded at the end, which is masked; gradients follow torch's settings.
        """
        start, sources = self.direction.start, [source for source, _ in pairs]
        rows = [(*start, *target[:-1]) for _, target in pairs]
        padded_logits = seq2seq_logits(self.model, self.tokenizer, sources, rows)
        logits, at = self._without_padding(padded_logits), len(start) - 1
        return [row[at : at + len(t)] for row, (_, t) in zip(logits, pairs, strict=True)]

    def _without_padding(self, logits: Tensor) -> Tensor:
        pad = self.tokenizer.pad_token_id
        if pad is None or pad in self.ends:
            return logits
        return logits.index_fill(-1, torch.tensor([pad], device=logits.device), -float("inf"))


TextNetwork = CausalNetwork | Seq2SeqNetwork
_OFF: dict[str, tuple[Any, ...]] = {
    "top_k": (None, 0, 50),  # versions before 5 fill in 50 by default
    **dict.fromkeys(("top_p", "typical_p", "temperature", "num_beams"), (None, 1)),
    **dict.fromkeys(("repetition_penalty", "length_penalty"), (None, 1)),
    "no_repeat_ngram_size": (None, 0),
    **dict.fromkeys(("forced_bos_token_id", "forced_eos_token_id"), (None,)),
    "suppress_tokens": (None, []),
}
"""Settings of a generation_config -> the values that have no effect."""


def _load(kind: str, argument: str, options: LoadOptions) -> LiveWriter:
    check = partial(_check_pairs, options.bos)
    model, tokenizer, names = loading.load_spec(kind, argument, options, check)
    return text_model(model, tokenizer, **names, options=options)


load_smollm2, load_gguf, load_hf = (partial(_load, kind) for kind in ("smollm2", "gguf", "hf"))


def _check_pairs(bos: str, label: str) -> None:
    check_bos(bos)
    if bos == "add":
        raise UsageError(f"{label} reads whole inputs by its own rules; leave --bos out.")


def text_model(
    model: Any,
    tokenizer: Any,
    *,
    label: str,
    version: str = "in memory",
    batching: Batching | None = None,
    options: LoadOptions | None = None,
) -> LiveWriter:
    """Wrap a model and tokenizer already in memory as a text generator."""
    network: TextNetwork
    options = options or LoadOptions()
    if getattr(model.config, "is_encoder_decoder", False):
        _check_pairs(options.bos, label)
        how = direction(model, tokenizer, options, label)
        window = positions_of(model.config)
        network = Seq2SeqNetwork(label, model.eval(), tokenizer, window, how)
    else:
        check_no_languages(options, label)
        network = causal_network(model, tokenizer, label=label, bos=options.bos)
    remarks = tuple(_remarks(label, model, network))
    return LiveWriter(label, version, network, remarks, batching or Batching())


def _remarks(label: str, model: Any, network: TextNetwork) -> Iterator[str]:
    """Yield notes on plain passes and on settings that are not applied."""
    if getattr(network, "plain", None) is not None:
        kind = model.config.get_text_config().model_type
        yield f"{label}: models of type {kind} cannot be padded; texts are run in plain passes"
    given = network.direction.start if isinstance(network, Seq2SeqNetwork) else ()
    yield from ignored_settings(label, getattr(model, "generation_config", None), given)


def ignored_settings(label: str, config: Any, given: tuple[int, ...] = ()) -> tuple[str, ...]:
    """Note which settings of a generation_config are not applied; `given` starts a target."""
    settings = [(name, getattr(config, name, None), off) for name, off in _OFF.items()]
    ignored = ", ".join(
        f"{name}={value}"
        for name, value, off in settings
        if value not in off and not (name == "forced_bos_token_id" and value in given)
    )
    remark = f"{label}: settings of its generation_config are not applied: {ignored}"
    return (remark,) if ignored else ()
