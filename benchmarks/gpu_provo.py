"""Time `exact` and `mc` on a corpus of Provo's size on one device, next to the paper's procedure.

    python benchmarks/gpu_provo.py --tokenizer FOLDER [--device cuda]

The model has GPT-2 small's shape and random weights, which is sufficient to measure speed. A
temperature sharpens it so that its next-word distributions are about as wide as those of a trained
model. People's answers are 40 samples from the model itself, so that there is mass to search for.
FOLDER contains GPT-2's `encoder.json` and `vocab.bpe`.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from aleatoric.models.decoding import Decoder
from aleatoric.models.hf import HFModel, wrap
from aleatoric.nextword.answers import human_counts
from aleatoric.nextword.exact import Question, exact
from aleatoric.nextword.rules import first_word_paper
from aleatoric.nextword.sampled import Prompt, mc
from aleatoric.nextword.vocabulary import Vocabulary

PASSAGES, WORDS, PEOPLE = 55, 50, 40
CONTEXTS = 2687


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--temperature", type=float, default=0.12)
    parser.add_argument("--paper-contexts", type=int, default=5)
    options = parser.parse_args()
    gc.set_threshold(200_000, 20, 100)  # as the command line does
    lm = gpt2_shape(options.tokenizer, options.device)
    decoder = Decoder(temperature=options.temperature)
    prompts = provo_sized(lm)
    vocabulary = Vocabulary(lm.pieces)
    print("model and vocabulary are ready", flush=True)
    people = mc(lm, prompts, samples=PEOPLE, seed=1, decoder=decoder, vocabulary=vocabulary)
    questions = [question(prompt, own.counts) for prompt, own in zip(prompts, people, strict=True)]

    def run_exact() -> Any:
        return exact(lm, questions, decoder=decoder, vocabulary=vocabulary)

    def run_mc() -> Any:
        return mc(lm, prompts, samples=1000, decoder=decoder, vocabulary=vocabulary)

    tokens = np.mean([len(lm.continuation(f" {w}")) for own in people[::40] for w in own.counts])
    print(f"people are drawn: {tokens:.1f} tokens a word", flush=True)
    found, exact_s = best_of(run_exact, lm)
    print(f"exact: {exact_s:.2f} s", flush=True)
    _, mc_s = best_of(run_mc, lm, 2)
    paper_s = paper(lm, prompts[:: len(prompts) // options.paper_contexts], decoder)
    nodes = np.mean([one.nodes for one in found])
    name = torch.cuda.get_device_name() if lm.device.type == "cuda" else "CPU"
    print(f"{name}, GPT-2 small's shape, float32, {len(prompts)} contexts")
    print(f"exact:   {exact_s:8.2f} s ({nodes:.1f} nodes a context)")
    print(f"mc-1000: {mc_s:8.2f} s")
    whole = paper_s * len(prompts)
    print(f"paper:   {whole:8.1f} s ({paper_s:.3f} s a context, measured on a few)")
    print(f"ratios:  exact {whole / exact_s:.0f}x, mc {whole / mc_s:.0f}x")


def gpt2_shape(folder: Path, device: str) -> HFModel:
    """GPT-2 small with random weights and GPT-2's own tokenizer."""
    files = str(folder / "encoder.json"), str(folder / "vocab.bpe")
    tokenizer: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=ByteLevelBPETokenizer(*files), eos_token="<|endoftext|>"
    )
    torch.manual_seed(0)
    model: Any = GPT2LMHeadModel(GPT2Config(tie_word_embeddings=False))  # type: ignore[no-untyped-call]
    _prefer_new_words(model, wrap(model, tokenizer, name="gpt2-shape").pieces)
    return wrap(model.to(device), tokenizer, name="gpt2-shape")


def _prefer_new_words(model: Any, pieces: Sequence[bytes | None]) -> None:
    """A bias towards tokens that begin a word: random weights alone write words without end."""
    begins = torch.tensor([(p or b"").startswith(b" ") for p in pieces])
    head = torch.nn.Linear(model.config.n_embd, len(pieces))
    with torch.no_grad():
        head.weight.normal_(std=0.02)
        head.bias.copy_(torch.where(begins, 0.35, 0.0))
    model.lm_head = head


def provo_sized(lm: HFModel) -> list[Prompt]:
    """Every beginning of 55 passages of common single-token words."""
    common = [p.decode() for p in lm.pieces[:5000] if p and p.startswith(b" ") and p[1:].isalpha()]
    rng = np.random.default_rng(0)
    prompts = []
    for passage in range(PASSAGES):
        words = "".join(rng.choice(common, size=WORDS)).split()
        beginnings = [(i, " ".join(words[:i])) for i in range(1, WORDS)]
        prompts += [Prompt(f"{passage}:{i}", context) for i, context in beginnings]
    return prompts[:CONTEXTS]


def question(prompt: Prompt, counts: Any) -> Question:
    answers = human_counts([word for word, count in counts.items() for _ in range(count)])
    total = sum(answers.values())
    return Question(prompt.context, tuple(answers), tuple(n / total for n in answers.values()))


def best_of(work: Callable[[], Any], lm: HFModel, times: int = 3) -> tuple[Any, float]:
    """The result, and the least wall time of a few runs."""
    seconds = []
    for _ in range(times):
        _wait(lm)
        start = time.perf_counter()
        found = work()
        _wait(lm)
        seconds.append(time.perf_counter() - start)
    return found, min(seconds)


def paper(lm: HFModel, prompts: list[Prompt], decoder: Decoder) -> float:
    """Seconds a context of the published procedure: 1000 sequences of 5 new tokens."""
    seconds = []
    for prompt in prompts:
        ids = torch.tensor([lm.encode(prompt.context)], device=lm.device)
        _wait(lm)
        start = time.perf_counter()
        out = lm.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            top_k=0,
            temperature=decoder.temperature,
            num_return_sequences=1000,
            max_new_tokens=5,
            pad_token_id=0,
        )
        texts = lm.tokenizer.batch_decode(out[:, ids.shape[1] :])
        _ = [first_word_paper(text) for text in texts]
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def _wait(lm: HFModel) -> None:
    if lm.device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
