"""What a run costs in time, memory and disk, and which part of it others wait for.

Pure functions of sizes and of the constants in `cost_table`. The work of a model is the number of
tokens that it reads times its parameters; on a GPU two operations for each pair of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from aleatoric.errors import UsageError, quoted
from aleatoric.inference.noise import Size


@dataclass(frozen=True)
class Measured:
    """Processor seconds of one core, tokens and bytes."""

    exact_token: float = 9.0e-4
    """Bookkeeping of `exact` for a token."""
    mc_token: float = 5.9e-4
    """Bookkeeping of `mc` for a token."""
    token_parameter: float = 4.12e-11
    """Of a token, for every parameter of the model."""
    exact_tree: float = 24.6
    """Tokens a context that `exact` looks at, beside the context."""
    mc_tree: float = 0.92
    """Tokens a context of a single sample; more samples share their beginnings ..."""
    mc_power: float = 0.797
    """... so that tokens grow with this power of their number."""
    write: float = 8.7e-5
    """A context's draws in a transaction of their own."""
    score: float = 1.38e-3
    """Per context and system with 40 people: statistics, 20 splits, the TVD of a perfect model."""
    disk: float = 11_400.0
    """Bytes a context and system."""
    memory_base: float = 5.5e8
    """Bytes of a process beside its model."""
    memory_factor: float = 1.05
    """Peak memory for every byte of weights."""


@dataclass(frozen=True)
class Device:
    """What computes: operations a second by number format, and how much of them is reached."""

    name: str
    flops: Mapping[str, float] = field(default_factory=dict)
    """Peak, without sparsity; empty for a core, whose speed is measured."""
    memory: float = 0.0
    """Bytes; 0 where the model lies in the host's memory."""


REACHED = 0.4
"""Of a GPU's peak: assumed, usual for large batches."""
HOST_CONTEXT = 4e-5
"""Seconds of bookkeeping a context beside a GPU, of `exact` and `mc` alike."""
HOST_DRAW = 3.2e-7
"""Seconds of bookkeeping a draw beside a GPU.

Both are what an H200 took beyond `REACHED` of its peak: 2687 contexts of Provo with GPT-2 small's
shape in float32 in 0.76 s (`exact`) and 6.66 s (`mc`, 1000 samples).
"""
MEASURED = Measured()


def _gpu(name: str, single: float, half: float, gigabytes: float) -> Device:
    speeds = {"float32": single * 1e12, "bfloat16": half * 1e12, "float16": half * 1e12}
    return Device(name, speeds, gigabytes * 1e9)


DEVICES = {
    device.name: device
    for device in (
        Device("cpu"),
        _gpu("h200", 67, 989, 141),
        _gpu("h100", 67, 989, 80),
        _gpu("a100", 19.5, 312, 80),
        _gpu("l4", 30, 121, 24),
    )
}
"""What `--device` knows. A new one is one line."""
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
LOCAL_BYTES = 2e9
"""Bytes a second from a worker's own disk: assumed."""
SHARED_BYTES = 5e9
"""Bytes a second from a file system that all workers share: assumed."""
ROOM = 1.25
"""Memory of a GPU for every byte of weights: cache of keys and values, logits; assumed."""


_UNITS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
ADVICE = {
    "model": "more workers; for sampling, a vLLM cluster behind openai:",
    "load": "put the weights on every node's own disk, or into an object store near them",
    "write": "one run directory for each part of the corpus, or a database server",
    "score": "one run directory for each part of the corpus, scored side by side",
}


@dataclass(frozen=True)
class Work:
    """What is asked of a model: contexts, and an exact tree (`samples=None`) or samples of each."""

    contexts: int
    samples: Size = None
    context_tokens: float = 2.0
    """Tokens a context that no other shares: few in a passage, all where each stands alone."""
    new_tokens: int | None = None
    """Of whole texts: the length of each sample. Without, samples are next words."""


@dataclass(frozen=True)
class Machine:
    """Who works: so many workers, each on one core or on as many GPUs as its model needs."""

    device: Device
    workers: int = 1
    dtype: str = "float32"


@dataclass(frozen=True)
class Cost:
    """Seconds by part, bytes, and the part that takes longest."""

    load: float
    model: float
    write: float
    score: float
    tokens: float
    gpus: int
    worker_memory: float
    disk: float

    @property
    def seconds(self) -> float:
        """All of it: draws are written while others are made, and scored at the end."""
        return self.load + max(self.model, self.write) + self.score

    @property
    def bottleneck(self) -> str:
        """The part that takes longest."""
        parts = {name: getattr(self, name) for name in ADVICE}
        return max(parts, key=lambda name: parts[name])

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self) | {"seconds": self.seconds, "bottleneck": self.bottleneck}


