"""To be replaced by the full module."""

from __future__ import annotations

from typing import Any

from ...runtime.allocator import storage_size
from ...runtime.storage import address_of


def check_write_overlap(written: Any, read: Any) -> None:
    a, b = written._spec, read._spec
    if not a.numel or not b.numel:
        return
    x, y = address_of(written._data), address_of(read._data)
    if x == y and a.sizes == b.sizes and a.strides == b.strides and a.itemsize == b.itemsize:
        return
    ex = x + storage_size(a.sizes, a.strides) * a.itemsize
    ey = y + storage_size(b.sizes, b.strides) * b.itemsize
    if x < ey and y < ex and a.is_dense() and b.is_dense():
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
            "memory location. Please clone() the tensor before performing the operation."
        )
