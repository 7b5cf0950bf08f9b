"""Batching rules of gather and scatter: an index that differs by example is combined with the example number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.scalar_type import bool_, int64, uint8
from ...generated import functions as ops
from .layout import Batch, Dims, Rule, front, numel_of, rank_of, refuse_inplace, shifted, sizes_of, whole

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


def cat(batch: Batch, dims: Dims, tensors: Sequence[Tensor], dim: int) -> tuple[Any, Any]:
    """Run `cat`; empty vectors among tensors of higher rank are skipped."""
    tensor_dims = dims[0] if dims[0].__class__ is tuple else (None,) * len(tensors)
    wholes = [whole(x, d, batch.size) for x, d in zip(tensors, tensor_dims, strict=True)]
    counted = [x for x in wholes if x._spec.sizes[1:] != (0,)]
    like = (counted or wholes)[0]._spec.sizes
    cat_dim = shifted(dim, len(like) - 1)
    # An empty vector adds no element, but belongs to the graph: replace it by an empty slice of the others' shape.
    empty = (*like[:cat_dim], 0, *like[cat_dim + 1 :])
    return ops.cat([x.reshape(empty) if x._spec.sizes[1:] == (0,) else x for x in wholes], cat_dim), 0


def stepped(x: Tensor, dim: int | None, size: int, rank: int) -> Tensor:
    """Return the tensor as (batch, *sizes) with at least `rank` dimensions after the mapped one."""
    x = whole(x, dim, size)
    missing = rank + 1 - x._spec.ndim
    return x.reshape((*x._spec.sizes, *(1,) * missing)) if missing > 0 else x


def gather(
    batch: Batch, dims: Dims, self: Tensor, dim: int, index: Tensor, sparse_grad: bool
) -> tuple[Any, Any]:
    """Run `gather`; a number counts as a vector of one element."""
    rank = max(rank_of(self, dims[0]), rank_of(index, dims[2]), 1)
    x, where = stepped(self, dims[0], batch.size, 1), stepped(index, dims[2], batch.size, 1)
    out = ops.gather(x, shifted(dim, rank), where, sparse_grad=sparse_grad)
    return out.reshape((batch.size, *sizes_of(index, dims[2]))), 0


def scatter(batch: Batch, dims: Dims, self: Tensor, dim: int, index: Tensor, *more: Any) -> tuple[Any, Any]:
    """Run `scatter` or `scatter_add`; `more` begins with the source, or a number."""
    x = stepped(self, dims[0], batch.size, 1)
    out = batch.op.call(x, shifted(dim, x._spec.ndim - 1), *_scattered(batch, dims, index, more))
    return out.reshape((batch.size, *sizes_of(self, dims[0]))), 0


def scatter_(batch: Batch, dims: Dims, self: Tensor, dim: int, index: Tensor, *more: Any) -> tuple[Any, Any]:
    """Run `scatter` in place."""
    if dims[0] is None:
        refuse_inplace(batch)
    x = front(self, dims[0])
    x = x if x._spec.ndim > 1 else x.unsqueeze(1)
    batch.op.call(x, shifted(dim, x._spec.ndim - 1), *_scattered(batch, dims, index, more))
    return None, None


def _scattered(batch: Batch, dims: Dims, index: Tensor, more: Sequence[Any]) -> list[Any]:
    source = more[0]
    if hasattr(source, "_spec"):
        source = stepped(source, dims[3], batch.size, 1)
    return [stepped(index, dims[2], batch.size, 1), source, *more[1:]]


def index_select(batch: Batch, dims: Dims, self: Tensor, dim: int, index: Tensor) -> tuple[Any, Any]:
    """Run `index_select`."""
    rank = rank_of(self, dims[0])
    if dims[2] is None:
        x = stepped(self, dims[0], batch.size, 1)
        out = x.index_select(shifted(dim, rank), index)
        return out if rank else out.reshape((batch.size,)), 0
    positions = front(index, dims[2])
    count = positions._spec.sizes[1] if positions._spec.ndim > 1 else 1
    if dims[0] is None and rank:
        d = dim % rank
        out = self.index_select(d, positions.reshape((batch.size * count,)))
        sizes = self._spec.sizes
        return out.reshape((*sizes[:d], batch.size, count, *sizes[d + 1 :])), d
    x = stepped(self, dims[0], batch.size, 1)
    d = shifted(dim, rank)
    out = x.gather(d, _along(positions, x._spec.sizes, d, count))
    return out if rank else out.reshape((batch.size,)), 0


def _along(index: Tensor, sizes: Sequence[int], d: int, count: int) -> Tensor:
    """Return index vectors (batch, count) as an index for all elements along the dimension `d`."""
    spread = [sizes[0]] + [1] * (len(sizes) - 1)
    spread[d] = count
    target = list(sizes)
    target[d] = count
    return index.to(int64).reshape(spread).expand(target)


def index_add(
    batch: Batch, dims: Dims, self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Number
) -> tuple[Any, Any]:
    """Run `index_add`."""
    rank = rank_of(self, dims[0])
    x, d = stepped(self, dims[0], batch.size, 1), shifted(dim, rank)
    out = _added(batch, dims, x, d, index, source, alpha)
    return out if rank else out.reshape((batch.size,)), 0


def index_add_(
    batch: Batch, dims: Dims, self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Number
) -> tuple[Any, Any]:
    """Run `index_add` in place."""
    if dims[0] is None:
        refuse_inplace(batch)
    rank = rank_of(self, dims[0])
    x, d = front(self, dims[0]), shifted(dim, rank)
    made = _added(batch, dims, x if rank else x.unsqueeze(1), d, index, source, alpha)
    x.copy_(made if rank else made.reshape((batch.size,)))
    return None, None


def _added(
    batch: Batch, dims: Dims, x: Tensor, d: int, index: Tensor, source: Tensor, alpha: Number
) -> Tensor:
    added = _source_of(batch, dims, x, d, index, source)
    if dims[2] is None:
        return ops.index_add(x, d, index, added, alpha=alpha)
    positions = front(index, dims[2])
    count = positions._spec.sizes[1] if positions._spec.ndim > 1 else 1
    added = added if alpha == 1 else added * alpha
    return x.scatter_add(d, _along(positions, added._spec.sizes, d, count), added)


def index_reduce(
    batch: Batch,
    dims: Dims,
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
) -> tuple[Any, Any]:
    """Run `index_reduce`."""
    rank = rank_of(self, dims[0])
    x, d = stepped(self, dims[0], batch.size, 1), shifted(dim, rank)
    forms = (x.index_reduce, x.scatter_reduce)
    out = _reduced(batch, dims, x, d, index, source, reduce, include_self, forms)
    return out if rank else out.reshape((batch.size,)), 0


def index_reduce_(
    batch: Batch,
    dims: Dims,
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
) -> tuple[Any, Any]:
    """Run `index_reduce` in place."""
    if dims[0] is None:
        refuse_inplace(batch)
    rank = rank_of(self, dims[0])
    x, d = front(self, dims[0]), shifted(dim, rank)
    x = x if rank else x.unsqueeze(1)
    _reduced(batch, dims, x, d, index, source, reduce, include_self, (x.index_reduce_, x.scatter_reduce_))
    return None, None


def _reduced(
    batch: Batch,
    dims: Dims,
    x: Tensor,
    d: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
    forms: tuple[Any, Any],
) -> Any:
    """Return the result of the first form, or of the second with an elementwise index if examples differ in the
    index.
    """
    slices = _source_of(batch, dims, x, d, index, source)
    if dims[2] is None:
        return forms[0](d, index, slices, reduce, include_self=include_self)
    positions = front(index, dims[2])
    count = positions._spec.sizes[1] if positions._spec.ndim > 1 else 1
    each = _along(positions, slices._spec.sizes, d, count)
    return forms[1](d, each, slices, reduce, include_self=include_self)


def _source_of(batch: Batch, dims: Dims, x: Tensor, d: int, index: Tensor, source: Tensor) -> Tensor:
    """Return the source with as many dimensions as its destination."""
    made = whole(source, dims[3], batch.size)
    if made._spec.ndim == x._spec.ndim:
        return made
    sizes = list(x._spec.sizes)
    sizes[d] = numel_of(index, dims[2])
    return made.reshape(sizes)


def index_copy(
    batch: Batch, dims: Dims, self: Tensor, dim: int, index: Tensor, source: Tensor
) -> tuple[Any, Any]:
    """Run `index_copy`."""
    rank = rank_of(self, dims[0])
    x, d = stepped(self, dims[0], batch.size, 1), shifted(dim, rank)
    out = _copied(batch, dims, x, d, index, source)
    return out if rank else out.reshape((batch.size,)), 0


def index_copy_(
    batch: Batch, dims: Dims, self: Tensor, dim: int, index: Tensor, source: Tensor
) -> tuple[Any, Any]:
    """Run `index_copy` in place."""
    if dims[0] is None:
        refuse_inplace(batch)
    rank = rank_of(self, dims[0])
    x, d = front(self, dims[0]), shifted(dim, rank)
    made = _copied(batch, dims, x if rank else x.unsqueeze(1), d, index, source)
    x.copy_(made if rank else made.reshape((batch.size,)))
    return None, None


def _copied(batch: Batch, dims: Dims, x: Tensor, d: int, index: Tensor, source: Tensor) -> Tensor:
    placed = _source_of(batch, dims, x, d, index, source)
    if dims[2] is None:
        return ops.index_copy(x, d, index, placed)
    positions = front(index, dims[2])
    count = positions._spec.sizes[1] if positions._spec.ndim > 1 else 1
    return x.scatter(d, _along(positions, placed._spec.sizes, d, count), placed)


def take(batch: Batch, dims: Dims, self: Tensor, index: Tensor) -> tuple[Any, Any]:
    """Run `take` on the flattened example."""
    if dims[0] is None:
        return self.take(index), dims[1]
    flat = front(self, dims[0]).reshape((batch.size, numel_of(self, dims[0])))
    if dims[1] is None:
        return flat.index((None, index)), 0
    positions = front(index, dims[1])
    return flat.index((_numbers(batch, positions._spec.ndim - 1, positions.device), positions)), 0


def _numbers(batch: Batch, rank: int, device: Any) -> Tensor:
    """Return the example numbers, in a shape that broadcasts with an index of `rank` dimensions after the mapped
    one.
    """
    return ops.arange(batch.size, device=device).reshape((batch.size, *(1,) * rank))


def _opened(indices: Sequence[Any], index_dims: Sequence[Any]) -> list[tuple[Any, int | None]]:
    """Replace masks among the indices by their nonzero positions. Raises RuntimeError for a mask that differs by
    example.
    """
    opened: list[tuple[Any, int | None]] = []
    for index, dim in zip(indices, index_dims, strict=True):
        if index is None or index._spec.dtype not in (bool_, uint8):
            opened.append((index, dim))
        elif dim is not None:
            raise RuntimeError(
                "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over "
                "indexing with a boolean mask."
            )
        else:
            opened += [(positions, None) for positions in index.nonzero().unbind(1)]
    return opened


class _Advanced:
    """Placement of an advanced index's dimensions: in place of adjacent indexed dimensions, else first."""

    def __init__(self, batch: Batch, indices: Sequence[tuple[Any, int | None]]) -> None:
        self.indices = indices
        used = [i for i, (index, _) in enumerate(indices) if index is not None]
        self.rank = max([rank_of(*indices[i]) for i in used], default=0)
        self.is_adjacent = used == list(range(used[0], used[-1] + 1)) if used else True
        self.first = used[0] if used and self.is_adjacent else 0
        self.is_mapped = any(dim is not None for _, dim in indices)
        self.device = next((indices[i][0].device for i in used), None)
        self.numbers = _numbers(batch, self.rank, self.device) if used else None

    def of_batch(self) -> list[Any]:
        """Return the indices of (batch, ...), with the example numbers first."""
        return [self.numbers, *[self._aligned(index, dim) for index, dim in self.indices]]

    def of_shared(self) -> list[Any]:
        """Return the indices for a tensor that all examples share."""
        return [self._aligned(index, dim) for index, dim in self.indices]

    def _aligned(self, index: Tensor | None, dim: int | None) -> Tensor | None:
        if index is None or dim is None:
            return index
        moved = front(index, dim)
        sizes = moved._spec.sizes
        return moved.reshape((sizes[0], *(1,) * (self.rank + 1 - len(sizes)), *sizes[1:]))

    def placed(self, x: Tensor) -> Tensor:
        """Move the index dimensions of a result (batch, index dimensions, others) to their place."""
        if self.first == 0 or self.rank == 0:
            return x
        index = range(1, 1 + self.rank)
        before = range(1 + self.rank, 1 + self.rank + self.first)
        return x.permute((0, *before, *index, *range(1 + self.rank + self.first, x._spec.ndim)))

    def first_dims(self, x: Tensor) -> Tensor:
        """Invert `placed`: return (batch, index dimensions, others)."""
        if self.first == 0 or self.rank == 0:
            return x
        before = range(1, 1 + self.first)
        index = range(1 + self.first, 1 + self.first + self.rank)
        return x.permute((0, *index, *before, *range(1 + self.rank + self.first, x._spec.ndim)))


