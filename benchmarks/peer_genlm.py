"""Word probabilities with genlm-bytes for `benchmarks.peers`, run in its own environment.

    python -m benchmarks.peer_genlm REQUEST ANSWER

The beam starts at the context's own tokens with cached keys and values, so no byte of the context
is processed and no beginning-of-text token is added. Words with a common prefix share their beams,
and the words of a context are processed together, so that the model runs in batches. A word ends at
any byte that no word contains. Contexts are processed one after another: the backend groups queries
only by their new tokens, and would mix up two contexts with the same new tokens.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from benchmarks.exchange import Answer, Clock, Request, reply, request_given

BEAMS = ((5, 0.05), (20, 0.001))
"""Width and pruning threshold: its manual's, and a finer one."""


def main() -> None:
    request = request_given()
    llm, trie = load(request)
    reply(asyncio.run(answer(llm, trie, request)))


def load(request: Request) -> tuple[Any, Any]:
    import torch
    from genlm.backend import load_model_by_name
    from genlm.bytes.trie import AsyncTokenByteTrie

    torch.set_num_threads(request.threads)
    options = {"batch_size": 64, "timeout": 0.001, "hf_opts": {"torch_dtype": torch.float32}}
    llm = load_model_by_name(request.model, backend="hf", llm_opts=options)
    ends = {llm.byte_vocab[i].byte_string for i in llm.tokenizer.all_special_ids}
    return llm, AsyncTokenByteTrie.from_vocab(llm.byte_vocab, eos_byte_strings=ends)


async def answer(llm: Any, trie: Any, request: Request) -> list[Answer]:
    found = []
    for width, threshold in BEAMS:
        beam = {"K": width, "prune_threshold": threshold}
        await score(llm, trie, request.contexts[0], request.words[0], beam)
        llm.clear_cache()
        clock = Clock()
        results = []
        for context, words in zip(request.contexts, request.words, strict=True):
            results.append(await score(llm, trie, context, words, beam))
            llm.clear_cache()
        found.append(clock.answer(f"genlm-bytes, K={width}, {threshold}", results))
    await trie.cleanup()
    return found


async def score(
    llm: Any, trie: Any, context: str, words: list[str], beam: dict[str, float]
) -> dict[str, float]:
    walk = Walk(await _start(llm, trie, context, beam))
    values = await asyncio.gather(*(walk.probability(f" {word}".encode()) for word in words))
    return dict(zip(words, values, strict=True))


async def _start(llm: Any, trie: Any, context: str, beam: dict[str, float]) -> Any:
    from genlm.bytes import BeamParams, ByteBeamState
    from genlm.bytes.byte_lm.lm_state import StatefulTokenizedLM
    from genlm.bytes.byte_lm.trie_state import LazyTrieState

    ids = llm.tokenizer(context, add_special_tokens=False)["input_ids"]
    llm.cache_kv(ids)
    state = LazyTrieState(StatefulTokenizedLM(llm, ids), trie, trie.trie.root, 0.0)
    return ByteBeamState([await state.materialize()], BeamParams(heal=False, **beam))


class Walk:
    """The beams after each beginning of the words of a context, each made once."""

    def __init__(self, start: Any) -> None:
        self._made: dict[bytes, asyncio.Future[Any]] = {b"": asyncio.ensure_future(_ready(start))}

    async def after(self, text: bytes) -> Any:
        """The beam after `text`, or `None` where pruning left nothing of it."""
        if text not in self._made:
            self._made[text] = asyncio.ensure_future(self._extend(text))
        return await self._made[text]

    async def _extend(self, text: bytes) -> Any:
        before = await self.after(text[:-1])
        beam = None if before is None else await (before.prune() << text[-1])
        return beam if beam is not None and len(beam) else None

    async def probability(self, text: bytes) -> float:
        """Of `text` and a word's end after it."""
        beam = await self.after(text)
        if beam is None:
            return 0.0
        following = np.exp((await beam.logp_next()).ps)
        return float(np.exp(beam.logZ) * following[_ends()].sum())


async def _ready(value: Any) -> Any:
    return value


def _ends() -> list[int]:
    """The bytes that end a word, and the end of the text (257); no letter, digit, ' or -."""
    return [b for b in range(128) if not (chr(b).isalnum() or chr(b) in "'-")] + [257]


if __name__ == "__main__":
    main()
