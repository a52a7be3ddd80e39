"""Too little memory on a device: how it is told, and what is freed before another try."""

from __future__ import annotations


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error of torch says that memory ran out.

    >>> is_out_of_memory(ValueError("no"))
    False
    """
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "alloc" in str(error) and "memory" in str(error)


def free_memory() -> None:
    """Give back what torch keeps for later."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
