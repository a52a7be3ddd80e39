"""Compare the calibration stream with torchmetrics on two CPU cores, and measure its memory.

    python -m benchmarks.token_stream

Speed: both receive the same chunks of logits over GPT-2's vocabulary, in turn, in one process, and
return their result at the end. torchmetrics computes ECE; the stream computes ECE, e-ECE, Brier,
log score, entropy and the class-wise errors. Memory: streams of 10^4 to 10^6 tokens, each in its
own process, over a vocabulary of 100.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import torch
from torch import Tensor

from aleatoric.calibration.stream import CalibrationStream

WIDTH, CHUNK, CHUNKS, ROUNDS = 50_257, 512, 10, 8
BINS = 15
SIZES = (10_000, 100_000, 1_000_000)
SMALL = 100


def main() -> None:
    torch.set_num_threads(2)
    if len(sys.argv) > 2:
        print(peak_of(sys.argv[1], int(sys.argv[2])))
        return
    speed()
    for name in ("stream", "torchmetrics"):
        peaks = [_in_process(name, size) for size in SIZES]
        shown = ", ".join(f"{n:,}: {mb:.1f} MB" for n, mb in zip(SIZES, peaks, strict=True))
        growth = peaks[-1] - peaks[0]
        print(f"{name:12s} memory above start at tokens {shown}; growth {growth:.1f} MB")


def speed() -> None:
    """Seconds of the faster of two runs each, interleaved."""
    # A few chunks, streamed several times over: more would not fit in memory.
    chunks = [made(i, CHUNK, WIDTH) for i in range(CHUNKS)] * ROUNDS
    runs: dict[str, Callable[[], float]] = {
        "stream": lambda: ours(chunks, WIDTH),
        "torchmetrics": lambda: theirs(chunks, WIDTH),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    found = {}
    for _ in range(2):
        for name, work in runs.items():
            start = time.perf_counter()
            found[name] = work()
            seconds[name].append(time.perf_counter() - start)
    best = {name: min(own) for name, own in seconds.items()}
    tokens = CHUNK * CHUNKS * ROUNDS
    for name, own in best.items():
        rate = tokens * WIDTH * 4 / own / 1e9
        print(f"{name:12s} {own:7.3f} s for {tokens} x {WIDTH} float32 ({rate:.2f} GB/s)"
              f", ECE {found[name]:.6f}")  # fmt: skip
    print(f"ratio {best['torchmetrics'] / best['stream']:.1f}x")


def made(seed: int, rows: int, width: int) -> tuple[Tensor, Tensor]:
    """Logits of a model that is too sure of itself, and targets drawn at temperature 1.5."""
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, width, generator=rng) * 3
    logits[:, 0] += 12
    noise = torch.empty(rows, width).exponential_(generator=rng).log().neg()
    return logits, (logits / 1.5 + noise).argmax(-1)


def ours(chunks: list[tuple[Tensor, Tensor]], width: int) -> float:
    stream = CalibrationStream(
        vocabulary_size=width, units="logits", schemes=["ancestral"], bins=BINS
    )
    for i, (logits, targets) in enumerate(chunks):
        stream.update(logits, targets, f"document {i}")
    return stream.result().estimates["ece"].value or 0.0


def theirs(chunks: list[tuple[Tensor, Tensor]], width: int) -> float:
    from torchmetrics.classification import MulticlassCalibrationError

    metric: Any = MulticlassCalibrationError(num_classes=width, n_bins=BINS)
    for logits, targets in chunks:
        metric.update(logits, targets)
    return float(metric.compute())


def peak_of(name: str, tokens: int) -> float:
    """How far resident memory rises, in MB, from after 10 chunks of all groups to the end."""
    chunk = made(0, 1000, SMALL)
    update, result = _stream() if name == "stream" else _torchmetrics()
    for _ in range(10):
        update(chunk)
    result()
    process = psutil.Process()
    before = most = process.memory_info().rss
    for _ in range(tokens // 1000):
        update(chunk)
        most = max(most, process.memory_info().rss)
    result()
    return float(max(most, process.memory_info().rss) - before) / 1e6


def _stream() -> tuple[Callable[[tuple[Tensor, Tensor]], None], Callable[[], object]]:
    stream = CalibrationStream(vocabulary_size=SMALL, units="logits", bins=BINS)
    groups = [f"document {i}" for i in range(1000)]
    return lambda chunk: stream.update(*chunk, groups), stream.result


def _torchmetrics() -> tuple[Callable[[tuple[Tensor, Tensor]], None], Callable[[], object]]:
    from torchmetrics.classification import MulticlassCalibrationError

    metric: Any = MulticlassCalibrationError(num_classes=SMALL, n_bins=BINS)
    return lambda chunk: metric.update(*chunk), metric.compute


def _in_process(name: str, tokens: int) -> float:
    command = [sys.executable, "-m", "benchmarks.token_stream", name, str(tokens)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    main()
