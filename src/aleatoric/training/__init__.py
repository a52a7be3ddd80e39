"""Recipes that train models: what the reproductions need and no published checkpoint offers."""
