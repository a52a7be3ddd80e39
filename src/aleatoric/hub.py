"""Models of the Hugging Face hub: whether it answers, and what its cache holds without it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread
from typing import Any

from aleatoric.errors import ModelUsageError, needs

PATIENCE = 3.0
"""Seconds to wait for an answer of the hub."""
FILES = ("config.json", "modules.json")
"""Files of a model of transformers, and of sentence-transformers."""


def options(name: str, revision: str | None, folder: str) -> dict[str, Any]:
    """Return options for loading a model of the hub: only from the cache if it cannot be reached.

    Without this check, each of several requests would be repeated for half a minute. `folder` is
    how to name a folder instead.
    """
    if os.path.isdir(name):
        return {}
    _, constants, utils = _imported()
    if constants.HF_HUB_OFFLINE or _is_reachable(utils, constants.ENDPOINT):
        return {}
    if is_cached(name, revision):
        return {"local_files_only": True}
    raise ModelUsageError(
        f"cannot load {name!r}: it is not in the cache, and {constants.ENDPOINT} cannot be "
        f"reached; check the name and the network, or give a folder as {folder}."
    )


def is_cached(name: str, revision: str | None = None) -> bool:
    """Whether a model of the hub has been downloaded before."""
    hub, *_ = _imported()
    found = (hub.try_to_load_from_cache(name, file, revision=revision) for file in FILES)
    return any(isinstance(path, str) for path in found)


def _imported() -> list[Any]:
    """Import the hub's package with those of its modules that it does not import by itself."""
    with needs("huggingface_hub", "hf"):
        return [import_module(f"huggingface_hub{part}") for part in ("", ".constants", ".utils")]


def _is_reachable(utils: Any, address: str) -> bool:
    """Whether a server answers within a few seconds; looking up its name may take longer."""
    answers: list[Any] = []

    def ask() -> None:
        with suppress(Exception):
            answers.append(utils.get_session().head(address, timeout=PATIENCE))

    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return bool(answers)


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Silence transformers' own progress bars and reports, which would mix with ours."""
    logging = transformers.utils.logging
    bars_enabled, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(max(level, logging.ERROR))
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars_enabled:
            logging.enable_progress_bar()
