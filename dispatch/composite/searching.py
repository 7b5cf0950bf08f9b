"""Search, membership, unique elements and modes, composed of sorting and binary search.

Source: ATen/native/Bucketization.cpp, TensorCompare.cpp (isin), Unique.cpp, Sorting.cpp (mode). NaN equals nothing, so
that each NaN is unique. In PyTorch's `mode`, the answer depends on the order of NaN. Here `mode` treats all NaN as one
element above all numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import bool_, int64
from ..core.result_types import named_results
from ..generated import functions as ops
from ..iterator.type_promotion import result_type
from ..plans.host_kernel import host_kernel
from ..structured.meta.dims import wrap_dim
from ..structured.meta.reduction import check_nonempty
from .dimnames import by_name
from .forms import owned

if TYPE_CHECKING:
    from ..tensor import Tensor

Number = bool | int | float | complex


def searchsorted_scalar(
    sorted_sequence: Tensor,
    self: Number,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Tensor | None,
) -> Tensor:
    """Run `torch.searchsorted` of a number."""
    value = _as_value(self, sorted_sequence)
    return ops.searchsorted(
        sorted_sequence, value, out_int32=out_int32, right=right, side=side, sorter=sorter
    )


def _as_value(number: Number, sequence: Tensor) -> Tensor:
    """Return a number as a tensor of the dtype in which it is compared."""
    return ops.full((), number, dtype=result_type(sequence, number), device=sequence.device)


@host_kernel("bucketize", "searchsorted.Tensor")
def bucketize(self: Tensor, boundaries: Tensor, out_int32: bool, right: bool) -> Tensor:
    """Run `torch.bucketize`: `searchsorted` with swapped arguments."""
    rank = boundaries._spec.ndim
    if rank != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({rank})")
    return ops.searchsorted(boundaries, self, out_int32=out_int32, right=right)


def bucketize_scalar(self: Number, boundaries: Tensor, out_int32: bool, right: bool) -> Tensor:
    """Run `torch.bucketize` of a number."""
    index: Tensor = bucketize(_as_value(self, boundaries), boundaries, out_int32, right)
    return index


def _check_member(*tensors: Tensor) -> None:
    for each in tensors:
        dtype = each._spec.dtype
        if dtype is bool_ or dtype.is_complex:
            raise RuntimeError(f"Unsupported input type encountered for isin(): {dtype.scalar_name}")


@host_kernel("isin", "sort", "searchsorted.Tensor", "eq.Tensor")
def isin(elements: Tensor, test_elements: Tensor, assume_unique: bool, invert: bool) -> Tensor:
    """Run `torch.isin`: sort the test elements, and search each element in them."""
    _check_member(elements, test_elements)
    count = test_elements._spec.numel
    compare = ops.ne if invert else ops.eq
    if count == 0:
        return ops.full_like(elements, invert, dtype=bool_)
    flat = test_elements.reshape((-1,))
    if count == 1:
        return compare(elements, flat.reshape(()))
    ordered = ops.sort(flat)[0]
    position = ops.searchsorted(ordered, elements)
    nearest = ops.take(ordered, ops.clamp(position, max=count - 1))
    return compare(elements, nearest)


def isin_scalar(elements: Tensor, test_element: Number, assume_unique: bool, invert: bool) -> Tensor:
    """Run `torch.isin` with one test element."""
    _check_member(elements)
    _check_number(test_element)
    return (ops.ne if invert else ops.eq)(elements, test_element)


def isin_of_scalar(element: Number, test_elements: Tensor, assume_unique: bool, invert: bool) -> Tensor:
    """Run `torch.isin` of one number."""
    _check_member(test_elements)
    _check_number(element)
    is_member = ops.any(ops.eq(test_elements, element))
    return ops.logical_not(is_member) if invert else is_member


def _check_number(value: Number) -> None:
    if isinstance(value, bool | complex):
        name = "Bool" if isinstance(value, bool) else "ComplexDouble"
        raise RuntimeError(f"Unsupported input type encountered for isin(): {name}")


def _shifted(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return all elements along a dimension except the first, and all except the last."""
    n = x._spec.sizes[dim]
    return x.slice(dim, 1, n, 1), x.slice(dim, 0, n - 1, 1)


