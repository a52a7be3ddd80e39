"""Hypothesis settings: no deadline, so that a busy machine does not fail a property."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
