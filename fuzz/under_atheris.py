"""The process that atheris takes over: `python -m fuzz.under_atheris TARGET LIBFUZZER_OPTIONS`."""

from __future__ import annotations

import sys

import atheris


def main() -> None:
    """Instrument the package as it is imported, then try inputs until libFuzzer has enough."""
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["aleatoric"], enable_loader_override=False):
        from fuzz.trial import target_named

        trial = target_named(name).trial
    atheris.Setup([sys.argv[0], *options], trial)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
