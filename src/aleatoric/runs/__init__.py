"""The run directory: one SQLite file between sampling, scoring and reporting."""

from aleatoric.runs.disk import LOCK, LockedError
from aleatoric.runs.formats import DATABASE, SCHEMA_VERSION
from aleatoric.runs.run import Store
from aleatoric.runs.tables import (
    BASE_WEIGHTS,
    COMPLETE,
    FINETUNING,
    PAGE,
    TRAINING,
    Joined,
    TokenSums,
)

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
