"""Access control of the explorer server: read-only, loopback only, token required."""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
import sqlite3
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from aleatoric.errors import UsageError
from aleatoric.reporting.explorer.library import Library, find_runs
from aleatoric.reporting.explorer.server import ADDRESS, Explorer
from aleatoric.runs.run import Store

PAGES = ("", "/run/0", "/run/0/contexts", "/run/0/context?no=1", "/compare", "/run/1/contexts")


def ask(
    explorer: Explorer, path: str, method: str = "GET", **headers: str
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(ADDRESS, explorer.port, timeout=20)
    connection.request(method, path, headers=headers)
    found = connection.getresponse()
    body = found.read()
    connection.close()
    return found, body


@pytest.mark.parametrize("path", ["/", "/wrong", "/wrong/run/0", "/static/view.js", "/%00"])
def test_requests_without_token_are_rejected(explorer: Explorer, path: str) -> None:
    found, body = ask(explorer, path)
    assert found.status == 403
    assert explorer.token.encode() not in body
    assert b"story" not in body


def test_token_prefix_is_rejected(explorer: Explorer) -> None:
    assert ask(explorer, f"/{explorer.token[:-1]}/run/0")[0].status == 403
    assert ask(explorer, f"/{explorer.token}x/run/0")[0].status == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", ""])
def test_other_host_header_is_rejected(explorer: Explorer, host: str) -> None:
    assert ask(explorer, f"/{explorer.token}/run/0", Host=host)[0].status == 403


def test_localhost_host_header_is_accepted(explorer: Explorer) -> None:
    host = f"localhost:{explorer.port}"
    assert ask(explorer, f"/{explorer.token}/run/0", Host=host)[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_only_get_and_head_are_allowed(explorer: Explorer, method: str) -> None:
    found, _ = ask(explorer, f"/{explorer.token}/run/0", method)
    assert found.status == 405
    assert found.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2Fserver.py",
        "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/run/../../etc/passwd",
        "/run/0/..%2f..%2frun.sqlite",
        "/run/7",
        "/run/0/nothing",
        "/run/0/context?id=nobody",
        "/run/0/context?no=99999999999999999999",
        "/run/0/contexts?system=nobody",
        "/compare?a=9:x",
        "/run/0/tokens",
        "/run/0/tokens.csv",
    ],
)
def test_unknown_paths_return_404(explorer: Explorer, path: str) -> None:
    found, body = ask(explorer, f"/{explorer.token}{path}")
    assert found.status == 404
    assert b"root:" not in body


@pytest.mark.parametrize("path", PAGES)
def test_content_security_policy_blocks_external_code(explorer: Explorer, path: str) -> None:
    found, body = ask(explorer, f"/{explorer.token}{path}")
    assert found.status == 200
    policy = found.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert found.headers["Referrer-Policy"] == "no-referrer"
    assert found.headers["Cache-Control"] == "no-store"
    page = body.decode()
    # Every script comes from the server; no style or handler is written into a tag.
    assert all(f'src="/{explorer.token}/' in tag for tag in re.findall(r"<script[^>]*>", page))
    outside = [u for u in re.findall(r'(?:src|href|action)="([^"#]+)"', page) if u[0] != "/"]
    assert not outside
    assert not re.findall(r'<[^>]+\s(?:style|on\w+)="', page)


def test_server_listens_only_on_loopback(explorer: Explorer) -> None:
    assert explorer.server_address[0] == "127.0.0.1"
    others = ["127.0.0.2", *_own_addresses()]
    for address in others:
        with pytest.raises(OSError, match=r"refused|timed out|unreachable|assign"):
            socket.create_connection((address, explorer.port), timeout=3).close()


def _own_addresses() -> list[str]:
    try:
        found = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return []
    return [str(address) for address in found if not str(address).startswith("127.")]


def test_port_in_use_raises_one_line_error(explorer: Explorer, words: Path) -> None:
    with pytest.raises(UsageError, match="choose another --port"):
        Explorer(Library([words]), explorer.port)


def test_head_has_no_body_and_the_same_length(explorer: Explorer) -> None:
    path = f"/{explorer.token}/run/0/context?no=1"
    found, body = ask(explorer, path, "HEAD")
    assert not body
    assert int(found.headers["Content-Length"]) == len(ask(explorer, path)[1])


def test_too_many_parameters_are_rejected(explorer: Explorer) -> None:
    query = "&".join(f"range=tvd:0:{i}" for i in range(100))
    assert ask(explorer, f"/{explorer.token}/run/0/contexts?{query}")[0].status == 400


def test_invalid_parameters_still_give_a_page(explorer: Explorer) -> None:
    odd = (
        "sort=nothing&dir=x&page=9999999999999&range=tvd:a:b&range=::&of=tvd&min=nan&pos=%FF&top=x"
    )
    for page in ("/run/0/contexts", "/compare", "/run/0/contexts.csv"):
        assert ask(explorer, f"/{explorer.token}{page}?{odd}&q=%00%F0")[0].status == 200


def test_explorer_connection_is_read_only(words: Path) -> None:
    before = hashlib.sha256((words / "run.sqlite").read_bytes()).hexdigest()
    with Store.open(words) as store, pytest.raises(sqlite3.OperationalError, match="readonly"):
        store.set_meta("a", 1)
    assert hashlib.sha256((words / "run.sqlite").read_bytes()).hexdigest() == before


def test_exploring_does_not_change_run(explorer: Explorer, words: Path) -> None:
    before = hashlib.sha256((words / "run.sqlite").read_bytes()).hexdigest()
    for path in PAGES:
        ask(explorer, f"/{explorer.token}{path}")
    assert hashlib.sha256((words / "run.sqlite").read_bytes()).hexdigest() == before
    assert not (words / "run.sqlite-wal").exists() or not (words / "run.sqlite-wal").stat().st_size


def test_read_only_run_is_shown(words: Path, tmp_path: Path) -> None:
    copy = tmp_path / "kept"
    copy.mkdir()
    (copy / "run.sqlite").write_bytes((words / "run.sqlite").read_bytes())
    (copy / "run.sqlite").chmod(0o444)
    copy.chmod(0o555)
    try:
        assert len(Library([copy]).runs[0].snapshot.items) == 8
    finally:
        copy.chmod(0o755)


def test_missing_run_raises_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no run directory"):
        Library([tmp_path])


def test_folder_stands_for_the_runs_in_it(words: Path, tmp_path: Path) -> None:
    shutil.copytree(words, tmp_path / "runs" / "good")
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "run.sqlite").write_text("no database")
    told: list[str] = []
    found = list(find_runs([tmp_path / "runs", words], told.append))
    assert found == [tmp_path / "runs" / "good", words]
    assert len(told) == 1
    assert "bad" in told[0]
    assert list(find_runs([tmp_path], told.append)) == [tmp_path / "runs" / "good"]
