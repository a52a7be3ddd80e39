"""Hostile bytes for every reader: `python -m fuzz TARGET --seconds N`; see docs/reliability.md."""
