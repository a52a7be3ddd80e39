"""Run a million simulated contexts through the whole pipeline: memory must not grow with them."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.measure import cost_of

SIZES = (10_000, 100_000, 1_000_000)


def main(sizes: tuple[int, ...] = SIZES) -> None:
    """Print seconds and peak memory for each size, and the ratio of last to first."""
    peaks = []
    for contexts in sizes:
        with tempfile.TemporaryDirectory() as folder:
            corpus = f"simulated:contexts={contexts},people=40"
            out = str(Path(folder) / "run")
            asked = ["word", "--corpus", corpus, "--model", "toy", "--samples", "40"]
            cost = cost_of([*asked, "--out", out, "--json"])
        peaks.append(cost.peak_mb)
        rate = contexts / cost.seconds
        print(
            f"{contexts:>9} contexts: {cost.seconds:7.1f} s ({rate:.0f}/s), {cost.peak_mb:.0f} MB"
        )
    print(f"memory at {sizes[-1]} / at {sizes[0]}: {peaks[-1] / peaks[0]:.2f}")


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SIZES)
