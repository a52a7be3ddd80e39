"""How often 95% intervals hold the truth, on simulated corpora: a table a design.

`python -m benchmarks.coverage [SIMULATIONS [DESIGN...]]`; 500 simulations of all designs unless
told. Intervals are made of 1000 replicates, half as many as the package's: the noise of their ends
is small beside that of 500 simulations.
"""

from __future__ import annotations

import sys

from aleatoric.analyses.recovery import Coverage, Design, coverage

N_REPLICATES = 1000
DESIGNS = (
    Design(5, 10),
    Design(20, 40),
    Design(40, 40),
    Design(40, 1000),
    Design(100, 1000),
    Design(40, 1000, passages=20),
    Design(40, 1000, passages=10),
    Design(40, 1000, perfect=True),
)


def main(n_simulations: int = 500, *numbers: int) -> None:
    """Print, by design and metric, the share of intervals that hold the truth, by method."""
    print(f"{n_simulations} simulations a design; coverage of nominal 95% (mean width)")
    for number in numbers or range(len(DESIGNS)):
        design = DESIGNS[number]
        kind = "perfect model" if design.perfect else "tempered model"
        sizes = f"{design.passages} passages, {design.n_human} people, {design.n_model} draws"
        print(f"{sizes}, {kind}")
        found = list(coverage(design, n_simulations, n_replicates=N_REPLICATES))
        for metric in dict.fromkeys(one.metric for one in found):
            cells = [_cell(one) for one in found if one.metric == metric]
            print(f"  {metric:22} {'  '.join(cells)}", flush=True)


def _cell(one: Coverage) -> str:
    return f"{one.method} {one.held:.3f} ({one.width:.4f})"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
