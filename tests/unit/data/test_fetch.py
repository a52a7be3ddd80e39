"""Downloads, tested against a real HTTP server on loopback with injected faults."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from faulty_server import bomb, peak_below

from aleatoric import cli
from aleatoric.data import fetch, files
from aleatoric.data.opening import open_corpus
from aleatoric.errors import DataError, FetchError, UsageError

BODY = bytes(range(256)) * 2000
SHA = hashlib.sha256(BODY).hexdigest()


@dataclass
class Behaviour:
    """Faults that the server injects into the next requests."""

    body: bytes = BODY
    etag: str | None = '"v1"'
    ranges: bool = True
    status: int = 200
    cuts: list[int] = field(default_factory=list)  # bytes after which a connection breaks
    encoding: str | None = None
    pause: float = 0.0  # seconds between two pieces of a body
    asked: list[str | None] = field(default_factory=list)  # the Range of every request


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        how = self.server.how
        how.asked.append(self.headers.get("Range"))
        if self.path == "/moved":
            self._head(302, 0, {"Location": "/file"})
            return
        if how.status != 200:
            self._head(how.status, 0, {})
            return
        start = self._start(how)
        if start >= len(how.body) and start:
            self._head(416, 0, {})
            return
        self._send(how, start)

    def _start(self, how: Behaviour) -> int:
        asked = self.headers.get("Range")
        current = self.headers.get("If-Range") == how.etag
        return int(asked[len("bytes=") : -1]) if asked and how.ranges and current else 0

    def _send(self, how: Behaviour, start: int) -> None:
        headers = {"ETag": how.etag} if how.etag else {}
        headers |= {"Content-Encoding": how.encoding} if how.encoding else {}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(how.body) - 1}/{len(how.body)}"
        body = how.body[start:]
        self._head(206 if start else 200, len(body), headers)
        if how.cuts:
            self.wfile.write(body[: how.cuts.pop(0)])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif how.pause:
            for first in range(0, len(body), 50_000):
                self.wfile.write(body[first : first + 50_000])
                threading.Event().wait(how.pause)
        else:
            self.wfile.write(body)

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()


class Server(ThreadingHTTPServer):
    how: Behaviour
    daemon_threads = True

    def handle_error(self, *_: object) -> None: ...  # a client that hangs up is part of the test

    def url(self, path: str = "/file") -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with Server(("127.0.0.1", 0), Handler) as running:
        running.how = Behaviour()
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def download(server: Server, sha256: str | None = SHA, path: str = "/file") -> fetch.Download:
    return fetch.Download(server.url(path), "norms.csv", sha256, "CC0", "https://example.org/")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_download_is_verified_and_checksum_recorded(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = fetch.fetch(download(server), tmp_path / "new" / "cache", lambda *at: seen.append(at))
    assert path.read_bytes() == BODY
    assert names(path.parent) == {"norms.csv", "norms.csv.sha256"}
    assert path.with_name("norms.csv.sha256").read_text() == f"{SHA}  norms.csv\n"
    assert seen[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_redirects_are_followed(server: Server, tmp_path: Path) -> None:
    assert fetch.fetch(download(server, path="/moved"), tmp_path).read_bytes() == BODY


def test_dropped_connection_is_resumed_immediately(server: Server, tmp_path: Path) -> None:
    server.how.cuts = [100_000, 50_000]
    assert fetch.fetch(download(server), tmp_path).read_bytes() == BODY
    assert server.how.asked[0] is None
    assert all(str(asked).startswith("bytes=") for asked in server.how.asked[1:])
    assert names(tmp_path) == {"norms.csv", "norms.csv.sha256"}


def test_interrupted_download_is_resumed_by_next_command(server: Server, tmp_path: Path) -> None:
    server.how.cuts = [60_000] * fetch.ATTEMPTS
    with pytest.raises(FetchError, match="run this again to resume the download"):
        fetch.fetch(download(server), tmp_path)
    have = (tmp_path / "norms.csv.part").stat().st_size
    assert 0 < have < len(BODY)
    assert not (tmp_path / "norms.csv").exists()
    server.how.asked.clear()
    assert fetch.fetch(download(server), tmp_path).read_bytes() == BODY
    assert server.how.asked == [f"bytes={have}-"]


def test_server_without_range_support_restarts_download(server: Server, tmp_path: Path) -> None:
    server.how.cuts, server.how.ranges = [100_000], False
    assert fetch.fetch(download(server), tmp_path).read_bytes() == BODY


def test_changed_remote_file_is_not_appended_to_partial_file(
    server: Server, tmp_path: Path
) -> None:
    server.how.cuts = [60_000] * fetch.ATTEMPTS
    with pytest.raises(FetchError):
        fetch.fetch(download(server), tmp_path)
    newer = BODY[::-1]
    server.how = Behaviour(body=newer, etag='"v2"')
    found = fetch.fetch(download(server, hashlib.sha256(newer).hexdigest()), tmp_path)
    assert found.read_bytes() == newer


def test_partial_file_is_not_resumed_without_strong_validator(
    server: Server, tmp_path: Path
) -> None:
    server.how.etag, server.how.cuts = 'W/"weak"', [100_000]
    assert fetch.fetch(download(server), tmp_path).read_bytes() == BODY
    assert server.how.asked == [None, None]


def test_partial_file_longer_than_remote_restarts_download(server: Server, tmp_path: Path) -> None:
    part = tmp_path / "norms.csv.part"
    part.write_bytes(b"x" * (len(BODY) + 5))
    known = {"url": server.url(), "validator": '"v1"'}
    part.with_name("norms.csv.part.json").write_text(json.dumps(known))
    assert fetch.fetch(download(server), tmp_path).read_bytes() == BODY


def test_partial_file_with_corrupt_metadata_restarts_download(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "norms.csv.part").write_bytes(b"junk")
    (tmp_path / "norms.csv.part.json").write_text("[1, 2")
    assert fetch.fetch(download(server), tmp_path).read_bytes() == BODY


def test_checksum_mismatch_leaves_no_files(server: Server, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="and was removed"):
        fetch.fetch(download(server, "0" * 64), tmp_path)
    assert not names(tmp_path)


def test_oversized_download_is_rejected(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MAX_BYTES", 1000)
    with pytest.raises(FetchError, match="is over 1000 bytes"):
        fetch.fetch(download(server), tmp_path)
    assert not names(tmp_path)


@pytest.mark.parametrize(
    ("encoding", "layers", "message"),
    [
        ("gzip, gzip, gzip", 3, "'gzip, gzip, gzip' is not supported; send gzip, or use another"),
        ("gzip", 1, "unpacks to far more than it is; check the address"),
    ],
)
def test_decompression_bomb_is_rejected(
    server: Server, tmp_path: Path, encoding: str, layers: int, message: str
) -> None:
    server.how.body, server.how.encoding = bomb(layers), encoding
    with peak_below(2**26), pytest.raises(FetchError, match=message):
        fetch.fetch(download(server), tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.stat().st_size > 2**23]


def test_compressed_file_is_decompressed(server: Server, tmp_path: Path) -> None:
    server.how.body, server.how.encoding = gzip.compress(BODY), "gzip"
    assert fetch.fetch(download(server), tmp_path).read_bytes() == BODY
    server.how.body = server.how.body[:-4]
    with pytest.raises(FetchError, match="is damaged"):
        fetch.fetch(download(server), tmp_path / "again")


def test_concurrent_processes_download_file_once(server: Server, tmp_path: Path) -> None:
    server.how.pause, server.how.ranges = 0.2, False
    code = (
        "import sys; from pathlib import Path; from aleatoric.data import fetch;"
        f"one = fetch.Download({server.url()!r}, 'norms.csv', None, 'CC0', 'https://x.org/');"
        "fetch.fetch(one, Path(sys.argv[1]))"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    assert len(server.how.asked) == 1
    assert (tmp_path / "norms.csv").read_bytes() == BODY
    assert (tmp_path / "norms.csv.sha256").read_text() == f"{SHA}  norms.csv\n"
    assert names(tmp_path) == {"norms.csv", "norms.csv.sha256"}


def test_archive_is_unpacked_by_one_process_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "a.tar"
    (tmp_path / "words").write_bytes(BODY)
    with tarfile.open(archive, "w") as tar:
        tar.add(tmp_path / "words", "in/words.txt")
    copied, copy = [], fetch._copy

    def slowly(*arguments: Any) -> None:
        copied.append(arguments)
        threading.Event().wait(0.2)
        copy(*arguments)

    monkeypatch.setattr(fetch, "_copy", slowly)
    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(fetch.unpack, archive, ("in/words.txt",)) for _ in range(2)]
    assert [one.result() for one in found] == [[tmp_path / "words.txt"]] * 2
    assert len(copied) == 1
    assert (tmp_path / "words.txt").read_bytes() == BODY


@pytest.mark.parametrize("status", [404, 403, 416, 500, 503])
def test_server_error_names_manual_download_location(
    server: Server, tmp_path: Path, status: int
) -> None:
    server.how.status = status
    with pytest.raises(FetchError, match=rf"{status}.*get norms.csv from .* and put it into"):
        fetch.fetch(download(server), tmp_path)
    assert not names(tmp_path)


def test_existing_file_is_not_downloaded_again(server: Server, tmp_path: Path) -> None:
    first = fetch.fetch(download(server), tmp_path)
    server.how.asked.clear()
    assert fetch.fetch(download(server), tmp_path) == first
    assert not server.how.asked


def test_modified_local_file_is_not_overwritten(server: Server, tmp_path: Path) -> None:
    (tmp_path / "norms.csv").write_text("my own")
    with pytest.raises(DataError, match="move it away"):
        fetch.fetch(download(server), tmp_path)
    assert (tmp_path / "norms.csv").read_text() == "my own"


def test_checksum_of_first_download_is_recorded_if_unknown(server: Server, tmp_path: Path) -> None:
    path = fetch.fetch(download(server, None), tmp_path)
    fetch.check_unchanged(path)
    path.write_bytes(BODY[:-1])
    with pytest.raises(DataError, match="was changed since it was fetched"):
        fetch.check_unchanged(path)
    with pytest.raises(DataError, match="is not the published file"):
        fetch.fetch(download(server, None), tmp_path)


def test_unwritable_folder_raises_usage_error(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--to"):
        fetch.fetch(download(server), tmp_path / "file" / "folder")


def run(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["aleatoric", *argv])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def provo_table() -> bytes:
    """A very small file in the published layout and encoding."""
    head = "Word_Unique_ID,Text_ID,Text,Word_Number,Word,Response,Response_Count"
    text = "It doesn\u2019t stop"
    rows = [f"QID1,1,{text},2,doesn\u2019t,was,39", f"QID2,1,{text},3,stop,matter,40"]
    return "\r".join([head, *rows, ""]).encode("mac-roman")


def test_fetched_corpus_can_be_opened_by_name(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ALEATORIC_CACHE", str(tmp_path))
    server.how.body = provo_table()
    sha256 = hashlib.sha256(server.how.body).hexdigest()
    assert run(["fetch", "provo", "--url", server.url(), "--sha256", sha256], monkeypatch) == 0
    out, err = capsys.readouterr()
    assert not out
    assert "is here and verified (CC BY 4.0" in err
    items = tuple(open_corpus("provo", "mac-roman").items)
    assert [item.context for item in items] == ["It", "It doesn\u2019t"]


def test_unreachable_network_error_explains_manual_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as closed:  # bound, but nobody listens
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/file"
        assert run(["fetch", "provo", "--url", url, "--to", str(tmp_path)], monkeypatch) == 1
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert "https://osf.io/sjefs/" in err
    assert f"put it into {tmp_path}" in err
    assert not names(tmp_path)


@pytest.mark.parametrize(
    "argv",
    [
        ["fetch", "nothing"],
        ["fetch", "provo", "--url", "ftp://example.org/x"],
        ["fetch", "provo", "--url", "http://"],
        ["fetch", "provo", "--sha256", "abc"],
    ],
)
def test_invalid_arguments_are_rejected_before_any_request(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(argv, monkeypatch) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_file_set_is_fetched_together(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = tuple(
        fetch.Download(server.url(), name, sha256, "CC0", "https://example.org/")
        for name, sha256 in (("a.orig", SHA), ("a.simp.0", None))
    )
    monkeypatch.setitem(fetch.SETS, "asset", both)
    assert run(["fetch", "asset", "--to", str(tmp_path)], monkeypatch) == 0
    assert names(tmp_path) == {"a.orig", "a.orig.sha256", "a.simp.0", "a.simp.0.sha256"}


def test_output_never_replaces_pipe_or_symlink(tmp_path: Path) -> None:
    pipe, link, target = (tmp_path / name for name in ("pipe", "link", "target"))
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="is not a regular file"), files.written_whole(pipe):
        pass
    assert pipe.is_fifo()
    link.symlink_to(target)
    with files.written_whole(link) as unfinished:
        unfinished.write_text("whole")
    assert link.is_symlink()
    assert target.read_text() == "whole"
