"""Recovery study: are tests and intervals of calibration errors valid on simulated texts?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from aleatoric.calibration.results import CalibrationResult
from aleatoric.calibration.stream import CalibrationStream
from aleatoric.inference.estimate import bounded
from aleatoric.metrics.calibration import ece_of
from aleatoric.rng import stream
from aleatoric.types import Estimate

N_WORDS = 20
TRUTH_DOCUMENTS = 2000


@dataclass(frozen=True)
class Documents:
    """The design of simulated texts whose tokens a model predicts.

    References are drawn from the model's distribution P raised to `sharpness` (1: calibrated). With
    `tilt`, each document draws from P(1 + t(P - ΣP²)), t uniform in [-tilt, tilt]: calibrated over
    all documents, but not within one.
    """

    n: int
    tokens: int = 100
    """In the mean: documents differ in length."""
    sharpness: float = 1.0
    tilt: float = 0.0


def read_documents(design: Documents, n: int, rng: np.random.Generator) -> CalibrationResult:
    """Draw `n` documents and score their tokens.

    >>> read_documents(Documents(2, tokens=4), 2, np.random.default_rng(0)).n_groups
    2
    """
    read = CalibrationStream(
        vocabulary_size=N_WORDS,
        units="logits",
        schemes=["ancestral"],
        classwise="none",
        engine="naive",
    )
    lengths = rng.integers(design.tokens // 2, design.tokens * 3 // 2 + 1, n)
    document = np.repeat(np.arange(n), lengths)
    size = (len(document), 1)
    scale = np.exp(rng.normal(0.6, 0.3, n)[document, None] + rng.normal(0.0, 0.5, size))
    logits = rng.normal(size=(len(document), N_WORDS)) * scale
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    truth = probs**design.sharpness
    tilts = rng.uniform(-design.tilt, design.tilt, n)[document, None]
    truth *= 1 + tilts * (probs - (probs**2).sum(axis=1, keepdims=True))
    steps = truth.cumsum(axis=1)
    drawn = rng.random(size) * steps[:, -1:]
    targets = (drawn > steps).sum(axis=1).clip(0, N_WORDS - 1)
    read.update(logits, targets, [str(number) for number in document])
    return read.result()


@dataclass(frozen=True)
class Decisions:
    """What the procedure for calibration errors said about simulated texts, as shares."""

    metric: str
    truth: float
    rejected: float
    """Calibration was rejected, so that there was an interval."""
    wrong: float
    """There was an interval, and it did not hold the true error."""


def decisions(design: Documents, n_simulations: int, seed: int = 0) -> Iterator[Decisions]:
    """Run the procedure on simulated texts: test calibration, give an interval if rejected."""
    truth = _true_errors(replace(design, n=0))
    estimates: dict[str, list[Estimate]] = {name: [] for name in truth}
    for number in range(n_simulations):
        rng = stream(seed, "documents", repr(design), number)
        found = read_documents(design, design.n, rng).estimates
        for name in truth:
            estimates[name].append(bounded(found[name], name))
    for name, own in estimates.items():
        ends = [one.interval for one in own if one.interval]
        wrong = sum(not end.low <= truth[name] <= end.high for end in ends)
        yield Decisions(name, truth[name], len(ends) / len(own), wrong / len(own))


@cache
def _true_errors(design: Documents) -> Mapping[str, float]:
    """ECE and e-ECE of texts without end; 0 by design where references come from P."""
    if design.sharpness == 1:
        return {"ece": 0.0, "e_ece": 0.0}
    found = read_documents(design, TRUTH_DOCUMENTS, stream(0, "texts", repr(design)))
    return {name: float(ece_of(found.curves[name].bins)) for name in ("ece", "e_ece")}
