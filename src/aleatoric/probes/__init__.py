"""Distances between two texts, one file each."""
