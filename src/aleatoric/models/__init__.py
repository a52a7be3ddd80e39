"""One file a backend: `load(argument) -> WordModel`."""
