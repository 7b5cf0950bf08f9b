"""Formulas of indexing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.layout import strided
from ....runtime.scalar_type import int64
from ....runtime.tensor_spec import TensorSpec
from ...generated import functions as ops
from ...iterator.broadcast import infer_size

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


def zeros_for(grad: Tensor, shape: Sequence[int]) -> Tensor:
    """Return zeros of a shape, with the gradient's dtype and device."""
    return grad.new_zeros(tuple(shape))


def cat_backward(grad: Tensor, specs: Sequence[TensorSpec], dim: int) -> list[Any]:
    """Return the gradient of each concatenated tensor."""
    parts = []
    start = 0
    wrapped = dim % grad.ndim
    for spec in specs:
        if spec.sizes == (0,):
            parts.append(zeros_for(grad, (0,)))
            continue
        if grad._spec.layout is strided:
            part = grad.slice(wrapped, start, start + spec.sizes[wrapped], 1)
        else:
            part = grad.narrow_copy(wrapped, start, spec.sizes[wrapped])
        start += spec.sizes[wrapped]
        parts.append(part)
    return parts


def stack_backward(grad: Tensor, specs: Sequence[TensorSpec], dim: int) -> list[Any]:
    """Return the gradient of each stacked tensor."""
    return [grad.select(dim, position) for position in range(len(specs))]


def roll_backward(grad: Tensor, shifts: Sequence[int], dims: Sequence[int]) -> Tensor:
    """Roll the gradient back."""
    return ops.roll(grad, [-shift for shift in shifts], dims)


def repeat_backward(grad: Tensor, shape: Sequence[int], repeats: Sequence[int]) -> Tensor:
    """Sum the gradient over the copies of each element."""
    if 0 in repeats:
        return zeros_for(grad, shape)
    sizes = (1,) * (len(repeats) - len(shape)) + tuple(shape)
    apart = [m for n, r in zip(sizes, repeats, strict=True) for m in ((r, n) if r > 1 else (n,))]
    copies: list[int] = []
    dim = 0
    for r in repeats:
        if r > 1:
            copies.append(dim)
            dim += 1
        dim += 1
    if copies:
        grad = grad.reshape(apart).sum(copies)
    return grad if grad._spec.sizes == tuple(shape) else grad.reshape(tuple(shape))


def index_backward(grad: Tensor, shape: Sequence[int], indices: Sequence[Any]) -> Tensor:
    """Return zeros with the gradient added at the indices."""
    return zeros_for(grad, shape).index_put(indices, grad, True)


def index_put_self_backward(grad: Tensor, indices: Sequence[Any], accumulate: bool) -> Tensor:
    """Return the gradient, with zeros at the indices if values replaced the elements there."""
    return grad if accumulate else grad.index_put(indices, zeros_for(grad, ()))


def index_select_self_backward(grad: Tensor, shape: Sequence[int], dim: int, index: Tensor) -> Tensor:
    """Return zeros with the gradient's slices added at the indices."""
    return zeros_for(grad, shape).index_add(dim, index, grad)


def index_add_source_backward(
    grad: Tensor, source: TensorSpec, dim: int, index: Tensor, alpha: Number
) -> Tensor:
    """Return the slices of the gradient at the indices to which `source` was added, times `alpha`."""
    part = grad.index_select(dim, index)
    part = part.expand(source.sizes) if source.ndim else part.reshape(())
    return part if alpha == 1 else part * alpha


def embedding_backward(
    grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Tensor:
    """Return the gradient of the embedding table: dense, or sparse with the looked-up rows alone."""
    if sparse:
        return ops.embedding_sparse_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
    return ops.embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)


def gather_backward(
    grad: Tensor, shape: Sequence[int], dim: int, index: Tensor, sparse_grad: bool = False
) -> Tensor:
    """Return zeros with the gradient's elements added at the gathered positions; a sparse tensor for `sparse_grad`."""
    if sparse_grad:
        return ops._gather_sparse_backward(grad, shape, dim, index)
    return zeros_for(grad, shape).scatter_add(dim, index, grad)


def _of_rank(index: Tensor, rank: int) -> Tensor:
    """Return the index; give an empty one, which may have any rank, the rank of the indexed tensor."""
    return index if index._spec.ndim == rank or index._spec.numel else index.reshape((0,) * rank)


