"""Text generation with transformers: causal LMs and encoder-decoders."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from aleatoric.errors import UsageError
from aleatoric.models.attention import are_same
from aleatoric.models.base import LoadOptions, Writing, chat_text, joined
from aleatoric.models.gguf import located
from aleatoric.models.loading import (
    decoder_start,
    end_ids,
    load_config,
    load_parts,
    padded,
    token_rows,
    window_of,
)
from aleatoric.models.pieces import check_bos, policy_of, start_tokens
from aleatoric.models.sampling import Batching, Ids, LiveWriter

if TYPE_CHECKING:
    from torch import Tensor


class CachedBatch:
    """Rows with a model's cache; what belongs to an input is computed once and copied.

    `step(tokens, *tensors)` returns the next logits and the new tensors, which have one row each.
    """

    def __init__(self, step: Callable[..., tuple[Tensor, ...]], cache: Any, *tensors: Any) -> None:
        self._step, self._cache, self._tensors = step, cache, tensors

    def advance(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """Replace the rows by copies of `parents` plus one token each; return the next logits."""
        import torch

        rows = torch.arange(len(self._tensors[0]), device=parents.device)
        if not torch.equal(parents, rows):
            self._cache.batch_select_indices(parents)
            self._tensors = tuple(tensor[parents] for tensor in self._tensors)
        logits, *tensors = self._step(tokens[:, None], *self._tensors)
        self._tensors = tuple(tensors)
        return logits


@dataclass(frozen=True, eq=False)
class HFNetwork:
    """A model of transformers with its tokenizer: what both kinds share."""

    label: str
    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)

    @property
    def device(self) -> Any:
        """The torch device."""
        return self.model.device

    @cached_property
    def width(self) -> int:
        """The width of its logits."""
        return int(self.model.get_output_embeddings().weight.shape[0])

    @cached_property
    def window(self) -> int:
        """The longest sequence it accepts; for an encoder-decoder, on either side."""
        return window_of(self.model.config)

    def decode(self, ids: Ids) -> str:
        """Return the text of tokens without special ones, with its spaces unchanged."""
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        text: str = self.tokenizer.decode(list(ids), **options)
        return text

    def bytes_of(self, tokens: int) -> int:
        """Upper bound of the memory of the keys and values of so many tokens."""
        config = self.model.config.get_text_config(decoder=True)
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        shared = getattr(config, "num_key_value_heads", None) or heads
        size = 2 * config.num_hidden_layers * shared * width * self.model.dtype.itemsize
        return int(tokens * size)


@dataclass(frozen=True, eq=False)
class CausalNetwork(HFNetwork):
    """A causal LM with its tokenizer. Special tokens end a text, as at the word level."""

    start: Ids = ()

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
        if ask.chat:
            # A chat template includes the BOS token.
            (row,) = token_rows(self.tokenizer, [chat_text(self.tokenizer, turns, ask, self.label)])
            return tuple(row)
        text = joined(turns, ask, self.tokenizer.eos_token, is_continued=True)
        (row,) = token_rows(self.tokenizer, [text])
        return (*self.start, *row)

    def room(self, ids: Ids) -> int:
        """Return what the input leaves of the window."""
        return self.window - len(ids)

    def begin(self, prompts: Sequence[Ids]) -> tuple[CachedBatch, Tensor]:
        """Run prompts in one batch, padded at the start."""
        import torch
        from transformers import DynamicCache

        cache = DynamicCache()
        ids, mask = padded(prompts, self.device, left=True)

        def step(tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
            mask = torch.cat([mask, torch.ones_like(tokens)], 1)
            return self.forward(tokens, mask, cache), mask

        return CachedBatch(step, cache, mask), self.forward(ids, mask, cache)

    def alone(self, prompt: Ids, written: Ids) -> Tensor:
        """Run one row by itself, without a cache."""
        import torch

        ids = torch.tensor([(*prompt, *written)], device=self.device)
        return self.forward(ids, torch.ones_like(ids), None)

    def forward(self, ids: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Return the logits after the last of `ids`; `mask` covers all columns up to there."""
        import torch

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
    """Wrap a loaded causal LM; raises if rows of a batch cannot share its cache.

    A short row, padded and copied, must give the same logits as by itself.
    """
    import torch

    network = CausalNetwork(label, model.eval(), tokenizer, start_tokens(tokenizer, bos, label))
    a, b, c = (token % network.width for token in (1, 2, 3))
    try:
        batch, _ = network.begin([(a, b, c), (b,)])
        parents = torch.tensor([1, 0, 1], device=network.device)
        logits = batch.advance(parents, torch.tensor([c, c, a], device=network.device))
        rows = ((b,), (c,)), ((a, b, c), (c,)), ((b,), (a,))
        expected = [network.alone(*row) for row in rows]
    except (AttributeError, TypeError, RuntimeError, ValueError, IndexError) as error:
        raise UsageError(f"{network.label}: {_NO_SHARING} ({type(error).__name__}).") from error
    if not are_same(torch.cat(expected), logits):
        raise UsageError(f"{network.label}: {_NO_SHARING}.")
    return network


_NO_SHARING = (
    "it does not keep keys and values that rows of a batch can share; use a decoder-only "
    "transformer with the eager or sdpa attention"
)


