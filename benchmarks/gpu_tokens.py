"""Check the Triton pass on a GPU on odd shapes, and measure how fast it reads logits.

    python -m benchmarks.gpu_tokens [--rows 40000] [--width 50257]

The kernel is checked against the naive computation (exit status 1 if they differ by more than
1e-5). The command then prints GB/s of logits, each counted once, for several tunings, next to a
device copy, naive PyTorch and `torch.compile`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aleatoric.calibration.kernels import naive, torch_pass, triton_pass
from aleatoric.calibration.kernels.triton_pass import Tuning
from aleatoric.calibration.statistics import Scheme
from aleatoric.models.decoding import Decoder

LIMIT = 1e-5
WIDTHS = (3, 31, 1000, 4096, 5184, 50257)
KINDS = ("normal", "sharp", "ties", "excluded", "offset", "flat")
DECODERS = (
    "top_p=0.8", "top_p=0.3", "top_p=0.99", "top_k=1", "top_k=100", "temperature=0.5",
    "temperature=2,top_p=0.6", "temperature=0.7,top_k=40",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--width", type=int, default=50_257)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only-checks", action="store_true")
    parser.add_argument("--few", action="store_true", help="a few tunings only")
    options = parser.parse_args()
    bad = sum(report(*case, options.device) for case in cases())
    print(f"checks: {'all within' if not bad else f'{bad} beyond'} {LIMIT}", flush=True)
    if not options.only_checks:
        speeds(options.rows, options.width, options.few)
    sys.exit(1 if bad else 0)


def cases() -> Iterator[tuple[int, str, torch.dtype]]:
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    return itertools.product(WIDTHS, KINDS, dtypes)


def report(width: int, kind: str, dtype: torch.dtype, device: str) -> int:
    """Largest differences of one case; 1 where one is too large."""
    logits, targets = made(width, kind, dtype)
    schemes = [Scheme.parse(name) for name in ("ancestral", "greedy", *DECODERS)]
    asked = [(scheme, None) for scheme in schemes]
    own = triton_pass.columns(logits.to(device), targets.to(device), asked)
    true = naive.columns(logits.double().numpy(), targets.numpy(), asked)
    found = {name: gap(getattr(own, name), getattr(true, name)) for name in PLAIN}
    for scheme, pair, other in zip(
        schemes, own.expected.values(), true.expected.values(), strict=True
    ):
        found[str(scheme)] = expected_gap(scheme, np.stack(pair), np.stack(other), logits, targets)
    worst = max(found, key=lambda name: found[name])
    failed = not found[worst] <= LIMIT
    if failed:
        print(f"BEYOND width {width} {kind} {dtype}: {worst} differs by {found[worst]:.2e}")
    return int(failed)


PLAIN = ("confidence", "correct", "predicted", "brier", "nll", "entropy", "log_normalizer")


def made(width: int, kind: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A few rows of a kind, and targets of which some are the mode or tie with the edge."""
    rng = torch.Generator().manual_seed(width)
    logits = torch.randn(9, width, generator=rng) * {"sharp": 12.0, "flat": 0.01}.get(kind, 2.5)
    if kind == "ties":
        logits = logits.round()
    if kind == "excluded":
        logits[torch.rand(9, width, generator=rng) < 0.5] = -torch.inf
        logits[:, -1] = 0.5
    if kind == "offset":
        logits -= 90.0
    targets = torch.randint(0, width, (9,), generator=rng)
    targets[:3] = logits[:3].argmax(-1)
    return logits.to(dtype), targets


def gap(own: np.ndarray, true: np.ndarray) -> float:
    """The largest difference, relative where numbers are large; infinite scores must agree."""
    if (np.isinf(own) != np.isinf(true)).any():
        return float("inf")
    held = np.isfinite(true)
    own, true = own[held].astype(np.float64), true[held].astype(np.float64)
    return float((np.abs(own - true) / np.maximum(1, np.abs(true))).max(initial=0))


def expected_gap(
    scheme: Scheme, own: np.ndarray, true: np.ndarray, logits: Tensor, targets: Tensor
) -> float:
    """Under top-p, where the limit falls on a step of the sum, the next answer is right too."""
    answers = [true]
    if scheme.decoder.top_p < 1:
        for moved in (-2e-6, 2e-6):
            near = Decoder(scheme.decoder.temperature, top_p=scheme.decoder.top_p + moved)
            found = naive.columns(logits.double().numpy(), targets.numpy(), [(Scheme(near), None)])
            answers.append(np.stack(found.expected[str(near)]))
    gaps = np.stack([np.abs(own - answer).max(axis=0) for answer in answers])
    return float(gaps.min(axis=0).max())


