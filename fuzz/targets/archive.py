"""A fetched archive: the named members and nothing else."""

from __future__ import annotations

import io
import tarfile

from aleatoric.data.fetch import unpack
from fuzz.trial import refusals, written


def _tar(mode: str, name: str, content: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=mode) as tar:  # type: ignore[call-overload]
        member = tarfile.TarInfo(name)
        member.size, member.type, member.linkname = len(content), kind, "../../x"
        tar.addfile(member, io.BytesIO(content))
    return held.getvalue()


SEEDS = (
    _tar("w", "d/valid.a", b"text"),
    _tar("w:gz", "d/valid.a", b"text" * 99),
    _tar("w:xz", "d/valid.a", b"text"),
    _tar("w", "d/valid.a", b"", tarfile.SYMTYPE),
    _tar("w:bz2", "../valid.a", b"x"),
)
TOKENS = (b"d/valid.a", b"ustar", b"../", b"\0" * 512, b"K", b"x")


def trial(data: bytes) -> None:
    """One input."""
    (path,) = written(data, "a.tar.gz")
    with refusals():
        unpack(path, ("d/valid.a",))
    held = {own.name for own in path.parent.iterdir()}
    assert held <= {"a.tar.gz", "valid.a"}, held
