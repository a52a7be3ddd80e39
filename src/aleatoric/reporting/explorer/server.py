"""The local web server of the explorer: read-only, on this machine, with a secret address.

Requests without the token are refused. A page of another site cannot reach the server under
another host name (the Host header is checked), embed it in a frame, or run a script in it.
"""

from __future__ import annotations

import hmac
import json
import math
import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from aleatoric.errors import UsageError
from aleatoric.reporting.explorer import listing, pages
from aleatoric.reporting.explorer.library import Library, OpenRun
from aleatoric.reporting.explorer.listing import HTML, Answer, NotFoundError, Site
from aleatoric.reporting.explorer.plots import Data
from aleatoric.reporting.explorer.snapshot import Params
from aleatoric.reporting.page import environment

RUN_PAGES: dict[str, tuple[str, Callable[[Site, OpenRun, Params], Data]]] = {
    "": ("overview", pages.overview),
    "contexts": ("contexts", pages.contexts),
    "context": ("item", pages.item),
    "tokens": ("tokens", pages.tokens),
}
"""Last part of an address -> the template and its data."""
RUN_FILES: dict[str, Callable[[Site, OpenRun, Params], Answer]] = {
    "contexts.csv": lambda *request: listing.csv_answer(
        listing.system_listing(*request), "contexts.csv"
    ),
    "tokens.csv": pages.tokens_csv,
    "progress.json": lambda site, run, params: Answer(
        listing.JSON, json.dumps(run.progress_data(), allow_nan=False).encode()
    ),
}
OF_ITEMS = ("contexts", "contexts.csv", "context")
OF_TOKENS = ("tokens", "tokens.csv")

_CSS, _JS = "text/css; charset=utf-8", "text/javascript; charset=utf-8"
STATIC = {
    "look.css": (_CSS, "templates"),
    "charts.js": (_JS, "templates"),
    "kinds.js": (_JS, "templates"),
    "view.css": (_CSS, "explorer/static"),
    "view.js": (_JS, "explorer/static"),
    "theme.js": (_JS, "explorer/static"),
    "icon.svg": ("image/svg+xml", "explorer/static"),
}
"""File -> its type, and its folder: the look and the charts are those of the report."""


class Router:
    """Every page of the explorer."""

    def __init__(self, library: Library, token: str) -> None:
        self.site = Site(library, token)
        self._pages = environment(
            "aleatoric.reporting.explorer", trim_blocks=True, lstrip_blocks=True
        )
        from jinja2 import StrictUndefined

        self._pages.undefined = StrictUndefined
        self._pages.globals["links"] = self.site
        self._pages.filters["most"] = _most
        # Compiled now, so that the first reader does not wait.
        for name in self._pages.list_templates():
            self._pages.get_template(name)
        # Read now: no other files can be requested.
        root = resources.files("aleatoric.reporting")
        self._static = {name: (root / at / name).read_bytes() for name, (_, at) in STATIC.items()}

    def answer(self, parts: Sequence[str], params: Params) -> Answer:
        """Return the answer to an address behind the token; unknown ones get an error page."""
        try:
            return self._find(list(parts), params)
        except NotFoundError as error:
            return self.problem(404, str(error))

    def problem(self, status: int, text: str) -> Answer:
        """Return a page that says what is wrong."""
        home = self.site.to()
        data = {"title": "Not found", "text": text, "home": home, "watch": None}
        return self._page("problem", data, status)

    def _find(self, parts: list[str], params: Params) -> Answer:
        runs = self.site.library.runs
        match parts:
            case [] if len(runs) == 1:
                return Answer(HTML, b"", 303, location=self.site.run(runs[0].key))
            case []:
                return self._page("home", pages.home(self.site))
            case ["static", name] if name in self._static:
                return Answer(STATIC[name][0], self._static[name], lasting=True)
            case ["compare"]:
                return self._page("compare", pages.compare(self.site, params))
            case ["compare.csv"]:
                return pages.compare_csv(self.site, params)
            case ["run", key] | ["run", key, _] if parts[2:] != [""]:
                return self._run(key, "".join(parts[2:]), params)
        raise NotFoundError("There is no such page.")

    def _run(self, key: str, what: str, params: Params) -> Answer:
        run = self.site.find(key)
        view = run.snapshot.view
        if what in (OF_TOKENS if view.has_items else OF_ITEMS):
            raise NotFoundError(f"A run of the {view.level.name} level has no such page.")
        if what in RUN_FILES:
            return RUN_FILES[what](self.site, run, params)
        if what not in RUN_PAGES:
            raise NotFoundError("There is no such page.")
        template, build = RUN_PAGES[what]
        return self._page(template, build(self.site, run, params))

    def _page(self, template: str, data: Data, status: int = 200) -> Answer:
        html = self._pages.get_template(f"{template}.html.j2").render(**data)
        # What cannot be encoded is shown as an escape.
        return Answer(HTML, html.encode("utf-8", "backslashreplace"), status)


