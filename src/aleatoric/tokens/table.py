"""Per-token rows of a whole corpus, and the Parquet files that hold them, one a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aleatoric import files
from aleatoric.errors import DataError, UsageError
from aleatoric.tokens.schemes import Scheme
from aleatoric.tokens.statistics import Expected, TokenRows
from aleatoric.types import Floats, Ints

PLAIN = str(Scheme())
_OWN = ("target", "predicted", "confidence", "correct", "brier", "nll", "entropy")


@dataclass(frozen=True)
class TokenTable:
    """What studies read of each token: where it stands, how sure the model was, and of what.

    `unit` numbers documents or sentences in their order. `uncertainty` is the entropy that stands
    for the language's own uncertainty, in nats, of the model that `uncertainty_of` names.
    """

    unit: Ints
    target: Ints
    predicted: Ints
    confidence: Floats
    correct: Floats
    expected: Mapping[str, Expected]
    uncertainty: Floats
    uncertainty_of: str

    @property
    def plain(self) -> Expected:
        """Expected confidence and accuracy under the model's own distribution."""
        return self.expected[PLAIN]

    @property
    def disagreement(self) -> Floats:
        """D = |(p̂ − â) − (p̃ − ã)| of each token."""
        found: Floats = np.abs(
            (self.confidence - self.correct) - (self.plain.confidence - self.plain.accuracy)
        )
        return found


def write_part(path: Path, rows: TokenRows, groups: Sequence[str], positions: Ints) -> None:
    """Write the rows of a part in the order of its documents, whole or not at all."""
    import pyarrow as pa
    from pyarrow import parquet

    columns: dict[str, Any] = {"position": positions}
    columns |= {name: getattr(rows, name) for name in _OWN}
    for scheme, own in rows.expected.items():
        columns |= {f"p[{scheme}]": own.confidence, f"a[{scheme}]": own.accuracy}
    numbers = {group: i for i, group in enumerate(sorted(set(groups), key=_natural))}
    order = np.lexsort((positions, np.array([numbers[group] for group in groups])))
    table = {"group": pa.array(groups).take(pa.array(order))}
    table |= {name: pa.array(column[order]) for name, column in columns.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.written_whole(path) as unfinished:
        parquet.write_table(pa.table(table), unfinished)


def part_files(folder: Path) -> list[Path]:
    """The files of a system's rows, in the order of the corpus."""
    found = sorted(folder.glob("*.parquet"))
    if not found:
        raise UsageError(f"{folder.parent.parent}: keeps no rows; run it again with --keep-rows.")
    return found


def read_table(folder: Path, label: str) -> TokenTable:
    """All rows of a system; its own entropy stands for uncertainty until another's is put in."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        whole = pa.concat_tables([parquet.read_table(path) for path in part_files(folder)])
    except (OSError, pa.ArrowInvalid) as error:
        problem = f"holds no token rows ({type(error).__name__})"
        raise DataError.at(folder, None, problem, "run it again with --keep-rows") from None
    columns = {name: whole[name].to_numpy() for name in whole.column_names if name != "group"}
    units = whole["group"].combine_chunks().dictionary_encode().indices.to_numpy()
    return TokenTable(
        unit=units.astype(np.int64),
        target=columns["target"],
        predicted=columns["predicted"],
        confidence=columns["confidence"],
        correct=columns["correct"],
        expected={
            name[2:-1]: Expected(columns[name], columns[f"a{name[1:]}"])
            for name in columns
            if name.startswith("p[")
        },
        uncertainty=columns["entropy"],
        uncertainty_of=f"{label} itself",
    )


def _natural(group: str) -> tuple[int, str]:
    """Numbers in their order, then other names."""
    return (int(group), group) if group.isdecimal() else (1 << 62, group)
