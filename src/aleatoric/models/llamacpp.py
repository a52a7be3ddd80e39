"""GGUF files run by llama.cpp in this process, with their quantized weights as they are.

llama.cpp rounds activations to 8 bits before each product with quantized weights. A difference in
the last bit of a sum may therefore change logits by 0.1 and more, and how llama.cpp sums depends
on the tokens that a sequence runs at once. Here every sequence runs one token per step, several
sequences side by side: the logits after a text then depend on its tokens alone, bit by bit.
"""

from __future__ import annotations

import ctypes
import logging
import os
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from aleatoric.errors import DataError, ModelError, ModelUsageError, UsageError, needs
from aleatoric.models import gguf
from aleatoric.models.base import LoadOptions
from aleatoric.models.gguf import file_sha256, import_heavy
from aleatoric.models.pieces import load_tokenizer, start_tokens, token_pieces
from aleatoric.models.plain import LanguageModel, Tokens

_SLOTS = (16, 4, 1)
"""Numbers of sequences that may run side by side, the fastest first."""
_MEMORY = 1 << 30
"""Upper bound, in bytes, of the keys and values of all sequences, unless one needs more."""
_SPACE = "\u2581"
"""How SentencePiece writes a space; llama.cpp keeps it, or not."""
_OPENED = ("batch", "context", "model")
"""What is freed in the end, in this order."""
_FLOAT32 = 0
"""The number of float32 among the types of ggml."""


def load_gguf(argument: str, loading: LoadOptions) -> LanguageModel:
    """Load `gguf:FILE`."""
    path = Path(argument)
    _check_options(loading)
    with needs("llama-cpp-python", "llamacpp"):
        import llama_cpp  # noqa: F401
    import_heavy("gguf", "transformers")
    tokenizer = load_tokenizer(str(gguf.tokenizer_directory(path)))
    passes = LlamaPass(path)
    _check_vocabulary(path, passes, tokenizer)
    pieces = token_pieces(tokenizer, passes.width)
    start = start_tokens(tokenizer, loading.bos, path.name)
    revision = file_sha256(path)[:12]
    parts = path.name, revision, tokenizer, pieces, passes.positions, start
    return LanguageModel(*parts, plain=passes, precision=f"{passes.weights},llama.cpp")


def _check_vocabulary(path: Path, passes: LlamaPass, tokenizer: Any) -> None:
    tokens = tokenizer.convert_ids_to_tokens(list(range(passes.width)))
    if passes.vocabulary() != [f"{token}".replace(_SPACE, " ") for token in tokens]:
        problem = "llama.cpp and transformers read different vocabularies from it"
        raise DataError.at(path, None, problem, "use --runtime transformers")


def load_smollm2(argument: str, loading: LoadOptions) -> LanguageModel:
    """Load SmolLM2-135M-Instruct, fetched on first use."""
    _check_options(loading)  # before it is fetched
    return load_gguf(str(gguf.smollm2_file()), loading)


def _check_options(loading: LoadOptions) -> None:
    if loading.device not in (None, "cpu"):
        problem = f"--runtime llama.cpp runs on the CPU, and --device is {loading.device}"
        raise UsageError(f"{problem}; leave --device out.")
    if loading.dtype != "float32" or loading.quantize is not None:
        problem = "--runtime llama.cpp runs the weights of a GGUF file as they are"
        raise UsageError(f"{problem}; leave --dtype and --quantize out.")


class LlamaState(NamedTuple):
    """A context that has been run, with keys and values that cover it and may go beyond it."""

    tokens: Tokens
    saved: ctypes.Array[Any]


class _Step(NamedTuple):
    """A token to run in a slot; the logits after it are wanted for the text `place`, or -1."""

    slot: int
    token: int
    position: int
    place: int


