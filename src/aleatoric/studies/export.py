"""Export per-item rows to Parquet or CSV; an interrupted export leaves no file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from aleatoric.data import files
from aleatoric.errors import UsageError
from aleatoric.levels.base import level_of
from aleatoric.result_types import Labels
from aleatoric.runs.run import Store

BATCH = 50_000
_TEXTS = ("system", "item", "group")


def export_rows(store: Store, path: Path) -> None:
    """Write one row per item (or token) and system to `FILE.parquet` or `FILE.csv`."""
    schema, batches = _rows(store)
    try:
        with files.written_whole(path) as unfinished, _writer(path, unfinished, schema) as writer:
            for batch in batches:
                writer.write_batch(_protected(batch) if path.suffix == ".csv" else batch)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error}); choose another file.") from None


def _protected(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose texts no spreadsheet takes for formulas."""
    columns = [
        pa.array([t and files.csv_text(t) for t in column.to_pylist()], column.type)
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, schema=batch.schema)


def rows_table(store: Store) -> pa.Table:
    """Return one row per item (or token) and system as an Arrow table."""
    schema, batches = _rows(store)
    return pa.Table.from_batches(batches, schema)


def _rows(store: Store) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if row_files := level_of(store).row_files(store):
        return _saved_rows(row_files)
    level = level_of(store)
    labels = {system: level.labels(store, system) for system in store.systems()}
    names = list(dict.fromkeys(name for own in labels.values() for name in own))
    columns = ["system", "item", "group", "row", *store.stat_columns(), *names]
    kinds = dict.fromkeys((*_TEXTS, *names), pa.string()) | {"row": pa.int64()}
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in columns])
    return schema, _batches(_labelled(store, labels, names), schema)


def _labelled(
    store: Store, labels: Mapping[str, Mapping[str, Labels]], names: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the statistics of every row, then its labels."""
    for system, own in labels.items():
        # A system without labels, such as people, has none in any row.
        listed = zip(*(own[name] for name in names), strict=True) if own else repeat(())
        for row, values in zip(store.stat_rows([system]), listed):  # noqa: B905
            yield (*row[:-1], *(values or [None] * len(names)))


def _saved_rows(row_files: list[tuple[str, Path]]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return rows saved as Parquet, with the system as first column."""
    saved = pyarrow.parquet.read_schema(row_files[0][1])
    schema = saved.insert(0, pa.field("system", pa.string()))
    return schema, (
        pa.record_batch([pa.array([name] * len(batch), pa.string()), *batch.columns], schema=schema)
        for name, file in row_files
        for batch in pyarrow.parquet.ParquetFile(file).iter_batches(BATCH)
    )


def _writer(path: Path, unfinished: Path, schema: pa.Schema) -> Any:
    writers = {".parquet": pyarrow.parquet.ParquetWriter, ".csv": pyarrow.csv.CSVWriter}
    if path.suffix not in writers:
        raise UsageError(f"{path}: rows are exported to a name that ends in .parquet or .csv.")
    return writers[path.suffix](unfinished, schema)


def _batches(rows: Iterator[tuple[Any, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while page := list(islice(rows, BATCH)):
        columns = zip(*page, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        yield pa.record_batch(arrays, schema=schema)
