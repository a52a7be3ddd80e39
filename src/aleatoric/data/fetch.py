"""Download published corpora: verified by checksum, resumed after a broken connection.

A file gets its name only when it is complete and its SHA-256 is right, and until then is a `.part`
file. The checksum is stored beside the finished file, so that a later change is noticed.
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
import tomllib
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aleatoric.data import files
from aleatoric.errors import DataError, FetchError, UsageError

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True)
class Download:
    """A published file. Without a `sha256`, the first download is trusted and its hash stored."""

    url: str
    filename: str
    sha256: str | None
    licence: str
    page: str
    encoding: str = "utf-8"
    members: tuple[str, ...] = ()
    """Files of an archive that are unpacked beside it."""


def _read_downloads() -> Iterator[tuple[str, tuple[Download, ...]]]:
    source = resources.files("aleatoric.data") / "downloads.toml"
    for name, facts in tomllib.loads(source.read_text("utf-8")).items():
        checksums, base, folder = (facts.pop(key, "") for key in ("files", "base", "folder"))
        facts = {"sha256": None} | facts | {"members": tuple(facts.get("members", ()))}
        # The files of a repository are saved under the last part of their paths.
        places = {path: f"{folder}{path.rpartition('/')[2]}" for path in checksums}
        files = [
            {"url": f"{base}{path}", "filename": place, "sha256": checksums[path] or None}
            for path, place in places.items()
        ]
        yield name, tuple(Download(**facts | own) for own in files or [{}])


_ALL = dict(_read_downloads())
DOWNLOADS = {name: downloads[0] for name, downloads in _ALL.items() if len(downloads) == 1}
"""Corpora of one file, by name."""
SETS = {name: downloads for name, downloads in _ALL.items() if len(downloads) > 1}
"""Corpora of several files, which are fetched together; the first is the default split's."""
GEMMA3 = "gemma3-270m"
"""A model, which the package index has in parts (see `aleatoric.models.gguf`)."""


MAX_BYTES = 2**30
ATTEMPTS = 4
_DAMAGED = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, OverflowError)
"""What reading a damaged archive raises."""

ByteProgress = Callable[[int, int | None], None]
"""Called with the number of bytes received, and with their total if it is known."""


def files_of(name: str, url: str | None = None, sha256: str | None = None) -> tuple[Download, ...]:
    """All downloads of a corpus; another address or checksum is allowed for a single file."""
    if name in SETS:
        check_no_address(name, len(SETS[name]), url, sha256)
        return SETS[name]
    if name not in DOWNLOADS:
        names = ", ".join((*DOWNLOADS, *SETS, GEMMA3))
        raise UsageError(f"there is nothing to fetch for {name!r}; use {names}.")
    download = DOWNLOADS[name]
    if url is not None:
        download = replace(download, url=_checked_url(url))
    if sha256 is not None:
        download = replace(download, sha256=_checked_sha256(sha256))
    return (download,)


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!a} is not a web address; use http:// or https://.")
    return url


