"""What `aleatoric list` shows: every metric, corpus, model, ... with its use and one line on it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from aleatoric import registry
from aleatoric.errors import AleatoricError
from aleatoric.models.decoding import WHOLE
from aleatoric.reporting import resource
from aleatoric.result_types import Table
from aleatoric.studies.compare_statistics import better

_CATALOG = tomllib.loads(resource("catalog.toml"))
METRICS: Mapping[str, Mapping[str, str]] = _CATALOG["metrics"]
"""Level -> metric -> what it is; the leading metrics first."""


SECTIONS: Mapping[str, Mapping[str, Any]] = _CATALOG["sections"]
"""Kind -> `title`, `notes`; `kinds` of the registry with their levels; `uses`: names with use."""
KINDS = ("metrics", *SECTIONS)


def listing(kind: str) -> Table:
    """Return what there is of a kind, one row per name."""
    return _metrics() if kind == "metrics" else _section(**SECTIONS[kind])


def _metrics() -> Table:
    """Return all metrics; those that other packages register are metrics of words."""
    rows = [
        (name, level, better(name) or "–", text)
        for level, metrics in METRICS.items()
        for name, text in metrics.items()
    ]
    others = [name for name in registry.names("metrics") if name not in METRICS["word"]]
    rows += [(n, "word", better(n) or "–", _first_line("metrics", n)) for n in others]
    notes = (
        "better: whether higher or lower values are better; – where neither is.",
        "Every run computes its metrics; compare systems with aleatoric compare RUN --metric NAME.",
    )
    return Table("Metrics", ("name", "level", "better", "description"), tuple(rows), notes)


def _section(
    title: str,
    kinds: Mapping[str, str],
    uses: Mapping[str, Sequence[str]],
    notes: Sequence[str] = (),
) -> Table:
    # Only decoders are not of the registry.
    levels = {name: "text" if name in WHOLE else "word, text" for name in uses if not kinds}
    found: dict[str, str] = {}
    for kind, level in kinds.items():
        for name in registry.names(kind):
            levels[name] = f"{levels[name]}, {level}" if name in levels else level
            found.setdefault(name, kind)
    rows = [(name, levels[name], *use) for name, use in uses.items() if name in levels]
    others = [(name, kind) for name, kind in found.items() if name not in uses]
    rows += [(name, levels[name], name, _first_line(kind, name)) for name, kind in others]
    columns = ("name", "level", "use", "description")
    return Table(title, columns, tuple(rows), tuple(notes))


def _first_line(kind: str, name: str) -> str:
    """Return the first line of a plugin's documentation; one that cannot be imported has none."""
    try:
        lines = (registry.find(kind, name).__doc__ or "").strip().splitlines()
    except (AleatoricError, ImportError):
        return "cannot be imported"
    return lines[0] if lines else ""
