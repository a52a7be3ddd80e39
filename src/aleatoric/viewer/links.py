"""Addresses inside the explorer: all begin with the secret of this server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, urlencode

Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Links:
    """Makes addresses.

    >>> Links("s3cret").to("run", "0", "context", params=[("id", "1:2 <a>")])
    '/s3cret/run/0/context?id=1%3A2+%3Ca%3E'
    """

    token: str

    def to(self, *parts: str, params: Pairs = ()) -> str:
        """The address of a page with its parameters; parameters without a value are left out."""
        path = "/".join(quote(part, safe="") for part in (self.token, *parts))
        given = urlencode([(key, value) for key, value in params if value])
        return f"/{path}?{given}" if given else f"/{path}"

    def run(self, key: str, *parts: str, params: Pairs = ()) -> str:
        """The address of a page of one run."""
        return self.to("run", key, *parts, params=params)
