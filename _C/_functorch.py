"""Questions about tensors inside function transforms (`torch._C._functorch`).

Only `tt.vmap` has tensors of a kind of its own here: `tt.func.grad` and its kin work on plain ones, so that there are
no wrappers of theirs to ask about.
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
    """Whether a tensor is one of every example of a `vmap`."""
    return isinstance(tensor._data, BatchedValue)


def is_legacy_batchedtensor(tensor: Tensor) -> bool:
    """False: PyTorch's are of a `vmap` before the one of `torch.func`, which is not here."""
    return False


def is_functionaltensor(tensor: Tensor) -> bool:
    """Whether a tensor is one that `tt.func.functionalize` gives to its function."""
    return isinstance(tensor, FunctionalTensor)


def is_functorch_wrapped_tensor(tensor: Tensor) -> bool:
    """Whether a transform has put a tensor around another one."""
    return is_batchedtensor(tensor) or is_functionaltensor(tensor)


def maybe_get_bdim(tensor: Tensor) -> int:
    """The dimension that a `vmap` maps, -1 for a tensor that none does."""
    data = tensor._data
    return data.dim if isinstance(data, BatchedValue) else -1


def maybe_get_level(tensor: Tensor) -> int:
    """The number of the transform that a tensor belongs to, counted from 1 outside; -1 for a plain one."""
    data = tensor._data
    return data.level.number if isinstance(data, BatchedValue) else -1


def get_unwrapped(tensor: Tensor) -> Tensor:
    """All examples of a tensor that a `vmap` maps.

    Raises:
        RuntimeError: it is none.
    """
    data = tensor._data
    if not isinstance(data, BatchedValue):
        raise RuntimeError("get_unwrapped: expected a tensor that vmap maps, got a plain one")
    value: Tensor = data.value  # type: ignore[assignment]
    return value
