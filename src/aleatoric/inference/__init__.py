"""Confidence intervals, tests, paired comparison, the human control, noise and planning."""
