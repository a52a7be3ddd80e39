"""Compare text scoring with a naive implementation, and measure its memory on long streams.

    python -m benchmarks.text_scoring [--corpus FILE] [--naive N]

Speed: 2000 inputs of 10 human and 10 generated texts, all six n-gram probes, means and W1, in one
process, from the same tokens (spaCy's) and tags (TextBlob's). The naive side is a direct
implementation of the paper's scoring: tuples and sets, pair by pair, and scipy for each input. It
scores N of the inputs (by default 200), and its time is scaled to all of them. The numbers of both
sides are compared. Memory: streams of 10^4 and 10^5 inputs, each in its own process, split at white
space.

With --corpus, people's texts are the references of a JSON-lines file, and the generated ones are
references of the same or the next input with words removed; otherwise all texts are simulated, with
Zipf-distributed words.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, product
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from aleatoric.levels.text_variability import ScoredTexts, Scores, score_blocks
from aleatoric.metrics.distances import w1
from aleatoric.probes.base import Probe
from aleatoric.probes.overlaps import ngram_probe
from aleatoric.probes.taggers import Tokeniser, open_tokeniser, textblob
from aleatoric.probes.tools import TextReader
from aleatoric.rng import stream

INPUTS, TEXTS, ORDERS = 2000, 10, (1, 2, 3)
STREAMS = (10_000, 100_000)
METRICS = ("mean_H", "mean_M", "mean_C", "w1_M", "w1_C")
Cut = dict[str, list[str]]
Values = dict[str, NDArray[np.float64]]


def main() -> None:
    asked = _arguments()
    if asked.stream:
        print(streamed(asked.stream))
        return
    items = from_corpus(asked.corpus) if asked.corpus else list(made_up(INPUTS))
    speed(items, asked.naive)
    if asked.speed_only:
        return
    peaks = [_in_process(size) for size in STREAMS]
    for size, (peak, seconds) in zip(STREAMS, peaks, strict=True):
        print(f"stream of {size:,} inputs: peak {peak:.0f} MB, {seconds:.0f} s")
    print(f"growth {peaks[1][0] - peaks[0][0]:.0f} MB")


def speed(items: list[ScoredTexts], n_naive: int) -> None:
    """Print seconds of both sides, their ratio and their greatest difference.

    Ours is the best of six runs, three on each side of the other's, so that both see the machine in
    the same state; the first run, which loads or compiles the loops, is printed too.
    """
    tokens, tags = cut_and_tagged(items)
    first, _ = timed(items, known(tokens, tags))
    seconds = [timed(items, known(tokens, tags))[0] for _ in range(3)]
    start = time.perf_counter()
    theirs = naive(items[:n_naive], tokens, tags)
    naive_seconds = (time.perf_counter() - start) * len(items) / n_naive
    seconds += [timed(items, known(tokens, tags))[0] for _ in range(3)]
    _, ours = timed(items, known(tokens, tags))
    gap = max(np.abs(ours[key][:n_naive] - theirs[key]).max() for key in theirs)
    n_tokens = sum(len(tokens[text]) for item in items for text in item.block().texts)
    print(f"{len(items)} inputs x ({TEXTS} + {TEXTS}) texts, {n_tokens} tokens, six n-gram probes")
    print(f"aleatoric       {min(seconds):8.3f} s (first run {first:.3f} s)")
    print(f"straightforward {naive_seconds:8.3f} s (scaled from {n_naive} inputs)")
    print(f"largest difference of any statistic {gap:.1e}")
    print(f"ratio {naive_seconds / min(seconds):.1f}x")


def timed(items: Sequence[ScoredTexts], reader: TextReader) -> tuple[float, Values]:
    start = time.perf_counter()
    found = fast(items, reader)
    return time.perf_counter() - start, found


def cut_and_tagged(items: Sequence[ScoredTexts]) -> tuple[Cut, Cut]:
    texts = list(dict.fromkeys(text for item in items for text in item.block().texts))
    tokens = open_tokeniser("spacy-words:en").cut(texts)
    tags = textblob().tag_texts(tokens)
    return dict(zip(texts, tokens, strict=True)), dict(zip(texts, tags, strict=True))


def known(tokens: Cut, tags: Cut) -> TextReader:
    """A reader that looks up what was cut and tagged before."""
    by_list = {id(own): tags[text] for text, own in tokens.items()}
    return TextReader(
        Tokeniser("known", lambda texts: [tokens[text] for text in texts]),
        # It is given the lists that the tokeniser gave.
        lambda cut: [by_list[id(own)] for own in cut],
    )


def fast(items: Sequence[ScoredTexts], reader: TextReader) -> Values:
    """Means and W1 by metric and probe, with what the package has."""
    batches = list(stream_scores(items, reader))
    keys = batches[0].systems["system"]
    return {key: np.concatenate([b.systems["system"][key] for b in batches]) for key in keys}


def stream_scores(items: Iterable[ScoredTexts], reader: TextReader) -> Iterator[Scores]:
    """The statistics of any number of inputs, in batches."""
    walk, probes = iter(items), probes_of(reader)
    while batch := list(islice(walk, 256)):
        yield score_blocks(batch, ["system"], probes, {"w1": w1})


def probes_of(reader: TextReader) -> list[Probe]:
    lexical = [ngram_probe("lexical", order, reader, {}) for order in ORDERS]
    return [*lexical, *(ngram_probe("syntactic", order, reader, {}) for order in ORDERS)]


def naive(items: Sequence[ScoredTexts], tokens: Cut, tags: Cut) -> Values:
    """The same, pair by pair and input by input."""
    lowered = {text: [token.lower() for token in own] for text, own in tokens.items()}
    found: dict[str, list[float]] = {}
    for item in items:
        for kind, symbols in (("lexical", lowered), ("syntactic", tags)):
            people = [symbols[text] for text in item.people]
            system = [symbols[text] for text in item.systems[0]]
            for order in ORDERS:
                values = _naive_input(people, system, order)
                for metric, value in zip(METRICS, values, strict=True):
                    found.setdefault(f"{metric}/{kind}-{order}", []).append(value)
    return {key: np.array(values) for key, values in found.items()}


def _naive_input(people: list[list[str]], system: list[list[str]], order: int) -> list[float]:
    human = [_naive_distance(a, b, order) for a, b in combinations(people, 2)]
    model = [_naive_distance(a, b, order) for a, b in combinations(system, 2)]
    cross = [_naive_distance(a, b, order) for a, b in product(system, people)]
    means = [float(np.mean(own)) for own in (human, model, cross)]
    return [*means, *(float(wasserstein_distance(own, human)) for own in (model, cross))]


def _naive_distance(left: list[str], right: list[str], order: int) -> float:
    a = list(zip(*(left[i:] for i in range(order)), strict=False))
    b = list(zip(*(right[i:] for i in range(order)), strict=False))
    if not a and not b:
        return float("nan")
    in_a, in_b = set(a), set(b)
    shared = sum(gram in in_b for gram in a) + sum(gram in in_a for gram in b)
    return 1 - shared / (len(a) + len(b))


def from_corpus(path: Path) -> list[ScoredTexts]:
    """The references of a file, and texts made of them in place of a system's."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        rows = [tuple(json.loads(line)["references"][:TEXTS]) for line in file]
    rows = [row for row in rows if len(row) == TEXTS][:INPUTS]
    return [
        ScoredTexts(str(i), row, (_varied(i, row, rows[(i + 1) % len(rows)]),))
        for i, row in enumerate(rows)
    ]


