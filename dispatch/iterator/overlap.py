"""Memory overlap inside one operand and between two (ATen/MemoryOverlap.cpp).

Checks that need one spec run while an iterator is built. Overlap between two operands depends on their addresses, so
those checks are functions of (spec, address) pairs that a caller runs in every call.
"""

from __future__ import annotations

import enum

from ...runtime.storage import address_of, root_of
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec


class MemOverlap(enum.Enum):
    """Result of an overlap check within one tensor: YES if two indices share an address."""

    NO = "no"
    YES = "yes"
    TOO_HARD = "too hard"


class MemOverlapStatus(enum.Enum):
    """Relation between the memory of two tensors; TOO_HARD if strides leave gaps that could interleave."""

    FULL = "full"
    PARTIAL = "partial"
    NO = "no"
    TOO_HARD = "too hard"


def has_internal_overlap(spec: TensorSpec) -> MemOverlap:
    """Return whether elements of a tensor of this spec share memory with each other: YES for expanded dimensions.

    >>> from triten.runtime.device import CPU
    >>> from triten.runtime.scalar_type import float32
    >>> has_internal_overlap(TensorSpec.of((2, 3), (0, 1), float32, CPU))
    <MemOverlap.YES: 'yes'>
    """
    if spec.is_dense():
        return MemOverlap.NO
    return MemOverlap.YES if spec.overlaps else MemOverlap.TOO_HARD


def assert_no_internal_overlap(spec: TensorSpec) -> None:
    """Raise RuntimeError for a write to a tensor whose elements are known to share memory."""
    if spec.overlaps and has_internal_overlap(spec) is MemOverlap.YES:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )


def get_overlap_status(a: TensorSpec, address_a: int, b: TensorSpec, address_b: int) -> MemOverlapStatus:
    """Return how two tensors overlap: FULL for the same memory in the same order.

    >>> from triten.runtime.device import CPU
    >>> from triten.runtime.scalar_type import float32
    >>> four = TensorSpec.contiguous((4,), float32, CPU)
    >>> get_overlap_status(four, 1024, four, 1028)
    <MemOverlapStatus.PARTIAL: 'partial'>
    """
    if not a.numel or not b.numel:
        return MemOverlapStatus.NO
    if address_a == address_b and a.strides == b.strides and a.sizes == b.sizes and a.itemsize == b.itemsize:
        return MemOverlapStatus.FULL
    if not a.is_dense() or not b.is_dense():
        return MemOverlapStatus.TOO_HARD
    end_a, end_b = address_a + a.nbytes, address_b + b.nbytes
    if address_a == address_b and end_a == end_b:
        return MemOverlapStatus.FULL if a.strides == b.strides else MemOverlapStatus.PARTIAL
    if address_a < end_b and address_b < end_a:
        return MemOverlapStatus.PARTIAL
    return MemOverlapStatus.NO


_OVERLAP = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def assert_no_partial_overlap(a: TensorSpec, address_a: int, b: TensorSpec, address_b: int) -> None:
    """Raise RuntimeError for writing `a` while reading `b` if they share some elements, but not all."""
    if get_overlap_status(a, address_a, b, address_b) is MemOverlapStatus.PARTIAL:
        raise RuntimeError(_OVERLAP)


def assert_no_overlap(a: TensorSpec, address_a: int, b: TensorSpec, address_b: int) -> None:
    """Raise RuntimeError for writing `a` while reading `b` if they share any element."""
    if get_overlap_status(a, address_a, b, address_b) in (MemOverlapStatus.PARTIAL, MemOverlapStatus.FULL):
        raise RuntimeError(_OVERLAP)


def check_write_overlap(written: TensorImpl, read: TensorImpl) -> None:
    """Run `assert_no_partial_overlap` on two tensors, at their current addresses. Raises RuntimeError."""
    if written is read:
        return
    # Meta addresses start at zero in every storage, so they are comparable only within one storage.
    if written._spec.is_meta and root_of(written._data) is not root_of(read._data):
        return
    assert_no_partial_overlap(written._spec, address_of(written._data), read._spec, address_of(read._data))


def shares_memory(a: TensorImpl, b: TensorImpl) -> bool:
    """Return whether two tensors are the same, or views of one storage."""
    return a is b or (a._version_cell is not None and a._version_cell is b._version_cell)


def check_no_overlap(written: TensorImpl, read: TensorImpl) -> None:
    """Run `assert_no_overlap` on two tensors of one storage, for operators that write in another order than they
    read.

    Raises RuntimeError. A tensor overlaps itself even without elements, unless it is of size (0,), which `cat` skips.
    """
    if written is read and written._spec.sizes != (0,):
        raise RuntimeError(_OVERLAP)
    assert_no_overlap(written._spec, address_of(written._data), read._spec, address_of(read._data))
