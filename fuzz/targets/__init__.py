"""One file a target: `SEEDS`, `TOKENS` and `trial(data)`."""
