"""Compiled loops of probes."""
