"""Intervals, tests and the human control."""