def _begins(different: Tensor, dim: int) -> Tensor:
    """Return where runs begin along a dimension: at position 0, and at elements that differ from the previous one."""
    sizes = list(different._spec.sizes)
    sizes[dim] = 1
    return ops.cat([ops.ones(sizes, dtype=bool_, device=different.device), different], dim)


def _runs(begins: Tensor, order: Tensor | None, inverse: bool, counts: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the runs of a line: where they begin, the run of each element before sorting, and their lengths."""
    n, device = begins._spec.numel, begins.device
    starts = ops.nonzero(begins).reshape((-1,))
    nothing = ops.empty((0,), dtype=int64, device=device)
    run, length = nothing, nothing
    if inverse:
        run = ops.cumsum(begins, 0) - 1
        if order is not None:
            run = ops.empty_like(run).index_copy_(0, order, run)
    if counts:
        ends = ops.cat([starts, ops.full((1,), n, dtype=int64, device=device)])
        later, earlier = _shifted(ends, 0)
        length = later - earlier
    return starts, run, length


def _check_unique(self: Tensor) -> None:
    spec = self._spec
    if spec.dtype.is_complex:
        raise NotImplementedError(f"\"unique\" not implemented for '{spec.dtype.scalar_name}'")


def _of_vector(self: Tensor, sort: bool, inverse: bool, counts: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return the unique elements of the flattened tensor; without sorting, one of each run of equal elements."""
    _check_unique(self)
    spec = self._spec
    flat = self.reshape((-1,))
    if not spec.numel:
        nothing = ops.empty((0,), dtype=int64, device=self.device)
        run = ops.empty(spec.sizes if inverse else (0,), dtype=int64, device=self.device)
        return ops.empty((0,), dtype=self.dtype, device=self.device), run, nothing
    order = None
    if sort:
        flat, order = ops.sort(flat, stable=True)
    starts, run, length = _runs(_begins(ops.ne(*_shifted(flat, 0)), 0), order, inverse, counts)
    return flat.index_select(0, starts), run.reshape(spec.sizes) if inverse else run, length


def _unique(self: Tensor, sorted: bool, return_inverse: bool) -> tuple[Tensor, Tensor]:
    """Return `torch._unique`; the result is always sorted."""
    values, inverse, _ = _of_vector(self, True, return_inverse, False)
    return values, inverse


def _unique2(
    self: Tensor, sorted: bool, return_inverse: bool, return_counts: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `torch._unique2`; the result is always sorted."""
    return _of_vector(self, True, return_inverse, return_counts)


def unique_consecutive(
    self: Tensor, return_inverse: bool, return_counts: bool, dim: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `torch.unique_consecutive`."""
    if dim is None:
        return _of_vector(self, False, return_inverse, return_counts)
    return unique_dim_consecutive(self, dim, return_inverse, return_counts)


def _entries(self: Tensor, dim: int) -> tuple[int, Any]:
    """Return the wrapped dimension, and its entries as rows; None without entries."""
    _check_unique(self)
    spec = self._spec
    d = wrap_dim(dim, spec.ndim, scalar_ok=False)
    empty = spec.sizes.count(0)
    if spec.sizes[d] == 0:
        if empty != 1:
            raise RuntimeError(
                "Number of zero sized dimensions is more than one, so unique cannot be applied "
            )
        return d, None
    if empty:
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    return d, ops.movedim(self, d, 0).reshape((spec.sizes[d], -1))


def _selected(
    self: Tensor, d: int, begins: Tensor, order: Tensor | None, inverse: bool, counts: bool
) -> tuple[Any, Any, Any]:
    starts, run, length = _runs(begins, order, inverse, counts)
    positions = starts if order is None else order.index_select(0, starts)
    # Entries are compared as rows, which are contiguous in memory.
    entries = ops.movedim(self, d, 0).index_select(0, positions)
    return owned(ops.movedim(entries, 0, d)), run, length


def _nothing_selected(self: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    empty = ops.empty((0,), dtype=int64, device=self.device)
    return ops.empty_like(self), empty, empty.clone()


def unique_dim(
    self: Tensor, dim: int, sorted: bool, return_inverse: bool, return_counts: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `torch.unique` along a dimension; entries are compared lexicographically."""
    d, rows = _entries(self, dim)
    if rows is None:
        return _nothing_selected(self)
    ordered, order = ops.sort(_ranks_of_rows(rows), stable=True)
    begins = _begins(ops.ne(*_shifted(ordered, 0)), 0)
    return _selected(self, d, begins, order, return_inverse, return_counts)


def _ranks_of_rows(rows: Tensor) -> Tensor:
    """Return the lexicographic rank of each row; equal rows have the same rank.

    Elements are replaced by their ranks in each column. Pairs of neighboring columns are merged until one is left. Each
    halving takes one sort of all columns, and replaces row comparisons, which do not vectorize.
    """
    count = rows._spec.sizes[0]
    ranks = _ranks_of_columns(rows)
    while ranks._spec.sizes[1] > 1:
        width = ranks._spec.sizes[1]
        pairs = ranks.slice(1, 0, width - 1, 2) * count + ranks.slice(1, 1, width, 2)
        halved = _ranks_of_columns(pairs)
        ranks = ops.cat([halved, ranks.slice(1, width - 1, width, 1)], 1) if width % 2 else halved
    return ranks.reshape((-1,))


def _ranks_of_columns(x: Tensor) -> Tensor:
    """Return for each element the number of distinct smaller elements in its column."""
    ordered, order = ops.sort(x, stable=True, dim=0)
    ranks = ops.cumsum(_begins(ops.ne(*_shifted(ordered, 0)), 0), 0) - 1
    return ops.empty_like(ranks).scatter_(0, order, ranks)


def unique_dim_consecutive(
    self: Tensor, dim: int, return_inverse: bool, return_counts: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `torch.unique_consecutive` along a dimension."""
    d, rows = _entries(self, dim)
    if rows is None:
        return _nothing_selected(self)
    begins = _begins(ops.any(ops.ne(*_shifted(rows, 0)), 1), 0)
    return _selected(self, d, begins, None, return_inverse, return_counts)


_mode_results: Callable[..., tuple[Tensor, Tensor]] = named_results("mode", ("values", "indices"))


@host_kernel("mode", "sort", "argmax", "gather")
def mode(self: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Return `torch.mode`: the most frequent element along a dimension (the smallest of several), and its last
    index.
    """
    spec = self._spec
    if spec.dtype.is_complex:
        raise NotImplementedError(
            f"\"mode_{spec.device.type}\" not implemented for '{spec.dtype.scalar_name}'"
        )
    d = wrap_dim(dim, spec.ndim)
    check_nonempty("mode", spec, (d,))
    if not spec.ndim:
        return _mode_results((self.clone(), ops.zeros((), dtype=int64, device=self.device)))
    values, order = ops.sort(self, stable=True, dim=d)
    later, earlier = _shifted(values, d)
    different = ops.ne(later, earlier)
    if spec.dtype.is_floating_point:
        different = ops.logical_and(different, ops.eq(earlier, earlier))
    position = ops.arange(spec.sizes[d], device=self.device)
    position = position.reshape((-1,) + (1,) * (spec.ndim - d - 1))
    start = ops.cummax(position * _begins(different, d), d)[0] if spec.numel else position
    # The last element of the first longest run.
    best = ops.argmax(position - start, d, keepdim=True) if spec.numel else order.slice(d, 0, 1, 1)
    modes, where = values.gather(d, best), order.gather(d, best)
    if not keepdim:
        # Tensors that own their memory, not views of hidden temporaries.
        modes, where = modes.squeeze(d).detach(), where.squeeze(d).detach()
    return _mode_results((modes, where))


mode_by_name = by_name("mode")
mode_by_name_out = by_name("mode.values")
