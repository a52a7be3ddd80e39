"""How often 95% intervals hold the truth, on simulated corpora: a table a design.

`python -m benchmarks.coverage [SIMULATIONS]`; 500 simulations a design unless told.
"""

from __future__ import annotations

import sys

from aleatoric.analyses.recovery import Design, coverage

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


def main(n_simulations: int = 500) -> None:
    """Print, by design and metric, the share of intervals that hold the truth, by method."""
    print(f"{n_simulations} simulations a design; coverage of nominal 95% (mean width)")
    for design in DESIGNS:
        kind = "perfect model" if design.perfect else "tempered model"
        sizes = f"{design.passages} passages, {design.n_human} people, {design.n_model} draws"
        print(f"{sizes}, {kind}")
        found = list(coverage(design, n_simulations))
        for metric in dict.fromkeys(one.metric for one in found):
            cells = (
                f"{o.method} {o.held:.3f} ({o.width:.4f})" for o in found if o.metric == metric
            )
            print(f"  {metric:22} {'  '.join(cells)}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