def speeds(rows: int, width: int, few: bool) -> None:
    logits = torch.empty(rows, width, dtype=torch.bfloat16, device="cuda")
    targets = torch.randint(0, width, (rows,), device="cuda")
    size = logits.numel() * logits.element_size()
    fill_mixed(logits)
    print("rows of many shapes", flush=True)
    whole_speeds(logits, targets, size)
    for part in torch.split(logits, 4000):
        part.copy_(torch.randn(part.shape, device="cuda") * 2.5)
    print("normal rows", flush=True)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {rows} x {width} bfloat16")
    # A copy reads and writes: both count as its traffic.
    show("device copy (read + write)", 2 * size, logits.clone)
    show("row maximum, torch.amax", size, lambda: logits.amax(-1))
    plain_speeds(logits, targets, size, few)
    decoded_speeds(logits, targets, size, few)
    whole_speeds(logits, targets, size)
    torch_speeds(logits, targets, size)


def fill_mixed(logits: Tensor) -> None:
    """Rows from nearly flat to nearly certain, with heavy tails, as a language model has them."""
    for part in torch.split(logits, 4000):
        rows = len(part)
        noise = torch.randn(part.shape, device="cuda")
        heavy = noise * torch.rand(rows, 1, device="cuda") * 2 + noise.abs() ** 1.5
        heavy[:, :40] += torch.rand(rows, 40, device="cuda") * 12
        part.copy_(heavy)


def plain_speeds(logits: Tensor, targets: Tensor, size: int, few: bool) -> None:
    """ECE, e-ECE, Brier, log score and entropy: one read."""
    shapes = [(128, 4), (256, 4), (512, 4), (256, 8), (512, 8), (1024, 8), (512, 16), (1024, 16)]
    shapes += [(64, 2), (128, 2), (256, 2)]
    shapes = [(256, 4), (512, 4), (512, 8), (1024, 8)] if few else shapes
    for (lanes, warps), stages, flush in itertools.product(shapes, (1, 3), (True, False)):
        if not flush and (few or stages > 1 or lanes != 64 * warps):
            continue
        tuning = Tuning(lanes, warps, stages, flush)
        show(f"plain {tuning}", size, partial(triton_pass.plain, logits, targets, tuning))


def decoded_speeds(logits: Tensor, targets: Tensor, size: int, few: bool) -> None:
    """The search after the plain pass, alone."""
    table, _ = triton_pass.plain(logits, targets)
    shapes = [(64, 2, 4), (128, 4, 4)]
    if not few:
        shapes += [(256, 4, 3), (512, 8, 3), (1024, 16, 1)]
    tunings = [Tuning(*shape, probes=probes) for shape in shapes for probes in (3, 4)]
    for name, tuning in itertools.product(("top_p=0.8", "top_k=100"), tunings):
        decoder = Decoder.parse(name)
        show(
            f"{name} alone {tuning}",
            size,
            partial(triton_pass.decoded, logits, targets, table, decoder, tuning),
        )


def whole_speeds(logits: Tensor, targets: Tensor, size: int) -> None:
    """What a stream calls: all columns, on the host."""
    for names in ((), ("ancestral",), ("ancestral", "top_p=0.8"), ("ancestral", "top_k=100"),
                  ("temperature=0.5",)):  # fmt: skip
        schemes = [Scheme.parse(name) for name in names]
        show(
            f"all columns, {' and '.join(names) or 'no scheme'}",
            size,
            partial(triton_pass.columns, logits, targets, [(s, None) for s in schemes]),
        )


def torch_speeds(logits: Tensor, targets: Tensor, size: int) -> None:
    """The same in torch: this package's pass, and the shortest program for ECE and e-ECE."""
    compiled: Any = torch.compile(shortest, dynamic=False)
    parts = list(zip(torch.split(logits, 2000), torch.split(targets, 2000), strict=True))
    show("naive PyTorch, ECE and e-ECE", size, lambda: [shortest(x, y) for x, y in parts], 3)
    try:
        show("torch.compile of it", size, lambda: [compiled(x, y) for x, y in parts], 3)
    except Exception as error:
        print(f"torch.compile failed: {type(error).__name__}")
    for names in (["ancestral"], ["ancestral", "top_p=0.8"], ["ancestral", "top_k=100"]):
        schemes = [Scheme.parse(name) for name in names]
        few, wanted = logits[:4000], targets[:4000]
        show(
            f"torch pass, {' and '.join(names)}",
            size * len(few) // len(logits),
            partial(torch_pass.columns, few, wanted, [(s, None) for s in schemes]),
            3,
        )


def shortest(logits: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
    probs = logits.float().softmax(-1)
    confidence, best = probs.max(-1)
    return confidence, best == targets, (probs * probs).sum(-1), probs.gather(1, targets[:, None])


def show(name: str, size: int, work: Callable[[], Any], times: int = 7) -> None:
    """GB/s of the median run, after two to warm up."""
    try:
        seconds = sorted([timed(work) for _ in range(times + 2)][2:])
    except Exception as error:  # one tuning that does not fit must not end the table
        print(f"{name:64s} failed: {type(error).__name__} {str(error)[:80]}", flush=True)
        return
    median = seconds[times // 2]
    print(f"{name:64s} {median * 1e3:9.3f} ms {size / median / 1e9:8.0f} GB/s", flush=True)


def timed(work: Callable[[], Any]) -> float:
    event: Any = partial(torch.cuda.Event, enable_timing=True)
    start, end = event(), event()
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


if __name__ == "__main__":
    main()