def scatter_src_backward(grad: Tensor, dim: int, index: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the gradient at the scattered positions; zero for source elements outside of the index."""
    part = grad.gather(dim, _of_rank(index, len(shape)))
    if part._spec.sizes == tuple(shape):
        return part
    whole = zeros_for(grad, shape)
    target = whole
    for d, size in enumerate(part._spec.sizes):
        target = target.slice(d, 0, size, 1)
    target.copy_(part)
    return whole


def masked_select_backward(grad: Tensor, self: Tensor, mask: Tensor) -> Tensor:
    """Return zeros with the gradient at the elements of the broadcast input where the mask is True."""
    sizes = infer_size(self._spec.sizes, mask._spec.sizes) or (1,)
    return ops.masked_scatter(ops.zeros_like(self.expand(sizes)), mask, grad)


def take_backward(grad: Tensor, shape: Sequence[int], index: Tensor) -> Tensor:
    """Return zeros with the gradient added at positions of the flattened tensor."""
    return zeros_for(grad, shape).put(index, grad, True)


def masked_fill_value_backward(grad: Tensor, mask: Tensor) -> Tensor:
    """Return the sum of the gradient over the mask."""
    return ops.where(mask, grad, 0).sum()


def embedding_double_backward(grad: Tensor, indices: Tensor, padding_idx: int) -> Tensor:
    """Return the rows of the gradient's gradient, zero for the padding."""
    rows = ops.embedding(grad, indices)
    return rows.masked_fill((indices == padding_idx).unsqueeze(-1), 0) if padding_idx >= 0 else rows


def _shares(self: Tensor, dim: int, index: Tensor, include_self: bool) -> Tensor:
    """Return the number of elements in each mean, at least one."""
    real = self.dtype.to_real() if self.dtype.is_complex else self.dtype
    initial = ops.ones_like(self, dtype=real) if include_self else ops.zeros_like(self, dtype=real)
    added = ops.ones(tuple(index._spec.sizes), dtype=real, device=self.device)
    return ops.clamp(initial.scatter_add(dim, index, added), min=1)


def _attaining(
    self: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool, result: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return numeric masks of the elements of both tensors that attain the extremum, and the number of ties."""
    mine = ops.eq(self, result).to(self.dtype)
    if not include_self:
        mine = mine.scatter(dim, index, 0)
    theirs = ops.eq(_part(src, index), result.gather(dim, index)).to(self.dtype)
    return mine, theirs, ops.clamp(mine.scatter_add(dim, index, theirs), min=1)


def _part(src: Tensor, index: Tensor) -> Tensor:
    """Return the part of the source that the index covers."""
    for d, size in enumerate(index._spec.sizes):
        src = src.slice(d, 0, size, 1)
    return src


def scatter_reduce_self_backward(
    grad: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> Tensor:
    """Return the gradient of the tensor that is reduced into; zero at replaced elements.

    Each element has its own factor, so that the formula also computes the tangent.
    """
    index = _of_rank(index, self.dim())
    if reduce == "sum":
        out = grad
    elif reduce == "prod":
        src_product = ops.ones_like(self).scatter_reduce(dim, index, src, "prod")
        out = grad * src_product
    elif reduce == "mean":
        out = grad / _shares(self, dim, index, include_self)
    else:
        _check_derivable(reduce)
        mine, _, count = _attaining(self, dim, index, src, include_self, result)
        return grad * mine / count if include_self else ops.where(touched(grad, dim, index), 0 * grad, grad)
    return out if include_self else out.scatter(dim, index, 0)


def _check_derivable(reduce: str) -> None:
    if reduce not in ("amax", "amin"):
        raise RuntimeError(
            f"Expected 'reduce' to be one of 'sum', 'prod', 'mean', 'amax', 'amin' but got {reduce}."
        )


def touched(like: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return whether the index contains each position."""
    return ops.zeros_like(like).scatter(dim, index, 1) != 0


def scatter_reduce_src_backward(
    grad: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> Tensor:
    """Return the gradient of the source elements."""
    index = _of_rank(index, self.dim())
    if reduce == "sum":
        return scatter_src_backward(grad, dim, index, src.shape)
    if reduce == "mean":
        return scatter_src_backward(grad / _shares(self, dim, index, include_self), dim, index, src.shape)
    part = _part(src, index)
    if reduce == "prod":
        # The product of all other factors: it skips a single zero, and is the other one of two zeros times the rest.
        zero, single, without = _zeros_of_product(self, dim, index, part, include_self, 1)
        _, one_of_two, between = _zeros_of_product(self, dim, index, part, include_self, 2)
        rest = (grad * result).gather(dim, index) / part.masked_fill(zero, 1)
        src_grad = ops.where(single, (grad * without).gather(dim, index), rest)
        other = _other_zero(self, dim, index, part, one_of_two)
        src_grad = ops.where(one_of_two, (grad * between).gather(dim, index) * other, src_grad)
    else:
        _check_derivable(reduce)
        _, theirs, count = _attaining(self, dim, index, src, include_self, result)
        src_grad = (grad / count).gather(dim, index) * theirs
    return _padded(src_grad, src.shape)


def _zeros_of_product(
    self: Tensor, dim: int, index: Tensor, part: Tensor, include_self: bool, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return which factors are zero, which are one of `count` zeros of their output, and the products without those."""
    zero = part == 0
    zeros = ops.zeros_like(self).scatter_add(dim, index, zero.to(self.dtype)).gather(dim, index)
    chosen = ops.logical_and(zero, zeros == count)
    without = self.scatter_reduce(dim, index, part.masked_fill(chosen, 1), "prod", include_self=include_self)
    return zero, chosen, without


def _other_zero(self: Tensor, dim: int, index: Tensor, part: Tensor, one_of_two: Tensor) -> Tensor:
    """Return the other zero for each of two zeros of an output: 0, with a derivative of 1."""
    both = ops.zeros_like(self).scatter_add(dim, index, part.masked_fill(one_of_two.logical_not(), 0))
    return both.gather(dim, index) - part


def scatter_reduce_src_jvp(
    tangent: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> Tensor:
    """Return the tangent from the source elements."""
    index = _of_rank(index, self.dim())
    moved, part = _part(tangent, index), _part(src, index)

    def added(values: Tensor) -> Tensor:
        return ops.zeros_like(self).scatter_add(dim, index, values)

    if reduce == "sum":
        return added(moved)
    if reduce == "mean":
        return added(moved) / _shares(self, dim, index, include_self)
    if reduce == "prod":
        zero, single, without = _zeros_of_product(self, dim, index, part, include_self, 1)
        _, one_of_two, between = _zeros_of_product(self, dim, index, part, include_self, 2)
        ratio = (moved / part.masked_fill(zero, 1)).masked_fill(zero, 0)
        other = _other_zero(self, dim, index, part, one_of_two)
        crossed = added(ops.where(one_of_two, moved * other, 0))
        return result * added(ratio) + without * added(ops.where(single, moved, 0)) + between * crossed
    _, theirs, count = _attaining(self, dim, index, src, include_self, result)
    return added(moved * theirs) / count


def _padded(part: Tensor, shape: Sequence[int]) -> Tensor:
    """Pad a tensor with zeros at the end to the given shape."""
    for d, size in enumerate(shape):
        missing = size - part._spec.sizes[d]
        if missing:
            sizes = (*part._spec.sizes[:d], missing, *part._spec.sizes[d + 1 :])
            part = ops.cat([part, zeros_for(part, sizes)], d)
    return part


def _of_slices(self: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Expand a 1-D index of slices to elements, and reshape the slices to the same rank."""
    spec = self._spec
    sizes = [index._spec.numel if d == dim % spec.ndim else n for d, n in enumerate(spec.sizes)]
    along = [-1 if d == dim % spec.ndim else 1 for d in range(spec.ndim)]
    return index.to(int64).reshape(along).expand(sizes), source.reshape(sizes)


def index_reduce_self_backward(
    grad: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> Tensor:
    """Return the gradient of the tensor that is reduced into: `scatter_reduce`'s, with an index for each element."""
    if not self._spec.ndim:
        grad_1d = index_reduce_self_backward(
            *(
                grad.reshape((1,)),
                self.reshape((1,)),
                0,
                index,
                source,
                reduce,
                include_self,
                result.reshape((1,)),
            )
        )
        return grad_1d.reshape(())
    each, slices = _of_slices(self, dim, index, source)
    return scatter_reduce_self_backward(grad, self, dim, each, slices, reduce, include_self, result)


def index_reduce_source_backward(
    grad: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> Tensor:
    """Return the gradient of the source slices."""
    if not self._spec.ndim:
        grad, self, result = (x.reshape((1,)) for x in (grad, self, result))
    each, slices = _of_slices(self, dim, index, source)
    slice_grads = scatter_reduce_src_backward(grad, self, dim, each, slices, reduce, include_self, result)
    return slice_grads.reshape(source._spec.sizes)


def index_reduce_source_jvp(
    tangent: Tensor,
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> Tensor:
    """Return the tangent from the source slices."""
    sizes = self._spec.sizes
    if not self._spec.ndim:
        self, result = self.reshape((1,)), result.reshape((1,))
    each, slices = _of_slices(self, dim, index, source)
    moved = tangent.reshape(slices._spec.sizes)
    result_tangent = scatter_reduce_src_jvp(moved, self, dim, each, slices, reduce, include_self, result)
    return result_tangent.reshape(sizes)
