"""Texts sampled with vLLM for `benchmarks.peers`, run in its own environment.

    python -m benchmarks.peer_vllm REQUEST ANSWER

All contexts are sent in one call, with prefix caching in the smallest blocks that the CPU kernels
support. A text stops as early as vLLM can determine: at a space or punctuation mark after its first
token, or at its fifth token. A text with only punctuation so far is continued in a second call.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

from benchmarks.exchange import Clock, Request, reply, request_given

MARKS = ' \n,.;:!?")('
TOKENS = 5
_ENDED = re.compile(rf"[^\W_][{re.escape(MARKS)}]")

Tokens = tuple[int, ...]


def main() -> None:
    request = request_given()
    engine = load(request)
    sample(engine, request.contexts[:1], samples=8)
    clock = Clock()
    results = sample(engine, request.contexts, samples=request.samples)
    reply([clock.answer("vLLM", results)])


def load(request: Request) -> Any:
    # One process: with two cores, a second one for the engine only waits for the first.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "4"
    from vllm import LLM

    return LLM(
        request.model,
        dtype="float32",
        max_model_len=512,
        enable_prefix_caching=True,
        block_size=32,
        max_num_seqs=256,
        max_num_batched_tokens=4096,
        generation_config="vllm",
        seed=0,
    )


def sample(engine: Any, contexts: list[str], samples: int) -> list[dict[str, float]]:
    """How often each text was drawn after each context."""
    from vllm import SamplingParams

    # The first token is not checked for a stop: it begins with the space before the word.
    how = SamplingParams(
        n=samples,
        max_tokens=TOKENS,
        min_tokens=1,
        stop=list(MARKS),
        include_stop_str_in_output=True,
    )
    found = engine.generate(contexts, how, use_tqdm=False)
    texts: list[Counter[str]] = []
    begun: list[tuple[int, Tokens, Tokens, int]] = []
    for place, result in enumerate(found):
        done = [one for one in result.outputs if _is_done(one)]
        texts.append(Counter(one.text for one in done))
        rest = Counter(tuple(one.token_ids) for one in result.outputs if not _is_done(one))
        prompt = tuple(result.prompt_token_ids)
        begun += [(place, prompt, tokens, count) for tokens, count in rest.items()]
    _go_on(engine, begun, texts)
    return [dict(counts) for counts in texts]


def _is_done(one: Any) -> bool:
    """Whether the word has ended, or the text has by itself."""
    by_itself = one.finish_reason == "stop" and one.stop_reason is None
    return by_itself or bool(_ENDED.search(one.text))


def _go_on(
    engine: Any, begun: list[tuple[int, Tokens, Tokens, int]], texts: list[Counter[str]]
) -> None:
    """Draw as many tokens again for the texts whose word has not ended."""
    from vllm import SamplingParams

    prompts = [{"prompt_token_ids": [*prompt, *tokens]} for _, prompt, tokens, _ in begun]
    how = [SamplingParams(n=count, max_tokens=TOKENS) for *_, count in begun]
    if not prompts:
        return
    decode = engine.get_tokenizer().decode
    for (place, _, tokens, _), result in zip(
        begun, engine.generate(prompts, how, use_tqdm=False), strict=True
    ):
        texts[place].update(decode([*tokens, *one.token_ids]) for one in result.outputs)


if __name__ == "__main__":
    main()
