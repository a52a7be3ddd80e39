"""Coverage of 95% confidence intervals on simulated corpora whose truth is known.

`python -m benchmarks.coverage` takes about twelve minutes of CPU time; `--quick` runs a tenth of
the simulations, and `--seed N` repeats the word tables with another seed. Four tables:

1. Word metrics with 5 to 55 passages, with the default method. The passages' squared distances have
   a skewness of 1.5; those of recorded systems on Provo have 0.1 to 0.7.
2. The same by method with strongly skewed passages (2.3), where Student's t covers less.
3. A panel of the same people for all passages, with intervals over groups only and two-way
   intervals over groups and persons.
4. Calibration errors of tokens with 5, 20 and 60 documents: how often calibration is rejected, and
   how often an interval does not contain the true error.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.recovery import Design, coverage
from benchmarks.recovery_panel import Panel, panel_coverage
from benchmarks.recovery_tokens import Documents, decisions

N_SIMULATIONS, N_REPLICATES = 1000, 500
GROUPS = (5, 10, 20, 21, 55)
METRICS = ("sq_distance", "overlap", "energy", "tvd", "log_loss")
PANELS = {
    "different habits": Panel(),
    "extreme habits": Panel(steep=0.3, flat=3.0),
    "similar habits": Panel(shape=2.0),
    "few people": Panel(persons=10, shape=2.0),
    "many passages": Panel(passages=55, shape=2.0),
}
TEXTS = {
    "calibrated": Documents(0),
    "calibrated on average": Documents(0, tilt=1.0),
    "nearly calibrated": Documents(0, sharpness=0.97),
    "overconfident": Documents(0, sharpness=0.9),
    "very overconfident": Documents(0, sharpness=0.5),
}


def main(n_simulations: int = N_SIMULATIONS, seed: int = 0) -> None:
    """Print the four tables; rows are simulated in parallel, each from its own seed."""
    noise = 1.96 * (0.95 * 0.05 / n_simulations) ** 0.5
    print(f"{n_simulations} simulations per row; a coverage of .95 is estimated to ±{noise:.3f}")
    with ProcessPoolExecutor() as pool:
        tables = [
            (title, [pool.submit(*row) for row in rows])
            for title, rows in _tables(n_simulations, seed)
        ]
        for title, rows in tables:
            print(f"\n{title}")
            for row in rows:
                print(row.result(), flush=True)


def _tables(n: int, seed: int) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """The title of each table, and the calls that give its rows."""
    for perfect in (False, True):
        kind = "a perfect model" if perfect else "a model at other temperatures"
        title = f"Words, {kind}, 20 people, 40 draws: coverage (mean width)"
        yield title, [(_words, _design(size, perfect), n, "auto", seed) for size in GROUPS]
    skewed = [
        (_words, Design(20, 40, passages=size), n // 4, method, seed)
        for size in (5, 10, 20)
        for method in ("t", "studentised", "percentile")
    ]
    yield "Words, strongly skewed passages", skewed
    yield "Words, the same people for all passages", [(_panel, name, n // 2) for name in PANELS]
    yield (
        "Tokens, 100 per document: true error, rejected, wrong interval given",
        [(_tokens, name, size, n // 3) for name in TEXTS for size in (5, 20, 60)],
    )


def _design(passages: int, perfect: bool) -> Design:
    if perfect:
        return Design(20, 40, passages, perfect=True)
    return Design(20, 40, passages, temperature_shape=64.0, elsewhere=0.3)


def _words(design: Design, n_simulations: int, method: str, seed: int) -> str:
    found = coverage(design, n_simulations, seed, N_REPLICATES, (method,), METRICS)
    cells = [f"{one.metric} {one.held:.3f} ({one.width:.4f})" for one in found]
    return f"  {design.passages:2} passages {method:11} {'  '.join(cells)}"


def _panel(name: str, n_simulations: int) -> str:
    panel, cells = PANELS[name], dict[str, list[str]]()
    for one in panel_coverage(panel, n_simulations):
        cells.setdefault(one.method, []).append(f"{one.metric} {one.held:.3f} ({one.width:.4f})")
    size = f"{panel.persons} people, {panel.passages} passages"
    return "\n".join(
        f"  {name:16} {size}  {method:11} {'  '.join(own)}" for method, own in cells.items()
    )


def _tokens(name: str, size: int, n_simulations: int) -> str:
    design = TEXTS[name]
    row = Documents(size, design.tokens, design.sharpness, design.tilt)
    cells = [
        f"{one.metric} {one.truth:.4f} {one.rejected:.3f} {one.wrong:.3f}"
        for one in decisions(row, n_simulations)
    ]
    return f"  {name:22} {size:2} documents  {'   '.join(cells)}"


if __name__ == "__main__":
    parser = ArgumentParser(description="Coverage of 95% confidence intervals.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulations")
    parser.add_argument("--seed", type=int, default=0, help="of the word tables")
    asked = parser.parse_args()
    main(N_SIMULATIONS // 10 if asked.quick else N_SIMULATIONS, asked.seed)
