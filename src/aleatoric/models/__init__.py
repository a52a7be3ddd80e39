"""Backends: one file a kind of model. Heavy dependencies are imported where they are used."""
