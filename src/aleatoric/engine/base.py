"""How a run's items are worked through: what an engine is, and what may be asked of one."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from aleatoric import registry
from aleatoric.engine.opening import Loading
from aleatoric.errors import UsageError
from aleatoric.models.base import LoadOptions, TextModel, WordModel

LOCAL = "local"
PART = 0.0001
"""The smallest part of a processor or of a card that a cluster gives out."""


class Engine(Protocol):
    """Opens models whose draws and texts are worked out somewhere: here, or on a cluster.

    The models that it gives are asked as any other: items in, answers out as they come, in any
    order. Who asks saves them; an engine writes nothing.
    """

    def word_model(self, spec: str, loading: Loading) -> WordModel:
        """A source of next words."""
        ...

    def text_model(self, spec: str, loading: LoadOptions) -> TextModel:
        """A writer of whole texts."""
        ...


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Which engine, and how large; `None` leaves a choice to the engine.

    None of it changes a result, so that a run may be continued with another engine.
    """

    name: str = LOCAL
    address: str | None = None
    """Of a cluster that runs already: `auto` or host:port."""
    actors: int | None = None
    cpus: float | None = None
    """Of one actor."""
    gpus: float | None = None
    """Of one actor."""


def open_engine(options: EngineOptions) -> AbstractContextManager[Engine]:
    """The engine of a run, until the block ends.

    >>> with open_engine(EngineOptions()) as engine:
    ...     engine.word_model("toy", Loading()).label
    'toy'
    """
    check_engine(options)
    found: AbstractContextManager[Engine] = registry.find("engines", options.name)(options)
    return found


def check_engine(options: EngineOptions) -> None:
    """Refuse an unknown engine, and options that it would not look at.

    >>> check_engine(EngineOptions("ray", address="auto"))
    """
    known = registry.names("engines")
    if options.name not in known:
        raise UsageError(f"there is no engine {options.name!r}; use {' or '.join(known)}.")
    given = {
        "--address": options.address,
        "--actors": options.actors,
        "--actor-cpus": options.cpus,
        "--actor-gpus": options.gpus,
    }
    unused = [option for option, value in given.items() if value is not None]
    if options.name == LOCAL and unused:
        raise UsageError(f"{unused[0]} is for a cluster; add --engine ray.")
    check_share("--actor-cpus", options.cpus)
    check_share("--actor-gpus", options.gpus)
    if options.gpus is not None and options.gpus > 1 and options.gpus != int(options.gpus):
        raise UsageError(
            f"--actor-gpus {options.gpus:g} is no number of cards; give a whole number, or a part "
            "of one card."
        )


def check_share(option: str, asked: float | None) -> None:
    """Refuse what a cluster does not count: it knows no smaller parts than these.

    >>> check_share("--actor-cpus", 0.3)
    """
    if asked is None:
        return
    counted = math.isfinite(asked) and asked >= 0
    if not counted or not math.isclose(asked, round(asked / PART) * PART, rel_tol=1e-12):
        raise UsageError(f"{option} {asked:g} is not counted; give a multiple of {PART:g}.")


def check_one_process(options: EngineOptions, level: str) -> None:
    """Refuse to spread what is added up in the order of the corpus.

    >>> check_one_process(EngineOptions(), "token")
    """
    check_engine(options)
    if options.name != LOCAL:
        raise UsageError(
            f"the {level} level works in one process, since its sums are added up in the order of "
            "the corpus; leave out --engine, or run each --model on its own machine."
        )
