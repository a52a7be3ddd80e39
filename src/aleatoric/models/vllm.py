"""Language models run by vLLM's offline engine: `vllm:NAME_OR_DIR[@REVISION]`.

At the word level vLLM gives the log-probabilities of the whole vocabulary after a text; words are
found and sampled from them as for every other model. At the text level vLLM samples, with a seed
per input. No default of the model (its generation_config) changes a number.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aleatoric.errors import (
    AleatoricError,
    ModelError,
    ModelUsageError,
    UsageError,
    first_line,
    needs,
)
from aleatoric.models import base
from aleatoric.models.base import LoadOptions, Writing
from aleatoric.models.decoding import Decoder, TextDecoder
from aleatoric.models.generate_hf import CausalNetwork, ignored_settings
from aleatoric.models.gguf import check_folder, located, model_sha256, short_name
from aleatoric.models.loading import (
    dtype_of,
    end_ids,
    hub_options,
    load_config,
    positions_of,
    refusing,
)
from aleatoric.models.openai_spec import SENT
from aleatoric.models.pieces import load_tokenizer, start_tokens, token_pieces
from aleatoric.models.plain import LanguageModel
from aleatoric.models.sampling import Ids, LiveWriter, TextPrompt
from aleatoric.types import TextItem, Texts

_ENVIRONMENT = {
    # In this process, the schedule of requests depends on nothing but the requests.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # Standard output is for results.
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
"""Settings of vLLM that apply unless the user's environment has others."""
_ROWS = 64
"""The most texts whose log-probabilities are requested together."""
_ROW_BYTES = 160
"""Memory per token of the vocabulary and text: vLLM returns lists of Python numbers."""
_COLDEST = 0.01
"""Lower temperatures are raised to this one by vLLM."""
_CPU_CACHE = 2 << 30
"""Bytes of keys and values on a CPU, unless VLLM_CPU_KVCACHE_SPACE says otherwise."""
_CPU_WINDOW = 8192
"""The longest sequence on a CPU."""
_QUANTIZATION = {"4bit": "bitsandbytes", "8bit": "fp8"}