class LlamaPass:
    """Next-token logits of a GGUF file, which depend on the tokens of a text alone.

    A slot is a sequence of llama.cpp with its own keys and values; `_held` are the tokens in it.
    """

    def __init__(self, path: Path) -> None:
        import llama_cpp

        logging.getLogger("llama-cpp-python").setLevel(logging.CRITICAL + 1)
        self._llama: Any = llama_cpp
        options = llama_cpp.llama_model_default_params()
        # Weights that are packed anew make the sums of a text depend on the texts beside it.
        options.n_gpu_layers, options.use_extra_bufts = 0, False
        model = llama_cpp.llama_model_load_from_file(os.fsencode(path), options)
        if not model:
            fix = "download it again, or use --runtime transformers"
            raise DataError.at(path, None, "is no model that llama.cpp can load", fix)
        self._opened: dict[str, Any] = {"model": model}
        weakref.finalize(self, _close, llama_cpp, self._opened)
        if llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model):
            problem = "is a recurrent model, whose state cannot be shortened"
            raise DataError.at(path, None, problem, "use --runtime transformers")
        self._words = llama_cpp.llama_model_get_vocab(model)
        self.width = int(llama_cpp.llama_vocab_n_tokens(self._words))
        self.positions = int(llama_cpp.llama_model_n_ctx_train(model))
        self.weights = self._weights()
        self._length = 0
        self._held: list[Tokens] = [()]

    def _weights(self) -> str:
        """Return the type of most weights, such as Q4_K_M."""
        from gguf import LlamaFileType

        text, key = ctypes.create_string_buffer(32), b"general.file_type"
        model = self._opened["model"]
        if self._llama.llama_model_meta_val_str(model, key, text, len(text)) < 0:
            return "gguf"
        return LlamaFileType(int(text.value)).name.removeprefix("MOSTLY_")

    def vocabulary(self) -> list[str]:
        """Return all tokens as the file writes them, with plain spaces."""
        text = self._llama.llama_vocab_get_text
        tokens = (text(self._words, token).decode() for token in range(self.width))
        return [token.replace(_SPACE, " ") for token in tokens]

    def check(self, length: int, window: int) -> None:
        """Make room for texts of so many tokens."""
        length = min(length, window)
        if length <= self._length:
            return
        layers = self._llama.llama_model_n_layer(self._opened["model"])
        width = self._llama.llama_model_n_embd(self._opened["model"])
        size = 8 * layers * width * length  # with fewer heads for keys than for queries: less
        for slots in (n for n in _SLOTS if n <= max(1, _MEMORY // size)):
            self._open(length, slots)
            if self._is_same_together():
                break

    def _open(self, length: int, slots: int) -> None:
        """Open a context of llama.cpp for texts of so many tokens."""
        llama, model = self._llama, self._opened["model"]
        _close(llama, self._opened, ("batch", "context"))
        options = llama.llama_context_default_params()
        self._length = -(-length // 256) * 256
        options.n_ctx, options.n_seq_max, options.kv_unified = self._length * slots, slots, False
        options.n_batch = options.n_ubatch = slots
        options.n_threads = options.n_threads_batch = torch.get_num_threads()
        options.type_k = options.type_v = _FLOAT32
        options.flash_attn_type, options.swa_full, options.no_perf = 0, True, True
        context = llama.llama_init_from_model(model, options)
        if not context:
            problem = f"llama.cpp has no memory for texts of {self._length} tokens"
            raise ModelUsageError(f"{problem}; shorten the contexts or use a smaller model.")
        self._opened |= {"context": context, "batch": llama.llama_batch_init(slots, 0, 1)}
        self._held = [()] * slots

    def _is_same_together(self) -> bool:
        """Whether tokens have the same logits alone and side by side, bit by bit.

        From some number of columns on, llama.cpp may multiply matrices in another way.
        """
        slots = len(self._held)
        # Tokens of all parts of the vocabulary: the first ones may be special or never trained.
        spread = np.linspace(0, self.width - 1, 2 * slots + 2).astype(int)[1:-1].tolist()
        texts = list(zip(spread[:slots], spread[slots:], strict=True))
        expected = torch.cat([self.alone([text]) for text in texts])
        counts = [count for count in (2, 3, slots // 2, slots - 1, slots) if 1 < count <= slots]
        return all(self._is_same(texts[:count], expected[:count]) for count in counts)

    def _is_same(self, texts: Sequence[Tokens], expected: Tensor) -> bool:
        self._held = [()] * len(self._held)
        return torch.equal(self.alone(texts), expected)

    def contexts(self, tokens: Tokens, stops: Sequence[int]) -> Iterator[tuple[Tensor, LlamaState]]:
        """Yield, per ascending stop, the logits after `tokens[:stop]` and the state there."""
        texts = [tokens[:stop] for stop in stops]
        self.check(len(tokens), self.positions)
        logits = self._run([list(enumerate(texts))], [None] * len(texts))
        llama, context = self._llama, self._opened["context"]
        saved = (ctypes.c_uint8 * llama.llama_state_seq_get_size(context, 0))()
        llama.llama_state_seq_get_data(context, saved, len(saved), 0)
        yield from zip(logits, (LlamaState(text, saved) for text in texts), strict=True)

    def after(self, pairs: Sequence[tuple[LlamaState, Tokens]], memory: int = 1 << 30) -> Tensor:
        """Return the logits after each state continued by tokens, one row per pair."""
        texts = [state.tokens + tokens for state, tokens in pairs]
        return self._side_by_side(texts, [state for state, _ in pairs])

    def alone(self, texts: Sequence[Tokens]) -> Tensor:
        """Return the logits after each text."""
        return self._side_by_side(texts, [None] * len(texts))

    def _side_by_side(self, texts: Sequence[Tokens], states: Sequence[LlamaState | None]) -> Tensor:
        """Spread texts over the slots; those that begin alike run in one slot if they can."""
        self.check(max(map(len, texts)), self.positions)
        order = sorted(enumerate(texts), key=lambda pair: pair[1])
        share = -(-len(order) // len(self._held))
        queues = [order[low : low + share] for low in range(0, len(order), share)]
        return self._run(queues, states)

    def _run(
        self,
        queues: Sequence[Sequence[tuple[int, Tokens]]],
        states: Sequence[LlamaState | None],
    ) -> Tensor:
        """Return the logits after the texts of all queues, one queue per slot."""
        logits = torch.empty((sum(map(len, queues)), self.width))
        walks = [self._steps(slot, queue, states) for slot, queue in enumerate(queues)]
        while steps := [step for walk in walks if (step := next(walk, None)) is not None]:
            self._decode(steps, logits)
        return logits

    def _steps(
        self, slot: int, queue: Sequence[tuple[int, Tokens]], states: Sequence[LlamaState | None]
    ) -> Iterator[_Step]:
        """Yield the tokens of texts that the slot does not hold already."""
        for place, text in queue:
            kept, state = _n_shared(self._held[slot], text), states[place]
            if state is not None and kept < len(state.tokens):
                kept = self._restore(slot, state)
            kept = min(kept, len(text) - 1)
            memory = self._llama.llama_get_memory(self._opened["context"])
            self._llama.llama_memory_seq_rm(memory, slot, kept, -1)
            self._held[slot] = text[:kept]  # if the run is interrupted, nothing more is held
            for position in range(kept, len(text)):
                is_last = position == len(text) - 1
                yield _Step(slot, text[position], position, place if is_last else -1)
            self._held[slot] = text

    def _restore(self, slot: int, state: LlamaState) -> int:
        """Copy the keys and values of a context into a slot; return how many tokens it holds.

        It holds none if the state is from a time with another number of slots.
        """
        context, saved = self._opened["context"], state.saved
        self._held[slot] = ()
        n_read = self._llama.llama_state_seq_set_data(context, saved, len(saved), slot)
        return len(state.tokens) if n_read else 0

    def _decode(self, steps: Sequence[_Step], logits: Tensor) -> None:
        """Run one token per slot; write the logits that are wanted."""
        context, batch = self._opened["context"], self._opened["batch"]
        batch.n_tokens = len(steps)
        for row, step in enumerate(steps):
            batch.token[row], batch.pos[row] = step.token, step.position
            batch.n_seq_id[row], batch.seq_id[row][0] = 1, step.slot
            batch.logits[row] = step.place >= 0
        if status := self._llama.llama_decode(context, batch):
            raise ModelError(f"llama.cpp failed to run a token (status {status}).")
        for row, step in enumerate(steps):
            if step.place >= 0:
                found = self._llama.llama_get_logits_ith(context, row)
                logits[step.place] = torch.from_numpy(np.ctypeslib.as_array(found, (self.width,)))


def _n_shared(a: Tokens, b: Tokens) -> int:
    """Return how many tokens two texts have in common at their beginnings.

    >>> _n_shared((1, 2, 3), (1, 2, 4, 5))
    2
    """
    return next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def _close(llama: Any, opened: dict[str, Any], names: Sequence[str] = _OPENED) -> None:
    """Free what llama.cpp has opened."""
    frees = (llama.llama_batch_free, llama.llama_free, llama.llama_model_free)
    for name, free in zip(_OPENED, frees, strict=True):
        if name in names and name in opened:
            free(opened.pop(name))
