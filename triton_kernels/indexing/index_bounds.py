"""Indices out of bounds: kernels raise a flag in device memory, which the host waits for and turns into an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.structured.stub import StructuredCall, find_kernel
from ...runtime.allocator import get_allocator
from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.driver import driver
from ...runtime.cuda.graph_capture import GraphFlags, captured_flags
from ...runtime.cuda.transfer import copy_across
from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from ...runtime.scalar_type import int32, int64
from ...runtime.tensor_spec import TensorSpec
from ..launch import integer_type

FLAG_BYTES = 4
REPLAYED = "of a replayed graph"
"""What an error says in place of the wrong index where the host did not see the indices."""


class Bound(NamedTuple):
    """What an index may be, and the error where it is not: ``message`` has places for wrong, dim and size."""

    spec: TensorSpec
    size: int
    dim: int
    wraps: bool
    error: type[Exception]
    message: str = "index {wrong} is out of bounds for dimension {dim} with size {size}"

    def fault(self, wrong: object) -> Exception:
        """The error of a wrong index."""
        return self.error(self.message.format(wrong=wrong, dim=self.dim, size=self.size))


def allocate(nbytes: int, device: Device) -> DataPtr:
    """Scratch memory of a CUDA device, in the order of its current stream."""
    return get_allocator("cuda").allocate(nbytes, device)


def filled_bytes(nbytes: int, value: int, device: Device) -> DataPtr:
    """Scratch memory with every byte set."""
    data = allocate(nbytes, device)
    index = device.resolved_index
    with device_guard(index) as cuda:
        cuda.memset(data.address, value, nbytes, cuda.current_stream(index))
    return data


def flags_for(bounds: Sequence[Bound], device: Device) -> DataPtr:
    """A lowered flag for each index tensor."""
    return lowered_flags(len(bounds), device, lambda: [bound.fault(REPLAYED) for bound in bounds])


def lowered_flags(count: int, device: Device, errors: Callable[[], list[Exception]]) -> DataPtr:
    """Flags that are down; in a capture those of its graph, which raises one of `errors` for each that goes up."""
    captured = captured_flags(driver(), device.resolved_index, errors)
    return filled_bytes(FLAG_BYTES * count, 0, device) if captured is None else captured


def check_flags(flags: DataPtr, bounds: Sequence[Bound], indices: Sequence[Any]) -> None:
    """Wait for the kernels that were given the flags. Raises the first bound's error whose flag is up.

    In a capture there is nothing to wait for: whoever waits for a replay gets the error.
    """
    if isinstance(flags, GraphFlags):
        return
    found = np.zeros(len(bounds), np.int32)
    copy_across(found, flags, found.nbytes)
    for raised, bound, data in zip(found.tolist(), bounds, indices, strict=True):
        if raised:
            wrong = extreme("amax_stub", bound.spec, data)
            if wrong < bound.size:
                wrong = extreme("amin_stub", bound.spec, data)
            raise bound.fault(wrong)


def extreme(stub: str, spec: TensorSpec, data: DataPtr) -> int:
    """The largest or smallest element of an index tensor."""
    out = TensorSpec.contiguous((), spec.dtype, spec.device)
    dims = {"dims": tuple(range(spec.ndim))}
    call = StructuredCall("amax", {"self": spec}, ("self",), (out,), None, spec.device, dims)
    result = allocate(out.nbytes, spec.device)
    find_kernel(stub, "cuda", "amax")(call).into(result, data)
    value = np.empty((), out.np_dtype)
    copy_across(value, result, out.nbytes)
    return int(value)


def key_spec(sizes: Sequence[int], largest: int, device: Device) -> TensorSpec:
    """The spec of keys up to `largest`: int32 where they and their number fit in it."""
    kind = integer_type(max(largest, math.prod(sizes)) + 1)
    return TensorSpec.contiguous(tuple(sizes), int32 if kind == "i32" else int64, device)
