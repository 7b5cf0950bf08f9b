"""Bounds checks of indices: the faults that kernels report, and their errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.structured.stub import StructuredCall, find_kernel
from ...runtime.allocator import get_allocator
from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.faults import Fault, FaultFlags, fault_flags
from ...runtime.cuda.transfer import copy_across
from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from ...runtime.scalar_type import int32, int64
from ...runtime.tensor_spec import TensorSpec
from ..launch import integer_type


class Bound(NamedTuple):
    """Range of an operator's index, and its error: ``message`` has fields for wrong, dim and size."""

    operator: str
    spec: TensorSpec
    size: int
    dim: int
    wraps: bool
    error: type[Exception]
    message: str = "index {wrong} is out of bounds for dimension {dim} with size {size}"

    def error_of(self, wrong: int) -> Exception:
        """Return the error of an invalid index."""
        return self.error(self.message.format(wrong=wrong, dim=self.dim, size=self.size))

    @property
    def fault(self) -> Fault:
        """Fault that a kernel reports for an invalid index."""
        message = f"index out of bounds for dimension {self.dim} with size {self.size}"
        return Fault(self.operator, self.error, message)


def allocate(nbytes: int, device: Device) -> DataPtr:
    """Allocate scratch memory of a CUDA device, in the order of its current stream."""
    return get_allocator("cuda").allocate(nbytes, device)


def filled_bytes(nbytes: int, value: int, device: Device) -> DataPtr:
    """Allocate scratch memory with every byte set."""
    data = allocate(nbytes, device)
    index = device.resolved_index
    with device_guard(index) as cuda:
        cuda.memset(data.address, value, nbytes, cuda.current_stream(index))
    return data


def flags_for(bounds: Sequence[Bound], device: Device) -> FaultFlags:
    """Return a flag word for each index tensor, which kernels set for an invalid index."""
    return fault_flags(device.resolved_index, [bound.fault for bound in bounds])


def check_flags(flags: FaultFlags, bounds: Sequence[Bound], indices: Sequence[Any]) -> None:
    """Raise the first bound's error whose word is up, if this call is to wait for its kernels; it is not by default."""
    if flags.driver.launch_blocking:
        for i in flags.raised():
            bound = bounds[i]
            wrong = extreme("amax_stub", bound.spec, indices[i])
            if wrong < bound.size:
                wrong = extreme("amin_stub", bound.spec, indices[i])
            raise bound.error_of(wrong)


def extreme(stub: str, spec: TensorSpec, data: DataPtr) -> int:
    """Return the largest or smallest element of an index tensor."""
    out = TensorSpec.contiguous((), spec.dtype, spec.device)
    dims = {"dims": tuple(range(spec.ndim))}
    call = StructuredCall("amax", {"self": spec}, ("self",), (out,), None, spec.device, dims)
    result = allocate(out.nbytes, spec.device)
    find_kernel(stub, "cuda", "amax")(call).into(result, data)
    value = np.empty((), out.np_dtype)
    copy_across(value, result, out.nbytes)
    return int(value)


def key_spec(sizes: Sequence[int], largest: int, device: Device) -> TensorSpec:
    """Return the spec of keys up to `largest`: int32 if they and their count fit."""
    kind = integer_type(max(largest, math.prod(sizes)) + 1)
    return TensorSpec.contiguous(tuple(sizes), int32 if kind == "i32" else int64, device)