@dataclass(frozen=True, eq=False)
class VLLMEngine:
    """A checkpoint in vLLM's offline engine, with its tokenizer and configurations."""

    name: str
    revision: str | None
    llm: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    config: Any = field(repr=False)
    generation_config: Any = field(repr=False)

    @cached_property
    def settings(self) -> Any:
        """The configuration of the model as vLLM has read it."""
        return self.llm.llm_engine.model_config

    @property
    def window(self) -> int:
        """The longest sequence, prompt and answer together."""
        return int(self.settings.max_model_len)

    @property
    def width(self) -> int:
        """The number of tokens that have a log-probability."""
        return int(self.settings.get_vocab_size())

    @property
    def precision(self) -> str:
        """The type of the model's numbers, and the quantization of its weights."""
        dtype = str(self.settings.dtype).removeprefix("torch.")
        return ",".join(filter(None, [dtype, self.settings.quantization]))

    def forget(self) -> None:
        """Empty the prefix cache, so that nothing that was run before changes the last bits."""
        self.llm.reset_prefix_cache()

    def run(self, prompts: Sequence[Ids], options: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return vLLM's outputs for prompts, each with its sampling options."""
        from vllm import SamplingParams

        requests = [{"prompt_token_ids": list(ids)} for ids in prompts]
        params = [SamplingParams(**each) for each in options]
        try:
            with self._without_compilation():
                outputs: list[Any] = self.llm.generate(requests, params, use_tqdm=False)
        except Exception as error:
            # Requests that were not finished stay in the engine, so nothing can be tried again.
            problem = f"{self.name}: vLLM stopped ({first_line(error).rstrip('.')})"
            fix = "resume the run; if memory ran out, use --dtype bfloat16 or a smaller model"
            raise ModelError(f"{problem}; {fix}.") from error
        return outputs

    def _without_compilation(self) -> AbstractContextManager[Any]:
        # On a CPU, compiling the code that ranks log-probabilities takes longer than it saves.
        if self.llm.llm_engine.vllm_config.device_config.device_type != "cpu":
            return nullcontext()
        eager: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
        return eager


def open_vllm(name: str, revision: str | None, loading: LoadOptions) -> VLLMEngine:
    """Load a checkpoint into vLLM."""
    vllm, platform = _import_vllm()
    placed = _placed(platform, loading)
    if is_local := os.path.isdir(name):
        check_folder(Path(name))
    config = load_config(name, revision, loading.trust_remote_code)
    if getattr(config, "is_encoder_decoder", False):
        raise UsageError(f"{name!r} is an encoder-decoder; load it with hf: at the text level.")
    placed |= _on_cpu(config) if platform == "cpu" else {"max_model_len": -1}
    with refusing(name), _in_one_line(name), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        place = _without_network(name, revision)
        source = {"revision": revision, "trust_remote_code": loading.trust_remote_code}
        tokenizer = load_tokenizer(place, **source)
        llm = vllm.LLM(
            place, **source, **placed, tokenizer_revision=revision, dtype=loading.dtype, seed=0,
            generation_config="vllm", logprobs_mode="raw_logprobs", max_logprobs=-1,
            enable_prefix_caching=True, disable_log_stats=True, use_tqdm_on_load=False,
        )  # fmt: skip
        defaults = _generation_config(place, revision)
    commit = getattr(config, "_commit_hash", None) or revision
    version = model_sha256(Path(name))[:12] if is_local else commit
    return VLLMEngine(name, version, llm, tokenizer, config, defaults)


def _import_vllm() -> tuple[Any, str]:
    """Return the package, and the kind of device that it was built for."""
    for setting, value in _ENVIRONMENT.items():
        os.environ.setdefault(setting, value)
    with needs("vllm", "vllm"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import vllm
        from vllm.platforms import current_platform
    return vllm, str(current_platform.device_type)


def _placed(platform: str, loading: LoadOptions) -> dict[str, Any]:
    """Return arguments for the GPUs and the quantization; raise for options that do not apply."""
    dtype_of(torch, loading.dtype)
    if loading.device not in (None, "auto", platform):
        fix = "leave --device out; CUDA_VISIBLE_DEVICES chooses GPUs"
        raise UsageError(f"--device {loading.device}: vLLM is installed for {platform}; {fix}.")
    if loading.quantize not in (None, *_QUANTIZATION):
        raise UsageError(f"--quantize {loading.quantize} is not known; use 4bit or 8bit.")
    if platform == "cpu" and loading.quantize:
        fix = "leave --quantize out, or load the model with hf:"
        raise UsageError(f"vLLM quantizes weights on GPUs only; {fix}.")
    placed: dict[str, Any] = {}
    if loading.quantize:
        placed["quantization"] = _QUANTIZATION[loading.quantize]
    if loading.device == "auto":
        placed["tensor_parallel_size"] = max(1, torch.cuda.device_count())
    return placed


def _without_network(name: str, revision: str | None) -> str:
    """Return the folder of a model in the hub's cache if the hub cannot be reached, or its name."""
    if not hub_options(name, revision, "vllm"):
        return name
    from huggingface_hub import snapshot_download

    return str(snapshot_download(name, revision=revision, local_files_only=True))


def _on_cpu(config: Any) -> dict[str, Any]:
    """Return arguments for a CPU: whole prompts at once, nothing compiled, small blocks."""
    window = min(positions_of(config), _CPU_WINDOW)
    options = {
        "enforce_eager": True,
        "block_size": 32,
        "max_model_len": window,
        "max_num_batched_tokens": max(window, 4096),
        # vLLM fails at a part of a prompt with a seed: random numbers of a CPU have no offset.
        "enable_chunked_prefill": False,
    }
    has_space = "VLLM_CPU_KVCACHE_SPACE" in os.environ
    return options if has_space else options | {"kv_cache_memory_bytes": _CPU_CACHE}


@contextmanager
def _in_one_line(name: str) -> Iterator[None]:
    """Raise what vLLM says about a checkpoint without the lines around it."""
    try:
        yield
    except AleatoricError:
        raise
    except (ValueError, RuntimeError) as error:
        refusal = re.search(r"Value error, (.*)", str(error))
        reason = (refusal[1] if refusal else first_line(error)).partition(". ")[0].rstrip(".")
        if "memory" in reason.lower():
            fix = "use a smaller model, --dtype bfloat16, or --device auto with several GPUs"
            fix += "; on a CPU, VLLM_CPU_KVCACHE_SPACE is the GiB for keys and values"
            raise ModelUsageError(f"{name}: does not fit into memory ({reason}); {fix}.") from error
        if refusal:
            fix = "load it with hf:, or another version of vLLM"
            raise UsageError(f"vLLM cannot load {name!r}: {reason}; {fix}.") from error
        raise


def _generation_config(name: str, revision: str | None) -> Any:
    from transformers import GenerationConfig

    with suppress(OSError):
        return GenerationConfig.from_pretrained(name, revision=revision or "main")
    return None


@dataclass(frozen=True, eq=False)
class VLLMPasses:
    """Log-probabilities after texts, from one new token per text; contexts are token sequences."""

    engine: VLLMEngine

    def check(self, length: int, window: int) -> None:
        """Do nothing: vLLM has one way to run texts of any length."""

    def contexts(self, tokens: Ids, stops: Sequence[int]) -> Iterator[tuple[Tensor, Ids]]:
        """Yield, per ascending stop, the log-probabilities after `tokens[:stop]`, and those."""
        texts = [tokens[:stop] for stop in stops]
        yield from zip(self._log_probs(texts), texts, strict=True)

    def after(self, pairs: Sequence[tuple[Ids, Ids]], memory: int = 1 << 30) -> Tensor:
        """Return the log-probabilities after each context continued by tokens."""
        return self._log_probs([context + tokens for context, tokens in pairs], memory)

    def alone(self, texts: Sequence[Ids]) -> Tensor:
        """Return the log-probabilities after each text, run by itself and without a cache."""
        return torch.cat([self._alone(text) for text in texts])

    def _alone(self, text: Ids) -> Tensor:
        self.engine.forget()
        return self._log_probs([text])

    def _log_probs(self, texts: Sequence[Ids], memory: int = 1 << 30) -> Tensor:
        options = {"max_tokens": 1, "logprobs": -1, "flat_logprobs": True, "detokenize": False}
        rows = max(1, min(_ROWS, memory // (_ROW_BYTES * self.engine.width)))
        table = np.full((len(texts), self.engine.width), np.nan, dtype=np.float32)
        for part in base.pages(enumerate(texts), rows):
            outputs = self.engine.run([text for _, text in part], [options] * len(part))
            for (row, _), output in zip(part, outputs, strict=True):
                flat = output.outputs[0].logprobs
                table[row, flat.token_ids] = flat.logprobs
        if np.isnan(table).any():
            problem = "vLLM gave some tokens no log-probability"
            raise ModelError(f"{self.engine.name}: {problem}; use --dtype float32.")
        return torch.from_numpy(table)


def load(argument: str, loading: LoadOptions) -> LanguageModel:
    """Load a causal LM by directory or hub name."""
    name, revision, _ = located("vllm", argument)
    return word_model(open_vllm(name, revision, loading), loading.bos)


def word_model(engine: VLLMEngine, bos: str = "auto") -> LanguageModel:
    """Return a loaded engine as a model of next words."""
    name = short_name(engine.name)
    start = start_tokens(engine.tokenizer, bos, name)
    pieces = token_pieces(engine.tokenizer, engine.width, end_ids(engine))
    # One position is for the new token, without which vLLM runs nothing.
    parts = (name, engine.revision, engine.tokenizer, pieces, engine.window - 1, start)
    return LanguageModel(*parts, plain=VLLMPasses(engine), precision=engine.precision)


@dataclass(frozen=True, eq=False)
class VLLMWriter(LiveWriter):
    """A model in vLLM as a text generator.

    The other texts of a batch change the last bits of a text's logits, and thereby sometimes the
    text. So the texts of an input are one batch, unless vLLM runs with VLLM_BATCH_INVARIANT=1.
    """

    @property
    def at_once(self) -> int:
        """The number of inputs in a batch."""
        from vllm import envs

        return 256 if envs.VLLM_BATCH_INVARIANT else 1

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        """Yield the texts of each input."""
        base.check_writing(ask)
        self.tally.start()
        decoder = Decoder.parse(ask.decoder)
        fixed = {
            **sampling_options(decoder),
            "n": ask.samples,
            "stop": list(ask.stop),
            "stop_token_ids": list(self.network.ends),
        }
        for some in base.pages(items, self.at_once):
            prompts = [self._prompt(item, ask, TextDecoder.parse(ask.decoder)) for item in some]
            # vLLM adds the number of a text to the seed.
            own = ({"seed": p.key % (1 << 62), "max_tokens": p.room} for p in prompts)
            self.network.model.forget()
            outputs = self.network.model.run([p.ids for p in prompts], [fixed | o for o in own])
            for prompt, output in zip(prompts, outputs, strict=True):
                yield self._read(prompt, output.outputs, ask)

    def _read(self, prompt: TextPrompt, outputs: Sequence[Any], ask: Writing) -> Texts:
        ends = frozenset(self.network.ends)
        rows = ([token for token in output.token_ids if token not in ends] for output in outputs)
        texts = tuple(base.finished(self.network.decode(tuple(row)), ask.stop) for row in rows)
        n_cut = sum(output.finish_reason == "length" for output in outputs)
        self.tally.count(texts, n_cut, prompt.room < ask.max_new_tokens)
        return Texts(prompt.item_id, texts)


def sampling_options(decoder: Decoder) -> dict[str, float]:
    """Return a decoder as vLLM's sampling options; raises for those that it does not have.

    >>> sampling_options(Decoder.parse("top_p=0.9,temperature=0.5"))
    {'temperature': 0.5, 'top_p': 0.9}
    """
    steps, fix = dict(decoder.changes()), "leave it out, or load the model with hf:"
    for name in steps:
        if name not in SENT["vllm"]:
            raise UsageError(f"vLLM does not sample texts with {name}; {fix}.")
    if {"min_p", "top_p"} <= steps.keys():
        problem = "vLLM applies min_p before top_p, and this decoder top_p before min_p"
        raise UsageError(f"{problem}; use one of them, or load the model with hf:.")
    if steps.get("temperature", 1.0) < _COLDEST:
        raise UsageError(f"vLLM samples with a temperature from {_COLDEST} up; use greedy.")
    return {"temperature": 0.0} if decoder.greedy else steps


def load_texts(argument: str, loading: LoadOptions) -> VLLMWriter:
    """Load a text generator by directory or hub name."""
    name, revision, label = located("vllm", argument)
    return text_writer(open_vllm(name, revision, loading), label, loading.bos)


def text_writer(engine: VLLMEngine, label: str, bos: str = "auto") -> VLLMWriter:
    """Return a loaded engine as a text generator."""
    start = start_tokens(engine.tokenizer, bos, label)
    network = CausalNetwork(label, engine, engine.tokenizer, engine.window, start)
    version = f"{engine.revision or 'local'},{engine.precision}"
    return VLLMWriter(label, version, network, ignored_settings(label, engine.generation_config))
