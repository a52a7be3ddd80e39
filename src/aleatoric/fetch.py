"""Downloads of published corpora: verified by checksum, resumed where a connection broke.

A file appears under its name only when it is complete and its SHA-256 is right. Until then it is a
`.part` file, which the next attempt continues if the server still has the same version of it.
Beside the finished file stands its checksum, so that a later change is noticed.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import re
import shutil
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aleatoric import files
from aleatoric.downloads import Download
from aleatoric.errors import DataError, FetchError, UsageError

if TYPE_CHECKING:  # httpx is slow to import, and only a download needs it
    import httpx

MAX_BYTES = 2**30
ATTEMPTS = 4
CONNECT_SECONDS = 10.0
STALL_SECONDS = 30.0
_DAMAGED = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError)
"""What reading a damaged archive raises."""

Progress = Callable[[int, int | None], None]
"""Told of the bytes that are there, and of their total where it is known."""


def unpack(archive: Path, members: tuple[str, ...]) -> list[Path]:
    """The named files of a fetched archive (.tar or .tar.gz), beside it; nothing else of it.

    Only their last names are used, and only plain files: a link or a path that leads elsewhere is
    not followed.
    """
    targets = {member: archive.with_name(member.rpartition("/")[2]) for member in members}
    if all(path.exists() for path in targets.values()):
        return list(targets.values())
    with _alone(archive):
        missing = {member: path for member, path in targets.items() if not path.exists()}
        if missing:
            _extract(archive, missing)
    return list(targets.values())


def fetch(download: Download, folder: Path, progress: Progress = lambda done, total: None) -> Path:
    """The file of a download in `folder`; it is fetched unless it is there and unchanged."""
    target = folder / download.filename
    if not os.path.exists(target):
        with _alone(target):
            if not os.path.exists(target):  # another process may have fetched it meanwhile
                _fetch(download, target, progress)
                return target
    _check_present(target, download)
    return target


def _fetch(download: Download, target: Path, progress: Progress) -> None:
    part = _make_part(target)
    try:
        _receive(download, part, progress)
        _publish(part, target, download)
    except OSError as error:
        raise FetchError(f"{part}: cannot be written ({error.strerror}); free it.") from None


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Let one process at a time write a file; others wait. The lock ends with its process."""
    path = _beside(target, ".lock")
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise _unwritable(target.parent, error) from None
        with file:
            # Its former holder may have removed the file before this process had the lock.
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return


def check_unchanged(path: Path) -> None:
    """Refuse a fetched file that no longer has the checksum recorded beside it."""
    recorded = _recorded_sha256(path)
    if recorded is not None and files.sha256_of(path) != recorded:
        fix = "delete it and fetch it again"
        raise DataError.at(path, None, "was changed since it was fetched", fix)


