"""`python -m fuzz TARGET... --seconds N`: try one target, several, or `all`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fuzz.driver import run
from fuzz.trial import targets


def main() -> None:
    """Run the targets one after another; status 1 where one failed."""
    known = targets()
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("target", nargs="+", choices=["all", *known])
    parser.add_argument("--seconds", type=float, default=60, help="a target (60)")
    parser.add_argument("--engine", choices=["atheris", "hypothesis"], help="else what is there")
    parser.add_argument("--corpora", type=Path, help="keep what reached new code here, and go on")
    asked = parser.parse_args()
    failed = 0
    for name in known if "all" in asked.target else asked.target:
        outcome = run(name, asked.seconds, asked.engine, asked.corpora)
        failed += outcome.finding is not None or not outcome.inputs
        print(outcome, flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
