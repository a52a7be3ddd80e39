"""Plans and costs of runs as tables and as figure data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aleatoric.inference import planning
from aleatoric.inference.noise import Size
from aleatoric.reporting.tables import TEXTS, table_of_records
from aleatoric.result_types import Table
from aleatoric.studies.cost import ADVICE, LOCAL_BYTES, REACHED, SHARED_BYTES, Cost, Machine, Work
from aleatoric.studies.figure_data import Guide, Lines, LineSeries, Panels, plain
from aleatoric.studies.plan import PlanRow, RunPlan, Target
from aleatoric.types import Ints

_NOTES = TEXTS["plan"]["notes"]


def plan_table(plan: RunPlan) -> Table:
    """One row per design, with its predicted precision and its numbers of answers and draws."""
    rows = [_plan_cells(row) for row in plan.rows]
    shown = [{name: r[name] for name in r if any(row[name] for row in rows)} for r in rows]
    table = table_of_records(f"Plan: {plan.source}", shown)
    return replace(
        table, notes=(*_goal(plan), *plan.notes, *_NOTES["precision"]), wide=("[low, high]",)
    )


def plan_data(plan: RunPlan) -> Table:
    """Return one row per design, with one number per cell."""
    columns = (
        *("people", "samples", "groups", "contexts", "answers", "draws", "se", "width", "power"),
        *("meets", "extrapolated", "upper_bound", "se_low", "se_high"),
    )
    changed = [{"samples": size_name(row.design.samples), "meets": row.meets} for row in plan.rows]
    facts = [row.record() | change for row, change in zip(plan.rows, changed, strict=True)]
    records = [{name: fact[name] for name in columns} for fact in facts]
    return table_of_records(f"Plan: {plan.source}", records)


def _plan_cells(row: PlanRow) -> dict[str, str]:
    """Return the cells of a row by column; one that is empty in all rows is not shown."""
    design, interval = row.design, row.interval
    mark = "*" if row.extrapolated else ""
    bound = "≤ " if row.upper_bound else ""
    return {
        "people": str(design.people),
        "samples": size_name(design.samples),
        "groups": str(design.groups),
        "contexts": str(design.contexts),
        "SE": f"{bound}{row.se:.4f}{mark}",
        "[low, high]": f"[{interval.low:.4f}, {interval.high:.4f}]" if interval else "",
        "width": f"{row.width:.4f}",
        "power": "" if row.power is None else f"{row.power:.2f}",
        "answers": str(design.answers),
        "draws": "–" if design.draws is None else str(design.draws),
        "meets": "" if row.meets is None else ("yes" if row.meets else "no"),
    }


def _goal(plan: RunPlan) -> Iterator[str]:
    """Notes on the target, the design with the fewest answers, and the variance by source."""
    target, split = plan.target, plan.split
    if target.error is not None:
        if target.se is not None:
            name = f"standard error {target.se:g}"
        elif target.width is not None:
            name = f"interval width {target.width:g}"
        else:
            name = f"power {target.power:g} for a difference of {target.difference:g}"
        yield f"Target: {name}, so SE ≤ {target.error:.4f}."
    enough = [row.design for row in plan.rows if row.meets]
    if enough:
        best = min(enough, key=lambda design: (design.answers, design.draws or 0))
        yield _NOTES["fewest"].format(best=best, samples=size_name(best.samples))
    if plan.rows:
        yield _shares(plan.rows[-1])
    if split:
        sides = {"people": split.people, "samples": split.model, "contexts": split.contexts}
        facts = {"se": split.standard_error, "subset": plan.subset, "sides": _listed(sides)}
        yield _NOTES["pilot"].format(**facts)


def _listed(parts: dict[str, float]) -> str:
    """Return shares of a variance; a part that is estimated below 0, by chance, counts as 0."""
    shares = {name: max(0.0, value) for name, value in parts.items()}
    total = sum(shares.values()) or 1.0
    return ", ".join(f"{name} {value / total:.0%}" for name, value in shares.items())


def _shares(row: PlanRow) -> str:
    parts, crowding = row.parts, row.design.crowding
    by_source = {"groups": parts.groups * crowding.seen, "contexts": parts.contexts}
    by_source |= {"people": parts.people, "samples": parts.samples}
    effect = planning.design_effect(parts, crowding)
    return (
        f"Variance of the last row by source: {_listed(by_source)}; "
        f"intra-group correlation {parts.correlation:.3f}, design effect {effect:.2f}."
    )


def size_name(size: Size) -> str:
    """A number of samples; `None` is `exact`."""
    return "exact" if size is None else str(size)


def plan_picture(plan: RunPlan) -> Panels:
    """Predicted standard error and power by number of contexts, one curve per pair of sizes."""
    designs = {(row.design.people, row.design.samples): row for row in plan.rows}
    top = max(row.design.groups for row in plan.rows)
    groups = np.unique(np.geomspace(2, max(4, 2 * top), 60).round().astype(int))
    error = plan.target.error
    marks = (Guide("target", y=error),) if error is not None else ()
    lines = tuple(_line(row, groups) for row in designs.values())
    panels = [Lines("standard error", "contexts", "predicted SE", lines, marks)]
    if plan.target.difference is not None:
        panels.append(_power(lines, plan.target))
    return Panels(f"Plan: {plan.source}", tuple(panels), len(panels))


def _line(row: PlanRow, groups: Ints) -> LineSeries:
    contexts = groups * row.design.crowding.mean
    # Along a curve only the number of groups changes.
    errors = row.se * np.sqrt(row.design.groups / groups)
    label = f"{row.design.people} people, {size_name(row.design.samples)} samples"
    return LineSeries(label, plain(contexts), plain(errors))


def _power(errors: Sequence[LineSeries], target: Target) -> Lines:
    lines = []
    for line in errors:
        power = [planning.power(e, target.difference or 0.0, target.level) for e in line.y]
        lines.append(LineSeries(line.label, line.x, plain(power)))
    marks = (Guide("target", y=target.power),) if target.power is not None else ()
    title = f"power to see {target.difference:g}"
    return Lines(title, "contexts", "power", tuple(lines), marks)


CostRow = tuple[Work, float, Machine, Cost]


def cost_table(rows: Sequence[CostRow]) -> Table:
    """One row per design, and advice for each part that is a bottleneck."""
    table = table_of_records("Cost of a run", [_cost_cells(*row) for row in rows])
    longest = dict.fromkeys(cost.bottleneck for *_, cost in rows)
    advice = tuple(f"Where {part} takes longest: {ADVICE[part]}." for part in longest)
    wide = ("tokens", "load", "model", "write", "score", "longest")
    speeds = {"local": LOCAL_BYTES / 1e9, "shared": SHARED_BYTES / 1e9, "reached": REACHED}
    notes = (*advice, _NOTES["cost"], _NOTES["assumed"].format(**speeds))
    return replace(table, notes=notes, wide=wide)


def cost_dicts(rows: Sequence[CostRow]) -> list[dict[str, Any]]:
    """The same as plain data for JSON, in seconds and bytes."""
    return [
        {
            "parameters": parameters,
            "samples": work.samples,
            "contexts": work.contexts,
            "device": machine.device.name,
            "dtype": machine.dtype,
            "workers": machine.workers,
            **cost.to_dict(),
            "advice": ADVICE[cost.bottleneck],
        }
        for work, parameters, machine, cost in rows
    ]


def _cost_cells(work: Work, parameters: float, machine: Machine, cost: Cost) -> dict[str, str]:
    name, gpus = machine.device.name, cost.gpus // machine.workers
    seconds = {part: getattr(cost, part) for part in ("load", "model", "write", "score")}
    seconds["in all"] = cost.seconds
    return {
        "parameters": count(parameters),
        "samples": size_name(work.samples),
        "contexts": str(work.contexts),
        "device": f"{gpus} x {name}" if gpus > 1 else name,
        "workers": str(machine.workers),
        "tokens": count(cost.tokens),
        **{part: duration(time) for part, time in seconds.items()},
        "memory each": size(cost.worker_memory),
        "disk": size(cost.disk),
        "longest": cost.bottleneck,
    }


def count(number: float) -> str:
    """A number with its unit, such as 135M or 70B."""
    return _with_unit(number, (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3), ("", 1.0)))


def size(number: float) -> str:
    """Bytes with their unit, such as 175 GB."""
    units = ((" PB", 1e15), (" TB", 1e12), (" GB", 1e9), (" MB", 1e6), (" KB", 1e3))
    return _with_unit(number, units)


def _with_unit(number: float, units: Sequence[tuple[str, float]]) -> str:
    """A number in the largest unit that is not larger, or in the smallest one."""
    unit, value = next((pair for pair in units if number >= pair[1]), units[-1])
    return f"{number / value:.3g}{unit}"


def duration(seconds: float) -> str:
    """Seconds in a readable unit."""
    if seconds < 300:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
    days = seconds / 86400
    return f"{seconds / 3600:.1f} h" if days < 3 else f"{days:.0f} days"
