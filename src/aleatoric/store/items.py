"""Items of a corpus and what systems answered to them, in the order of the corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from aleatoric import codec
from aleatoric.store.base import Tables
from aleatoric.store.schema import ITEMS_SAVED
from aleatoric.store.statistics import PAGE
from aleatoric.types import Draws, Item

_ITEMS = "SELECT no, id, grp, context, original, responses FROM items"
_ANSWERED = "EXISTS (SELECT 1 FROM draws WHERE item = no AND system = ?)"


@dataclass(frozen=True)
class Joined:
    """How a model's rows met the corpus: what matched, what had no item, what came again."""

    matched: int
    unmatched: int
    repeated: int


class Mark(NamedTuple):
    """An item's place in a run, and whether a system has answered it."""

    no: int
    id: str
    group: str
    is_answered: bool


class ItemTables(Tables):
    """The tables of items and draws."""

    def add_items(self, items: Iterable[Item]) -> int:
        """Save a corpus's items in one transaction; returns their number."""
        return self.add_item_rows(map(codec.dump_item, items))

    def add_item_rows(self, rows: Iterable[codec.ItemRow]) -> int:
        """Save items as their columns, numbered in the order in which the corpus has them.

        Where a damaged run has lost some, those alone are filled in.
        """
        insert = (
            "INSERT INTO items (no, id, grp, context, original, responses) "
            "VALUES (?, ?, ?, ?, ?, ?)"
        )
        with self.transaction():
            known = {no for (no,) in self.db.execute("SELECT no FROM items")}
            first = 1 if self.lacks_items else len(known) + 1
            numbered = ((first + place, *row) for place, row in enumerate(rows))
            new = (codec.seal(row) for row in numbered if row[0] not in known)
            self.db.executemany(insert, new)
            self.set_meta(ITEMS_SAVED, self.n_items)
        return self.n_items

    @property
    def lacks_items(self) -> bool:
        """Whether the items of the corpus are not, or not all, in the run."""
        saved = self.meta(ITEMS_SAVED)
        return saved is None or self.n_items < int(saved)

    @property
    def n_items(self) -> int:
        """How many items the run holds."""
        return int(self.db.execute("SELECT count(no) FROM items").fetchone()[0])

    def add_draws(self, system: str, draws: Iterable[Draws], whole: bool = True) -> Joined:
        """Save draws joined to items by id: in one transaction, or as they come."""
        number = self.system_no(system)
        matched = unmatched = repeated = 0
        with self.transaction() if whole else nullcontext():
            for one in draws:
                item = self.item_no(one.item_id)
                if item is None:
                    unmatched += 1
                    continue
                matched += 1
                repeated += one.row > 0
                row = codec.seal((item, number, one.row, codec.dump_draws(one)))
                self.db.execute("INSERT OR REPLACE INTO draws VALUES (?, ?, ?, ?)", row)
        return Joined(matched, unmatched, repeated)

    def n_items_with_draws(self, system: str) -> int:
        """How many items a system has answered."""
        query = "SELECT count(DISTINCT item) FROM draws WHERE system = ?"
        return int(self.db.execute(query, (self.system_no(system),)).fetchone()[0])

    def waiting(self, system: str) -> Iterator[Item]:
        """The items that a system has not answered yet, page by page."""
        return (codec.load_item(*row) for row in self.waiting_rows(system, PAGE))

    def waiting_rows(self, system: str, page_size: int) -> Iterator[tuple[Any, ...]]:
        """The columns of the items that a system has not answered yet."""
        number, last = self.system_no(system), -1
        query = f"{_ITEMS} WHERE no > ? AND NOT {_ANSWERED} ORDER BY no LIMIT ?"
        while page := self.db.execute(query, (last, number, page_size)).fetchall():
            last = page[-1][0]
            yield from (codec.unseal(row)[1:] for row in page)

    def marks(self, system: str) -> Iterator[Mark]:
        """Every item in order, and whether a system has answered it."""
        query = f"SELECT no, id, grp, {_ANSWERED} FROM items ORDER BY no"
        return (
            Mark(no, item_id, group, bool(answered))
            for no, item_id, group, answered in self.db.execute(query, (self.system_no(system),))
        )

    def items_between(self, first: int, last: int) -> list[Item]:
        """The items of these numbers, both included."""
        query = f"{_ITEMS} WHERE no BETWEEN ? AND ? ORDER BY no"
        rows = map(codec.unseal, self.db.execute(query, (first, last)))
        return [codec.load_item(*rest) for _, *rest in rows]

    def walk(self, system: str | None = None) -> Iterator[tuple[int, Item, dict[str, list[Draws]]]]:
        """Every item in order, with its number and the draws of each system, or of one."""
        names = self.system_names()
        if system is not None:
            names = {no: name for no, name in names.items() if name == system}
        for page in self._item_pages():
            by_item = self._draws_between(page[0][0], page[-1][0], names)
            for no, item in page:
                yield no, item, by_item.get(no, {})

    def walk_system(self, system: str) -> Iterator[tuple[Item, list[Draws]]]:
        """The items that a system has answered, with its draws."""
        for _, item, systems in self.walk(system):
            if system in systems:
                yield item, systems[system]

    def item_no(self, item_id: str) -> int | None:
        """The number of an item in the run, or `None`."""
        found = self.db.execute("SELECT no FROM items WHERE id = ?", (item_id,)).fetchone()
        return None if found is None else int(found[0])

    def _item_pages(self) -> Iterator[list[tuple[int, Item]]]:
        last = -1
        query = f"{_ITEMS} WHERE no > ? ORDER BY no LIMIT ?"
        while page := self.db.execute(query, (last, PAGE)).fetchall():
            last = page[-1][0]
            yield [(no, codec.load_item(*rest)) for no, *rest in map(codec.unseal, page)]

    def _draws_between(
        self, first: int, last: int, names: Mapping[int, str]
    ) -> dict[int, dict[str, list[Draws]]]:
        one = min(names) if len(names) == 1 else None
        query = (
            "SELECT id, item, system, row, payload FROM draws JOIN items ON items.no = item "
            "WHERE item BETWEEN ? AND ? AND (? IS NULL OR system = ?) ORDER BY item, system, row"
        )
        found: dict[int, dict[str, list[Draws]]] = {}
        for item_id, *sealed in self.db.execute(query, (first, last, one, one)):
            item, system, row, payload = codec.unseal(tuple(sealed))
            of_system = found.setdefault(item, {}).setdefault(names[system], [])
            of_system.append(codec.load_draws(item_id, row, payload))
        return found
