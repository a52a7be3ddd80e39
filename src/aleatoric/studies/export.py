"""Per-item rows for other tools: Parquet or CSV, written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from aleatoric.data import files
from aleatoric.errors import UsageError
from aleatoric.levels.base import level_of
from aleatoric.runs import Store

BATCH = 50_000
_TEXTS = ("system", "item", "group")


def export_rows(store: Store, path: Path) -> None:
    """Write every system's rows, an item's or a token's each, to `FILE.parquet` or `FILE.csv`."""
    files_of_rows = level_of(store).row_files(store)
    schema, batches = _item_rows(store) if files_of_rows is None else _kept_rows(files_of_rows)
    try:
        with (
            files.written_whole(path) as unfinished,
            _writer(path, unfinished, schema) as writer,
        ):
            for batch in batches:
                writer.write_batch(batch)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error}); choose another file.") from None


def _item_rows(store: Store) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    columns = ["system", "item", "group", "row", *store.stat_columns()]
    rows = (row[:-1] for row in store.stat_rows())
    schema = pa.schema([(name, _kind(name)) for name in columns])
    return schema, _batches(rows, schema)


def _kept_rows(kept: list[tuple[str, Path]]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Rows that were saved as Parquet, with their system before them."""
    own = pyarrow.parquet.read_schema(kept[0][1])
    schema = own.insert(0, pa.field("system", pa.string()))
    return schema, (batch for name, file in kept for batch in _of_system(name, file, schema))


def _of_system(name: str, file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in pyarrow.parquet.ParquetFile(file).iter_batches(BATCH):
        names = pa.array([name] * len(batch), pa.string())
        yield pa.record_batch([names, *batch.columns], schema=schema)


def _writer(path: Path, unfinished: Path, schema: pa.Schema) -> Any:
    if path.suffix == ".parquet":
        return pyarrow.parquet.ParquetWriter(unfinished, schema)
    if path.suffix == ".csv":
        return pyarrow.csv.CSVWriter(unfinished, schema)
    raise UsageError(f"{path}: rows are exported to a name that ends in .parquet or .csv.")


def _kind(name: str) -> pa.DataType:
    if name in _TEXTS:
        return pa.string()
    return pa.int64() if name == "row" else pa.float64()


def _batches(rows: Iterator[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while page := list(islice(rows, BATCH)):
        columns = zip(*page, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        yield pa.record_batch(arrays, schema=schema)
