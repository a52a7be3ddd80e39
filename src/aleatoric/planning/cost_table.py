"""The constants of the cost model: measured by `python -m benchmarks.cost_model`, or stated.

Measured: one core of an AMD EPYC (AVX2), float32, SmolLM2-135M and random-weight models of 7 and
25 million parameters; Provo's contexts. Stated: vendors' peak figures of GPUs without sparsity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Measured:
    """Processor seconds of one core, tokens and bytes."""

    exact_context: float = 0.0
    exact_token: float = 0.0
    mc_context: float = 0.0
    mc_token: float = 0.0
    mc_draw: float = 0.0
    token_parameter: float = 0.0
    """Of a token, for every parameter of the model."""
    exact_tree: float = 0.0
    """Tokens a context that `exact` looks at, beside the context."""
    mc_tree: float = 0.0
    """Tokens a context of a single sample; more samples share their beginnings ..."""
    mc_power: float = 0.0
    """... so that tokens grow with this power of their number."""
    write: float = 1.42e-4
    """A context's draws in a transaction of their own."""
    score: float = 3.19e-3
    """A context and system with 40 people: statistics, 20 splits, floor."""
    disk: float = 0.0
    """Bytes a context and system."""
    memory_base: float = 0.0
    """Bytes of a process with an empty model."""
    memory_factor: float = 1.0
    """Peak memory for every byte of weights."""


@dataclass(frozen=True)
class Device:
    """What computes: operations a second by number format, and how much of them is reached."""

    name: str
    flops: Mapping[str, float] = field(default_factory=dict)
    memory: float = 0.0
    """Bytes; 0 where the model lies in the host's memory."""
    reached: float = 1.0
    host_context: float = 0.0
    """Seconds of bookkeeping a context of `exact` that no faster card shortens."""


MEASURED = Measured()
REACHED = 0.4
"""Of the peak, on cards that were not measured: usual for large batches."""

DEVICES = {
    device.name: device
    for device in (
        Device("cpu"),
        Device("h200", {"float32": 67e12, "bfloat16": 989e12, "float16": 989e12}, 141e9, REACHED),
        Device("h100", {"float32": 67e12, "bfloat16": 989e12, "float16": 989e12}, 80e9, REACHED),
        Device("a100", {"float32": 19.5e12, "bfloat16": 312e12, "float16": 312e12}, 80e9, REACHED),
        Device("l4", {"float32": 30e12, "bfloat16": 121e12, "float16": 121e12}, 24e9, REACHED),
    )
}
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
LOCAL_BYTES = 2e9
"""Bytes a second from a worker's own disk."""
SHARED_BYTES = 5e9
"""Bytes a second from a file system that all workers share."""
ROOM = 1.25
"""Memory of a GPU for every byte of weights: cache of keys and values, logits."""
