"""Per-item statistics of a `Pair`, and their reductions to one number."""
