"""Queries of tensors inside function transforms (`torch._C._functorch`).

Only `tt.vmap` wraps tensors here. `tt.func.grad` and similar transforms use plain tensors, so there are no wrappers
of theirs to query.
"""

from ..dispatch.layers.batched_tensor import BatchedValue
from ..dispatch.layers.functionalization.layer import FunctionalTensor
from ..dispatch.layers.vmap import _add_batch_dim, _remove_batch_dim
from ..dispatch.tensor import Tensor

__all__ = [
    "_add_batch_dim",
    "_remove_batch_dim",
    "get_unwrapped",
    "is_batchedtensor",
    "is_functionaltensor",
    "is_functorch_wrapped_tensor",
    "is_legacy_batchedtensor",
    "maybe_get_bdim",
    "maybe_get_level",
]


def is_batchedtensor(tensor: Tensor) -> bool:
    """Return whether a tensor is batched by `vmap`."""
    return isinstance(tensor._data, BatchedValue)


def is_legacy_batchedtensor(tensor: Tensor) -> bool:
    """Return False, since these tensors belong to a `vmap` that predates `torch.func`."""
    return False


def is_functionaltensor(tensor: Tensor) -> bool:
    """Return whether a tensor is one that `tt.func.functionalize` passes to its function."""
    return isinstance(tensor, FunctionalTensor)


def is_functorch_wrapped_tensor(tensor: Tensor) -> bool:
    """Return whether a transform has wrapped a tensor."""
    return is_batchedtensor(tensor) or is_functionaltensor(tensor)


def maybe_get_bdim(tensor: Tensor) -> int:
    """Return the dimension that `vmap` maps, or -1 for an unbatched tensor."""
    data = tensor._data
    return data.dim if isinstance(data, BatchedValue) else -1


def maybe_get_level(tensor: Tensor) -> int:
    """Return the level of the transform that a tensor belongs to, 1 for the outermost; -1 for a plain tensor."""
    data = tensor._data
    return data.level.number if isinstance(data, BatchedValue) else -1


def get_unwrapped(tensor: Tensor) -> Tensor:
    """Return the whole batch of a tensor that `vmap` maps.

    Raises:
        RuntimeError: The tensor is not batched.
    """
    data = tensor._data
    if not isinstance(data, BatchedValue):
        raise RuntimeError("get_unwrapped: expected a tensor that vmap maps, got a plain one")
    value: Tensor = data.value  # type: ignore[assignment]
    return value
