"""How items are worked through by live models."""
