"""Rules of operators that ask about memory, or about who uses it: all examples share one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .layout import Batch, Dims, Rule

if TYPE_CHECKING:
    from ...tensor import Tensor


def whole(batch: Batch, dims: Dims, self: Tensor, *options: Any) -> tuple[Any, Any]:
    """`is_pinned` and `record_stream`: of the tensor that holds all examples."""
    return batch.op.call(self, *options), None


RULES: dict[str, Rule] = {"is_pinned": whole, "record_stream": whole}
