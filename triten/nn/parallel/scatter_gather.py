"""Scattering of values to devices, and gathering of results (`torch.nn.parallel.scatter_gather`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.layers.pytree import tree_map
from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device

__all__ = ["as_device", "gather", "moved", "scatter", "scatter_kwargs"]


def moved(values: Any, device: Device) -> Any:
    """Move the tensors of a value to a device; other objects stay the same."""
    return tree_map(lambda each: each.to(device) if isinstance(each, Tensor) else each, values)


def as_device(target: int | Device | str) -> Device:
    """Return the device with this CUDA index or name."""
    return Device("cuda", target) if isinstance(target, int) else Device(target)


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_asdict") and hasattr(value, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[int | Device], dim: int = 0) -> Any:
    """Divide the tensors of a value among devices (`torch.nn.parallel.scatter`).

    Args:
        inputs: a tensor, or tensors and other objects in tuples, lists and dicts.
        target_gpus: the devices; numbers are those of GPUs.
        dim: along which tensors are divided.

    Returns:
        A value for each device that gets a part; other objects than tensors are in all of them.

    Example:
        >>> import triten as tt
        >>> from triten.nn.parallel import scatter
        >>> scatter((tt.arange(4), "both"), ["cpu", "cpu"])
        [(tensor([0, 1]), 'both'), (tensor([2, 3]), 'both')]
    """
    devices = [as_device(each) for each in target_gpus]

    def divided(value: Any) -> Any:
        if isinstance(value, Tensor):
            parts = value.chunk(len(devices), dim)
            return tuple([part.to(device) for part, device in zip(parts, devices, strict=False)])
        if _is_namedtuple(value):
            return [type(value)(*each) for each in zip(*map(divided, value), strict=False)]
        if isinstance(value, tuple) and value:
            return list(zip(*map(divided, value), strict=False))
        if isinstance(value, list) and value:
            return [list(each) for each in zip(*map(divided, value), strict=False)]
        if isinstance(value, dict) and value:
            return [type(value)(each) for each in zip(*map(divided, value.items()), strict=False)]
        return [value for _ in devices]

    return divided(inputs)


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[int | Device], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Divide arguments among devices (`torch.nn.parallel.scatter_gather.scatter_kwargs`).

    Args:
        inputs: positional arguments.
        kwargs: those with names.
        target_gpus: the devices.
        dim: along which tensors are divided.
    """
    several = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    several += [()] * (len(named) - len(several))
    named += [{}] * (len(several) - len(named))
    return tuple(several), tuple(named)


def gather(outputs: Sequence[Any], target_device: int | Device | str, dim: int = 0) -> Any:
    """Put values of several devices together on one (`torch.nn.parallel.gather`).

    Args:
        outputs: a value of each; tensors become one along `dim`, in tuples, lists and dicts, too.
        target_device: the device.
        dim: along which tensors are put together; numbers, which have no dimension, become a vector.

    Raises:
        ValueError: dicts have different numbers of keys.

    Example:
        >>> import triten as tt
        >>> from triten.nn.parallel import gather
        >>> gather([{"x": tt.zeros(1)}, {"x": tt.ones(2)}], "cpu")
        {'x': tensor([0., 1., 1.])}
    """
    from ... import cat

    device = as_device(target_device)

    def together(values: Sequence[Any]) -> Any:
        first = values[0]
        if isinstance(first, Tensor):
            several = [each.to(device) for each in values]
            if dim == 0 and all(each.ndim == 0 for each in several):
                several = [each.view(1) for each in several]
            return cat(several, dim)
        if first is None:
            return None
        if isinstance(first, dict):
            if not all(len(first) == len(each) for each in values):
                raise ValueError("All dicts must have the same number of keys")
            return type(first)((key, together([each[key] for each in values])) for key in first)
        if _is_namedtuple(first):
            return type(first)._make(map(together, zip(*values, strict=True)))
        return type(first)(map(together, zip(*values, strict=True)))

    return together(outputs)
