"""The text level's part of a run: inputs with people's texts, generations, cached embeddings.

Inputs and generations lie in the tables of items and draws, so that a run of any level is counted,
joined and scored by the same statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from aleatoric import codec
from aleatoric.errors import UsageError
from aleatoric.store.run import Store
from aleatoric.store.schema import EMBEDDINGS, temporary
from aleatoric.types import TextItem, Texts

PAGE = 200
"""Inputs read at once: texts are longer than words."""
_ITEM = "SELECT no, id, grp, context, original, responses FROM items "


@dataclass(frozen=True, slots=True)
class Produced:
    """An input with everything written to it: people's texts, and each system's."""

    no: int
    item: TextItem
    systems: Mapping[str, tuple[str, ...]]


class TextShelf:
    """The texts of an opened run.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder) / "run", {"level": "text"}) as store:
    ...         shelf = TextShelf(store)
    ...         n = shelf.add_items([TextItem("1", "1", ("Hello?",), ("Hi.", "Yes?"))])
    ...         _ = store.add_system("toy", {})
    ...         added = shelf.add("toy", Texts("1", ("Hm.",)))
    ...         next(shelf.walk()).systems
    {'toy': ('Hm.',)}
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._db = store.db

    def add_items(self, items: Iterable[TextItem]) -> int:
        """Save a corpus's inputs with people's texts in one transaction; returns their number."""
        return self.store.add_item_rows(codec.dump_text_item(item) for item in items)

    def add(self, system: str, texts: Texts) -> bool:
        """Save what a system wrote to an input, at once; whether the run has the input.

        Texts that come for an input again are further texts to it.
        """
        item = self.store.item_no(texts.item_id)
        if item is None:
            return False
        number = self.store.system_no(system)
        count = "SELECT count(*) FROM draws WHERE item = ? AND system = ?"
        (row,) = self._db.execute(count, (item, number)).fetchone()
        sealed = codec.seal((item, number, row, codec.dump(texts.texts)))
        self._db.execute("INSERT INTO draws VALUES (?, ?, ?, ?)", sealed)
        return True

    def clear(self, system: str) -> None:
        """Forget what a system wrote."""
        self._db.execute("DELETE FROM draws WHERE system = ?", (self.store.system_no(system),))

    def walk(self, after: int = -1) -> Iterator[Produced]:
        """Every input in order with all its texts, page by page."""
        names = self.store.system_names()
        query = _ITEM + "WHERE no > ? ORDER BY no LIMIT ?"
        while page := self._db.execute(query, (after, PAGE)).fetchall():
            written = self._written(page[0][0], page[-1][0], names)
            after = page[-1][0]
            for no, *columns in map(codec.unseal, page):
                yield Produced(no, codec.load_text_item(*columns), written.get(no, {}))

    def waiting(self, system: str) -> Iterator[TextItem]:
        """The inputs to which a system has written nothing yet."""
        return (codec.load_text_item(*row) for row in self.store.waiting_rows(system, PAGE))

    def find(self, item_id: str) -> Produced:
        """One input with all its texts."""
        no = self.store.item_no(item_id)
        if no is None:
            raise UsageError(f"{self.store.path}: has no input {item_id!r}.")
        return next(self.walk(no - 1))

    def _written(
        self, first: int, last: int, names: Mapping[int, str]
    ) -> dict[int, dict[str, tuple[str, ...]]]:
        query = (
            "SELECT item, system, row, payload FROM draws WHERE item BETWEEN ? AND ? "
            "ORDER BY item, system, row"
        )
        found: dict[int, dict[str, tuple[str, ...]]] = {}
        for sealed in self._db.execute(query, (first, last)):
            item, system, _, payload = codec.unseal(sealed)
            own = found.setdefault(item, {})
            own[names[system]] = own.get(names[system], ()) + codec.load_texts(payload)
        return found


class EmbeddingCache(MutableMapping[str, bytes]):
    """Vectors of texts by content, kept in a run: what was encoded once is not encoded again.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder) / "run", {"level": "text"}) as store:
    ...         cache = EmbeddingCache(store)
    ...         cache.update({"a": b"1234"})
    ...         cache.get("a"), cache.get("b"), len(cache)
    (b'1234', None, 1)
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._db = store.db
        self._table = f"{store.place}.embeddings"
        if store.place == "temp":
            self._db.execute(temporary(EMBEDDINGS))

    def __getitem__(self, key: str) -> bytes:
        # What a reader works out lies apart from what the run has.
        for table in dict.fromkeys([self._table, "main.embeddings"]):
            query = f"SELECT vector FROM {table} WHERE hash = ?"
            found = self._db.execute(query, (key,)).fetchone()
            if found is not None:
                return bytes(found[0])
        raise KeyError(key)

    def __setitem__(self, key: str, vector: bytes) -> None:
        self._db.execute(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", (key, vector))

    def update(self, vectors: Mapping[str, bytes]) -> None:  # type: ignore[override]
        """Keep many vectors in one transaction."""
        with self._store.transaction():
            for key, vector in vectors.items():
                self[key] = vector

    def __delitem__(self, key: str) -> None:
        self._db.execute(f"DELETE FROM {self._table} WHERE hash = ?", (key,))

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._db.execute(f"SELECT hash FROM {self._table}"))

    def __len__(self) -> int:
        return int(self._db.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0])
