"""Batching rules of pointwise operators, and of in-place writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.memory_format import channels_last, channels_last_3d, contiguous_format
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ...generated import functions as ops
from ...iterator.type_promotion import result_type_of
from ..batched_tensor import logical_spec
from .layout import Batch, Dims, Rule, aligned, front, rank_of, refuse_inplace, whole
from .loop import loop

if TYPE_CHECKING:
    from ....runtime.memory_format import memory_format as MemoryFormat
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


def pointwise(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
    """Run an operator that broadcasts its tensors: lower-rank ones get dimensions of size 1 after the mapped one."""
    tensor_positions = [i for i, a in enumerate(args) if isinstance(a, TensorImpl)]
    first = tensor_positions[0]
    if len(tensor_positions) == 1:
        return batch.op.call(*args), dims[first]
    ranks = [rank_of(args[i], dims[i]) for i in tensor_positions]
    if 0 in ranks:
        args = promoted(dims, args, tensor_positions, ranks)
    dim = dims[first]
    if any(dims[i] != dim for i in tensor_positions) or any(r != ranks[0] for r in ranks):
        max_rank, dim = max(ranks), 0
        opened = list(args)
        for i in tensor_positions:
            opened[i] = aligned(args[i], dims[i], max_rank)
        args = tuple(opened)
    return batch.op.call(*args), dim


def promoted(
    dims: Dims, args: Sequence[Any], tensor_positions: Sequence[int], ranks: Sequence[int]
) -> tuple[Any, ...]:
    """Return the arguments, with mapped numbers cast to the dtype that promotion gives for one example.

    A 0-d tensor has a lower rank in promotion; with the mapped dimension it would not.
    """
    mapped = [i for i, r in zip(tensor_positions, ranks, strict=True) if r == 0 and dims[i] is not None]
    dtypes = {args[i]._spec.dtype for i in tensor_positions}
    if not mapped or len(dtypes) == 1:
        return tuple(args)
    common = _common_dtype(dims, args)
    opened = list(args)
    for i in mapped:
        if opened[i]._spec.dtype is not common:
            opened[i] = opened[i].to(common)
    return tuple(opened)


def _common_dtype(dims: Dims, args: Sequence[Any]) -> ScalarType:
    operands: list[TensorSpec | type] = []
    for value, dim in zip(args, dims, strict=True):
        if isinstance(value, TensorImpl):
            operands.append(value._spec if dim is None else logical_spec(value._spec, dim))
        elif value.__class__ in (int, float, complex, bool):
            operands.append(value.__class__)
    return result_type_of(operands)


def pointwise_(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
    """Run in place, through a view of the written tensor with its mapped dimension first."""
    if dims[0] is None:
        refuse_inplace(batch)
    tensor_positions = [i for i, a in enumerate(args) if isinstance(a, TensorImpl)]
    rank = rank_of(args[0], dims[0])
    opened = list(args)
    for i in tensor_positions:
        opened[i] = aligned(args[i], dims[i], rank)
    batch.op.call(*opened)
    return None, None


def where(
    batch: Batch, dims: Dims, condition: Tensor, self: Tensor | Number, other: Tensor | Number
) -> tuple[Any, Any]:
    """Run `where`; the condition does not take part in promotion."""
    choices = (self, other)
    tensor_positions = [i for i, a in enumerate(choices) if isinstance(a, TensorImpl)]
    ranks = [rank_of(choices[i], dims[i + 1]) for i in tensor_positions]
    if tensor_positions:
        choices = promoted(dims[1:], choices, tensor_positions, ranks)
    max_rank = max(rank_of(condition, dims[0]), *ranks, 0)
    return batch.op.call(
        *[aligned(a, d, max_rank) for a, d in zip((condition, *choices), dims, strict=True)]
    ), 0


def of_one_shape(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
    """Run a pointwise operator that does not broadcast."""
    batched_args = [
        whole(a, d, batch.size) if isinstance(a, TensorImpl) else a for a, d in zip(args, dims, strict=True)
    ]
    return batch.op.call(*batched_args), 0


def masked_fill(
    batch: Batch, dims: Dims, self: Tensor, mask: Tensor, value: Tensor | Number
) -> tuple[Any, Any]:
    """Run `masked_fill` with a number that all examples share; the mask does not take part in promotion."""
    max_rank = max(rank_of(self, dims[0]), rank_of(mask, dims[1]))
    return batch.op.call(aligned(self, dims[0], max_rank), aligned(mask, dims[1], max_rank), value), 0


def masked_fill_tensor(
    batch: Batch, dims: Dims, self: Tensor, mask: Tensor, value: Tensor
) -> tuple[Any, Any]:
    """Run `masked_fill` with one number for each example."""
    if dims[2] is None:
        return masked_fill(batch, dims, self, mask, value)
    max_rank = max(rank_of(self, dims[0]), rank_of(mask, dims[1]))
    value = value.to(self._spec.dtype)
    return ops.where(
        aligned(mask, dims[1], max_rank), aligned(value, dims[2], max_rank), aligned(self, dims[0], max_rank)
    ), 0


def masked_fill_tensor_(
    batch: Batch, dims: Dims, self: Tensor, mask: Tensor, value: Tensor
) -> tuple[Any, Any]:
    """Run `masked_fill` with a tensor value in place."""
    if dims[2] is None:
        return pointwise_(batch, dims, self, mask, value)
    if dims[0] is None:
        refuse_inplace(batch)
    filled, _ = masked_fill_tensor(batch, dims, self, mask, value)
    front(self, dims[0]).copy_(filled)
    return None, None


def unary(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
    """Run an operator of one tensor that treats the mapped dimension like any other."""
    return batch.op.call(*args), dims[0]


def unary_(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
    """Run a unary operator in place."""
    batch.op.call(*args)
    return None, None


def _in_format(x: Tensor, dim: int, memory_format: Any, copy: Callable[..., Any]) -> tuple[Any, Any]:
    """Run ``copy(x, memory_format)`` on each example; the memory format is that of an example, which has a lower
    rank.
    """
    if memory_format is channels_last or memory_format is channels_last_3d:
        rank = x._spec.ndim
        made = copy(front(x, dim).permute((0, 1, *range(3, rank), 2)), contiguous_format)
        return made.permute((0, 1, rank - 1, *range(2, rank - 1))), 0
    if memory_format is contiguous_format:
        return copy(front(x, dim), memory_format), 0
    return copy(x, memory_format), dim


def clone(batch: Batch, dims: Dims, self: Tensor, memory_format: MemoryFormat | None) -> tuple[Any, Any]:
    """Run `clone`; the memory format is that of each example."""
    return _in_format(self, dims[0], memory_format, lambda x, fmt: batch.op.call(x, fmt))


def to_copy(batch: Batch, dims: Dims, self: Tensor, *options: Any) -> tuple[Any, Any]:
    """Run `_to_copy`; the memory format is that of each example."""
    *leading, memory_format = options
    return _in_format(self, dims[0], memory_format, lambda x, fmt: batch.op.call(x, *leading, fmt))


def fake_quantize_by_tensors(batch: Batch, dims: Dims, self: Tensor, *parameters: Any) -> tuple[Any, Any]:
    """Fake-quantize with one-element tensors instead of numbers; tensors that differ by example run in a loop."""
    if any(dim is not None for dim in dims[1:]):
        return loop(batch, dims, self, *parameters)
    return batch.op.call(self, *parameters), dims[0]


RULES: dict[str, Rule] = {
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": fake_quantize_by_tensors,
    "where.self": where,
    "native_dropout_backward": of_one_shape,
    "masked_fill.Scalar": masked_fill,
    "masked_fill_.Scalar": pointwise_,
    "masked_fill.Tensor": masked_fill_tensor,
    "masked_fill_.Tensor": masked_fill_tensor_,
    "copy_": pointwise_,
    "fill_.Scalar": unary_,
    "zero_": unary_,
    "clone": clone,
    "_to_copy": to_copy,
}
"""In addition, every operator tagged pointwise has the rule `pointwise` or, if it writes, `pointwise_`."""
