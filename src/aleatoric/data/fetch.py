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
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
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


DOWNLOADS = {
    "provo": Download(
        url="https://osf.io/download/e4a2m/",
        filename="Provo_Corpus-Predictability_Norms.csv",
        # Recorded by several public projects that downloaded this file (14,301,138 bytes).
        sha256="965fb72eab55f51e08fc1b5622638b85b1085976ff513e2a7bee4adbbd4e6489",
        licence="CC BY 4.0",
        page="https://osf.io/sjefs/",
        encoding="mac-roman",
    ),
    "wmt14-10ref": Download(
        url="https://raw.githubusercontent.com/facebookresearch/analyzing-uncertainty-nmt/"
        "099839c9fe0cdaa2738468105267abc91a65803e/wmt14-en-de.extra_refs.gz",
        filename="wmt14-en-de.extra_refs.gz",
        sha256=None,
        licence="CC BY-NC 4.0",
        page="https://github.com/facebookresearch/analyzing-uncertainty-nmt",
    ),
    "dailydialog++": Download(
        url="https://iitmnlp.github.io/DailyDialog-plusplus/dataset/dev.json",
        filename="dailydialogpp-dev.json",
        sha256=None,
        licence="none stated",
        page="https://iitmnlp.github.io/DailyDialog-plusplus/",
    ),
    "writingprompts": Download(
        url="https://dl.fbaipublicfiles.com/fairseq/data/writingPrompts.tar.gz",
        filename="writingPrompts.tar.gz",
        sha256=None,
        licence="none stated",
        page="https://github.com/facebookresearch/fairseq/tree/main/examples/stories",
        members=tuple(
            f"writingPrompts/{split}.wp_{side}"
            for split in ("test", "valid")  # the paper's split first
            for side in ("source", "target")
        ),
    ),
    "dialogsum": Download(
        url="https://raw.githubusercontent.com/cylnlp/dialogsum/"
        "67b15f6439b42d419f6626aa2a2e5b07e3aa4ea9/DialogSum_Data/dialogsum.test.jsonl",
        filename="dialogsum.test.jsonl",
        sha256=None,
        licence="as its page states",
        page="https://github.com/cylnlp/dialogsum",
    ),
}
"""Corpora of one file, by name. A new corpus is one entry."""

