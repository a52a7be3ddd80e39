"""The Ray engine: models live in Ray actors; this process sends out items and saves answers.

Without an address, a cluster of this machine is started, and stopped at the end. Recorded files and
servers are asked from this process.
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
from importlib import import_module
from typing import Any

from aleatoric import registry
from aleatoric.errors import MissingExtraError, UsageError
from aleatoric.models import base
from aleatoric.runs.engine import Engine, check_estimator
from aleatoric.runs.job import EngineOptions, Loading
from aleatoric.runs.ray_workers import ModelFacts, ModelSource, Pool, PoolSize, resources
from aleatoric.types import Draws, Item, TextItem, Texts

AT_ONCE = 32
"""Items per part for a model that has no batch size."""
IN_DRIVER = ("recorded", "openai")


@contextmanager
def open_ray(options: EngineOptions) -> Iterator[RayEngine]:
    """Open an engine that joins or starts a cluster when the first model is opened."""
    engine = RayEngine(options)
    # Ray writes about lost workers to the standard output, which is for results only.
    with redirect_stdout(sys.stderr), closing(engine):
        yield engine


class RayEngine(Engine):
    """Opens models in actors; one model at a time."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._ray: Any = None
        self._leaving = ExitStack()
        self._pool: Pool | None = None

    def word_model(self, spec: str, loading: Loading) -> base.WordModel:
        """Load a model of next words in every actor."""
        check_estimator(loading.estimator)
        if spec.partition(":")[0] in IN_DRIVER:
            return super().word_model(spec, loading)
        return RayWords(*self._open(ModelSource("words", spec, loading, os.getcwd())))

    def text_model(self, spec: str, loading: base.LoadOptions) -> base.TextModel:
        """Load a model of texts in every actor."""
        if spec.partition(":")[0] in IN_DRIVER:
            return super().text_model(spec, loading)
        return RayTexts(*self._open(ModelSource("texts", spec, loading, os.getcwd())))

    def close(self) -> None:
        """Stop the actors; disconnect from the cluster, or stop it if it was started here."""
        self._close_pool()
        self._leaving.close()

    def _open(self, source: ModelSource) -> tuple[Pool, ModelFacts]:
        if self._ray is None:
            self._ray = connect(self._options, self._leaving)
        self._close_pool()  # the next model needs its room
        kinds = (*registry.names("language_models"), *registry.names("text_models"))
        on_cpu = (source.loading.device or "cuda").startswith("cpu")
        wants_gpu = source.spec.partition(":")[0] in kinds and not on_cpu
        size = size_of(self._options, resources(self._ray), wants_gpu)
        if not size.has_room(self._ray):
            raise UsageError(f"{source.spec}: {size.no_room}; use --actor-cpus and --actor-gpus.")
        self._pool = Pool(self._ray, source, size)
        return self._pool, self._pool.facts()

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._pool = None


class RayModel:
    """A model in actors."""

    def __init__(self, pool: Pool, facts: ModelFacts) -> None:
        self._pool, self._at_once = pool, facts.at_once
        self._notes: dict[str, None] = {}
        self.label, self.version = facts.label, facts.version
        self.estimator, self.conventions = facts.estimator, facts.conventions

    def notes(self) -> Sequence[str]:
        """Return the notes of all actors."""
        return [*self._notes]

    def answers(self, parts: Iterable[Sequence[Any]], ask: Any) -> Iterator[tuple[Any, Any]]:
        """Yield answers with their counts, and keep the notes of the actors."""
        for answers in self._pool.answers(parts, ask):
            self._notes.update(dict.fromkeys(answers.notes))
            yield from answers.given


class RayWords(RayModel):
    """A model of next words in actors."""

    @property
    def together(self) -> int | None:
        """Contexts that are computed together, as in one process."""
        return None if self.estimator == "mc" else self._at_once

    def draws(self, items: Iterable[Item], ask: base.Ask) -> Iterator[Draws]:
        """Yield words for items, in the parts that one process would compute together."""
        parts = base.whole_passages(items, self._at_once or AT_ONCE)
        return (draws for draws, _ in self.answers(parts, ask))


