"""Copies of a module on several devices (`torch.nn.parallel.replicate`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch.tensor import Tensor
from ...runtime.device import device as Device
from ..modules.module import Module
from .scatter_gather import as_device

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[int | Device], detach: bool = False) -> list[Any]:
    """Copy a module to several devices (`torch.nn.parallel.replicate`).

    The replicas' parameters are computed from the module's parameters, so that gradients flow back to the module. The
    replica on the module's own device shares its buffers.

    Args:
        network: the module.
        devices: the devices; numbers are those of GPUs.
        detach: If True, replicas pass no gradients to the module. Default: False.

    Example:
        >>> import triten as tt
        >>> one, two = tt.nn.parallel.replicate(tt.nn.Linear(2, 1), ["cpu", "cpu"])
        >>> one(tt.ones(2)).item() == two(tt.ones(2)).item(), list(one.parameters())
        (True, [])
    """
    return [_replica(network, as_device(each), detach) for each in devices]


def _replica(network: Module, device: Device, detach: bool) -> Module:
    tensors: dict[int, Tensor] = {}
    copies: dict[int, Module] = {}

    def on_device(tensor: Tensor) -> Tensor:
        if id(tensor) not in tensors:
            moved = tensor.detach() if detach else tensor
            # No leaf: a replica has no parameters of its own.
            tensors[id(tensor)] = moved.view_as(moved) if moved.device == device else moved.to(device)
        return tensors[id(tensor)]

    def copied(module: Module) -> Module:
        if id(module) in copies:
            return copies[id(module)]
        replica = module.__class__.__new__(module.__class__)
        own: dict[str, Any] = dict(module.__dict__)
        copies[id(module)] = replica
        object.__setattr__(replica, "__dict__", own)
        former = {
            name: None if each is None else on_device(each) for name, each in module._parameters.items()
        }
        own["_parameters"] = {name: None for name, each in former.items() if each is None}
        own["_former_parameters"] = former
        own.update({name: each for name, each in former.items() if each is not None})
        own["_buffers"] = {
            name: each if each is None or each.device == device else on_device(each)
            for name, each in module._buffers.items()
        }
        own["_modules"] = {
            name: None if child is None else copied(child) for name, child in module._modules.items()
        }
        own["_is_replica"] = True
        return replica

    return copied(network)
