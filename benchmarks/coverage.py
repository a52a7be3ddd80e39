"""Coverage of 95% confidence intervals on simulated corpora whose truth is known.

`python -m benchmarks.coverage` takes about ten minutes on one core; `--quick` runs a tenth of the
simulations. Four tables:

1. Word metrics with 5 to 55 passages, with the default method. The passages' squared distances have
   a skewness of 1.5; those of recorded systems on Provo have 0.1 to 0.7.
2. The same by method with strongly skewed passages (2.3), where Student's t covers less.
3. A panel of the same people for all passages, with intervals over groups only and two-way
   intervals over groups and persons.
4. Calibration errors of tokens with 5, 20 and 60 documents: how often calibration is rejected, and
   how often an interval is given that does not hold the true error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from aleatoric.analyses.recovery import Coverage, Design, coverage
from aleatoric.analyses.recovery_panel import Panel, panel_coverage
from aleatoric.analyses.recovery_tokens import Documents, decisions

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


def main(n_simulations: int = N_SIMULATIONS) -> None:
    """Print the four tables."""
    noise = 1.96 * (0.95 * 0.05 / n_simulations) ** 0.5
    print(f"{n_simulations} simulations per row; a coverage of .95 is estimated to ±{noise:.3f}")
    for perfect in (False, True):
        kind = "a perfect model" if perfect else "a model at other temperatures"
        print(f"\nWords, {kind}, 20 people, 40 draws: coverage (mean width)")
        for passages in GROUPS:
            _print_row(_design(passages, perfect), n_simulations, "auto")
    print("\nWords, strongly skewed passages")
    for passages in (5, 10, 20):
        for method in ("t", "studentised", "percentile"):
            _print_row(Design(20, 40, passages=passages), n_simulations // 4, method)
    print("\nWords, the same people for all passages")
    for name, panel in PANELS.items():
        for method, cells in _by_method(panel_coverage(panel, n_simulations // 2)).items():
            size = f"{panel.persons} people, {panel.passages} passages"
            print(f"  {name:16} {size}  {method:11} {'  '.join(cells)}", flush=True)
    print("\nTokens, 100 per document: true error, rejected, wrong interval given")
    for name, design in TEXTS.items():
        for n in (5, 20, 60):
            row = Documents(n, design.tokens, design.sharpness, design.tilt)
            cells = [
                f"{one.metric} {one.truth:.4f} {one.rejected:.3f} {one.wrong:.3f}"
                for one in decisions(row, n_simulations // 3)
            ]
            print(f"  {name:22} {n:2} documents  {'   '.join(cells)}", flush=True)


def _design(passages: int, perfect: bool) -> Design:
    if perfect:
        return Design(20, 40, passages, perfect=True)
    return Design(20, 40, passages, temperature_shape=64.0, elsewhere=0.3)


def _by_method(found: Iterable[Coverage]) -> dict[str, list[str]]:
    cells: dict[str, list[str]] = {}
    for one in found:
        cells.setdefault(one.method, []).append(f"{one.metric} {one.held:.3f} ({one.width:.4f})")
    return cells


def _print_row(design: Design, n_simulations: int, method: str) -> None:
    found = coverage(design, n_simulations, 0, N_REPLICATES, (method,), METRICS)
    cells = [f"{one.metric} {one.held:.3f} ({one.width:.4f})" for one in found]
    print(f"  {design.passages:2} passages {method:11} {'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main(N_SIMULATIONS // 10 if "--quick" in sys.argv[1:] else N_SIMULATIONS)
