"""Predict the time, memory and disk space of a run, and its bottleneck.

The work of a model is the number of tokens that it reads times its parameters; on a GPU, twice
that many operations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from aleatoric.errors import UsageError, quoted
from aleatoric.inference.noise import Size
from aleatoric.studies import TEXTS

# Measured: seconds of one CPU core, tokens and bytes.
EXACT_TOKEN = 9.0e-4  # overhead of `exact` per token
MC_TOKEN = 5.9e-4  # overhead of `mc` per token
TOKEN_PARAMETER = 4.12e-11  # per token and parameter of the model
EXACT_TREE = 24.6  # tokens per context that `exact` reads in addition to the context
MC_TREE = 0.92  # tokens per context of a single sample; several samples share prefixes ...
MC_POWER = 0.797  # ... so that tokens grow with this power of their number
WRITE = 8.7e-5  # writing the draws of one context in one transaction
SCORE = 1.38e-3  # per context and system with 40 people: statistics, 20 splits, a perfect model
DISK = 11_400.0  # bytes per context and system
MEMORY_BASE = 5.5e8  # bytes of a process without its model
MEMORY_FACTOR = 1.05  # peak memory per byte of weights


@dataclass(frozen=True)
class Device:
    """A CPU core or a GPU, with its operations per second by number format."""

    name: str
    flops: Mapping[str, float] = field(default_factory=dict)
    """Peak, without sparsity; empty for a CPU core, whose speed is measured."""
    memory: float = 0.0
    """Bytes; 0 if the model is in the host's memory."""


REACHED = 0.4
"""The fraction of a GPU's peak that is reached: assumed, usual for large batches."""
HOST_CONTEXT = 4e-5
"""Seconds of CPU overhead per context with a GPU, both for `exact` and for `mc`."""
HOST_DRAW = 3.2e-7
"""Seconds of CPU overhead per draw with a GPU.

Both are what an H200 took beyond `REACHED` of its peak: 2687 contexts of Provo with GPT-2 small's
shape in float32 in 0.76 s (`exact`) and 6.66 s (`mc`, 1000 samples).
"""


def _gpu(name: str, single: float, half: float, gigabytes: float) -> Device:
    speeds = {"float32": single * 1e12, "bfloat16": half * 1e12, "float16": half * 1e12}
    return Device(name, speeds, gigabytes * 1e9)


DEVICES = {
    "cpu": Device("cpu"),
    "h200": _gpu("h200", 67, 989, 141),
    "h100": _gpu("h100", 67, 989, 80),
    "a100": _gpu("a100", 19.5, 312, 80),
    "l4": _gpu("l4", 30, 121, 24),
}
"""The devices of `--device`. A new one is one line."""
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
LOCAL_BYTES = 2e9
"""Bytes per second from a worker's own disk: assumed."""
SHARED_BYTES = 5e9
"""Bytes per second from a file system that all workers share: assumed."""
ROOM = 1.25
"""GPU memory per byte of weights, with the key-value cache and logits: assumed."""
_UNITS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
ADVICE: dict[str, str] = TEXTS["cost"]["advice"]
"""Part of a run -> what to do where it takes longest."""


@dataclass(frozen=True)
class Work:
    """The work of a model: contexts, each with exact probabilities (`samples=None`) or samples."""

    contexts: int
    samples: Size = None
    context_tokens: float = 2.0
    """Tokens per context that no other context shares: few in a passage, otherwise all."""
    new_tokens: int | None = None
    """The length of each sample if samples are whole texts; `None` if they are next words."""


@dataclass(frozen=True)
class Machine:
    """The workers of a run, each on one CPU core or on as many GPUs as its model needs."""

    device: Device
    workers: int = 1
    dtype: str = "float32"


@dataclass(frozen=True)
class Cost:
    """Seconds per part of a run, tokens, GPUs and bytes."""

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
        """The total: draws are written while others are made, and scored at the end."""
        return self.load + max(self.model, self.write) + self.score

    @property
    def bottleneck(self) -> str:
        """The part that takes longest."""
        return max(ADVICE, key=lambda name: float(getattr(self, name)))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self) | {"seconds": self.seconds, "bottleneck": self.bottleneck}


def predict(work: Work, parameters: float, machine: Machine) -> Cost:
    """The cost of a run of a model with this many parameters."""
    weights = parameters * BYTES[machine.dtype]
    gpus, read = gpus_for(weights, machine.device), tokens(work)
    if machine.device.flops:
        speed = machine.device.flops[machine.dtype] * REACHED * gpus
        host = work.contexts * (HOST_CONTEXT + HOST_DRAW * (work.samples or 0))
        seconds = 2 * read * parameters / speed + host
        memory = weights * ROOM
    else:
        overhead = EXACT_TOKEN if work.samples is None else MC_TOKEN
        seconds = read * (overhead + parameters * TOKEN_PARAMETER)
        memory = MEMORY_BASE + MEMORY_FACTOR * weights
    return Cost(
        load=max(weights / LOCAL_BYTES, machine.workers * weights / SHARED_BYTES),
        model=seconds / machine.workers,
        write=work.contexts * WRITE,
        score=work.contexts * SCORE,
        tokens=read,
        gpus=gpus * machine.workers,
        worker_memory=memory,
        disk=work.contexts * DISK,
    )


def tokens(work: Work) -> float:
    """The tokens that the model reads: the contexts', and those of the tree or of the samples."""
    if work.samples is None:
        new_tokens = EXACT_TREE
    elif work.new_tokens is not None:
        new_tokens = float(work.samples * work.new_tokens)
    else:
        new_tokens = MC_TREE * math.pow(work.samples, MC_POWER)
    return work.contexts * (work.context_tokens + new_tokens)


def gpus_for(weights: float, device: Device) -> int:
    """The number of GPUs that hold one copy of a model; 0 if none is used."""
    return math.ceil(weights * ROOM / device.memory) if device.memory else 0


def parse_parameters(text: str) -> float:
    """The number of parameters, written as 135M or 70B."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMBT]?)", text.strip().upper())
    number = float(match[1]) * _UNITS.get(match[2], 1) if match else 0.0
    if not 1 <= number <= 1e15:
        problem = f"--parameters {quoted(text, 40)} is not a number of parameters"
        raise UsageError(f"{problem}; write 135M or 70B.")
    return number


def device_named(name: str, dtype: str) -> Device:
    """The known device of this name, if it supports the number format."""
    if name not in DEVICES:
        names = ", ".join(DEVICES)
        raise UsageError(f"the cost of --device {quoted(name, 40)} is not known; use {names}.")
    formats = DEVICES[name].flops or {"float32": 0.0}
    if dtype not in formats:
        problem = f"the cost of --dtype {quoted(dtype, 40)} on {name} is not known"
        raise UsageError(f"{problem}; use {', '.join(formats)}.")
    return DEVICES[name]


def check_samples(work: Work, sizes: Sequence[Size]) -> None:
    """Refuse exact probabilities of whole texts, which cannot be computed."""
    if work.new_tokens is not None and None in sizes:
        problem = "--new-tokens is the length of sampled texts"
        raise UsageError(f"{problem}; give a number of --samples in place of exact.")


def designs(
    work: Work, sizes: Sequence[Size], parameters: Sequence[float], machines: Sequence[Machine]
) -> list[tuple[Work, float, Machine, Cost]]:
    """Every combination with its cost."""
    return [
        (sized, number, machine, predict(sized, number, machine))
        for number in parameters
        for sized in (replace(work, samples=size) for size in sizes)
        for machine in machines
    ]
