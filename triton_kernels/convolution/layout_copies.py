"""Operands brought to the layout that the kernels read in vectors: channels innermost, in whole vectors.

A copy reads and writes its operand once, at the bandwidth of memory; the product reads it again for each tap. Where
channels are not innermost, pixels are, and a tap's shift leaves no alignment along them: each element would be loaded
by itself, for each tap. So tensors of large products are copied first, and those of small ones are read as they lie,
since a launch takes longer than they do. Vendors' libraries convert likewise for tensor cores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.allocator import get_allocator
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.copy import copy_kernel
from ..elementwise.factories import zero
from .volume import BYTES, channels_last, unit_of

WORTH_A_COPY = 1 << 24
"""Multiplications from which operands are copied: a launch's time at a tenth of a large device's rate."""

Relay = Callable[[Any], Any]


def as_it_is(data: Any) -> Any:
    """No copy."""
    return data


def unit_of_spec(spec: TensorSpec) -> int:
    """The unit of a volume's strides, its channels innermost; 1 where they are not."""
    n, c, *spatial = spec.strides
    return unit_of(n, *spatial, spec.sizes[1]) if c == 1 else 1


def relaid(spec: TensorSpec, channels: int | None = None, dim: int = 1) -> tuple[TensorSpec, Relay]:
    """A volume's spec with dimension 1 innermost, dimension `dim` padded by zeros to `channels`; and its copier.

    Nothing is copied where that would make the vectors no longer.
    """
    count = spec.sizes[dim] if channels is None else channels
    sizes = (*spec.sizes[:dim], count, *spec.sizes[dim + 1 :])
    padded = channels_last(spec.replace(sizes=sizes))
    least = BYTES // spec.itemsize
    if count == spec.sizes[dim] and min(unit_of_spec(spec), least) >= min(unit_of_spec(padded), least):
        return spec, as_it_is
    fill, gather = None, copy_kernel(spec.replace(strides=padded.strides), spec)
    if count != spec.sizes[dim]:
        flat = TensorSpec.contiguous((padded.numel,), spec.dtype, spec.device)
        fill = zero(StructuredCall("zero", {"self": flat}, ("self",), (flat,), None, spec.device, {})).into
    allocate, nbytes, device = get_allocator("cuda").allocate, padded.numel * spec.itemsize, spec.device

    def copied(data: Any) -> Any:
        buffer = allocate(nbytes, device)
        if fill is not None:
            fill(buffer)
        gather(buffer, data)
        return buffer

    return padded, copied


def transposed(spec: TensorSpec) -> TensorSpec:
    """The spec with its first two dimensions exchanged."""
    sizes, strides = spec.sizes, spec.strides
    return spec.replace(
        sizes=(sizes[1], sizes[0], *sizes[2:]), strides=(strides[1], strides[0], *strides[2:])
    )
