"""Trains the translation models behind the e-ECE reproduction on Multi30K DE→EN."""
