"""Two devices that hold numbers on the CPU, and refuse to compute with tensors of both.

As with two GPUs, an operation on tensors of different devices fails, but for index tensors and
scalars that are on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")
DEVICES = torch.device("maia:0"), torch.device("maia:1")
"""A kind of device of which torch knows the name alone."""


def place_of(tensor: torch.Tensor) -> torch.device:
    """Return the device that a tensor is said to be on."""
    device: torch.device = tensor.__dict__.get("place", CPU)
    return device


def put(values: Any, device: Any) -> Any:
    """Say that tensors, also within tuples and lists, are on a device; return them."""
    for tensor in tensors_in(values):
        tensor.place = torch.device(device)
    return values


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested lists, tuples and mappings."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, list | tuple | Mapping):
        for value in values.values() if isinstance(values, Mapping) else values:
            yield from tensors_in(value)


class FakeDevices(TorchFunctionMode):
    """Tracks on which device each tensor would be; `moves` counts copies between devices."""

    def __init__(self) -> None:
        super().__init__()
        self.moves = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "__get__" and func.__self__ is torch.Tensor.device:
            return place_of(args[0])
        if name in ("to", "cpu"):
            return self._moved(func, args, kwargs)
        if name in ("_make_subclass", "as_subclass"):
            return put(func(*args, **kwargs), place_of(tensors_in([args]).__next__()))
        if name in ("numpy", "__array__") and place_of(args[0]) != CPU:
            raise TypeError(f"a tensor on {place_of(args[0])} has no numpy array")
        return _computed(func, name, args, kwargs)

    def _moved(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Copy a tensor to another device."""
        tensor, *others = args
        wanted = [x for x in [*others, *kwargs.values()] if isinstance(x, str | torch.device)]
        wanted += [place_of(x) for x in others if isinstance(x, torch.Tensor)]
        wanted += [CPU] if func.__name__ == "cpu" else []
        device = torch.device(wanted[0]) if wanted else place_of(tensor)
        others = [x for x in others if not isinstance(x, str | torch.device)]
        kwargs = {k: x for k, x in kwargs.items() if k != "device"}
        result = func(tensor, *others, **kwargs) if others or kwargs else tensor
        if device == place_of(tensor):
            return put(result, device)
        self.moves += 1
        return put(result.clone(), device)


def _computed(func: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run a function on tensors of one device."""
    given = kwargs.pop("device", None)
    own = [
        place_of(x) for x in tensors_in([args, kwargs]) if x.dim() and not _is_index(name, x, args)
    ]
    scalars = [place_of(x) for x in tensors_in([args, kwargs])]
    places = {*own, *(place for place in scalars if place != CPU)}
    if len(places) > 1:
        raise RuntimeError(f"Expected all tensors to be on the same device for {name}: {places}")
    if name == "histc" and not args[0].is_floating_point():  # not implemented for a CPU
        args = (args[0].float(), *args[1:])
    result = func(*args, **kwargs)
    device = given if given is not None else next(iter(places), CPU)
    return result if torch.device(device) == CPU and not own else put(result, device)


def _is_index(name: str, tensor: torch.Tensor, args: Any) -> bool:
    """Whether a tensor on the CPU selects from another one."""
    is_access = name in ("__getitem__", "__setitem__") and tensor is not args[0]
    return is_access and place_of(tensor) == CPU


def settle(model: Any) -> None:
    """Say where the tensors of a dispatched model are; making parameters of them forgets it."""
    for module in model.modules():
        hooks = [module._hf_hook] if hasattr(module, "_hf_hook") else []
        hooks += getattr(hooks[0], "hooks", ()) if hooks else []
        for hook in hooks:
            if (device := getattr(hook, "execution_device", None)) is not None:
                own = [*module._parameters.values(), *module._buffers.values()]
                put([tensor for tensor in own if tensor is not None], device)
