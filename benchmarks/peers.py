"""Compare other tools with `mc` and `exact`: the same processor, model, contexts and threads.

    python -m benchmarks.peers --corpus provo_cloze.jsonl.gz \\
        --vllm-python vllm/bin/python --words-python words/bin/python

Each tool runs in its own environment and, like ours, is timed after loading and a warm-up. vLLM's
samples are cut by our corrected rule. The distance between the two sampled distributions is printed
next to the expected distance between two samples of one distribution. Word probabilities are
compared with those of an `exact` search with a much smaller tolerance than the default.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aleatoric.models.base import LoadOptions
from aleatoric.models.gguf import smollm2_directory
from aleatoric.models.hf import HFModel, load_smollm2
from aleatoric.nextword.bounds import WordProbabilities
from aleatoric.nextword.exact import Question, Search, exact
from aleatoric.nextword.rules import first_span, normalise
from aleatoric.nextword.sampled import mc
from aleatoric.types import Item
from benchmarks.exact_vs_generate import Cloze, Cost, questions, read, spread, timed
from benchmarks.exchange import Answer, Request, answers_in, ask

FAR = Search(tolerance=0.002, nodes=1000)
ROOT = Path(__file__).resolve().parent.parent
Counts = Mapping[str, int]


@dataclass(frozen=True)
class Difference:
    """How a tool's word probabilities differ from the reference."""

    mean: float
    signed: float
    largest: float
    where: str


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, required=True, help="Provo as gzipped JSON lines")
    parser.add_argument("--vllm-python", type=Path, help="Python of an environment with vLLM")
    parser.add_argument("--words-python", type=Path, help="... with minicons and genlm-bytes")
    parser.add_argument("--passage", type=int, default=1)
    parser.add_argument("--contexts", type=int, default=4, help="contexts sampled; 0 for all")
    parser.add_argument("--word-contexts", type=int, default=0, help="contexts of words; 0: all")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    items = [item for item in read(options.corpus) if item.passage == options.passage]
    lm = _load(options.threads)
    if options.vllm_python:
        compare_samples(lm, spread(items, options.contexts), options)
    if options.words_python:
        compare_words(lm, spread(items, options.word_contexts), options)


def _load(threads: int) -> HFModel:
    import torch

    torch.set_num_threads(threads)
    return load_smollm2("", LoadOptions(device="cpu"))


def compare_samples(lm: HFModel, items: Sequence[Cloze], options: argparse.Namespace) -> None:
    prompts = [Item(item.id, "", item.context, ()) for item in items]
    mc(lm, prompts[:1], samples=8)  # make the tables, warm the kernels
    cost, ours = timed(lambda: mc(lm, prompts, samples=options.samples), len(items), _none)
    print(f"{len(items)} contexts, {options.samples} samples each")
    print(f"{'ours, mc':32} {_shown(cost)}")
    request = _request(items, options)
    for answer in run_peer("benchmarks.peer_vllm", options.vllm_python, request):
        theirs = [words_of(texts) for texts in answer.results]
        lost = 1 - sum(words.total() for words in theirs) / (len(items) * options.samples)
        _print_time(answer, len(items), cost)
        print_distance([draws.counts for draws in ours], theirs)
        print(f"{'':32} {lost:.2%} of its texts have no finished word")


def print_distance(ours: Sequence[Counts], theirs: Sequence[Counts]) -> None:
    rng = np.random.default_rng(0)
    pairs = list(zip(ours, theirs, strict=True))
    found = np.mean([distance(a, b) for a, b in pairs])
    chance = np.mean([distances_by_chance(a, b, rng) for a, b in pairs], axis=0)
    print(
        f"{'':32} mean TVD to ours {found:.4f}; "
        f"by sampling alone {chance.mean():.4f} ± {chance.std():.4f}"
    )


def distance(a: Counts, b: Counts) -> float:
    """Total variation distance of two samples.

    >>> distance({"a": 3, "b": 1}, {"a": 1, "c": 1})
    0.5
    """
    p, q = _aligned(a, b)
    return float(np.abs(p / p.sum() - q / q.sum()).sum() / 2)


