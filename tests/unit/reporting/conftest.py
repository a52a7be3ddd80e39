"""Fixtures: small runs and their explorer."""

from __future__ import annotations

from explored_fixtures import explorer, texts, words

__all__ = ["explorer", "texts", "words"]
