"""Time `exact` and `mc` on a corpus of Provo's size on one device, next to the paper's procedure.

    python benchmarks/gpu_provo.py --tokenizer FOLDER [--shape llama-8b --dtype bfloat16]
        [--corpus provo_cloze.jsonl.gz] [--device cuda]

The model has the shape of GPT-2 small or of Llama 3.1 8B and random weights, made on the device,
which is sufficient to measure speed. A temperature sharpens it so that its next-word distributions
are about as wide as those of a trained model. People's answers are 40 samples from the model
itself, so that there is mass to search for. Contexts are random words, or those of a corpus; with a
corpus, `exact` is also timed on its people's answers, which are improbable under random weights.
FOLDER contains GPT-2's `encoder.json` and `vocab.bpe`, or a `tokenizer.json`.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
)

from aleatoric.models.decoding import Decoder
from aleatoric.models.hf import HFModel, wrap
from aleatoric.models.pieces import token_pieces
from aleatoric.models.plain import Limits
from aleatoric.nextword.answers import human_counts
from aleatoric.nextword.exact import Question, exact
from aleatoric.nextword.rules import first_word_paper
from aleatoric.nextword.sampled import mc
from aleatoric.types import Item

PASSAGES, WORDS, PEOPLE = 55, 50, 40
CONTEXTS = 2687
START = time.perf_counter()


def config_of(shape: str, vocabulary: int) -> PretrainedConfig:
    """Return the configuration of a shape with a vocabulary of at least this size."""
    if shape == "gpt2":
        return GPT2Config(tie_word_embeddings=False)
    width, layers, heads = {"llama-8b": (4096, 32, 32), "llama-tiny": (256, 4, 4)}[shape]
    return LlamaConfig(
        vocab_size=max(vocabulary, 128256 if shape == "llama-8b" else 0),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 4,
        intermediate_size=width * 7 // 2,
        max_position_embeddings=8192,
        bos_token_id=None,
        eos_token_id=None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--shape", default="gpt2", choices=("gpt2", "llama-8b", "llama-tiny"))
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--corpus", type=Path, help="Provo as gzipped JSON lines")
    parser.add_argument("--contexts", type=int, default=CONTEXTS)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--pack", type=int, nargs="*", default=[0], help="contexts at once for mc")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.12)
    parser.add_argument("--paper-contexts", type=int, default=5, help="0: leave it out")
    options = parser.parse_args()
    gc.set_threshold(200_000, 20, 100)  # as the command line does
    lm = random_model(options.shape, options.tokenizer, options.device, options.dtype)
    passes = f"window {lm.window}, {'tiles' if lm.tiled else 'masks'}"
    say(f"the model is ready: {lm.model.num_parameters() / 1e9:.2f}e9 parameters, {passes}", lm)
    decoder = Decoder(temperature=options.temperature)
    if options.corpus:
        prompts, provo = read(options.corpus, options.contexts)
    else:
        prompts, provo = provo_sized(lm)[: options.contexts], []
    people = mc(lm, prompts, samples=PEOPLE, seed=1, decoder=decoder)
    questions = [question(prompt, own.counts) for prompt, own in zip(prompts, people, strict=True)]
    tokens = np.mean([len(lm.continuation(f" {w}")) for own in people[::40] for w in own.counts])
    distinct = np.mean([len(own.counts) for own in people])
    say(f"people are drawn: {tokens:.1f} tokens a word, {distinct:.1f} of 40 words differ", lm)
    name = torch.cuda.get_device_name() if lm.device.type == "cuda" else "CPU"
    print(f"{name}, {options.shape}, {options.dtype}, {len(prompts)} contexts")
    timed = {"exact": questions} | ({"exact, people of the corpus": provo} if provo else {})
    seconds = {}
    for title, asked in timed.items():

        def run_exact(asked: list[Question] = asked) -> Any:
            return exact(lm, asked, decoder=decoder)

        found, seconds[title] = best_of(run_exact, lm, options.repeats)
        nodes = np.mean([one.nodes for one in found])
        say(f"{title}: {seconds[title]:.2f} s ({nodes:.1f} nodes a context)", lm)
    for pack in options.pack:

        def run_mc(pack: int = pack) -> Any:
            how: dict[str, Any] = {"samples": options.samples}
            packed = replace(lm, limits=Limits(pack=pack))
            return mc(packed, prompts, decoder=decoder, **how)

        drawn, took = best_of(run_mc, lm, min(options.repeats, 2))
        seconds["mc"] = min(seconds.get("mc", took), took)
        distinct = np.mean([len(own.counts) for own in drawn])
        say(f"mc-{options.samples}, pack {pack}: {took:.2f} s ({distinct:.0f} words a context)", lm)
    if options.paper_contexts:
        few = prompts[:: max(1, len(prompts) // options.paper_contexts)]
        paper_s = paper(lm, few, decoder)
        whole = paper_s * len(prompts)
        say(f"paper: {whole:.1f} s ({paper_s:.3f} s a context, measured on {len(few)})", lm)
        print(f"ratios: exact {whole / seconds['exact']:.0f}x, mc {whole / seconds['mc']:.0f}x")


def say(text: str, lm: HFModel) -> None:
    """Print a line with the time since the start, and the memory that was needed so far."""
    memory = ""
    if lm.device.type == "cuda":
        stats = torch.cuda.memory_stats()
        peak = torch.cuda.max_memory_allocated() / 1e9
        memory = f"; peak {peak:.1f} GB, memory ran out {stats['num_ooms']} times"
        torch.cuda.reset_peak_memory_stats()
    print(f"{text} [at {time.perf_counter() - START:.0f} s{memory}]", flush=True)


def tokenizer_of(folder: Path) -> Any:
    """GPT-2's tokenizer, or the one in tokenizer.json."""
    file, tokens = folder / "tokenizer.json", {"eos_token": "<|endoftext|>"}
    if file.exists():
        return PreTrainedTokenizerFast(tokenizer_file=str(file))  # type: ignore[no-untyped-call]
    files = str(folder / "encoder.json"), str(folder / "vocab.bpe")
    backend = ByteLevelBPETokenizer(*files)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **tokens)  # type: ignore[no-untyped-call]