@dataclass(frozen=True, eq=False)
class Seq2SeqNetwork(HFNetwork):
    """An encoder-decoder with its tokenizer.

    The padding token is never drawn: it is never a target in training, and some converted
    checkpoints give it a meaningless logit.
    """

    start: int

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The end-of-text token; other special tokens belong to the text and are not shown."""
        end = self.tokenizer.eos_token_id
        return tuple(sorted({*end_ids(self.model), *([] if end is None else [end])}))

    @property
    def conventions(self) -> Mapping[str, str]:
        """How a text ends, and what is never drawn."""
        return {"end": "eos", "pad": "never"}

    def encode(self, turns: Sequence[str], ask: Writing) -> Ids:
        """Tokenize the input, with the special tokens that the tokenizer adds."""
        if ask.chat:
            text = chat_text(self.tokenizer, turns, ask, self.label)
        else:
            text = joined(turns, ask, self.tokenizer.eos_token, is_continued=False)
        return tuple(self.tokenizer(text)["input_ids"])

    def room(self, ids: Ids) -> int:
        """Return the decoder's window, if the input fits the encoder's."""
        return self.window - 1 if len(ids) <= self.window else 0

    def begin(self, prompts: Sequence[Ids]) -> tuple[CachedBatch, Tensor]:
        """Run the encoder on inputs in one batch, and the decoder's first token."""
        import torch
        from transformers import DynamicCache, EncoderDecoderCache

        ids, mask = padded(prompts, self.device, self.tokenizer.pad_token_id or 0)
        with torch.inference_mode():
            states = self.model.get_encoder()(input_ids=ids, attention_mask=mask)[0]
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())

        def step(tokens: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
            return self.forward(tokens, states, mask, cache), states, mask

        first, *_ = step(torch.full_like(ids[:, :1], self.start), states, mask)
        return CachedBatch(step, cache, states, mask), first

    def alone(self, prompt: Ids, written: Ids) -> Tensor:
        """Run one row by itself, without a cache."""
        import torch

        ids = torch.tensor([prompt], device=self.device)
        target = torch.tensor([(self.start, *written)], device=self.device)
        mask = torch.ones_like(ids)
        with torch.inference_mode():
            out = self.model(
                input_ids=ids, attention_mask=mask, decoder_input_ids=target, use_cache=False
            )
            return self._possible(out.logits[:, -1])

    def forward(self, tokens: Tensor, states: Any, mask: Tensor, cache: Any) -> Tensor:
        """Return the logits after one more token of the decoder."""
        import torch
        from transformers.modeling_outputs import BaseModelOutput

        with torch.inference_mode():
            out = self.model(
                encoder_outputs=BaseModelOutput(states),
                attention_mask=mask,
                decoder_input_ids=tokens,
                past_key_values=cache,
                use_cache=True,
            )
            return self._possible(out.logits[:, -1])

    def _possible(self, logits: Tensor) -> Tensor:
        pad = self.tokenizer.pad_token_id
        if pad is not None and pad not in self.ends:
            logits[:, pad] = -float("inf")
        return logits


TextNetwork = CausalNetwork | Seq2SeqNetwork
_OFF: dict[str, tuple[Any, ...]] = {
    "top_k": (None, 0, 50),  # versions before 5 fill in 50 by default
    "top_p": (None, 1.0),
    "typical_p": (None, 1.0),
    "temperature": (None, 1.0),
    "num_beams": (None, 1),
    "repetition_penalty": (None, 1.0),
    "length_penalty": (None, 1.0),
    "no_repeat_ngram_size": (None, 0),
    "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,),
    "suppress_tokens": (None, []),
}
"""Settings of a generation_config -> the values that have no effect."""


def _load(kind: str, argument: str, loading: LoadOptions) -> LiveWriter:
    """Load SmolLM2, a GGUF file, or a directory or `NAME[@REVISION]`, as a text generator."""
    name, revision, label = located(kind, argument)
    config = load_config(name, revision, loading.trust_remote_code)
    pairs = bool(getattr(config, "is_encoder_decoder", False))
    model_class = "AutoModelForSeq2SeqLM" if pairs else "AutoModelForCausalLM"
    where = (loading.dtype, loading.device, loading.trust_remote_code)
    model, tokenizer, commit = load_parts(name, model_class, revision, *where)
    version = f"{commit or 'local'},{loading.dtype}"
    return text_model(model, tokenizer, label=label, version=version, bos=loading.bos)


load_smollm2, load_gguf, load_hf = (partial(_load, kind) for kind in ("smollm2", "gguf", "hf"))


def text_model(
    model: Any,
    tokenizer: Any,
    *,
    label: str,
    version: str = "in memory",
    bos: str = "auto",
    batching: Batching | None = None,
) -> LiveWriter:
    """Wrap a model and tokenizer already in memory as a text generator."""
    network: TextNetwork
    if getattr(model.config, "is_encoder_decoder", False):
        check_bos(bos)
        if bos == "add":
            raise UsageError(f"{label} reads whole inputs by its own rules; leave --bos out.")
        network = Seq2SeqNetwork(label, model.eval(), tokenizer, decoder_start(model, label))
    else:
        network = causal_network(model, tokenizer, label=label, bos=bos)
    config = getattr(model, "generation_config", None)
    ignored = ", ".join(
        f"{name}={getattr(config, name)}"
        for name, off in _OFF.items()
        if getattr(config, name, None) not in off
    )
    remark = f"{label}: settings of its generation_config are not applied: {ignored}"
    return LiveWriter(label, version, network, (remark,) if ignored else (), batching or Batching())
