"""Layout of the mapped dimension: functions that move it to the front and align operands after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ....runtime.device import META
from ....runtime.dispatch_key import BY_NAME
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ...core.operator_entry import OperatorEntry
from ...generated import functions as ops
from ...structured.allocation import allocator_of
from ...structured.meta.dims import wrap_dim
from ...tensor import Tensor
from ..levels import VmapLevel

Dims = Sequence[Any]
Rule = Callable[..., tuple[Any, Any]]


class Batch(NamedTuple):
    """One call of an operator on batched tensors, for its rule."""

    op: OperatorEntry
    level: VmapLevel

    @property
    def size(self) -> int:
        """How many examples there are."""
        return self.level.batch_size


@lru_cache(maxsize=1024)
def _to_front(rank: int, dim: int) -> tuple[int, ...]:
    return (dim, *range(dim), *range(dim + 1, rank))


def front(x: Tensor, dim: int | None) -> Tensor:
    """Move a tensor's mapped dimension first; a tensor without one is unchanged."""
    if not dim:
        return x
    return x.permute(_to_front(x._spec.ndim, dim))


def rank_of(x: Any, dim: int | None) -> int:
    """Return the number of dimensions of one example."""
    rank: int = x._spec.ndim
    return rank if dim is None else rank - 1


def sizes_of(x: Tensor, dim: int | None) -> tuple[int, ...]:
    """Return the sizes of one example."""
    sizes: tuple[int, ...] = x._spec.sizes
    return sizes if dim is None else sizes[:dim] + sizes[dim + 1 :]


def numel_of(x: Tensor, dim: int | None) -> int:
    """Return the number of elements of one example."""
    count = 1
    for n in sizes_of(x, dim):
        count *= n
    return count


def aligned(x: Any, dim: int | None, rank: int) -> Any:
    """Reshape the tensor so that it broadcasts with (batch, *sizes of `rank` dimensions)."""
    if dim is None:
        return x
    x = front(x, dim)
    sizes = x._spec.sizes
    missing = rank + 1 - len(sizes)
    return x.reshape((sizes[0], *(1,) * missing, *sizes[1:])) if missing > 0 else x


def whole(x: Any, dim: int | None, size: int) -> Tensor:
    """Return the tensor as (batch, *sizes); a tensor without a mapped dimension is expanded, without a copy."""
    if dim is not None:
        return front(x, dim)
    repeated: Tensor = x.expand((size, *x._spec.sizes))
    return repeated


def folded(x: Tensor) -> Tensor:
    """Reshape (batch, n, ...) to (batch * n, ...)."""
    sizes = x._spec.sizes
    return x.reshape((sizes[0] * sizes[1], *sizes[2:]))


def apart(x: Tensor, size: int, each: int | None = None) -> Tensor:
    """Reshape (batch * n, ...) to (batch, n, ...); `each`, n, is required if there may be no examples."""
    sizes = x._spec.sizes
    return x.reshape((size, sizes[0] // size if each is None else each, *sizes[1:]))


def as_channels(x: Tensor, dim: int | None, size: int) -> Tensor:
    """Reshape (batch, n, channels, ...) to (n, batch * channels, ...)."""
    x = whole(x, dim, size)
    sizes = x._spec.sizes
    return x.transpose(0, 1).reshape((sizes[1], sizes[0] * sizes[2], *sizes[3:]))


def from_channels(x: Tensor, size: int) -> Tensor:
    """Reshape (n, batch * channels, ...) to (n, batch, channels, ...)."""
    sizes = x._spec.sizes
    return x.reshape((sizes[0], size, sizes[1] // size, *sizes[2:]))


def shifted(dim: int, rank: int) -> int:
    """Return a dimension of one example as a dimension after a leading mapped one."""
    return wrap_dim(dim, rank) + 1


_ARITHMETIC = frozenset(
    f"aten::{name}_"
    for name in ("copy", "div", "logical_and", "logical_or", "logical_xor", "masked_fill", "mul", "sub")
)
_INDEXED = frozenset(
    f"aten::{name}_"
    for name in ("fill", "index_add", "index_fill", "index_put", "scatter_add", "scatter_reduce")
)
"""In-place operators that PyTorch's message calls arithmetic, and those that it names without their namespace."""


def refuse_inplace(batch: Batch) -> None:
    """Raise RuntimeError for a write of several examples into a tensor that only has one."""
    operator = batch.op.name.partition(".")[0]
    name = "inplace arithmetic" if operator in _ARITHMETIC else operator
    if operator in _INDEXED:
        name = operator.removeprefix("aten::")
    raise RuntimeError(
        f"vmap: {name}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that "
        "has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
        f"over in a vmap. Please try to use out-of-place operators instead of {name}. If said operator is being "
        f"called inside the PyTorch framework, please file a bug report instead. (operator: {operator})"
    )


_META_KEYS = BY_NAME["Meta"].bits


def result_of_one(op: OperatorEntry, args: Sequence[Any]) -> Any:
    """Return the operator's result for one example of these arguments, on the meta device, or raise its error.

    Modes and traces do not see this call.
    """
    metas = [described(value) for value in args]
    plan = op.lookup(_META_KEYS).plan(op, _META_KEYS, metas)
    return plan(*[metas[i] for i in op.runtime_positions(metas)])


def described(value: Any) -> Any:
    """Return an argument with the metadata of one example and no values, on the meta device."""
    if isinstance(value, TensorImpl):
        spec = value._spec
        meta = TensorSpec.of(spec.sizes, spec.strides, spec.dtype, META)
        return Tensor.from_data(allocator_of(meta)(), meta)
    if isinstance(value, (list, tuple)):
        return tuple([described(v) for v in value])
    return value


def outline(batch: Batch, dims: Dims, *args: Any) -> Tensor:
    """Return an empty batch of the operator's result for one example."""
    example_args = [
        value if dim is None else value.new_empty(sizes_of(value, dim))
        for value, dim in zip(args, dims, strict=True)
    ]
    made = result_of_one(batch.op, example_args)
    device = next(a.device for a in args if isinstance(a, TensorImpl))
    return ops.empty((0, *made._spec.sizes), dtype=made._spec.dtype, device=device)
