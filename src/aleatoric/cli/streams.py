"""Output that is always there and takes any character, whatever its encoding."""

from __future__ import annotations

import codecs
import os
import sys

STAND_INS = str.maketrans("↓↑→←‖−–—×²·…≤≥±’‘“”Σμ", "v^><|---x2..<>~''\"\"Su")
"""Of the characters in our own tables, one for one, so that columns stay columns."""
_HANDLER = "aleatoric.plain"


def plain(error: UnicodeError) -> tuple[str, int]:
    """What is written in place of characters that an encoding lacks.

    >>> plain(UnicodeEncodeError("ascii", "TVD ↓", 4, 5, ""))
    ('v', 5)
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(STAND_INS)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def prepare() -> None:
    """Open what was closed to nowhere, and let no character end a command."""
    codecs.register_error(_HANDLER, plain)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_HANDLER)