def _most(values: Iterable[float]) -> float:
    """Return the greatest of values that may be undefined; never 0, so that it can divide."""
    return max((value for value in values if not math.isnan(value)), default=0.0) or 1e-9


ADDRESS = "127.0.0.1"
QUIET_S = 30
"""Seconds after which an idle connection is closed."""
MOST_PARAMS = 60
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Explorer(ThreadingHTTPServer):
    """Serves a library of runs on the loopback address, until it is closed."""

    daemon_threads = True

    def __init__(self, library: Library, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(18)
        self.library = library
        self.answers = Router(library, self.token)
        try:
            super().__init__((ADDRESS, port), Handler)
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"port {port} cannot be used ({error}); choose another --port or leave it out."
            ) from None

    @property
    def port(self) -> int:
        """The port of the server."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """The address to open; it holds the secret."""
        return f"http://{ADDRESS}:{self.port}/{self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error as one line; a browser that disconnects is no error."""
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            sys.stderr.write(f"error: a request failed ({type(error).__name__}: {error})\n")


class Handler(BaseHTTPRequestHandler):
    """One connection: checks its requests, then answers them."""

    protocol_version = "HTTP/1.1"
    server_version = "aleatoric"
    sys_version = ""
    timeout = QUIET_S
    disable_nagle_algorithm = True
    server: Explorer

    def do_GET(self) -> None:
        """Send a page, or only its headers for a HEAD request."""
        self._send(self._answer())

    do_HEAD = do_GET  # noqa: N815

    def _refuse(self) -> None:
        self.close_connection = True  # the body is not read
        self._send(self._refusal() or _plain(405, "This server is read-only."))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: addresses hold the secret."""

    def _answer(self) -> Answer:
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        address = urlsplit(self.path)
        try:
            params = parse_qs(address.query, max_num_fields=MOST_PARAMS)
        except ValueError:
            return _plain(400, "There are too many parameters.")
        # Each part is decoded by itself: an encoded slash does not make a new part.
        parts = [unquote(part) for part in address.path.rstrip("/").split("/")[2:]]
        try:
            return self.server.answers.answer(parts, params)
        except Exception as error:
            sys.stderr.write(f"error: a page failed ({type(error).__name__}: {error})\n")
            return self.server.answers.problem(500, "This page could not be made.")

    def _refusal(self) -> Answer | None:
        # The names that a browser on this machine may use for the server.
        hosts = [f"{name}:{self.server.port}" for name in (ADDRESS, "localhost")]
        if self.headers.get("Host", "") not in hosts:
            return _plain(403, "This server answers only to its own host name.")
        first = self.path.partition("?")[0].split("/")[1:2]
        token = unquote(first[0]) if first else ""
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            return _plain(403, "The address lacks this server's secret; open the printed one.")
        return None

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in _headers(answer).items():
            self.send_header(name, value)
        if isinstance(answer.body, bytes):
            self.send_header("Content-Length", str(len(answer.body)))
        else:
            # The length is not known: the end of the connection ends the answer.
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command != "HEAD":
            parts = (answer.body,) if isinstance(answer.body, bytes) else answer.body
            for part in parts:
                self.wfile.write(part)


def _headers(answer: Answer) -> dict[str, str]:
    cached = "private, max-age=3600" if answer.lasting else "no-store"
    headers = {**HEADERS, "Content-Type": answer.kind, "Cache-Control": cached}
    if answer.filename is not None:
        headers["Content-Disposition"] = f'attachment; filename="{answer.filename}"'
    if answer.location is not None:
        headers["Location"] = answer.location
    if answer.status == 405:
        headers["Allow"] = "GET, HEAD"
    return headers


def _plain(status: int, text: str) -> Answer:
    """Return a refusal that reveals nothing about the runs."""
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>aleatoric</title>'
    return Answer(HTML, f"{head}<p>{text}</p></html>".encode(), status)
