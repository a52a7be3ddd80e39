"""Result tables: contents of their notes."""

from __future__ import annotations

from aleatoric.inference.estimate import CUT_NOTE
from aleatoric.reporting.views import view_of
from aleatoric.result_types import Result
from aleatoric.types import Estimate, Interval, Signature

T, BOOTSTRAP = "Student's t, jackknife over groups", "group bootstrap, studentised"


def overlap(system: str, method: str) -> Result:
    signature = Signature("people", "", system, "ancestral", "mc", {}, "40", 0, "overlap", "0.1.0")
    estimate = Estimate(0.7, Interval(0.6, 0.8, 0.95, method), 40, 15)
    return Result(system, "overlap", signature, estimate)


def test_note_names_interval_method() -> None:
    found = [overlap("a", T), overlap("b", f"{T}, cut at 1")]
    assert view_of("word").tables(found)[0].notes[-2:] == (
        f"[low, high]: 95% interval, {T}.",
        CUT_NOTE,
    )


def test_note_names_systems_if_interval_methods_differ() -> None:
    found = [overlap("a", T), overlap("b", BOOTSTRAP), overlap("c", T)]
    assert view_of("word").tables(found)[0].notes[-1] == (
        f"[low, high]: 95% interval, {T} (a, c); {BOOTSTRAP} (b)."
    )
