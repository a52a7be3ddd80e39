"""Distances by what two texts share: n-grams of tokens, tags and relations, or compressed bytes.

An n-gram of grammatical relations is a path of n relations from a token towards the root of its
sentence, such as det < nsubj < ROOT.

The normalized compression distance (Cilibrasi and Vitanyi 2005) is NCD(a, b) = (C(ab) - min(C(a),
C(b))) / max(C(a), C(b)), with C the bytes of a compressed text minus those of an empty one
(deflate: 2, LZMA2: 1). Compressors need a few bytes even to repeat a text and depend on its place:
equal texts have distance 0, C(ab) is the mean over both orders, and values are cut at 0 and 1.
"""

from __future__ import annotations

import lzma
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from aleatoric.errors import UsageError, did_you_mean
from aleatoric.probes.base import Batched, Block, Distance, probe_of
from aleatoric.probes.taggers import spacy_pipeline
from aleatoric.probes.tools import NgramKind, TextReader, Tokens, Tools, order_of, to_install
from aleatoric.types import Floats


def ngram_probe(
    kind: NgramKind, order: int, reader: TextReader, facts: Mapping[str, str]
) -> Distance:
    """N-grams of lower-cased tokens with punctuation, or of part-of-speech tags."""
    name = f"{kind}-{order}"
    return Distance(name, facts, lambda blocks: reader.read(blocks).distances(kind, order))


def open_lexical(argument: str, tools: Tools) -> Distance:
    """`lexical-N`: n-grams of order N of lower-cased tokens."""
    facts = {"tokeniser": tools.tokeniser.label, "case": "lower"}
    return ngram_probe("lexical", order_of("lexical", argument), tools.reader, facts)


def open_syntactic(argument: str, tools: Tools) -> Distance:
    """`syntactic-N`: n-grams of order N of part-of-speech tags."""
    order = order_of("syntactic", argument)
    facts = {"tokeniser": tools.tokeniser.label, "tagger": tools.tagger.label}
    facts["tags"] = getattr(tools.tagger, "tagset", "the tagger's own")
    return ngram_probe("syntactic", order, tools.reader, facts)


Relations = list[tuple[str, int]]
"""Per token of a text, its relation and the position of its head; a root is its own head."""


@cache
def parser(name: str) -> tuple[str, Any]:
    """The label of an installed spaCy pipeline that parses, and the pipeline."""
    pipeline = spacy_pipeline(name, ("ner", "lemmatizer"))
    if "parser" not in pipeline.pipe_names:
        fix = "name another one with --tagger spacy:PIPELINE"
        raise UsageError(f"the spaCy pipeline {name} has no parser, for dependency-N; {fix}.")
    return f"spacy:{name}@{pipeline.meta.get('version', '')}", pipeline


def _parsed(pipeline: Any, tokens: Mapping[str, Tokens]) -> dict[str, Relations]:
    """The relations of each text, given its tokens."""
    from spacy.tokens import Doc

    # A memory zone frees what a batch added to the vocabulary.
    with pipeline.memory_zone():
        words = tokens.values()
        documents = pipeline.pipe(Doc(pipeline.vocab, words=[*text]) for text in words)
        rows = [[(token.dep_, token.head.i) for token in document] for document in documents]
    return dict(zip(tokens, rows, strict=True))


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
    label, pipeline = parser(tools.pipeline)
    facts = {"tokeniser": tools.tokeniser.label, "parser": label}

    def matrices(blocks: Sequence[Block]) -> list[Floats]:
        batch = tools.reader.read(blocks)
        relations = batch.once(label, lambda: _parsed(pipeline, batch.tokens))
        return batch.distances_by({text: paths(r, order) for text, r in relations.items()})

    return Distance(f"dependency-{order}", facts, matrices)


Compress = Callable[[bytes], int]
"""Text -> the number of bytes of the compressed text."""
_LZMA = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 1 << 20}]


def with_zlib(text: bytes) -> int:
    """Deflate at level 9, without header."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return len(compressor.compress(text)) + len(compressor.flush())


def with_lzma(text: bytes) -> int:
    """LZMA2, without header."""
    return len(lzma.compress(text, lzma.FORMAT_RAW, filters=_LZMA))


COMPRESSORS: dict[str, Compress] = {"zlib": with_zlib, "lzma": with_lzma}


def distances(left: Sequence[str], right: Sequence[str], compress: Compress) -> list[float]:
    """The distance of each pair; NaN for two empty texts."""
    encoded = {text: text.encode("utf-8", "surrogatepass") for text in {*left, *right}}
    empty = compress(b"")
    alone = {text: compress(data) - empty for text, data in encoded.items()}

    def distance(a: str, b: str) -> float:
        if a == b:
            return 0.0 if a else math.nan
        orders = encoded[a] + encoded[b], encoded[b] + encoded[a]
        both = sum(map(compress, orders)) / 2 - empty
        low, high = sorted((alone[a], alone[b]))
        return min(max((both - low) / high, 0.0), 1.0)

    return [distance(a, b) for a, b in zip(left, right, strict=True)]


def open_compression(argument: str, tools: Tools) -> Distance:
    """`compression`: normalized compression distance with zlib; `compression-lzma` with LZMA."""
    name = argument or "zlib"
    if name not in COMPRESSORS:
        near = did_you_mean(name, COMPRESSORS)
        raise UsageError(f"there is no compressor {name!r}{near}; use {', '.join(COMPRESSORS)}.")
    compress, facts = COMPRESSORS[name], {"compressor": name, "sizes": "minus-empty"}
    label = f"compression-{argument}" if argument else "compression"
    return probe_of(label, facts, Batched(lambda a, b: distances(a, b, compress), (0.0, 1.0)))
