"""One file a corpus: `load(source, **options) -> Corpus`."""