# Recorded by TensorFlow Datasets (ASSET) and by Hugging Face Datasets, which download these files.
_ASSET: dict[str, str | None] = {
    "asset.valid.orig": "83dca90b5c53365a9c4a70222aed129c6df3c3f6b5da82ee94312e179b93fff1",
    "asset.valid.simp.0": "27b0c4a40c91b875c82a8ed76ff7cf0476b03a3a6998a2e3ef6e18000efda624",
    "asset.valid.simp.1": "5043e9db5934c3d538b91f56d23466177813896da10f153d2b16c0c415ac5e84",
    "asset.valid.simp.2": "578dd487cf03f6f66bb4acd2c44b464c3ac9fb42dc64b8e6afd391778ebc7ea7",
    "asset.valid.simp.3": "4ab95ba6f7a60adde2f57201c0b749384ce64c97f8378fb0ab185367709a8386",
    "asset.valid.simp.4": "f6f1d4bf9f87b532b37d7f5700ec384f817dba10247c91df629e1f6eee6c3aa9",
    "asset.valid.simp.5": "182114cfbb2960358b0e2d71737ead9a2abb0c27d3f65281335f079ae4447e3b",
    "asset.valid.simp.6": "aba27b505dad048982e902a04c4ffc5ab9e926b38d2383920aea798fd42de376",
    "asset.valid.simp.7": "73d7983107eca6b98a9aec62ea75ea8d5adf313755b7e105608f212dead124cd",
    "asset.valid.simp.8": "58f8e1109d87a4e3c5403705b8782750bb849cb8389a698156e00ca6512dd5c4",
    "asset.valid.simp.9": "35a861e174ce5458fdcd1866e49aa84297fcb6b51fd98d6633b71932a646832e",
    "asset.test.orig": "673ceb2672a37168a52040d75e16f9ffd1e3777b9f68e19207f2adf6542723f1",
    "asset.test.simp.0": "66f36029d0c732eb92886021faefe531c6cfd0a32bdbe7ae4aa97fd45bd1b046",
    "asset.test.simp.1": "d323ceb364abbe84c79b14b028aa1ff563cd94955fbab19049612548dbb0f83f",
    "asset.test.simp.2": "786b55f8425ce4a993e98be5e2bea9ef87bf536b96dc13f7a57c4733fdb63e06",
    "asset.test.simp.3": "e211c9e2ede1dfe315097132dbe4feda76b309bdc636a5394cb5d2664ba5bf52",
    "asset.test.simp.4": "37be9cf0592c0f68d87848dc9c442fe62f344518c1993896c00788bf943b755d",
    "asset.test.simp.5": "8485210573a3bd76116de8e978b227677c6c207111a4938729397c4e603dfa46",
    "asset.test.simp.6": "f0cb3ab823d23203ea044f81bd7e67cc823db0632095e43b78a54a9891a0b0a8",
    "asset.test.simp.7": "35cbb8b9964252a1470607634f19ad946c6bc2951b3e500eedd826baf12bd3c8",
    "asset.test.simp.8": "047b6419590b88f93b435d3177bba1883dc9c0dc178676e48470b408236446f4",
    "asset.test.simp.9": "3f5745e4f2743563b88ea4284ec35fa4ddb68d62de80b63ffb87751b998fe6b8",
}
_TURK: dict[str, str | None] = {
    "test.8turkers.tok.norm": "5a45e4deb23524dbd06fae0bbaf4a547df8c5d982bf4c9867c0f1462ed99ac46",
    "test.8turkers.tok.turk.0": "33399612ddb7ec4f0cd798508ea2928a3ab9b2ec3a9e524a4d5a0da44bf1425a",
    "test.8turkers.tok.turk.1": "6ea0d23083ce25c7cceb19f4e454ddde7d8b4010243d7af2ab0a96884587e79b",
    "test.8turkers.tok.turk.2": "abe871f586783f6e2273557fbc1ed203b06e5a5c2a52da260113c939ce1e79e3",
    "test.8turkers.tok.turk.3": "b4387233b14c123c7cef8d15c2ee7c68244fedb10e6e37008c0eed782b98897e",
    "test.8turkers.tok.turk.4": "1abf53f4dc075660322be772b40cdd26545902d5a7fa8746a460ea55301dd847",
    "test.8turkers.tok.turk.5": "3bbb08c71bbf692a2b7f2b6421a833397f96574fb9d7ff1dfd2c0f52ea0c52d6",
    "test.8turkers.tok.turk.6": "d100c0a63c9a01cde27694f18275e760d3f77bcd8b46ab9f6f832e8bc37c4857",
    "test.8turkers.tok.turk.7": "e1956804ef69855a83a6c214acd07373533dad31615de0254ec60e3d0dbbedac",
    "tune.8turkers.tok.norm": "1a0a0bf500bac72486eda8816e0a64347e79bd3652daddd1289fd4eec773df00",
    "tune.8turkers.tok.turk.0": "fb7c373e88dd188e234c688e6c7ed22012658e06c5c127d4be5f19f0e66a6542",
    "tune.8turkers.tok.turk.1": "308fab45b60d36bbd0ff651245cc0ceed82654658679c27ce575c4b487827394",
    "tune.8turkers.tok.turk.2": "f428363b156759352c4240a218f5485909961c84554fd20dbcf076a4518c1f13",
    "tune.8turkers.tok.turk.3": "22a430a69b348643e4e86e33724ef8a0dc690e948827af9667d21536f7f19981",
    "tune.8turkers.tok.turk.4": "a07211cb2a493f8a6c00f3f437c826eb10d01abb354f910d278d74752c306c24",
    "tune.8turkers.tok.turk.5": "951a03c67fd726a946a7d303af6edc64b4c3aa351721c7e921bd83c5f8a7e1c6",
    "tune.8turkers.tok.turk.6": "2983e016b4a7edff749106865251653d93def0c8f4f6f30ef6800b83cc3becbb",
    "tune.8turkers.tok.turk.7": "f427962c2fa8aee00911c74b3c2c093e5b50acc70928a619d3f3225ba29f38eb",
}
_JFLEG: dict[str, str | None] = {
    "test/test.src": "893db119162487aa7f956b65978453576919e6797cd6c1955f93b7a8b9f4bbd8",
    "test/test.ref0": "875953280a3ea1dea2827337b1778c0105f0c0aa79f2517a6e0e42db5e5e170c",
    "test/test.ref1": "190d3398f2765f54a39b5489d1e96c483412a656086c731f8712ad0591087d80",
    "test/test.ref2": "0e3c6abe934ccd16c9dffb2fd889d6f55afc3ad13a63c1e148c720bb4e99046b",
    "test/test.ref3": "19f49de6eff813b26505ecf756c20dc301aeb80696696b01ca950298f6e58441",
    "dev/dev.src": "4a0e8b86d18a1058460ff0a592dac1ba68986d135256efbd27e997ac43f295f8",
    "dev/dev.ref0": "adea6287c6e2240b7777e63cd56f8e228e742bbfb42c5152bc0bd2bc91f4e53e",
    "dev/dev.ref1": "d40d56ec7468ddab03fdcca97065ab3f9d391d749dbc7097b7c777a19ce4242e",
    "dev/dev.ref2": "b070691d633e0c4143d96ba21299ae71cb126086517d2970df47420842067793",
    "dev/dev.ref3": "9187fd834693fa77d07957991282d32d61ff84a207c25cbfab318c871bacdbc4",
}
_E2E: dict[str, str | None] = {
    "testset_w_refs.csv": "edc8db685e39bb9824d5bd70c18b1c9b0412d14b527aa960e2d1c8251ee15ccd",
    "devset.csv": "fc26b78cdb849c80545f513b223d1e051138b43882eeb79e3eb153e689c864f9",
}
# No public record of a SHA-256 is known. The address names a commit, whose files cannot change.
_SQUALITY: dict[str, str | None] = {"test.jsonl": None, "dev.jsonl": None}
_MULTI30K: dict[str, str | None] = {
    f"test_2016.{k}.{language}.gz": None for language in ("en", "de") for k in range(1, 6)
}
_RAW = "https://raw.githubusercontent.com"


