"""Uniform numbers for the sampled schemes: a stream a group, whatever the chunks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from aleatoric.streams import stream
from aleatoric.types import Floats

MAX_OPEN = 1000


class GroupDraws:
    """Each (scheme, group) has a stream of its own, read on from where its last chunk ended.

    The last `MAX_OPEN` groups stay open. A group that comes back after so many others starts its
    stream again.

    >>> whole, parts = (GroupDraws(0, "ancestral,samples=1", 1) for _ in range(2))
    >>> once = whole.numbers(["a", "b", "a"])
    >>> again = np.concatenate([parts.numbers(["a"]), parts.numbers(["b", "a"])])
    >>> bool((once == again).all())
    True
    """

    def __init__(self, seed: int, scheme: str, samples: int) -> None:
        self._seed, self._scheme, self._samples = seed, scheme, samples
        self._open: OrderedDict[str, np.random.Generator] = OrderedDict()
        self._before: dict[str, Any] = {}

    def numbers(self, groups: Sequence[str]) -> Floats:
        """(tokens, samples) uniform numbers in [0, 1)."""
        while len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        self._before = {group: self._state(group) for group in dict.fromkeys(groups)}
        runs = [(group, len(list(run))) for group, run in groupby(groups)]
        parts = [self._of(group).random((size, self._samples)) for group, size in runs]
        return np.concatenate(parts) if parts else np.zeros((0, self._samples))

    def undo(self) -> None:
        """Take the last numbers back: their chunk was refused."""
        for group, state in self._before.items():
            if state is None:
                self._open.pop(group, None)
            else:
                self._open[group].bit_generator.state = state

    def _state(self, group: str) -> Any:
        return self._open[group].bit_generator.state if group in self._open else None

    def _of(self, group: str) -> np.random.Generator:
        if group not in self._open:
            self._open[group] = stream(self._seed, "token draws", self._scheme, group)
        self._open.move_to_end(group)
        return self._open[group]