def _extract(archive: Path, missing: dict[str, Path]) -> None:
    """Each missing file in one pass over the archive; a part of a file is never left behind."""
    parts = {name: _beside(target, ".part") for name, target in missing.items()}
    try:
        whole = _unpacked(archive, parts)
        lacking = next((name for name in missing if name not in whole), None)
        if lacking is not None:
            fix = "delete it and fetch it again"
            raise DataError.at(archive, None, f"holds no whole file {lacking}", fix)
        for name, part in parts.items():
            part.replace(missing[name])
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _unpacked(archive: Path, parts: dict[str, Path]) -> set[str]:
    """The names of the files that were written to `parts`; none of a damaged archive.

    It is read to its end, where its checksum stands.
    """
    found = set()
    try:
        # A stream is read forwards alone: nothing in it can send the reader to and fro.
        with files.open_binary(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                if member.name in parts and member.isreg():
                    _copy(tar, member, parts[member.name])
                    found.add(member.name)
            while stream.read(1 << 20):
                pass
    except _DAMAGED:
        return set()
    return found


def _copy(tar: tarfile.TarFile, member: tarfile.TarInfo, part: Path) -> None:
    packed = tar.extractfile(member)
    if packed is None or member.size > MAX_BYTES:
        raise tarfile.ReadError(member.name)
    with part.open("wb") as file:
        shutil.copyfileobj(packed, file)
    if part.stat().st_size != member.size:
        raise tarfile.ReadError(member.name)


def _check_present(target: Path, download: Download) -> None:
    expected = download.sha256 or _recorded_sha256(target)
    if expected is not None and files.sha256_of(target) != expected:
        fix = "move it away to fetch the published one"
        raise DataError.at(target, None, "is there, but is not the published file", fix)


def _make_part(target: Path) -> Path:
    part = _beside(target, ".part")
    try:
        part.touch()
    except OSError as error:
        raise _unwritable(target.parent, error) from None
    return part


def _unwritable(folder: Path, error: OSError) -> UsageError:
    problem = f"{folder}: cannot be written ({error.strerror})"
    return UsageError(f"{problem}; choose another folder with --to.")


def _receive(download: Download, part: Path, progress: Progress) -> None:
    """Fill `part`, going on where the connection breaks as long as that brings anything."""
    import httpx

    timeout = httpx.Timeout(STALL_SECONDS, connect=CONNECT_SECONDS)
    with httpx.Client(timeout=timeout, follow_redirects=True) as client:
        for attempt in range(1, ATTEMPTS + 1):
            before = part.stat().st_size
            try:
                _receive_once(client, download, part, progress)
                return
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                grown = part.stat().st_size > before
                if attempt == ATTEMPTS or not grown:
                    _drop_if_empty(part)
                    raise _unreachable(download, part, error) from None
                time.sleep(0.2 * attempt)


def _receive_once(client: httpx.Client, download: Download, part: Path, progress: Progress) -> None:
    have, headers = _resume_from(part, download.url)
    headers["Accept-Encoding"] = "identity"  # a range counts bytes as they are sent
    with client.stream("GET", download.url, headers=headers) as response:
        if response.status_code in (200, 206):
            start = _start(response, have)
            _remember(part, download.url, response)
            _write_body(response, part, start, progress)
        elif response.status_code != 416 or not have:
            response.raise_for_status()
            raise _unreachable(download, part, ValueError(f"status {response.status_code}"))
    if response.status_code == 416:  # there is no such rest: what is here is of no use
        _forget(part)
        part.touch()
        _receive_once(client, download, part, progress)


def _resume_from(part: Path, url: str) -> tuple[int, dict[str, str]]:
    """How much is there already, and the headers that ask for the rest of the same version."""
    have = part.stat().st_size
    try:
        known = json.loads(_beside(part, ".json").read_text("utf-8"))
        if have and known["url"] == url and known["validator"]:
            return have, {"Range": f"bytes={have}-", "If-Range": str(known["validator"])}
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing usable is known about the part: it is fetched anew
    return 0, {}


def _start(response: httpx.Response, have: int) -> int:
    """Where the bytes of a response belong: after those that are there, or at the beginning."""
    sent = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if response.status_code == 200:
        return 0
    if sent is None or int(sent[1]) not in (0, have):
        raise FetchError(
            f"{response.url} sends another part than was asked for; use another --url."
        )
    return int(sent[1])


def _remember(part: Path, url: str, response: httpx.Response) -> None:
    """Note what identifies this version of the file; a weak ETag does not identify bytes."""
    etag = response.headers.get("ETag", "")
    strong = etag if etag and not etag.startswith("W/") else None
    validator = strong or response.headers.get("Last-Modified")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        validator = None
    _beside(part, ".json").write_text(json.dumps({"url": url, "validator": validator}), "utf-8")


def _write_body(response: httpx.Response, part: Path, start: int, progress: Progress) -> None:
    length = response.headers.get("Content-Length", "")
    try:
        inflater = files.Inflater(response.headers.get("Content-Encoding", ""))
    except ValueError as error:
        raise FetchError(f"{response.url}: {error}, or use another --url.") from None
    if start and inflater.is_packed:
        raise FetchError(f"{response.url} sends a packed part of a file; use another --url.")
    total = start + int(length) if length.isdecimal() and not inflater.is_packed else None
    done = start
    with part.open("r+b") as file:
        file.truncate(start)
        file.seek(start)
        for block in _unpacked_blocks(response, inflater):
            done += len(block)
            ratio = files.MAX_GZIP_RATIO * response.num_bytes_downloaded
            is_bomb = inflater.is_packed and done > max(files.MIN_GZIP_LIMIT, ratio)
            if done > MAX_BYTES or is_bomb:
                _forget(part)
                what = "unpacks to far more than it is" if is_bomb else f"is over {MAX_BYTES} bytes"
                raise FetchError(f"what {response.url} sends {what}; check the address.")
            file.write(block)
            progress(done, total)


def _unpacked_blocks(response: httpx.Response, inflater: files.Inflater) -> Iterator[bytes]:
    try:
        for raw in response.iter_raw():
            yield from inflater.pieces(raw)
        inflater.check_end()
    except zlib.error as error:
        raise FetchError(f"{response.url}: what was sent is damaged ({error}).") from None


def _publish(part: Path, target: Path, download: Download) -> None:
    """Give a complete and verified part its name; a wrong one is removed."""
    found = files.sha256_of(part)
    if download.sha256 is not None and found != download.sha256:
        _forget(part)
        raise FetchError(
            f"what {download.url} sent has SHA-256 {found}, not {download.sha256}, and was removed;"
            f" try again, or name the right checksum with --sha256 if {download.page} has a newer"
            " version."
        )
    with part.open("r+b") as file:
        os.fsync(file.fileno())
    _beside(target, ".sha256").write_text(f"{found}  {target.name}\n", "utf-8")
    part.replace(target)
    _forget(part)


def _unreachable(download: Download, part: Path, error: Exception) -> FetchError:
    reason = (" ".join(str(error).split()) or type(error).__name__).partition(" For more")[0]
    again = "run this again to go on where it broke, or " if part.exists() else ""
    return FetchError(
        f"{download.url} cannot be fetched ({reason:.200}); {again}get {download.filename} from "
        f"{download.page} and put it into {part.parent}."
    )


def _recorded_sha256(path: Path) -> str | None:
    try:
        words = _beside(path, ".sha256").read_text("utf-8").split()
    except (OSError, ValueError):
        return None
    return words[0] if words else None


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _drop_if_empty(part: Path) -> None:
    if not part.stat().st_size:
        _forget(part)


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _beside(part, ".json").unlink(missing_ok=True)
