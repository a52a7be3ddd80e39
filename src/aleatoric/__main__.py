"""`python -m aleatoric`."""

from aleatoric.cli import main

main()
