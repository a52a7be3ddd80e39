"""The normalized compression distance of two texts (Cilibrasi and Vitanyi 2005).

NCD(a, b) = (C(ab) - min(C(a), C(b))) / max(C(a), C(b)), with C the bytes of a compressed text above
those of an empty one. Compressors need a few bytes even to repeat a text and depend on its place:
equal texts have distance 0, C(ab) is the mean over both orders, and values are cut at 0 and 1.
"""

from __future__ import annotations

import lzma
import math
import zlib
from collections.abc import Callable, Sequence

from aleatoric.errors import UsageError, did_you_mean
from aleatoric.probes.base import Batched, Distance, probe_of
from aleatoric.probes.tools import Tools

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
    compress, facts = COMPRESSORS[name], {"compressor": name}
    label = f"compression-{argument}" if argument else "compression"
    return probe_of(label, facts, Batched(lambda a, b: distances(a, b, compress), (0.0, 1.0)))
