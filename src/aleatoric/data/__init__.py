"""One file per corpus: `load(source, **options) -> Corpus`."""
