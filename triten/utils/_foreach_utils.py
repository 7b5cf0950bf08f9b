"""Devices with foreach operators, and grouping of tensors for them (`torch.utils._foreach_utils`)."""

from __future__ import annotations

from collections.abc import Sequence

from ..dispatch.tensor import Tensor
from ..nn.modules.parameter import Parameter
from ..runtime.device import device as Device
from ..runtime.scalar_type import dtype as ScalarType

TensorListList = list[list[Tensor | None]]
Key = tuple[Device, ScalarType]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Return the device types on which optimizers use foreach operators by default."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Return the device types on which optimizers may use fused operators."""
    return ["cuda", "cpu"]


def _device_has_foreach_support(device: Device) -> bool:
    """Return whether foreach operators support a device; the CPU is supported too."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: Sequence[Tensor | None], device: Device) -> bool:
    """Return whether foreach operators support these tensors."""
    return _device_has_foreach_support(device) and all(
        t is None or type(t) in (Tensor, Parameter) for t in tensors
    )


def _group_tensors_by_device_and_dtype(
    tensorlistlist: TensorListList, with_indices: bool = False
) -> dict[Key, tuple[TensorListList, list[int]]]:
    """Group lists by the device and dtype of the first list's tensors, optionally with the tensors' indices."""
    groups: dict[Key, tuple[TensorListList, list[int]]] = {}
    for index, first in enumerate(tensorlistlist[0]):
        assert first is not None
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for into, tensors in zip(lists, tensorlistlist, strict=True):
            if tensors:
                into.append(tensors[index])
        if with_indices:
            indices.append(index)
    return groups