def distances_by_chance(
    a: Counts, b: Counts, rng: np.random.Generator, times: int = 200
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The distances after dealing out the pooled draws anew: those of two samples of one truth.

    >>> distances_by_chance({"a": 5}, {"a": 5}, np.random.default_rng(0), times=2)
    array([0., 0.])
    """
    p, q = _aligned(a, b)
    dealt = rng.multivariate_hypergeometric(p + q, int(p.sum()), size=times, method="marginals")
    other = p + q - dealt
    shares = dealt / p.sum() - other / q.sum()
    found: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = np.abs(shares).sum(1) / 2
    return found


def _aligned(a: Counts, b: Counts) -> tuple[np.ndarray, np.ndarray]:
    words = sorted({*a, *b})
    return np.array([a.get(w, 0) for w in words]), np.array([b.get(w, 0) for w in words])


def words_of(texts: Mapping[str, float]) -> Counter[str]:
    """The finished first words of sampled texts, counted.

    >>> words_of({" The end": 2, ", the ": 1, " unfin": 1})
    Counter({'the': 3})
    """
    counts: Counter[str] = Counter()
    for text, count in texts.items():
        span = first_span(text)
        if span is not None and span.ended:
            counts[normalise(text[span.start : span.stop])] += int(count)
    return counts


def compare_words(lm: HFModel, items: Sequence[Cloze], options: argparse.Namespace) -> None:
    plain = [Question(item.context, tuple(item.human)) for item in items]
    exact(lm, plain[:2])
    cost, default = timed(lambda: exact(lm, questions(items)), len(items), _none)
    words_cost, words = timed(lambda: exact(lm, plain), len(items), _none)
    far_cost, far = timed(lambda: exact(lm, plain, search=FAR), len(items), _none)
    truth = [by_word(found) for found in far]
    print(f"{len(items)} contexts, {sum(map(len, truth))} words; ± is half the mean bound width")
    rows = (("TVD", cost, default), ("words", words_cost, words), ("reference", far_cost, far))
    for name, spent, found in rows:
        print(f"{'ours, exact, ' + name:32} {_shown(spent)}, ± {width(found) / 2:.5f}")
        _print_difference(difference(items, truth, [by_word(one) for one in found]))
    for module in ("benchmarks.peer_minicons", "benchmarks.peer_genlm"):
        for answer in run_peer(module, options.words_python, _request(items, options)):
            _print_time(answer, len(items), words_cost)
            _print_difference(difference(items, truth, answer.results))


def by_word(found: WordProbabilities) -> dict[str, float]:
    return dict(zip(found.words, found.value, strict=True))


def width(found: Sequence[WordProbabilities]) -> float:
    """The mean distance of the bounds of a word's probability."""
    return float(np.mean(np.concatenate([np.subtract(one.high, one.low) for one in found])))


def difference(
    items: Sequence[Cloze],
    truth: Sequence[Mapping[str, float]],
    found: Sequence[Mapping[str, float]],
) -> Difference:
    gaps = [
        (other[word] - value, f"…{item.context[-24:]}|{word}: {other[word]:.4f}, ref. {value:.4f}")
        for item, known, other in zip(items, truth, found, strict=True)
        for word, value in known.items()
    ]
    values = np.array([gap for gap, _ in gaps])
    largest = int(np.abs(values).argmax())
    return Difference(
        float(np.abs(values).mean()),
        float(values.mean()),
        float(abs(values[largest])),
        gaps[largest][1],
    )


def run_peer(module: str, python: Path, request: Request) -> list[Answer]:
    """Run a peer's script with its own Python; its output is shown only if it fails."""
    threads = str(request.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "request.json", Path(folder) / "answer.json"
        ask(request, asked)
        command = [str(python), "-m", module, str(asked), str(answered)]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{module} failed:\n{done.stderr[-3000:]}")
        return answers_in(answered)


def _request(items: Sequence[Cloze], options: argparse.Namespace) -> Request:
    return Request(
        str(smollm2_directory()),
        [item.context for item in items],
        [list(item.human) for item in items],
        options.samples,
        options.threads,
    )


def _print_time(answer: Answer, count: int, ours: Cost) -> None:
    cost = Cost(answer.wall / count, answer.cpu / count)
    ratios = f"{cost.wall / ours.wall:.1f} x ours, CPU {cost.cpu / ours.cpu:.1f} x"
    print(f"{answer.tool:32} {_shown(cost)}: {ratios}")


def _shown(cost: Cost) -> str:
    return f"{cost.wall:8.3f} s a context, {cost.cpu:8.3f} CPU s"


def _print_difference(found: Difference) -> None:
    print(
        f"{'':32} |difference| mean {found.mean:.5f}, signed {found.signed:+.5f}, "
        f"largest {found.largest:.4f} ({found.where})"
    )


def _none() -> None:
    """Nothing to wait for on a processor."""


if __name__ == "__main__":
    main()
