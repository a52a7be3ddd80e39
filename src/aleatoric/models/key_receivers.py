"""Who would be sent the user's key because a run names them: a run may come from others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from aleatoric.errors import UsageError

HOME = "api.openai.com"
"""Where such keys come from."""


def receiver(model: str) -> str | None:
    """The host that would be sent a key; `None` where there is none, or it comes from there.

    Loopback is no exception: on a shared machine another user may listen there.

    >>> receiver("smollm2") is None
    True
    """
    kind, _, argument = model.partition(":")
    if kind != "openai":
        return None
    # Imported here: other models need no client.
    from aleatoric.models.http_client import key_for
    from aleatoric.models.openai_spec import parse_spec

    url = parse_spec(argument).base_url
    found = urlsplit(url)
    is_home = (found.scheme, found.hostname) == ("https", HOME)
    return None if is_home or key_for(url) is None else found.hostname


def check_receivers(models: Iterable[str], said: Collection[str], run: str) -> None:
    """Refuse to send a key to a host that nobody here has named.

    >>> check_receivers(["smollm2"], [], "runs/theirs")
    """
    for host in filter(None, map(receiver, models)):
        if host not in said:
            raise UsageError(
                f"{run}: goes on by sending your key to {host}, which the run names; if you trust "
                f"that server, add --key-for {host}, or repeat the command that began the run."
            )