def random_model(shape: str, folder: Path, device: str, dtype: str) -> HFModel:
    """A model with random weights, made on the device, and a tokenizer."""
    tokenizer = tokenizer_of(folder)
    config = config_of(shape, len(tokenizer))
    torch.manual_seed(0)
    with torch.device(device):
        kind: Any = AutoModelForCausalLM
        model = kind.from_config(config, dtype=getattr(torch, dtype))
        _prefer_new_words(model, token_pieces(tokenizer, config.vocab_size))
    return wrap(model, tokenizer, name=shape, bos="auto")


def _prefer_new_words(model: Any, pieces: Sequence[bytes | None]) -> None:
    """A bias towards tokens that begin a word: random weights alone write words without end.

    The logits have the same spread for every width.
    """
    begins = torch.tensor([(p or b"").startswith(b" ") for p in pieces])
    width = model.config.hidden_size
    head = torch.nn.Linear(width, len(pieces), dtype=model.dtype)
    with torch.no_grad():
        head.weight.normal_(std=0.02 * (768 / width) ** 0.5)
        head.bias.copy_(torch.where(begins, 0.35, 0.0))
    model.lm_head = head


def read(path: Path, count: int) -> tuple[list[Item], list[Question]]:
    """The contexts of a corpus, and its people's answers to them."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][:count]
    prompts = [Item(f"{row['passage']}:{row['position']}", "", row["context"], ()) for row in rows]
    pairs = zip(prompts, rows, strict=True)
    return prompts, [question(prompt, Counter(row["human"])) for prompt, row in pairs]


def provo_sized(lm: HFModel) -> list[Item]:
    """Every beginning of 55 passages of common single-token words."""
    common = [p.decode() for p in lm.pieces[:5000] if p and p.startswith(b" ") and p[1:].isalpha()]
    rng = np.random.default_rng(0)
    prompts = []
    for passage in range(PASSAGES):
        words = "".join(rng.choice(common, size=WORDS)).split()
        beginnings = [(i, " ".join(words[:i])) for i in range(1, WORDS)]
        prompts += [Item(f"{passage}:{i}", "", context, ()) for i, context in beginnings]
    return prompts[:CONTEXTS]


def question(prompt: Item, counts: Any) -> Question:
    answers = human_counts([word for word, count in counts.items() for _ in range(count)])
    total = sum(answers.values())
    return Question(prompt.context, tuple(answers), tuple(n / total for n in answers.values()))


def best_of(work: Callable[[], Any], lm: HFModel, times: int) -> tuple[Any, float]:
    """The result, and the least wall time of a few runs."""
    seconds = []
    for _ in range(times):
        _wait(lm)
        start = time.perf_counter()
        found = work()
        _wait(lm)
        seconds.append(time.perf_counter() - start)
    print("  runs:", ", ".join(f"{s:.2f} s" for s in seconds), flush=True)
    return found, min(seconds)


def paper(lm: HFModel, prompts: list[Item], decoder: Decoder) -> float:
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
