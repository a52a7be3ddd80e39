"""Tokenisers, taggers and encoders, each imported when asked for."""
