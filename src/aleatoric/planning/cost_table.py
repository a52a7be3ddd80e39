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
