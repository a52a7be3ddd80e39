"""One file per backend: `load(argument) -> WordModel`."""
