"""Export per-item rows, texts and distances to Parquet or CSV, in batches of bounded size.

An interrupted export leaves no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from aleatoric.data import files
from aleatoric.errors import UsageError
from aleatoric.levels.base import level_of
from aleatoric.levels.text import Text, model_systems
from aleatoric.levels.text_scoring import CHUNK, Scorer
from aleatoric.levels.text_variability import Group
from aleatoric.result_types import Labels
from aleatoric.runs.run import Produced, Store, StoredTexts
from aleatoric.types import Floats, Ints

BATCH = 50_000
_TEXTS = ("system", "item", "group")
_WORDS, _NUMBERS = pa.string(), pa.int64()
TEXT_SCHEMA = pa.schema(
    [
        *((name, _WORDS) for name in ("item", "group", "side", "system")),
        ("number", _NUMBERS),
        *((name, _WORDS) for name in ("person", "text")),
    ]
)
"""One row per text: `side` is people or model, `number` counts from 0 within item and system."""
PAIR_SCHEMA = pa.schema(
    [
        *((name, _WORDS) for name in ("item", "group", "probe", "kind", "system")),
        *((name, _NUMBERS) for name in ("i", "j")),
        ("distance", pa.float64()),
    ]
)
"""One row per pair: `kind` is H, M or C, `i` and `j` are numbers of texts; in C, j is people's."""
Rows = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def write(rows: Rows, path: Path) -> None:
    """Write rows to `FILE.parquet` or `FILE.csv`."""
    schema, batches = rows
    try:
        with files.written_whole(path) as unfinished, _writer(path, unfinished, schema) as writer:
            for batch in batches:
                writer.write_batch(_protected(batch) if path.suffix == ".csv" else batch)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error}); choose another file.") from None


def to_table(rows: Rows) -> pa.Table:
    """Return rows as an Arrow table."""
    schema, batches = rows
    return pa.Table.from_batches(batches, schema)


def _protected(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose texts no spreadsheet takes for formulas."""
    columns = [
        pa.array([t and files.csv_text(t) for t in column.to_pylist()], column.type)
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, schema=batch.schema)


def text_rows(store: Store) -> Rows:
    """Return one row per text of people and of every system."""
    _check_texts(store)
    names = model_systems(store)
    rows = (row for produced in StoredTexts(store).walk() for row in _texts_of(produced, names))
    return TEXT_SCHEMA, _batches(rows, TEXT_SCHEMA)


def _check_texts(store: Store) -> None:
    if not isinstance(level_of(store), Text):
        raise UsageError(f"{store.path}: has no texts and pairs; give a run of aleatoric text.")


def _texts_of(produced: Produced, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    head = produced.item.id, produced.item.group
    texts = produced.item.references
    persons = produced.item.persons or (None,) * len(texts)
    for number, (person, text) in enumerate(zip(persons, texts, strict=True)):
        yield (*head, "people", None, number, person, text)
    for name in names:
        for number, text in enumerate(produced.systems.get(name, ())):
            yield (*head, "model", name, number, None, text)


def pair_rows(store: Store, allowed_probes: Collection[str] = ()) -> Rows:
    """Return one row per pair of texts and probe, with its distance."""
    _check_texts(store)
    scorer = Scorer.of(store.manifest, allowed_probes, store)
    return PAIR_SCHEMA, _pair_batches(store, scorer)


def _pair_batches(store: Store, scorer: Scorer) -> Iterator[pa.RecordBatch]:
    names, walk = model_systems(store), StoredTexts(store).walk()
    probes = [probe.name for probe in scorer.probes]
    while chunk := list(islice(walk, CHUNK)):
        for group in scorer.scores(scorer.texts(chunk, names), names).groups:
            heads = [(chunk[row].item.id, chunk[row].item.group) for row in group.rows]
            for kind, system, i, j, distances in _parts(group, names):
                step = max(1, BATCH // max(1, len(probes) * len(i)))
                for start in range(0, len(heads) if len(i) else 0, step):
                    part = slice(start, start + step)
                    what, values = (kind, system), distances[:, part]
                    yield _pair_batch(heads[part], probes, what, (i, j), values)


def _parts(
    group: Group, names: Sequence[str]
) -> Iterator[tuple[str, str | None, Ints, Ints, Floats]]:
    """Yield kind, system, numbers of both texts, and (probes, inputs, pairs) distances."""
    n_people = group.sizes[0]
    yield "H", None, *np.triu_indices(n_people, 1), group.human()
    for index, name in enumerate(names):
        n_texts = group.sizes[index + 1]
        yield "M", name, *np.triu_indices(n_texts, 1), group.model(index)
        grid = np.indices((n_texts, n_people)).reshape(2, -1)
        yield "C", name, *grid, group.cross(index)


def _pair_batch(
    heads: Sequence[tuple[str, str]],
    probes: Sequence[str],
    what: tuple[str, str | None],
    numbers: tuple[Ints, Ints],
    distances: Floats,
) -> pa.RecordBatch:
    """Return the rows of one kind of pair: by input, then by probe, then by pair."""
    n_probes, n_inputs, n_pairs = distances.shape
    values = distances.transpose(1, 0, 2).ravel()
    of_input = np.repeat(np.arange(n_inputs), n_probes * n_pairs)
    of_probe = np.tile(np.repeat(np.arange(n_probes), n_pairs), n_inputs)
    columns = [
        *(pa.array(head, _WORDS).take(pa.array(of_input)) for head in zip(*heads, strict=True)),
        pa.array(probes, _WORDS).take(pa.array(of_probe)),
        *(pa.array([name] * len(values), _WORDS) for name in what),
        *(pa.array(np.tile(number, n_inputs * n_probes), _NUMBERS) for number in numbers),
        pa.array(values, mask=np.isnan(values)),
    ]
    return pa.record_batch(columns, schema=PAIR_SCHEMA)


def item_rows(store: Store) -> Rows:
    """Return one row per item (or token) and system."""
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


def _saved_rows(row_files: list[tuple[str, Path]]) -> Rows:
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
