"""Probes: distances between two texts, with the taggers and encoders that they need."""
