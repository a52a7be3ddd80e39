"""The engine of a cluster: models live in Ray actors, this process gives out items and saves.

Without an address a cluster of this one machine is started, and stopped at the end. Files that were
recorded and servers are asked from this process: there is nothing of theirs to be spread.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from aleatoric import registry
from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.models.base import (
    Ask,
    LoadOptions,
    TextModel,
    TextTally,
    WordModel,
    Writing,
    pages,
    whole_passages,
)
from aleatoric.runs.engine import LocalEngine, check_estimator
from aleatoric.runs.job import EngineOptions, Loading
from aleatoric.runs.ray_workers import (
    Answers,
    Facts,
    Level,
    Pool,
    Recipe,
    Size,
    has_room,
    no_room,
    resources,
)
from aleatoric.types import Draws, Item, TextItem, Texts

AT_ONCE = 32
"""Items in a part of a model that does not say how many it takes."""
IN_DRIVER = ("recorded", "openai")
CPUS = 4
"""Of an actor without a GPU, where its node has them: more of them wait for one another."""
_LAST_PORT = 65535
_ANSWER = 10.0
"""Seconds in which a cluster must take a connection."""
_LONGEST_FOLDER = 24
_OBJECTS = 256 << 20
"""What a cluster of this machine keeps for answers on their way, in bytes."""


@contextmanager
def open_ray(options: EngineOptions) -> Iterator[RayEngine]:
    """An engine that joins or starts a cluster when the first model is opened."""
    engine = RayEngine(options)
    # Ray writes of lost workers to the standard output, where only results may stand.
    with redirect_stdout(sys.stderr), closing(engine):
        yield engine


class RayEngine:
    """Gives models that live in actors; one model at a time."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._ray: Any = None
        self._leaving = ExitStack()
        self._pool: Pool | None = None

    def word_model(self, spec: str, loading: Loading) -> WordModel:
        """A source of next words, loaded in as many actors as there are to be."""
        check_estimator(loading.estimator)
        if spec.partition(":")[0] in IN_DRIVER:
            return LocalEngine().word_model(spec, loading)
        pool = self._open("words", spec, loading)
        return RayWords(pool, pool.facts())

    def text_model(self, spec: str, loading: LoadOptions) -> TextModel:
        """A writer of texts, loaded in as many actors as there are to be."""
        if spec.partition(":")[0] in IN_DRIVER:
            return LocalEngine().text_model(spec, loading)
        pool = self._open("texts", spec, loading)
        facts = pool.facts()
        return TalliedRayTexts(pool, facts) if facts.is_tallied else RayTexts(pool, facts)

    def close(self) -> None:
        """End the actors; leave the cluster, or stop it where it was started here."""
        self._close_pool()
        self._leaving.close()

    def _open(self, level: Level, spec: str, loading: LoadOptions) -> Pool:
        if self._ray is None:
            self._ray = connect(self._options, self._leaving)
        self._close_pool()  # the next model needs its room
        size = size_of(self._options, resources(self._ray), _wants_gpu(spec, loading))
        if not has_room(self._ray, size):
            raise UsageError(f"{spec}: {no_room(size)}; use --actor-cpus and --actor-gpus.")
        self._pool = Pool(self._ray, Recipe(level, spec, loading, os.getcwd()), size)
        return self._pool

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._pool = None


@dataclass(frozen=True)
class InActors:
    """A model in actors: what is known of it, and what its copies had to say."""

    pool: Pool = field(repr=False)
    facts: Facts
    _notes: dict[str, None] = field(default_factory=dict, repr=False)

    @property
    def label(self) -> str:
        """A short name for tables."""
        return self.facts.label

    @property
    def version(self) -> str:
        """What pins the model."""
        return self.facts.version

    def notes(self) -> Sequence[str]:
        """What any of the actors had to say."""
        return [*self._notes]


