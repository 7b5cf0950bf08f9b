"""The meta function of unpooling that the host computes at once (see `host_plans`); otherwise it is a composition."""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.memory_format import contiguous_format
from ....runtime.scalar_type import int64
from ....runtime.tensor_spec import TensorSpec
from ...plans.host_compositions import ComposedError
from ..meta_base import MetaBase
from ..supported_dtypes import check_dtype


def max_unpool(
    meta: MetaBase, self: TensorSpec, indices: TensorSpec, size: Sequence[int], *window: Sequence[int]
) -> None:
    """`max_unpool2d` and `max_unpool3d` of contiguous elements."""
    rank = len(size)
    if not (self.is_contiguous and indices.is_contiguous and self.numel and self.sizes == indices.sizes):
        raise ComposedError
    if indices.dtype is not int64 or self.ndim not in (rank + 1, rank + 2) or rank != (3 if window else 2):
        raise ComposedError
    if min(size) <= 0 or any(len(values) != rank for values in window) or (window and min(window[0]) <= 0):
        raise ComposedError
    if rank == 2 and self.ndim == 4 and self.suggest_memory_format() is not contiguous_format:
        raise ComposedError
    check_dtype(f"max_unpool{rank}d", self.dtype, self.device)
    meta.set_output_contiguous(0, (*self.sizes[:-rank], *size), dtype=self.dtype)
