"""Intervals, floors and the human control."""
