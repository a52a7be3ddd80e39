"""The token level's part of a run: sums of what each system has read, and where its rows lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aleatoric import codec
from aleatoric.store.base import Tables

TOKEN_ROWS = "tokens"
"""The folder of per-token rows in a run directory, where they are kept."""


@dataclass(frozen=True)
class TokenSums:
    """How far a system has read a corpus, and the sums of what it read as a stream saved them."""

    items: int
    unscored: int
    """Items that were too short to hold a scored token."""
    tokens: int
    payload: bytes


class TokenTables(Tables):
    """The sums of an opened run's systems."""

    def save_token_sums(self, system: str, sums: TokenSums) -> None:
        """Replace a system's sums by those of more of the corpus, in one transaction."""
        row = (self.system_no(system), sums.items, sums.unscored, sums.tokens, sums.payload)
        insert = "INSERT OR REPLACE INTO token_sums VALUES (?, ?, ?, ?, ?)"
        self.db.execute(insert, codec.seal(row))

    def token_sums(self, system: str) -> TokenSums | None:
        """A system's sums, or `None` before its first part is done."""
        query = "SELECT system, items, unscored, tokens, payload FROM token_sums WHERE system = ?"
        found = self.db.execute(query, (self.system_no(system),)).fetchone()
        return None if found is None else TokenSums(*codec.unseal(found)[1:])

    def tokens_read(self, system: str) -> int:
        """How many tokens a system's sums are of."""
        query = "SELECT tokens FROM token_sums WHERE system = ?"
        found = self.db.execute(query, (self.system_no(system),)).fetchone()
        return int(found[0]) if found else 0

    def token_rows_folder(self, system: str) -> Path:
        """Where a system's per-token rows lie, a Parquet file for each part of the corpus."""
        return self.path / TOKEN_ROWS / f"{self.system_no(system):03}"
