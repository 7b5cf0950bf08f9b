"""Memory overlap of operands (ATen/MemoryOverlap.cpp).

Overlap inside one tensor follows from its spec; overlap between two depends on their addresses, so it is
looked at in the call, and only if they share a version counter, which tensors over one memory do.
"""

from __future__ import annotations

import enum
from typing import Any

from ...runtime.allocator import storage_size
from ...runtime.storage import address_of
from ...runtime.tensor_spec import TensorSpec


class OverlapStatus(enum.Enum):
    """How the bytes of two tensors relate."""

    FULL = "full"
    PARTIAL = "partial"
    NO = "no"
    TOO_HARD = "too hard"


def overlap_status(a: TensorSpec, address_a: int, b: TensorSpec, address_b: int) -> OverlapStatus:
    """FULL for the same elements in the same order; TOO_HARD where strides leave it open."""
    if not a.numel or not b.numel:
        return OverlapStatus.NO
    if not a.is_dense() or not b.is_dense():
        if (
            address_a == address_b
            and a.sizes == b.sizes
            and a.strides == b.strides
            and a.itemsize == b.itemsize
        ):
            return OverlapStatus.FULL
        return OverlapStatus.TOO_HARD
    end_a = address_a + storage_size(a.sizes, a.strides) * a.itemsize
    end_b = address_b + storage_size(b.sizes, b.strides) * b.itemsize
    if address_a == address_b and end_a == end_b:
        return OverlapStatus.FULL if a.strides == b.strides else OverlapStatus.PARTIAL
    return OverlapStatus.PARTIAL if address_a < end_b and address_b < end_a else OverlapStatus.NO


def assert_no_internal_overlap(spec: TensorSpec) -> None:
    """Refuse a tensor to be written in which two indices share an address. Raises RuntimeError."""
    if spec.overlaps:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )


def check_write_overlap(written: Any, read: Any) -> None:
    """Refuse to write one tensor while reading another that shares some of its bytes. Raises RuntimeError."""
    status = overlap_status(written._spec, address_of(written._data), read._spec, address_of(read._data))
    if status is OverlapStatus.PARTIAL:
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
            "memory location. Please clone() the tensor before performing the operation."
        )
