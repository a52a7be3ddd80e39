"""The likeliest continuations of nodes that have been run, kept for a second search."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aleatoric.types import Ints
from aleatoric.words.digest import Branches, Reader

Page = tuple[int, Branches]
"""A node's number, and what follows it."""


class Notebook:
    """Pages by (context, node before, token); nodes with less mass than `least` get none."""

    def __init__(self, reader: Reader, branch: int, least: float = 0.0) -> None:
        self._reader = reader
        self._branch = branch
        self._least = least
        self._pages: dict[tuple[int, int, int], Page] = {}

    def note(self, nodes: NDArray[Any], numbers: Ints, logits: Any) -> None:
        """Write down nodes, given as entries of a search, that have just been run."""
        rows = np.flatnonzero(nodes["mass"] >= self._least)
        if not len(rows):
            return
        chosen = logits if len(rows) == len(nodes) else logits[rows]
        read = self._reader.branches(chosen, nodes["table"][rows], self._branch)
        pages = zip(numbers[rows].tolist(), read, strict=True)
        names = zip(
            *(nodes[rows][name].tolist() for name in ("owner", "parent", "token")), strict=True
        )
        for name, page in zip(names, pages, strict=True):
            self._pages[name] = page

    def find(self, context: int, parent: int, token: int) -> Page | None:
        """What is written of a node."""
        return self._pages.get((context, parent, token))