@dataclass(frozen=True)
class RayWords(InActors):
    """A source of next words in actors."""

    @property
    def estimator(self) -> str:
        """How its distributions come about."""
        return self.facts.estimator

    @property
    def together(self) -> int | None:
        """As in one process."""
        return self.facts.at_once if self.estimator == "exact" else None

    def draws(self, items: Iterable[Item], ask: Ask) -> Iterator[Draws]:
        """Words for items, in the parts that one process would ask for together."""
        parts = whole_passages(items, self.facts.at_once or AT_ONCE)
        for answers in self.pool.answers(parts, ask):
            self._notes.update(dict.fromkeys(answers.notes))
            for one in answers.given:
                if isinstance(one.answer, Draws):
                    yield one.answer


@dataclass(frozen=True)
class RayTexts(InActors):
    """A writer of texts in actors."""

    @property
    def conventions(self) -> Mapping[str, str]:
        """Everything beyond the weights that changes a text."""
        return self.facts.conventions

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        """The texts of each input, as parts are finished; a part fills the model once."""
        at_once = self.facts.at_once
        size = AT_ONCE if at_once is None else max(1, at_once // ask.samples)
        for answers in self.pool.answers(pages(items, size), ask):
            self._notes.update(dict.fromkeys(answers.notes))
            yield from self._texts(answers)

    def _texts(self, answers: Answers) -> Iterator[Texts]:
        return (one.answer for one in answers.given if isinstance(one.answer, Texts))


@dataclass(frozen=True)
class TalliedRayTexts(RayTexts):
    """A writer of texts in actors that count cut and empty texts: the counts of all of them."""

    tally: TextTally = field(default_factory=TextTally, repr=False)

    def notes(self) -> Sequence[str]:
        """What any of the actors had to say, and the counts."""
        return [*super().notes(), *self.tally.notes(self.label)]

    def write(self, items: Iterable[TextItem], ask: Writing) -> Iterator[Texts]:
        """As any writer; an input is counted as its texts are given."""
        self.tally.start()
        yield from super().write(items, ask)

    def _texts(self, answers: Answers) -> Iterator[Texts]:
        for one, texts in zip(answers.given, super()._texts(answers), strict=True):
            self.tally.add(one.counts)
            yield texts


def connect(options: EngineOptions, leaving: ExitStack) -> Any:
    """The module `ray`, connected; `leaving` ends the connection where it was made here.

    A connection that the caller's program has made with `ray.init` is used as it is.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray") from None
    if ray.is_initialized() and options.address is None:
        return ray
    check_address(options.address)
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if options.address is None:
        folder = leaving.enter_context(_private_cluster())
        how |= _own_cluster(options) | {"_temp_dir": folder}
    else:
        how["address"] = options.address
    leaving.callback(ray.shutdown)
    with _own_sigterm():
        try:
            ray.init(**how)
        except (ConnectionError, TimeoutError, ValueError, RuntimeError) as error:
            raise _unreachable(options.address, error) from None
    if options.address is None:
        _check_loopback(ray)
    return ray


@contextmanager
def _private_cluster() -> Iterator[str]:
    """Let a cluster started inside be reached by this user's processes on this machine alone.

    Gives its temporary folder, in one that others cannot open: Ray opens its own to everybody.
    """
    from ray._private import ray_constants

    names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    before = {name: os.environ.get(name) for name in names}
    former = ray_constants.ENABLE_RAY_CLUSTER
    if not any(before.values()):
        # Ray would write a token to ~/.ray that other users may be able to read.
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        _forget_token()
    # Paths of sockets are short: a long folder of temporary files does not hold them.
    place = "/tmp" if len(tempfile.gettempdir()) > _LONGEST_FOLDER else None
    with tempfile.TemporaryDirectory("", "ray-", place, ignore_cleanup_errors=True) as folder:
        ray_constants.ENABLE_RAY_CLUSTER = False  # so that Ray binds to loopback, as on macOS
        try:
            yield f"{folder}/ray"
        finally:
            ray_constants.ENABLE_RAY_CLUSTER = former
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
            if not any(before.values()):
                _forget_token()


def _forget_token() -> None:
    """Let Ray read its token from the environment again; its versions before 2.52 have none."""
    with suppress(ImportError, AttributeError):
        raylet: Any = import_module("ray._raylet")
        raylet.Config.initialize("")  # first: in token mode, a missing token ends the process
        raylet.AuthenticationTokenLoader.instance().reset_cache()


def _check_loopback(ray: Any) -> None:
    """Refuse a cluster that listens on the network."""
    host = ray.nodes()[0]["NodeManagerAddress"]
    if not ipaddress.ip_address(host).is_loopback:
        raise UsageError(
            f"Ray listens on {host}, which other machines may reach; start a cluster as you want "
            "it with ray start --head, and give its --address."
        )


def check_address(address: str | None) -> None:
    """Refuse an address where nothing listens: Ray itself would wait there for minutes.

    >>> check_address("auto")
    """
    if address is None or address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or int(port) > _LAST_PORT:
        raise UsageError(f"--address {address!r} is no address; write HOST:PORT, or auto.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER).close()
    except OSError as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str | None, error: Exception) -> UsageError:
    why = type(error).__name__
    if address is None:
        return UsageError(f"Ray does not start on this machine ({why}); try ray start --head.")
    return UsageError(
        f"--address {address}: no Ray cluster answers ({why}); start one with ray start --head, "
        "and where it asks for a token, set RAY_AUTH_MODE and RAY_AUTH_TOKEN as it has them."
    )


def _own_cluster(options: EngineOptions) -> dict[str, Any]:
    """How a cluster of this machine is started."""
    # Who asks for more actors than this machine has cores is given them.
    wanted = (options.actors or 1) * (options.cpus or 1)
    return {
        "address": "local",
        "num_cpus": max(os.cpu_count() or 1, -int(-wanted // 1)),
        "include_dashboard": False,
        "object_store_memory": _OBJECTS,
    }


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Ray puts its own handler in the place of the program's: put that back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit:  # Ray's own answer to a signal that came meanwhile
        signal.signal(signal.SIGTERM, before)
        signal.raise_signal(signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def size_of(options: EngineOptions, nodes: Sequence[Mapping[str, float]], wants_gpu: bool) -> Size:
    """How many actors, and what each takes: where nothing is said, all that the nodes have.

    A GPU each, with one CPU, where there are GPUs; otherwise up to four CPUs each.

    >>> size_of(EngineOptions("ray"), [{"CPU": 16.0}, {"CPU": 32.0, "GPU": 2.0}], True)
    Size(actors=2, cpus=1, gpus=1)
    >>> size_of(EngineOptions("ray"), [{"CPU": 16.0}, {"CPU": 2.0}], True)
    Size(actors=9, cpus=2, gpus=0)
    """
    gpus = options.gpus
    if gpus is None:
        gpus = 1 if wants_gpu and any(node.get("GPU", 0) >= 1 for node in nodes) else 0
    cpus = options.cpus
    if cpus is None:
        cpus = 1 if gpus else _share(nodes, options.actors)
    fitting = sum(_fitting(node, cpus, gpus) for node in nodes)
    return Size(options.actors or max(1, fitting), cpus, gpus)


def _share(nodes: Sequence[Mapping[str, float]], actors: int | None) -> int:
    """The CPUs of an actor: what the smallest node has, as far as all actors find room."""
    counts = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1] or [1]
    return max(1, min(CPUS, min(counts), sum(counts) // (actors or 1)))


def _fitting(node: Mapping[str, float], cpus: float, gpus: float) -> int:
    """How many actors a node holds."""
    of_each = [(node.get("CPU", 0), cpus), (node.get("GPU", 0), gpus)]
    return min((int(has // each) for has, each in of_each if each), default=1)


def _wants_gpu(spec: str, loading: LoadOptions) -> bool:
    kind = spec.partition(":")[0]
    is_network = kind in (*registry.names("language_models"), *registry.names("text_models"))
    return is_network and not (loading.device or "cuda").startswith("cpu")
