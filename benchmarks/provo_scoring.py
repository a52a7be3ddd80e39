"""Time and memory of scoring a corpus of Provo's size with 1000 samples per context.

The samples follow Zipf's law, with about as many different words per context (283) as GPT-2's.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from aleatoric.data.opening import open_corpus
from aleatoric.rng import stream
from benchmarks.measure import cost_of

CORPUS = "simulated:contexts=2687,people=40"
VOCABULARY, SAMPLES, STEEPNESS = 20_000, 1000, 1.25


def main() -> None:
    """Print the cost of the whole command and of scoring the saved run again."""
    with tempfile.TemporaryDirectory() as folder:
        recorded, run = Path(folder) / "samples.jsonl", Path(folder) / "run"
        distinct = record(recorded)
        model = f"recorded:{recorded}"
        whole = cost_of(["word", "--corpus", CORPUS, "--model", model, "--out", str(run), "--json"])
        again = cost_of(["score", str(run), "--again", "--json"])
    print(f"2687 contexts x {SAMPLES} samples, {distinct:.0f} different words a context")
    for name, cost in {"read, score and reduce": whole, "score the saved run": again}.items():
        took = f"{cost.seconds:.1f} s ({cost.cpu_seconds:.1f} s of the processor)"
        print(f"{name + ':':23} {took}, {cost.peak_mb:.0f} MB")


def record(path: Path) -> float:
    """Write samples of a model; return the mean number of different words per context."""
    weights = np.arange(1, VOCABULARY + 1) ** -STEEPNESS
    distinct = []
    with path.open("w") as file:
        for item in open_corpus(CORPUS).items:
            counts = stream(0, item.id).multinomial(SAMPLES, weights / weights.sum())
            words = {f"word{i}": int(counts[i]) for i in np.flatnonzero(counts)}
            distinct.append(len(words))
            file.write(json.dumps({"id": item.id, "samples": words}) + "\n")
    return float(np.mean(distinct))


if __name__ == "__main__":
    main()
