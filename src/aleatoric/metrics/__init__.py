"""Per-item statistics of people and a model, and their reductions to one number."""