def index(batch: Batch, dims: Dims, self: Tensor, indices: Sequence[Tensor | None]) -> tuple[Any, Any]:
    """Run `index`: advanced indexing."""
    index_dims = dims[1] if dims[1].__class__ is tuple else (None,) * len(indices)
    advanced = _Advanced(batch, _opened(indices, index_dims))
    if dims[0] is None:
        out = self.index(advanced.of_shared())
        return out, advanced.first if advanced.is_adjacent else 0
    return advanced.placed(front(self, dims[0]).index(advanced.of_batch())), 0


def index_put(
    batch: Batch, dims: Dims, self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> tuple[Any, Any]:
    """Run `index_put`."""
    x = whole(self, dims[0], batch.size)
    return x.index_put(*_put(batch, dims, self, indices, values), accumulate), 0


def index_put_(
    batch: Batch, dims: Dims, self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> tuple[Any, Any]:
    """Run `index_put` in place."""
    if dims[0] is None:
        refuse_inplace(batch)
    front(self, dims[0]).index_put_(*_put(batch, dims, self, indices, values), accumulate)
    return None, None


def _put(batch: Batch, dims: Dims, self: Tensor, indices: Sequence[Any], values: Tensor) -> tuple[Any, Any]:
    """Return the indices of (batch, ...), and the values in the order of the indexed elements."""
    index_dims = dims[1] if dims[1].__class__ is tuple else (None,) * len(indices)
    advanced = _Advanced(batch, _opened(indices, index_dims))
    used = sum(i is not None for i, _ in advanced.indices)
    rank = advanced.rank + rank_of(self, dims[0]) - used
    if dims[2] is None and values._spec.ndim == 0:
        return advanced.of_batch(), values
    batched_values = whole(values, dims[2], batch.size)
    sizes = batched_values._spec.sizes
    batched_values = batched_values.reshape((sizes[0], *(1,) * (rank + 1 - len(sizes)), *sizes[1:]))
    return advanced.of_batch(), advanced.first_dims(batched_values)


def embedding(
    batch: Batch, dims: Dims, weight: Tensor, indices: Tensor, padding_idx: int, by_freq: bool, sparse: bool
) -> tuple[Any, Any]:
    """Run `embedding`: tables that differ by example are concatenated into a single one."""
    if dims[0] is None:
        return ops.embedding(weight, indices, padding_idx, by_freq, sparse), dims[1]
    table = front(weight, dims[0])
    size, count, width = table._spec.sizes
    where = _shifted_rows(batch, indices, dims[1], count)
    out = ops.embedding(table.reshape((size * count, width)), where, -1, by_freq, sparse)
    if padding_idx >= 0 and out._spec.requires_grad:
        is_padding = ops.eq(where, _numbers(batch, where._spec.ndim - 1, where.device) * count + padding_idx)
        out = ops.where(is_padding.unsqueeze(-1), out.detach(), out)
    return out, 0


def _shifted_rows(batch: Batch, indices: Tensor, dim: int | None, count: int) -> Tensor:
    """Return (batch, ...) as rows of concatenated tables of `count` rows."""
    where = whole(indices, dim, batch.size).to(int64)
    return where + _numbers(batch, where._spec.ndim - 1, where.device) * count


def embedding_backward(
    batch: Batch, dims: Dims, grad: Tensor, indices: Tensor, count: int, padding_idx: int, by_freq: bool
) -> tuple[Any, Any]:
    """Compute the gradients of the tables; padding rows get none."""
    rows = whole(grad, dims[0], batch.size)
    if padding_idx >= 0:
        is_padding = ops.eq(whole(indices, dims[1], batch.size), padding_idx)
        rows = rows.masked_fill(is_padding.unsqueeze(-1), 0)
    where = _shifted_rows(batch, indices, dims[1], count)
    out = ops.embedding_dense_backward(rows, where, batch.size * count, -1, by_freq)
    return out.reshape((batch.size, count, out._spec.sizes[1])), 0


RULES: dict[str, Rule] = {
    "cat": cat,
    "gather": gather,
    **dict.fromkeys(
        (
            "scatter.src",
            "scatter.value",
            "scatter.reduce",
            "scatter.value_reduce",
            "scatter_add",
            "scatter_reduce.two",
        ),
        scatter,
    ),
    **dict.fromkeys(
        (
            "scatter_.src",
            "scatter_.value",
            "scatter_.reduce",
            "scatter_.value_reduce",
            "scatter_add_",
            "scatter_reduce_.two",
        ),
        scatter_,
    ),
    "index_select": index_select,
    "index_add": index_add,
    "index_add_": index_add_,
    "index_reduce": index_reduce,
    "index_reduce_": index_reduce_,
    "index_copy": index_copy,
    "index_copy_": index_copy_,
    "take": take,
    "index.Tensor": index,
    "index_put": index_put,
    "index_put_": index_put_,
    "embedding": embedding,
    "embedding_dense_backward": embedding_backward,
}
