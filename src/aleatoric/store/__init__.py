"""The run directory: one SQLite file between sampling, scoring and reporting."""

from aleatoric.store.run import PAGE, Joined, Store, TokenSums
from aleatoric.store.schema import DATABASE, SCHEMA_VERSION

__all__ = ["DATABASE", "PAGE", "SCHEMA_VERSION", "Joined", "Store", "TokenSums"]