def _checked_sha256(digest: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
        raise UsageError(f"{digest!a:.80} is not a SHA-256; it has 64 hexadecimal digits.")
    return digest.lower()


def check_no_address(name: str, n: int, url: str | None, sha256: str | None) -> None:
    """Refuse another address or checksum for what has several files."""
    if url is not None or sha256 is not None:
        raise UsageError(f"{name} has {n} files, so it takes no --url and no --sha256.")


def fetch(
    download: Download, folder: Path, progress: ByteProgress = lambda done, total: None
) -> Path:
    """Return the path of a download in `folder`, fetching it unless it is there and unchanged."""
    target = folder / download.filename
    if not os.path.exists(target):
        with _locked(target):
            if not os.path.exists(target):  # another process may have fetched it meanwhile
                _fetch(download, target, progress)
                return target
    expected = download.sha256 or _recorded_sha256(target)
    if expected is not None and files.sha256_of(target) != expected:
        fix = "move it away to fetch the published one"
        raise DataError.at(target, None, "exists, but is not the published file", fix)
    return target


def check_unchanged(path: Path) -> None:
    """Refuse a fetched file that no longer has the checksum recorded beside it."""
    recorded = _recorded_sha256(path)
    if recorded is not None and files.sha256_of(path) != recorded:
        fix = "delete it and fetch it again"
        raise DataError.at(path, None, "was changed since it was fetched", fix)


def unpack(archive: Path, members: tuple[str, ...]) -> list[Path]:
    """Unpack the named files of a .tar or .tar.gz beside it, and nothing else of it.

    Only the last part of their paths is used, and only plain files: links are not followed.
    """
    targets = {member: archive.with_name(member.rpartition("/")[2]) for member in members}
    if all(path.exists() for path in targets.values()):
        return list(targets.values())
    with _locked(archive):
        missing = {member: path for member, path in targets.items() if not path.exists()}
        if missing:
            _extract(archive, missing)
    return list(targets.values())


@contextmanager
def _locked(target: Path) -> Iterator[None]:
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


def _extract(archive: Path, missing: dict[str, Path]) -> None:
    """Write each missing file in one pass over the archive; partial files are removed."""
    parts = {name: _beside(target, ".part") for name, target in missing.items()}
    try:
        complete = _unpacked(archive, parts)
        lacking = next((name for name in missing if name not in complete), None)
        if lacking is not None:
            fix = "delete it and fetch it again"
            raise DataError.at(archive, None, f"holds no whole file {lacking}", fix)
        for name, part in parts.items():
            part.replace(missing[name])
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def _unpacked(archive: Path, parts: dict[str, Path]) -> set[str]:
    """Write files to `parts` and return their names; an empty set if the archive is damaged."""
    unpacked = set()
    try:
        # A stream is read forwards only: nothing in it can make the reader seek.
        with files.open_binary(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                if member.name in parts and member.isreg():
                    _copy(tar, member, parts[member.name])
                    unpacked.add(member.name)
            while stream.read(1 << 20):  # the checksum of gzip comes last
                pass
    except _DAMAGED:
        return set()
    return unpacked


def _copy(tar: tarfile.TarFile, member: tarfile.TarInfo, part: Path) -> None:
    packed = tar.extractfile(member)
    if packed is None or member.size > MAX_BYTES:
        raise tarfile.ReadError(member.name)
    with part.open("wb") as file:
        shutil.copyfileobj(packed, file)
    if part.stat().st_size != member.size:
        raise tarfile.ReadError(member.name)


def _fetch(download: Download, target: Path, progress: ByteProgress) -> None:
    part = _beside(target, ".part")
    try:
        part.touch()
    except OSError as error:
        raise _unwritable(target.parent, error) from None
    try:
        _receive(download, part, progress)
        _publish(part, target, download)
    except OSError as error:
        raise FetchError(f"{part}: cannot be written ({error.strerror}); free it.") from None


def _unwritable(folder: Path, error: OSError) -> UsageError:
    problem = f"{folder}: cannot be written ({error.strerror})"
    return UsageError(f"{problem}; choose another folder with --to.")


def _receive(download: Download, part: Path, progress: ByteProgress) -> None:
    """Fill `part`, reconnecting as long as each connection brings new bytes."""
    import httpx

    timeout = httpx.Timeout(30.0, connect=10.0)
    with httpx.Client(timeout=timeout, follow_redirects=True) as client:
        for attempt in range(1, ATTEMPTS + 1):
            before = part.stat().st_size
            try:
                _receive_once(client, download, part, progress)
                return
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                size = part.stat().st_size
                if attempt == ATTEMPTS or size <= before:
                    if not size:
                        _forget(part)
                    raise _unreachable(download, part, error) from None
                time.sleep(0.2 * attempt)


def _receive_once(
    client: httpx.Client, download: Download, part: Path, progress: ByteProgress
) -> None:
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
    if response.status_code == 416:  # the range does not exist: the part is useless
        _forget(part)
        part.touch()
        _receive_once(client, download, part, progress)


def _resume_from(part: Path, url: str) -> tuple[int, dict[str, str]]:
    """The bytes received so far, and the headers that request the rest of the same version."""
    have = part.stat().st_size
    try:
        saved = json.loads(_beside(part, ".json").read_text("utf-8"))
        if have and saved["url"] == url and saved["validator"]:
            return have, {"Range": f"bytes={have}-", "If-Range": str(saved["validator"])}
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing usable is known about the part: the download starts over
    return 0, {}


def _start(response: httpx.Response, have: int) -> int:
    """The offset of a response's bytes: after those received so far, or 0."""
    if response.status_code == 200:
        return 0
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if match is None or int(match[1]) not in (0, have):
        problem = f"{response.url} sends another part than was requested"
        raise FetchError(f"{problem}; use another --url.")
    return int(match[1])


def _remember(part: Path, url: str, response: httpx.Response) -> None:
    """Store what identifies this version of the file; a weak ETag does not identify bytes."""
    etag = response.headers.get("ETag", "")
    strong = etag if etag and not etag.startswith("W/") else None
    validator = strong or response.headers.get("Last-Modified")
    if response.headers.get("Content-Encoding", "identity") != "identity":
        validator = None
    _beside(part, ".json").write_text(json.dumps({"url": url, "validator": validator}), "utf-8")


def _write_body(response: httpx.Response, part: Path, start: int, progress: ByteProgress) -> None:
    length = response.headers.get("Content-Length", "")
    try:
        inflater = files.Inflater(response.headers.get("Content-Encoding", ""))
    except ValueError as error:
        raise FetchError(f"{response.url}: {error}, or use another --url.") from None
    if start and inflater.is_packed:
        raise FetchError(f"{response.url} sends a packed part of a file; use another --url.")
    total = start + int(length) if length.isdecimal() and not inflater.is_packed else None
    received = start
    with part.open("r+b") as file:
        file.truncate(start)
        file.seek(start)
        for block in _unpacked_blocks(response, inflater):
            received += len(block)
            ratio = files.MAX_GZIP_RATIO * response.num_bytes_downloaded
            is_bomb = inflater.is_packed and received > max(files.MIN_GZIP_LIMIT, ratio)
            if received > MAX_BYTES or is_bomb:
                _forget(part)
                what = "unpacks to far more than it is" if is_bomb else f"is over {MAX_BYTES} bytes"
                raise FetchError(f"what {response.url} sends {what}; check the address.")
            file.write(block)
            progress(received, total)


def _unpacked_blocks(response: httpx.Response, inflater: files.Inflater) -> Iterator[bytes]:
    try:
        for raw in response.iter_raw():
            yield from inflater.pieces(raw)
        inflater.check_end()
    except zlib.error as error:
        raise FetchError(f"{response.url}: what was sent is damaged ({error}).") from None


def _publish(part: Path, target: Path, download: Download) -> None:
    """Rename a complete and verified part to its target; a wrong one is removed."""
    digest = files.sha256_of(part)
    if download.sha256 is not None and digest != download.sha256:
        _forget(part)
        raise FetchError(
            f"what {download.url} sent has SHA-256 {digest}, not {download.sha256}, and was "
            f"removed; try again, or name the right checksum with --sha256 if {download.page} has "
            "a newer version."
        )
    with part.open("r+b") as file:
        os.fsync(file.fileno())
    _beside(target, ".sha256").write_text(f"{digest}  {target.name}\n", "utf-8")
    part.replace(target)
    _forget(part)


def _unreachable(download: Download, part: Path, error: Exception) -> FetchError:
    reason = (" ".join(str(error).split()) or type(error).__name__).partition(" For more")[0]
    again = "run this again to resume the download, or " if part.exists() else ""
    fix = f"{again}get {download.filename} from {download.page} and put it into {part.parent}"
    return FetchError(f"{download.url} cannot be fetched ({reason:.200}); {fix}.")


def _recorded_sha256(path: Path) -> str | None:
    with suppress(OSError, ValueError, IndexError):  # absent, damaged or empty
        return _beside(path, ".sha256").read_text("utf-8").split()[0]
    return None


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _beside(part, ".json").unlink(missing_ok=True)
