"""``pin_memory``: the tensor itself if it is page-locked, else a page-locked copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.device import CPU
from ...runtime.device import device as Device
from ..generated.functions import _pin_memory as copy_to_pinned
from ..generated.functions import empty_like

if TYPE_CHECKING:
    from ..tensor import Tensor


def pin_memory(self: Tensor, device: Device | None) -> Tensor:
    """Return `Tensor.pin_memory`."""
    _check(self, device)
    return self if self.is_pinned() else copy_to_pinned(self, device)


def _pin_memory(self: Tensor, device: Device | None) -> Tensor:
    """Return a copy in page-locked memory, with the same strides if they leave no gaps."""
    _check(self, device)
    return empty_like(self, pin_memory=True).copy_(self)


def _check(self: Tensor, device: Device | None) -> None:
    if self._spec.device is not CPU:
        raise RuntimeError(
            f"cannot pin a tensor of device '{self._spec.device}' only dense CPU tensors can be pinned"
        )
    if device is not None and device.type != "cuda":
        raise RuntimeError(f"pin_memory(): expected a CUDA device to pin memory for, got '{device}'")


def is_non_overlapping_and_dense(self: Tensor) -> bool:
    """Return whether the elements fill their memory without gaps, in any order of dimensions."""
    return self._spec.is_dense()
