"""The run directory: one SQLite file between sampling, scoring and reporting."""

from aleatoric.store.base import BASE_WEIGHTS, COMPLETE, FINETUNING, TRAINING
from aleatoric.store.items import Joined
from aleatoric.store.locking import LOCK, LockedError
from aleatoric.store.run import Store
from aleatoric.store.schema import DATABASE, SCHEMA_VERSION
from aleatoric.store.statistics import PAGE
from aleatoric.store.token_sums import TokenSums

__all__ = [
    "BASE_WEIGHTS",
    "COMPLETE",
    "DATABASE",
    "FINETUNING",
    "LOCK",
    "PAGE",
    "SCHEMA_VERSION",
    "TRAINING",
    "Joined",
    "LockedError",
    "Store",
    "TokenSums",
]
