"""Canonical text form of a run: two runs with the same lines have the same results.

Row numbers, times and package versions are excluded: they may differ between an uninterrupted run
and one that was interrupted, moved or distributed. Probabilities of `exact`, which a live model
computes, are equal only up to rounding after a resume: contexts are then batched differently, and
the last digits depend on the batch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from aleatoric.runs import formats
from aleatoric.runs.run import Store
from aleatoric.runs.tables import TOKEN_ROWS

MAY_DIFFER = ("versions", "device", "batch_tokens", "remarks", "save_every", "language")
_FACTS = ("notes", "complete", "stat_columns", "split_names", "probe_facts", "probe_bounds")


def canonical_bytes(store: Store) -> bytes:
    """Return the contents of a run in canonical order.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder) / "run", {"level": "word"}) as store:
    ...         canonical_bytes(store).splitlines()[0]
    b'["manifest", "command", "word"]'
    """
    return "".join(f"{line}\n" for line in canonical_lines(store)).encode()


def canonical_lines(store: Store) -> Iterator[str]:
    """One JSON list per line: manifest, facts, items, systems, draws, statistics, token sums."""
    for part in (_manifest, _facts, _items, _systems, _draws, _statistics, _token_sums):
        for row in part(store):
            yield json.dumps(row, sort_keys=True, ensure_ascii=False)
    yield from _token_rows(store)


def _manifest(store: Store) -> Iterator[Any]:
    manifest = store.manifest
    for name in sorted(manifest.keys() - set(MAY_DIFFER)):
        yield ["manifest", name, manifest[name]]


def _facts(store: Store) -> Iterator[Any]:
    for name in _FACTS:
        yield ["fact", name, store.meta(name)]
    for name in sorted(store.systems()):
        yield ["system facts", name, store.meta(f"done {name}"), store.meta(f"tally {name}")]


def _items(store: Store) -> Iterator[Any]:
    query = f"{formats.select('items')} ORDER BY no"
    for _, *columns in map(formats.unseal, store.db.execute(query)):
        yield ["item", *columns]


def _systems(store: Store) -> Iterator[Any]:
    return (["system", name, facts] for name, facts in sorted(store.systems().items()))


def _draws(store: Store) -> Iterator[Any]:
    query = (
        "SELECT id, name, item, system, row, payload, draws.checksum FROM draws "
        "JOIN items ON items.no = item JOIN systems ON systems.no = system ORDER BY item, name, row"
    )
    for item_id, name, *sealed in store.db.execute(query):
        *_, row, payload = formats.unseal(tuple(sealed))
        yield ["draws", item_id, name, row, payload]


def _statistics(store: Store) -> Iterator[Any]:
    if not store.has_stats():
        return
    for *numbers, splits in store.stat_rows(sorted(store.systems())):
        yield ["statistics", *numbers, (splits or b"").hex()]


def _token_sums(store: Store) -> Iterator[Any]:
    for name in sorted(store.systems()):
        sums = store.token_sums(name)
        if sums is not None:
            digest = hashlib.sha256(sums.payload).hexdigest()
            yield ["token sums", name, sums.items, sums.unscored, sums.tokens, digest]


def _token_rows(store: Store) -> Iterator[str]:
    for name in sorted(store.systems()):
        for file in sorted(store.token_rows_folder(name).glob("*.parquet")):
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            yield json.dumps([TOKEN_ROWS, name, file.name, digest])
