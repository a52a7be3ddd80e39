"""Compare our text sampling loop with `model.generate`: one process, one model, one core.

    python benchmarks/text_generation.py

Both write `--samples` texts of at most `--tokens` tokens for each input, by ancestral sampling.
`generate` runs the input once per sample; the loop runs it once and shares it. Tokens count up to
the end of each text. Every number is the best of `--rounds` alternating rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aleatoric.models.base import Forcing, Writing
from aleatoric.models.decoding import Decoder
from aleatoric.models.generate_hf import load_hf, load_smollm2
from aleatoric.models.sampling import (
    LiveWriter,
    TextPrompt,
    TextSampler,
    key_of,
    packs_of,
    write_all,
)

INPUTS = (
    "Simplify this sentence: Adjacent counties are Marin to the south, Mendocino to the north, "
    "Lake to the northeast, Napa to the east, and Solano and Contra Costa to the southeast.",
    "Simplify this sentence: The Great Dark Spot is thought to represent a hole in the methane "
    "cloud deck of Neptune.",
)


def ours(writer: LiveWriter, prompts: Sequence[TextPrompt], samples: int) -> int:
    """The tokens that our loop draws, the ends of texts among them."""
    rows = writer.batching.rows_at_once(writer.network, 256)
    packs = packs_of(prompts, samples, rows)
    written = list(write_all(TextSampler(writer.network, Decoder()), packs))
    return sum(len(text.ids) + (not text.is_cut) for text in written)


def generate(writer: LiveWriter, prompts: Sequence[TextPrompt], samples: int) -> int:
    """The tokens that the library draws, without its defaults."""
    import torch

    network: Any = writer.network
    pad, ends = network.ends[0], list(network.ends)
    width = max(len(prompt.ids) for prompt in prompts)
    filled = [(pad,) * (width - len(p.ids)) + p.ids for p in prompts]
    mask = [(0,) * (width - len(p.ids)) + (1,) * len(p.ids) for p in prompts]
    torch.manual_seed(0)
    out = network.model.generate(
        torch.tensor(filled, device=network.device),
        attention_mask=torch.tensor(mask, device=network.device),
        do_sample=True,
        top_k=0,
        top_p=1.0,
        temperature=1.0,
        max_new_tokens=prompts[0].room,
        num_return_sequences=samples,
        eos_token_id=ends,
        pad_token_id=pad,
    )[:, width:]
    return sum(_length(row, set(ends)) for row in out.tolist())


def _length(row: list[int], ends: set[int]) -> int:
    return next((i + 1 for i, token in enumerate(row) if token in ends), len(row))


def speed(work: Callable[[], int]) -> float:
    """Tokens a second."""
    start = time.perf_counter()
    tokens = work()
    return tokens / (time.perf_counter() - start)


def main(arguments: Sequence[str] | None = None) -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="smollm2", help="smollm2, or a directory or hub name")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    loading = Forcing(device=options.device)
    is_default = options.model == "smollm2"
    writer = load_smollm2("", loading) if is_default else load_hf(options.model, loading)
    assert isinstance(writer, LiveWriter)
    encoded = [writer.network.encode((text,), Writing()) for text in INPUTS]
    prompts = [
        TextPrompt(str(i), ids, key_of(0, str(i), Decoder()), options.tokens)
        for i, ids in enumerate(encoded)
    ]
    found: dict[str, list[float]] = {"ours": [], "generate": []}
    for work in (ours, generate) * options.rounds:
        found[work.__name__].append(speed(partial(work, writer, prompts, options.samples)))
    best = {name: max(speeds) for name, speeds in found.items()}
    shape = f"{len(prompts)} inputs x {options.samples} samples x {options.tokens} tokens"
    print(f"{options.model}, {shape}, {options.device}, {options.threads} thread(s)")
    print(f"ours     {best['ours']:8.1f} tokens/s")
    print(f"generate {best['generate']:8.1f} tokens/s")
    print(f"ratio    {best['ours'] / best['generate']:8.2f} x")


if __name__ == "__main__":
    main()
