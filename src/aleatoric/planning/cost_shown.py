"""Predicted costs as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aleatoric.planning.cost import ADVICE, Cost, Machine, Work
from aleatoric.planning.cost_table import LOCAL_BYTES, REACHED, SHARED_BYTES
from aleatoric.types import Table

Row = tuple[Work, float, Machine, Cost]
_EXPLAINED = (
    "model: tokens read; load: weights; write: draws into the run; score: statistics. Draws are "
    "written while others are made, and scored at the end.",
    f"Assumed: weights come at {LOCAL_BYTES / 1e9:g} GB/s from a disk of a worker's own and at "
    f"{SHARED_BYTES / 1e9:g} GB/s from one that all share; GPUs that were not measured reach "
    f"{REACHED:.0%} of their peak; workers share the work evenly.",
)


def cost_table(rows: Sequence[Row]) -> Table:
    """A row a design, and what to do about each part that is ever the longest."""
    shown = tuple(_cells(*row) for row in rows)
    columns = (
        *("parameters", "samples", "contexts", "device", "workers", "tokens", "load", "model"),
        *("write", "score", "in all", "memory each", "disk", "longest"),
    )
    longest = dict.fromkeys(cost.bottleneck for *_, cost in rows)
    advice = tuple(f"Where {part} takes longest: {ADVICE[part]}." for part in longest)
    return Table("Cost of a run", columns, shown, (*advice, *_EXPLAINED))


def cost_dicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The same as plain data, in seconds and bytes."""
    return [
        {
            "parameters": parameters,
            "samples": work.samples,
            "contexts": work.contexts,
            "device": machine.device.name,
            "dtype": machine.dtype,
            "workers": machine.workers,
            **cost.as_dict(),
            "advice": ADVICE[cost.bottleneck],
        }
        for work, parameters, machine, cost in rows
    ]


def _cells(work: Work, parameters: float, machine: Machine, cost: Cost) -> tuple[str, ...]:
    name = machine.device.name
    gpus = cost.gpus // machine.workers
    return (
        count(parameters),
        "exact" if work.samples is None else str(work.samples),
        str(work.contexts),
        f"{gpus} x {name}" if gpus > 1 else name,
        str(machine.workers),
        count(cost.tokens),
        *(duration(own) for own in (cost.load, cost.model, cost.write, cost.score, cost.seconds)),
        size(cost.worker_memory),
        size(cost.disk),
        cost.bottleneck,
    )


def count(number: float) -> str:
    """A number with its unit.

    >>> count(135e6), count(70e9), count(950)
    ('135M', '70B', '950')
    """
    for unit, value in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if number >= value:
            return f"{number / value:.3g}{unit}"
    return f"{number:.3g}"


def size(number: float) -> str:
    """Bytes with their unit.

    >>> size(1.75e11), size(5e8)
    ('175 GB', '500 MB')
    """
    for unit, value in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= value:
            return f"{number / value:.3g} {unit}"
    return f"{number / 1e3:.3g} KB"


def duration(seconds: float) -> str:
    """Seconds in the unit in which one would say them.

    >>> duration(0.25), duration(90), duration(7200), duration(5e6)
    ('0.25 s', '90 s', '2.0 h', '58 days')
    """
    if seconds < 300:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    return f"{seconds / 3600:.1f} h" if days < 3 else f"{days:.0f} days"