def _set(
    checksums: dict[str, str | None], repository: str, place: str, licence: str, folder: str = ""
) -> tuple[Download, ...]:
    """Return the files of a repository, to be saved in a folder of the cache."""
    page = f"https://github.com/{repository}"
    return tuple(
        Download(
            f"{_RAW}/{repository}/{place}{name}",
            f"{folder}{name.rpartition('/')[2]}",
            sha256,
            licence,
            page,
        )
        for name, sha256 in checksums.items()
    )


SETS = {
    "asset": _set(_ASSET, "facebookresearch/asset", "main/dataset/", "CC BY-NC 4.0"),
    "turk": _set(_TURK, "cocoxu/simplification", "master/data/turkcorpus/", "GPL 3.0", "turk/"),
    "jfleg": _set(_JFLEG, "keisks/jfleg", "master/", "CC BY-NC-SA 4.0", "jfleg/"),
    "e2e": _set(_E2E, "tuetschek/e2e-dataset", "master/", "CC BY-SA 4.0", "e2e/"),
    "squality": _set(
        _SQUALITY,
        "nyu-mll/SQuALITY",
        "dc08d4f574639d773bc64ef3ab3527043108fb4e/data/v1-3/txt/",
        "as its page states",
        "squality/",
    ),
    "multi30k": _set(
        _MULTI30K,
        "multi30k/dataset",
        "4cf9201f718b05e433e073b69636ef8bf236cf21/data/task2/raw/",
        "none stated",
        "multi30k/",
    ),
}
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
