"""The floor of a calibration error against a majority: far from zero, and hard to know.

A perfect model is sure of its first choice as often as people give it, and right whenever the
majority of people made the same choice: much more often, or, where all choices are rare, less. How
often is what an estimated truth does not tell well: its first choice is clearer, or ties more, than
the truth's. Halves of the people tell it without an estimate, for crowds of half the size, and four
ways lead on to the sizes in question (`aleatoric.inference.agreement.led_on`). The floor's accuracy
is their mean; the ends hold them all, and chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aleatoric.inference.agreement import Parts, led_on
from aleatoric.metrics.calibration import bin_index
from aleatoric.metrics.reduction import Chunk, Floats
from aleatoric.words.floor_columns import OF_MAJORITY, REPLICATES, SHARES, TRUTHS, stacked

METHOD = "agreement of people's halves and quarters led on, between the ends of four ways to do so"
N_ERRORS = 2.0
"""Standard errors of a share of items that the ends allow for."""
N_BETWEEN = 17
SPREAD = 0.25
"""The standard deviation of confidences over contexts, about: their mean is not known exactly."""


@dataclass(frozen=True)
class MajorityFloor:
    """One end of the floor, or its value, as a reduction of what was saved an item."""

    target: str
    end: str
    edges: tuple[float, ...]
    closed: bool = True

    def columns(self, chunk: Chunk) -> Floats:
        """A replicate's items, confidences and right answers by bin, then what else is known."""
        sure, later = (stacked(chunk, "confidence", truth) for truth in TRUTHS)
        right = stacked(chunk, self.target, TRUTHS[0])
        rest = [chunk[f"floor_{name}"] for name in SHARES]
        rest += [chunk[f"floor_{self.target}_{name}"] for name in OF_MAJORITY]
        others = np.concatenate([later.mean(axis=1, keepdims=True), *rest], axis=1)
        known = np.isfinite(others).all(axis=1, keepdims=True)
        # A confidence of 1 is in no bin where the last is open: it has a place of its own.
        index = bin_index(sure, self.edges, self.closed) % self._n_places
        member = known[:, :, None] & (index[:, :, None] == np.arange(self._n_places))
        told = np.stack([np.ones_like(sure), sure, right], axis=2)[..., None]
        by_bin = np.where(member[:, :, None], told, 0.0).reshape(len(sure), -1)
        return np.concatenate([by_bin, np.where(known, others, 0.0)], axis=1)

    def values(self, sums: Floats) -> Floats:
        """The floor's end, of all items together."""
        return np.array([self._value(sums)])

    def defined(self, sums: Floats) -> int:
        """Items with a perfect model's answer."""
        return int(self._by_bin(sums)[0, 0].sum())

    @property
    def _n_places(self) -> int:
        return len(self.edges) + 2

    def _by_bin(self, sums: Floats) -> Floats:
        """(replicates, what, bins)."""
        own: Floats = sums[: 3 * REPLICATES * self._n_places]
        return own.reshape(REPLICATES, 3, self._n_places)

    def _value(self, sums: Floats) -> float:
        by_bin = self._by_bin(sums)
        n = float(by_bin[0, 0].sum())
        if n == 0:
            return float("nan")
        later, *told = (sums[-1 - len(SHARES) - len(OF_MAJORITY) :] / n).tolist()
        parts, (equal, steps) = Parts(*told[: len(SHARES)]), told[len(SHARES) :]
        right, sure = (float(by_bin[:, i].sum()) / n / REPLICATES for i in (2, 1))
        ways = led_on(parts, steps, equal, right, n)
        middle = sum(ways) / len(ways)
        if self.end == "value":
            return _error(by_bin, middle, sure - later)
        # A share that is led on takes its noise along, and more of it with every step.
        chance = N_ERRORS * (1 + abs(steps)) * (max(middle * (1 - middle), 0.0) / n) ** 0.5
        # All between, too: an error is least where accuracy meets confidence.
        possible: list[float] = np.linspace(
            min(ways) - chance, max(ways) + chance, N_BETWEEN
        ).tolist()
        errors = [_error(by_bin, one, sure - later) for one in (middle, *possible)]
        noise = N_ERRORS * SPREAD / math.sqrt(n)
        return max(0.0, min(errors) - noise) if self.end == "low" else max(errors) + noise


def _error(by_bin: Floats, accuracy: float, surer: float) -> float:
    """ECE with the right answers moved to an overall accuracy, and all confidences by `surer`.

    The last place is no bin: its items count, their gap does not.
    """
    found = []
    for counts, sure, right in by_bin:
        some = counts > 0
        moved = np.zeros_like(counts)
        moved[some] = _moved(right[some] / counts[some], counts[some], accuracy)
        gaps = np.abs(counts * (moved - surer) - sure)[:-1]
        found.append(float(gaps.sum() / counts.sum()))
    return sum(found) / len(found)


def _moved(shares: Floats, weights: Floats, mean: float) -> Floats:
    """Shares with their log odds moved by one amount, such that they have this weighted mean."""
    shares, mean = np.clip(shares, 1e-6, 1 - 1e-6), min(max(mean, 1e-6), 1 - 1e-6)
    against, parts = (1 - shares) / shares, weights / weights.sum()
    low, high = -40.0, 40.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        below = parts @ (1 / (1 + against * math.exp(-middle))) < mean
        low, high = (middle, high) if below else (low, middle)
    moved: Floats = 1 / (1 + against * math.exp(-low))
    return moved
