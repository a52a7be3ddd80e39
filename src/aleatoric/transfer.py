"""Arrays to a device and back without waiting for the work already queued there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Arrival = Callable[[], NDArray[Any]]
"""Waits for an array that is on its way, and gives it."""


def send(values: NDArray[Any], device: Any) -> Tensor:
    """An array on a device; on a GPU it is ordered behind the work queued there."""
    import torch

    host = torch.as_tensor(values)
    if torch.device(device).type != "cuda":
        return host.to(device)
    # From ordinary memory the copy would first wait for everything queued on the device.
    return host.pin_memory().to(device, non_blocking=True)


def fetch(values: Tensor) -> Arrival:
    """Start to bring an array from its device; call the result to wait for it.

    >>> import torch
    >>> fetch(torch.arange(3))().tolist()
    [0, 1, 2]
    """
    import torch

    if values.device.type != "cuda":
        return values.cpu().numpy
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    arrived: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()

    def wait() -> NDArray[Any]:
        arrived.synchronize()
        return host.numpy()

    return wait
