"""A plan as a table and as the data of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aleatoric.inference import planning
from aleatoric.inference.noise import Size, VarianceParts
from aleatoric.studies.cost import ADVICE, LOCAL_BYTES, REACHED, SHARED_BYTES, Cost, Machine, Work
from aleatoric.studies.figure_data import Line, Lines, Mark, Panels, plain
from aleatoric.studies.plan import PlanRow, RunPlan, Target
from aleatoric.types import Ints, Table

_PLAN_NOTES = (
    "SE: predicted standard error of the mean over contexts; width: of its interval.",
    "answers: of people, in all; draws: of the model, or of each of two that are compared, in all.",
)


def plan_table(plan: RunPlan) -> Table:
    """People x samples x contexts, with what each would give and cost."""
    rows = tuple(_plan_cells(row) for row in plan.rows)
    columns = (
        *("people", "samples", "groups", "contexts", "SE", "[low, high]", "width"),
        *("power", "answers", "draws", "meets"),
    )
    kept = [i for i, _ in enumerate(columns) if any(row[i] for row in rows)]
    return Table(
        f"Plan: {plan.source}",
        tuple(columns[i] for i in kept),
        tuple(tuple(row[i] for i in kept) for row in rows),
        (*_goal(plan), *plan.notes, *_PLAN_NOTES),
    )


def _plan_cells(row: PlanRow) -> tuple[str, ...]:
    design, interval = row.design, row.interval
    mark = "*" if row.extrapolated else ""
    bound = "≤ " if row.upper_bound else ""
    return (
        str(design.people),
        size_name(design.samples),
        str(design.groups),
        str(design.contexts),
        f"{bound}{row.se:.4f}{mark}",
        f"[{interval.low:.4f}, {interval.high:.4f}]" if interval else "",
        f"{row.width:.4f}",
        "" if row.power is None else f"{row.power:.2f}",
        str(design.answers),
        "–" if design.draws is None else str(design.draws),
        "" if row.meets is None else ("yes" if row.meets else "no"),
    )


def _goal(plan: RunPlan) -> list[str]:
    """What is asked for, how the variance lies, and which design costs people least."""
    found = []
    if plan.target.error is not None:
        found.append(f"Target: {target_name(plan.target)}, so SE ≤ {plan.target.error:.4f}.")
    enough = [row for row in plan.rows if row.meets]
    if enough:
        best = min(enough, key=lambda row: (row.design.answers, row.design.draws or 0))
        found.append(
            f"Fewest answers: {best.design.people} people per context, samples: "
            f"{size_name(best.design.samples)}, {best.design.contexts} contexts in "
            f"{best.design.groups} groups."
        )
    found += [_shares(plan.rows[-1])] if plan.rows else []
    return [*found, _pilot(plan.split)] if plan.split else found


def _pilot(split: VarianceParts) -> str:
    """Where the noise of the pilot's own mean comes from."""
    parts = {"people": split.people, "samples": split.model, "contexts": split.contexts}
    total = split.total or 1.0
    listed = ", ".join(f"{name} {value / total:.0%}" for name, value in parts.items())
    return (
        f"The pilot's own SE is {split.standard_error:.4f}. Its square by source: {listed} (one "
        "person, one draw left out at a time; contexts and their groups have the rest)."
    )


def _shares(row: PlanRow) -> str:
    """Where the variance of the last design comes from."""
    parts, crowding = row.parts, row.design.crowding
    by_source = {
        "groups": parts.groups * crowding.seen,
        "contexts": parts.contexts,
        "people": parts.people,
        "samples": parts.samples,
    }
    total = sum(by_source.values()) or 1.0
    listed = ", ".join(f"{name} {value / total:.0%}" for name, value in by_source.items())
    effect = planning.design_effect(parts, crowding)
    return (
        f"Variance of the last row by source: {listed}; intra-group correlation "
        f"{parts.correlation:.3f}, design effect {effect:.2f}."
    )


def target_name(target: Target) -> str:
    """A target in words.

    >>> target_name(Target(power=0.8, difference=0.02))
    'power 0.8 for a difference of 0.02'
    """
    if target.se is not None:
        return f"standard error {target.se:g}"
    if target.width is not None:
        return f"interval width {target.width:g}"
    return f"power {target.power:g} for a difference of {target.difference:g}"


def size_name(size: Size) -> str:
    """A number of samples in words.

    >>> size_name(None)
    'exact'
    """
    return "exact" if size is None else str(size)


def plan_picture(plan: RunPlan) -> Panels:
    """Predicted standard error by number of contexts, a line for each pair of sizes; and power."""
    designs = {(row.design.people, row.design.samples): row for row in plan.rows}
    top = max(row.design.groups for row in plan.rows)
    groups = np.unique(np.geomspace(2, max(4, 2 * top), 60).round().astype(int))
    error = plan.target.error
    marks = (Mark("target", y=error),) if error is not None else ()
    lines = tuple(_line(row, groups) for row in designs.values())
    title = f"Plan: {plan.source}"
    panels = [Lines("standard error", "contexts", "predicted SE", lines, marks)]
    if plan.target.difference is not None:
        panels.append(_power(list(designs.values()), groups, plan.target))
    return Panels(title, tuple(panels), len(panels))


def _line(row: PlanRow, groups: Ints) -> Line:
    contexts = groups * row.design.crowding.mean
    # Of a given design, only the number of groups changes along a line.
    errors = row.se * np.sqrt(row.design.groups / groups)
    label = f"{row.design.people} people, {size_name(row.design.samples)} samples"
    return Line(label, plain(contexts), plain(errors))


def _power(rows: Sequence[PlanRow], groups: Ints, target: Target) -> Lines:
    lines = []
    for row in rows:
        line = _line(row, groups)
        power = [planning.power(e, target.difference or 0.0, target.level) for e in line.y]
        lines.append(Line(line.label, line.x, plain(power)))
    marks = (Mark("target", y=target.power),) if target.power is not None else ()
    title = f"power to see {target.difference:g}"
    return Lines(title, "contexts", "power", tuple(lines), marks)


CostRow = tuple[Work, float, Machine, Cost]
_COST_NOTES = (
    "model: tokens read; load: weights; write: draws into the run; score: statistics. Draws are "
    "written while others are made, and scored at the end.",
    f"Assumed: weights come at {LOCAL_BYTES / 1e9:g} GB/s from a disk of a worker's own and at "
    f"{SHARED_BYTES / 1e9:g} GB/s from one that all share; GPUs that were not measured reach "
    f"{REACHED:.0%} of their peak; workers share the work evenly.",
)


def cost_table(rows: Sequence[CostRow]) -> Table:
    """A row a design, and what to do about each part that is ever the longest."""
    shown = tuple(_cost_cells(*row) for row in rows)
    columns = (
        *("parameters", "samples", "contexts", "device", "workers", "tokens", "load", "model"),
        *("write", "score", "in all", "memory each", "disk", "longest"),
    )
    longest = dict.fromkeys(cost.bottleneck for *_, cost in rows)
    advice = tuple(f"Where {part} takes longest: {ADVICE[part]}." for part in longest)
    return Table("Cost of a run", columns, shown, (*advice, *_COST_NOTES))


def cost_dicts(rows: Sequence[CostRow]) -> list[dict[str, Any]]:
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


def _cost_cells(work: Work, parameters: float, machine: Machine, cost: Cost) -> tuple[str, ...]:
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
