"""Indexing by tensors inside `vmap` (`torch._dynamo._trace_wrapped_higher_order_op`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..dispatch.layers.overrides.function_mode import TensorFunctionMode
from ..dispatch.tensor import Tensor

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(TensorFunctionMode):
    """A block in which ``x[i]`` by tensors alone is `aten::index`, so that a number of each example stays a tensor."""

    def __tensor_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func is Tensor.__getitem__:
            indices = args[1] if isinstance(args[1], tuple) else (args[1],)
            if indices and all(isinstance(index, Tensor) for index in indices):
                return ops.aten.index(args[0], list(indices))
        return func(*args, **(kwargs or {}))
