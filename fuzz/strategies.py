"""Inputs for Hypothesis: good ones with bytes taken out, put in, doubled and swapped."""

from __future__ import annotations

from hypothesis import strategies as st

from fuzz.trial import Target

COMMON: tuple[bytes, ...] = (
    b"",
    b"\0",
    b"\n",
    b"\r",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\x1f\x8b",
    b"\x1b[31m",
)
COMMON += (b"{", b"}", b"[", b'"', b",", b"\t", b"-1", b"0", b"1e999", b"NaN", b"null", b"true")
COMMON += ("\u2028\u202e\u00a0é".encode(), b"9" * 5000, b"[" * 2000, b"\\ud800", b"\\u0000")


@st.composite
def inputs(draw: st.DrawFn, target: Target) -> bytes:
    """One input of a target: mostly a good one with a few changes, sometimes mere bytes."""
    if not target.seeds or draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    data = draw(st.sampled_from(target.seeds))
    for _ in range(draw(st.integers(0, 6))):
        data = _changed(data, draw, target)
    return data


def _changed(data: bytes, draw: st.DrawFn, target: Target) -> bytes:
    start = draw(st.integers(0, len(data)))
    stop = min(len(data), start + draw(st.sampled_from((0, 0, 1, 2, 5, 20))))
    piece = draw(
        st.one_of(
            st.sampled_from(COMMON + target.tokens),
            st.binary(max_size=6),
            st.just(data[start : start + 30] * 2),
        )
    )
    return data[:start] + piece + data[stop:]
