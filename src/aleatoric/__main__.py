"""`python -m aleatoric`, and the command `aleatoric`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C is answered while it is still being imported, too."""
    try:
        from aleatoric.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("stopped.\n")
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
