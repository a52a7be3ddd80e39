"""Reliability diagrams of a token-level run, with the numbers behind them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from aleatoric.analyses.pictures import Reliability
from aleatoric.viewer.answers import CSV, Answer, NotFoundError
from aleatoric.viewer.csvs import csv_lines
from aleatoric.viewer.library import OpenRun
from aleatoric.viewer.pages.common import Data, Frame, Site, run_head, ticks
from aleatoric.viewer.plots import Axis
from aleatoric.viewer.query import Params, one

ABOUT = (
    "Points below the line are over-confident. Thin bars: where a calibrated model's points would "
    "lie with as many tokens. Grey steps: how many tokens."
)


def tokens(site: Site, run: OpenRun, params: Params) -> Data:
    """The diagrams of one system."""
    curves = run.summary.curves if run.summary else {}
    system = _chosen(run, params)
    head = run_head(site, run, "tokens")
    own = curves[system].pictures if system else ()
    return head | {
        "title": f"Reliability of {system}" if system else "Reliability",
        "system": system,
        "systems": list(curves),
        "diagrams": [_diagram(one) for one in own if isinstance(one, Reliability)],
        "about": ABOUT,
        "here": site.links.run(run.key, "tokens"),
        "csv": site.links.run(run.key, "tokens.csv"),
        "problem": run.summary.problem if run.summary else "",
        "watch": head["watch"] or (None if curves else site.links.run(run.key, "progress.json")),
    }


def tokens_csv(run: OpenRun, params: Params) -> Answer:
    """The bins of a system's diagrams."""
    system = _chosen(run, params)
    if not system or run.summary is None:
        raise NotFoundError("This run has no reliability data yet.")
    heading = ["diagram", "from", "to", "confidence", "accuracy", "low", "high", "tokens"]
    pictures = run.summary.curves[system].pictures
    rows = (row for own in pictures if isinstance(own, Reliability) for row in _bins(own))
    return Answer(CSV, csv_lines(heading, rows), filename="reliability.csv")


def _chosen(run: OpenRun, params: Params) -> str:
    curves = run.summary.curves if run.summary else {}
    name = one(params, "system") or next(iter(curves), "")
    if curves and name not in curves:
        raise NotFoundError(f"This run has no system “{name}” with tokens read.")
    return name if curves else ""


def _bins(own: Reliability) -> Iterator[tuple[object, ...]]:
    columns = (own.confidence, own.accuracy, own.low, own.high, own.counts)
    for low, high, *rest in zip(own.edges[:-1], own.edges[1:], *columns, strict=True):
        yield (own.title, low, high, *rest)


def _diagram(own: Reliability) -> Data:
    frame = Frame(width=400, height=360)
    axis = Axis.over(0.0, 1.0)
    most = max(own.counts, default=1.0) or 1.0
    return {
        "title": own.title,
        "frame": frame,
        "x_ticks": ticks(axis, frame.x),
        "y_ticks": ticks(axis, frame.y),
        "x_label": "confidence",
        "y_label": "accuracy",
        "name": own.title,
        "bins": [_bin(frame, row, most) for row in _bins(own) if row[-1]],
    }


def _bin(frame: Frame, row: tuple[object, ...], most: float) -> Data:
    low, high, confidence, accuracy, *ends, count = (float(str(value)) for value in row[1:])
    whole = frame.y(0) - frame.y(1)
    label = f"confidence {confidence:.3f}, accuracy {accuracy:.3f}, {count:.0f} tokens"
    return {
        "x": frame.x(low) + 0.5,
        "width": frame.x(high) - frame.x(low) - 1,
        "count_height": round(0.35 * whole * count / most, 1),
        "px": frame.x(confidence),
        "py": frame.y(accuracy),
        "ends": [frame.y(end) for end in ends if not math.isnan(end)],
        "label": f"{low:.2f} to {high:.2f}: {label}",
    }
