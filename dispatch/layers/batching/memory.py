"""Batching rules of memory queries: all examples share one storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .layout import Batch, Dims, Rule

if TYPE_CHECKING:
    from ...tensor import Tensor


def whole(batch: Batch, dims: Dims, self: Tensor, *options: Any) -> tuple[Any, Any]:
    """Run `is_pinned` or `record_stream` on the tensor of all examples."""
    return batch.op.call(self, *options), None


RULES: dict[str, Rule] = {"is_pinned": whole, "record_stream": whole}