class RayTexts(RayModel):
    """A model of texts in actors; counts of cut and empty texts are added up."""

    def __init__(self, pool: Pool, facts: ModelFacts) -> None:
        super().__init__(pool, facts)
        if facts.is_tallied:  # else there is no attribute, as in a model without counts
            self.tally = base.TextTally()

    def notes(self) -> Sequence[str]:
        """Return the notes of all actors, and those on the counts."""
        counted = self.tally.notes(self.label) if isinstance(self, base.Tallied) else ()
        return [*super().notes(), *counted]

    def write(self, items: Iterable[TextItem], ask: base.Writing) -> Iterator[Texts]:
        """Yield the texts of each input as parts are finished; a part fills the model once.

        An input is counted when its texts are yielded.
        """
        size = AT_ONCE if self._at_once is None else max(1, self._at_once // ask.samples)
        tally = self.tally if isinstance(self, base.Tallied) else base.TextTally()
        tally.start()
        for texts, counts in self.answers(base.pages(items, size), ask):
            tally.add(counts)
            yield texts


def connect(options: EngineOptions, leaving: ExitStack) -> Any:
    """Return the module `ray`, connected here (`leaving` ends that) or before with `ray.init`."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray") from None
    if ray.is_initialized() and options.address is None:
        return ray
    check_address(options.address)
    init_options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if options.address is None:
        folder = leaving.enter_context(_private_cluster())
        init_options |= _local_cluster(options) | {"_temp_dir": folder}
    else:
        init_options["address"] = options.address
    leaving.callback(ray.shutdown)
    with _restoring_sigterm():
        try:
            ray.init(**init_options)
        except (ConnectionError, TimeoutError, ValueError, RuntimeError) as error:
            raise _unreachable(options.address, error) from None
    if options.address is None:
        _check_loopback(ray)
    return ray


@contextmanager
def _private_cluster() -> Iterator[str]:
    """Let only this user's processes on this machine reach a cluster that is started inside.

    Yields its temporary folder, inside one that others cannot open: Ray's own is open to everybody.
    """
    from ray._private import ray_constants

    names = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    before = {name: os.environ.get(name) for name in names}
    former = ray_constants.ENABLE_RAY_CLUSTER
    if not any(before.values()):
        # Ray would write a token to ~/.ray that other users may be able to read.
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        _forget_token()
    # Paths of sockets must be short: a long temporary folder cannot hold them.
    place = "/tmp" if len(tempfile.gettempdir()) > 24 else None
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
    """Let Ray read its token from the environment again; versions before 2.52 have none."""
    with suppress(ImportError, AttributeError):
        raylet: Any = import_module("ray._raylet")
        raylet.Config.initialize("")  # first: in token mode, a missing token ends the process
        raylet.AuthenticationTokenLoader.instance().reset_cache()


def _check_loopback(ray: Any) -> None:
    host = ray.nodes()[0]["NodeManagerAddress"]
    if not ipaddress.ip_address(host).is_loopback:
        fix = "start a cluster as you want it with ray start --head, and give its --address"
        raise UsageError(f"Ray listens on {host}, which other machines may reach; {fix}.")


def check_address(address: str | None) -> None:
    """Refuse an address where nothing listens: Ray itself would wait for minutes."""
    if address is None or address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--address {address!r} is no address; write HOST:PORT, or auto.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
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


def _local_cluster(options: EngineOptions) -> dict[str, Any]:
    # More actors than this machine has cores are allowed if they are requested.
    n_cpus = (options.actors or 1) * (options.cpus or 1)
    return {
        "address": "local",
        "num_cpus": max(os.cpu_count() or 1, -int(-n_cpus // 1)),
        "include_dashboard": False,
        "object_store_memory": 256 << 20,  # for answers in transit
    }


@contextmanager
def _restoring_sigterm() -> Iterator[None]:
    """Restore the program's handler of SIGTERM, which Ray replaces."""
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


def size_of(
    options: EngineOptions, nodes: Sequence[Mapping[str, float]], wants_gpu: bool
) -> PoolSize:
    """Return how many actors to start and what each takes; by default all that the nodes have.

    An actor gets one GPU and one CPU if there are GPUs, and up to four CPUs otherwise.

    >>> size_of(EngineOptions("ray"), [{"CPU": 16.0}, {"CPU": 32.0, "GPU": 2.0}], True)
    PoolSize(actors=2, cpus=1, gpus=1)
    >>> size_of(EngineOptions("ray"), [{"CPU": 16.0}, {"CPU": 2.0}], True)
    PoolSize(actors=9, cpus=2, gpus=0)
    """
    gpus = options.gpus
    if gpus is None:
        gpus = 1 if wants_gpu and any(node.get("GPU", 0) >= 1 for node in nodes) else 0
    cpus = options.cpus
    if cpus is None:
        # Those of the smallest node, as far as all actors fit.
        counts = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1] or [1]
        # More than four do not make an actor faster.
        share = min(4, min(counts), sum(counts) // (options.actors or 1))
        cpus = 1 if gpus else max(1, share)
    fitting = sum(_fitting(node, cpus, gpus) for node in nodes)
    return PoolSize(options.actors or max(1, fitting), cpus, gpus)


def _fitting(node: Mapping[str, float], cpus: float, gpus: float) -> int:
    shares = [(node.get("CPU", 0), cpus), (node.get("GPU", 0), gpus)]
    return min((int(available // share) for available, share in shares if share), default=1)
