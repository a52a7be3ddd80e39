"""`python -m multi30k`: train both models and score the test set."""

from __future__ import annotations

from multi30k.command import main

if __name__ == "__main__":
    main()
