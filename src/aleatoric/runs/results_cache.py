"""Results of a finished run, cached in its directory: looking at it again needs no resampling.

A cached result is used only for the state of the run, the version of the code and the method of
intervals that it was computed with. The file can be deleted at any time; a damaged one is ignored,
and none is written to a run that is read-only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any

from aleatoric.result_types import Result
from aleatoric.runs.formats import DATABASE, Shape, each, fits, int_between, is_number, is_text
from aleatoric.runs.run import Store, StoredRows
from aleatoric.runs.tables import COMPLETE
from aleatoric.types import Estimate, Interval, Perfect, Signature

CACHE, FIGURES = "results.json", "figures.json"
Compute = Callable[[str], Iterable[Result]]
"""Computes the results of a system."""
_NUMBER, _TEXT = (is_number, None), (is_text, None)
_INTERVAL = dict.fromkeys(("low", "high", "level"), is_number) | {"method": is_text}
_RESULT: Shape = {
    "metric": is_text,
    "column": _TEXT,
    "signature": dict.fromkeys((field.name for field in fields(Signature)), is_text)
    | {"protocol": each(is_text), "seed": int},
    "estimate": {
        **dict.fromkeys(("value", "spread", "p_calibrated"), _NUMBER),
        **dict.fromkeys(("n_items", "n_groups", "n_undefined", "n_missing"), int_between(0)),
        "interval": (_INTERVAL, None),
        "reason": _TEXT,
    },
    "perfect": ({"low": _NUMBER, "high": _NUMBER, "method": is_text, "reason": _TEXT}, None),
}
"""A cached result: a run may come from others, so that every value is checked."""
_STATE = (
    "SELECT key, checksum FROM meta ORDER BY key",
    "SELECT no, name, checksum FROM systems ORDER BY no",
    "SELECT system, checksum FROM token_sums ORDER BY system",
)
_MOST_BYTES = 1 << 28
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def cached_results(
    store: Store, systems: Sequence[str], interval: str, code: str, compute: Compute
) -> list[Result]:
    """Return results of systems, computed by this version of the `code` if the run lacks them."""
    if not store.meta(COMPLETE):
        return [result for system in systems for result in compute(system)]
    state = state_of(store, code)
    saved = _read(store.path / CACHE, state, each([_RESULT]))
    keys = {system: f"{interval} {system}" for system in systems}
    found = {name: _load(store, name, saved.get(key)) for name, key in keys.items()}
    new = {name: list(compute(name)) for name in systems if found[name] is None}
    if new and store.database == "main":
        dumped = {keys[name]: list(map(_dump, results)) for name, results in new.items()}
        if fits(dumped, each([_RESULT])):  # else of another package, with what JSON cannot hold
            _save(store.path / CACHE, state, {**saved, **dumped})
    return [result for name in systems for result in new.get(name) or found[name] or ()]


def cached_figures(store: Store, key: str, code: str, compute: Callable[[], Any]) -> Any:
    """Return the JSON to draw a system's figures, computed if absent; the caller checks it."""
    if not store.meta(COMPLETE):
        return compute()
    state = state_of(store, code)
    saved = _read(store.path / FIGURES, state, dict)
    if key not in saved:
        saved = {**saved, key: compute()}
        if store.database == "main":
            _save(store.path / FIGURES, state, saved)
    return saved[key]


def state_of(store: Store, code: str) -> str:
    """Return a checksum of what results depend on; a fact numbers the state of statistics."""
    tables = [store.db.execute(query).fetchall() for query in _STATE]
    return hashlib.sha256(json.dumps([code, tables]).encode()).hexdigest()


def _read(path: Path, state: str, shape: Shape) -> Mapping[str, Any]:
    """Return key -> what is cached of a state; nothing if the file is not as written."""
    with suppress(OSError, ValueError, RecursionError):
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            digest, _, text = file.read(_MOST_BYTES if is_file else 0).partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() == digest:
            saved = json.loads(text)
            if fits(saved, {"results": shape}) and saved["state"] == state:
                return dict(saved["results"])
    return {}


def _save(path: Path, state: str, results: Mapping[str, Any]) -> None:
    """Replace the file by one with these results, at once or not at all."""
    text = json.dumps({"state": state, "results": results}).encode()
    with suppress(OSError), _replacing(path) as file:
        file.write(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that replaces `path` at once, even where that is a link to another file."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        try:
            yield file
            file.flush()
            shutil.copymode(path.parent / DATABASE, file.name)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _dump(result: Result) -> dict[str, Any]:
    rows, perfect = result.rows, result.perfect
    return {
        "metric": result.metric,
        "signature": asdict(result.signature),
        "estimate": asdict(result.estimate),
        "perfect": None if perfect is None else asdict(perfect),
        # Rows that the run does not hold have no column, and are not cached.
        "column": rows.column if isinstance(rows, StoredRows) else rows or None,
    }


def _load(store: Store, system: str, saved: Sequence[Any] | None) -> list[Result] | None:
    """Return cached results; `None` if there are none, or if they have other parts."""
    try:
        return None if saved is None else [_result(store, system, entry) for entry in saved]
    except (KeyError, TypeError):
        return None


def _result(store: Store, system: str, saved: Any) -> Result:
    estimate, perfect, column = saved["estimate"], saved["perfect"], saved["column"]
    interval = estimate["interval"]
    return Result(
        system,
        saved["metric"],
        Signature(**saved["signature"]),
        Estimate(**estimate | {"interval": None if interval is None else Interval(**interval)}),
        None if perfect is None else Perfect(**perfect),
        () if column is None else StoredRows(store, system, column),
    )
