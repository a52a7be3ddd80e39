"""vLLM's part of `benchmarks.peers`: texts sampled after each context, in vLLM's environment.

    python -m benchmarks.peer_vllm REQUEST ANSWER

All contexts go into one call, with prefix caching in the smallest blocks that its CPU kernels
take. A text stops where its first word ends: at a letter or digit before a space or a mark.
"""

from __future__ import annotations

import os
import string
import time
from collections import Counter
from typing import Any

from benchmarks.exchange import Answer, Request, reply, request_given

MARKS = ' \n,.;:!?")('
TOKENS = 5


def ends_of_words() -> list[str]:
    """Every letter or digit followed by something that ends a word."""
    return [last + mark for last in string.ascii_letters + string.digits for mark in MARKS]


def main() -> None:
    request = request_given()
    engine = load(request)
    sample(engine, request.contexts[:1], samples=8)
    start = time.perf_counter()
    results = sample(engine, request.contexts, samples=request.samples)
    seconds = time.perf_counter() - start
    reply([Answer("vllm", seconds, results)])


def load(request: Request) -> Any:
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = os.environ.get("MP", "0")
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "4"
    import torch
    from vllm import LLM

    torch.set_num_threads(request.threads)
    return LLM(
        request.model,
        dtype="float32",
        max_model_len=512,
        enable_prefix_caching=True,
        block_size=int(os.environ.get("BLOCK", "16")),
        max_num_seqs=int(os.environ.get("SEQS", "256")),
        max_num_batched_tokens=int(os.environ.get("TOKS", "4096")),
        generation_config="vllm",
        seed=0,
        enforce_eager=os.environ.get("EAGER", "0") == "1",
    )


def sample(engine: Any, contexts: list[str], samples: int) -> list[dict[str, float]]:
    from vllm import SamplingParams

    how = SamplingParams(
        n=samples,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        max_tokens=TOKENS,
        stop=list(MARKS) if os.environ.get("STOP", "1") == "1" else None,
        min_tokens=1 if os.environ.get("STOP", "1") == "1" else 0,
        include_stop_str_in_output=True,
    )
    found = engine.generate(contexts, how, use_tqdm=False)
    print("tokens", sum(len(o.token_ids) for r in found for o in r.outputs))
    return [dict(Counter(one.text for one in result.outputs)) for result in found]


if __name__ == "__main__":
    main()