def _varied(key: int, own: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    rng = stream(0, "varied", key)
    picked = (other[j] if rng.random() < 0.25 else own[j] for j in range(TEXTS))
    return tuple(" ".join(w for w in text.split() if rng.random() < 0.8) for text in picked)


def made_up(n: int) -> Iterator[ScoredTexts]:
    """Texts of about 20 words: an input has its own 40 words, of which each text takes some."""
    for i in range(n):
        rng = stream(0, "made up", i)
        own = np.minimum(rng.zipf(1.2, 40), 50_000)
        texts = tuple(_sentence(rng.choice(own, rng.integers(10, 30))) for _ in range(2 * TEXTS))
        yield ScoredTexts(str(i), texts[:TEXTS], (texts[TEXTS:],))


def _sentence(words: NDArray[np.int64]) -> str:
    return " ".join(f"word{word}" for word in words.tolist()) + " ."


def streamed(n: int) -> str:
    """Score so many inputs as they come; peak memory in MB and seconds."""
    start = time.perf_counter()
    reader = TextReader(
        open_tokeniser("whitespace"), lambda cut: [[w[-1] for w in own] for own in cut]
    )
    process, most = psutil.Process(), 0
    for _ in stream_scores(made_up(n), reader):
        most = max(most, process.memory_info().rss)
    return f"{most / 1e6:.1f} {time.perf_counter() - start:.1f}"


def _in_process(size: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.text_scoring", "--stream", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, seconds = done.stdout.split()
    return float(peak), float(seconds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="JSON lines with references, plain or gzip")
    parser.add_argument("--naive", type=int, default=200, help="inputs the naive side scores")
    parser.add_argument("--speed-only", action="store_true", help="leave memory out")
    parser.add_argument("--stream", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
