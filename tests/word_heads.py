"""The head of the next-word distribution alone, without a search for given words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aleatoric.models.hf import HFModel
from aleatoric.nextword.head import Head, HeadSearch, grow
from aleatoric.nextword.tree import Tree, for_contexts
from aleatoric.nextword.vocabulary import ENTRY, LogitReader, NodeCache, Vocabulary


def head(lm: HFModel, contexts: Sequence[str], search: HeadSearch) -> list[Head]:
    """The head of each context, in the order given."""
    reader = LogitReader(lm, Vocabulary(lm.pieces))

    def work(tree: Tree) -> Iterator[tuple[int, Head]]:
        owner = {index: place for place, index in enumerate(tree.spans())}
        cache = NodeCache(reader, search.branch)
        for indices, logits in tree.run_trunk():
            roots = np.zeros(len(indices), dtype=ENTRY)
            roots["owner"] = [owner[i] for i in indices]
            roots["mass"], roots["parent"], roots["token"] = 1.0, -1, -1
            cache.add(roots, roots["parent"], logits)
        yield from grow(tree, reader, search, cache)

    return for_contexts(lm, contexts, work)