def predict(work: Work, parameters: float, machine: Machine, measured: Measured = MEASURED) -> Cost:
    """What a run takes.

    >>> one = predict(Work(1000), 135e6, Machine(DEVICES["cpu"]))
    >>> four = predict(Work(1000), 135e6, Machine(DEVICES["cpu"], workers=4))
    >>> round(one.model / four.model, 6)
    4.0
    """
    weights = parameters * BYTES[machine.dtype]
    gpus = gpus_for(weights, machine.device)
    read = tokens(work, measured)
    if machine.device.flops:
        own = gpu_seconds(work, read, parameters, machine, gpus)
        memory = weights * ROOM
    else:
        own = core_seconds(work, read, parameters, measured)
        memory = measured.memory_base + measured.memory_factor * weights
    return Cost(
        load=max(weights / LOCAL_BYTES, machine.workers * weights / SHARED_BYTES),
        model=own / machine.workers,
        write=work.contexts * measured.write,
        score=work.contexts * measured.score,
        tokens=read,
        gpus=gpus * machine.workers,
        worker_memory=memory,
        disk=work.contexts * measured.disk,
    )


def tokens(work: Work, measured: Measured = MEASURED) -> float:
    """Tokens that the model reads: the contexts', and those of the tree or of the samples.

    >>> whole = tokens(Work(10, samples=5, context_tokens=20, new_tokens=100))
    >>> whole
    5200.0
    """
    return work.contexts * (work.context_tokens + tree_tokens(work, measured))


def tree_tokens(work: Work, measured: Measured = MEASURED) -> float:
    """Tokens a context beside its own; samples of next words share their beginnings."""
    if work.samples is None:
        return measured.exact_tree
    if work.new_tokens is not None:
        return float(work.samples * work.new_tokens)
    return measured.mc_tree * math.pow(work.samples, measured.mc_power)


def core_seconds(work: Work, read: float, parameters: float, measured: Measured) -> float:
    """Seconds of one core."""
    own = measured.exact_token if work.samples is None else measured.mc_token
    return read * (own + parameters * measured.token_parameter)


def gpu_seconds(work: Work, read: float, parameters: float, machine: Machine, gpus: int) -> float:
    """Seconds of one worker with its GPUs."""
    speed = machine.device.flops[machine.dtype] * REACHED * gpus
    host = work.contexts * (HOST_CONTEXT + HOST_DRAW * (work.samples or 0))
    return 2 * read * parameters / speed + host


def gpus_for(weights: float, device: Device) -> int:
    """How many GPUs hold one copy of a model; 0 where none is used.

    >>> gpus_for(140e9, DEVICES["h200"]), gpus_for(1e9, DEVICES["cpu"])
    (2, 0)
    """
    return math.ceil(weights * ROOM / device.memory) if device.memory else 0


def parse_parameters(text: str) -> float:
    """A model's size, as 135M or 70B.

    >>> parse_parameters("70B"), parse_parameters("124439808")
    (70000000000.0, 124439808.0)
    """
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMBT]?)", text.strip().upper())
    number = float(found[1]) * _UNITS.get(found[2], 1) if found else 0.0
    if not 1 <= number <= 1e15:
        raise UsageError(
            f"--parameters {quoted(text, 40)} is no size of a model; write 135M or 70B."
        )
    return number


def device_named(name: str, dtype: str) -> Device:
    """A device that the table knows, in a number format that it has."""
    if name not in DEVICES:
        known = ", ".join(DEVICES)
        raise UsageError(f"the cost of --device {quoted(name, 40)} is not known; use {known}.")
    formats = DEVICES[name].flops or {"float32": 0.0}
    if dtype not in formats:
        raise UsageError(
            f"the cost of --dtype {quoted(dtype, 40)} on {name} is not known; use "
            f"{', '.join(formats)}."
        )
    return DEVICES[name]


def check_samples(work: Work, sizes: Sequence[Size]) -> None:
    """Refuse exact probabilities of whole texts, which nobody works out.

    >>> check_samples(Work(10, new_tokens=100), [1000])
    """
    if work.new_tokens is not None and None in sizes:
        raise UsageError(
            "--new-tokens is the length of sampled texts; give a number of --samples in place of "
            "exact."
        )


def designs(
    work: Work, sizes: Sequence[Size], parameters: Sequence[float], machines: Sequence[Machine]
) -> list[tuple[Work, float, Machine, Cost]]:
    """Every combination with its cost."""
    return [
        (asked, number, machine, predict(asked, number, machine))
        for number in parameters
        for asked in (replace(work, samples=size) for size in sizes)
        for machine in machines
    ]
