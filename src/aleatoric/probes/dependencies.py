"""Distances between texts by n-grams of grammatical relations, with a spaCy pipeline that parses.

An n-gram of order n is a path of n relations from a token towards the root of its sentence, such as
det < nsubj < ROOT. Paths are compared as the n-grams of the lexical probes are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from aleatoric.errors import UsageError
from aleatoric.probes.base import Block, Distance
from aleatoric.probes.taggers import spacy_pipeline
from aleatoric.probes.tools import Tokens, Tools, order_of, to_install
from aleatoric.types import Floats

Relations = list[tuple[str, int]]
"""Per token of a text, its relation and the position of its head; a root is its own head."""


class Parser:
    """A spaCy pipeline; the relations of the latest batch are kept for all orders."""

    def __init__(self, name: str, pipeline: Any) -> None:
        self.label = f"spacy:{name}@{pipeline.meta.get('version', '')}"
        self._pipeline = pipeline
        self._latest: tuple[Mapping[str, Tokens], dict[str, Relations]] = ({}, {})

    def relations(self, tokens: Mapping[str, Tokens]) -> dict[str, Relations]:
        """The relations of each text, given its tokens."""
        if self._latest[0] is not tokens:
            self._latest = (tokens, dict(zip(tokens, self._parsed(tokens.values()), strict=True)))
        return self._latest[1]

    def _parsed(self, texts: Any) -> list[Relations]:
        from spacy.tokens import Doc

        # A memory zone frees what a batch added to the vocabulary.
        with self._pipeline.memory_zone():
            documents = self._pipeline.pipe(Doc(self._pipeline.vocab, words=[*t]) for t in texts)
            return [[(token.dep_, token.head.i) for token in document] for document in documents]


@cache
def parser(name: str) -> Parser:
    """The parser of an installed spaCy pipeline."""
    pipeline = spacy_pipeline(name, ("ner", "lemmatizer"))
    if "parser" not in pipeline.pipe_names:
        fix = "name another one with --tagger spacy:PIPELINE"
        raise UsageError(f"the spaCy pipeline {name} has no parser, for dependency-N; {fix}.")
    return Parser(name, pipeline)


def paths(relations: Relations, order: int) -> list[str]:
    """The paths of `order` relations from each token towards its root.

    >>> paths([("det", 1), ("nsubj", 2), ("ROOT", 2)], 2)
    ['det<nsubj', 'nsubj<ROOT']
    """
    found = []
    for start in range(len(relations)):
        path, place = [relations[start][0]], start
        while len(path) < order and relations[place][1] != place:
            place = relations[place][1]
            path.append(relations[place][0])
        if len(path) == order:
            found.append("<".join(path))
    return found


def open_dependency(argument: str, tools: Tools) -> Distance:
    """`dependency-N`: paths of N grammatical relations; needs a spaCy pipeline that parses."""
    order = order_of("dependency", argument)
    if not tools.pipeline:
        raise UsageError(
            f"the probe dependency-{order} needs a spaCy pipeline that parses, and none for the "
            f"language {tools.language!r} is installed: {to_install(tools.language)}, or name one "
            "with --tagger spacy:PIPELINE."
        )
    opened = parser(tools.pipeline)
    facts = {"tokeniser": tools.tokeniser.label, "parser": opened.label}

    def matrices(blocks: Sequence[Block]) -> list[Floats]:
        batch = tools.reader.read(blocks)
        relations = opened.relations(batch.tokens)
        return batch.distances_by({text: paths(r, order) for text, r in relations.items()})

    return Distance(f"dependency-{order}", facts, matrices)
