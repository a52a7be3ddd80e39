"""Calibration errors of the token level, from a stream of logits at reference tokens."""
