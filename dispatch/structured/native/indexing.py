"""Meta functions and planners of indexing: cat, gather, scatter, take, fills (ATen/native/Indexing.cpp).

Index tensors are checked by shape and dtype here; that their values are in bounds is a kernel's check. Where
the result's shape depends on values (`nonzero`, masks), a planner looks at the data before it allocates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.memory_format import contiguous_strides, dense_strides_like, preserve_format, strides_for
from ....runtime.scalar_type import bool_, dtype_of_number, int32, int64, uint8
from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ...iterator.overlap import shares_memory
from ...iterator.type_promotion import promote_types
from ...tensor import Tensor
from ..allocation import allocator_of
from ..functional_plans import data_of
from ..meta_base import MetaBase
from ..structured_kernel import StructuredKernel
from ..stub import StructuredCall, find_kernel, stub_names
from .dims import wrap_dim
from .linalg import check_same_device


def can_cast(source: Any, target: Any) -> bool:
    """Whether ATen stores results of `source` in `target`: complex in complex only, no floats in integers."""
    if source.is_complex and not target.is_complex:
        return False
    if source.is_floating_point and (target.is_integral or target is bool_):
        return False
    return source is bool_ or target is not bool_


def broadcast_sizes(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The common shape of two. Raises RuntimeError with PyTorch's message where there is none."""
    rank = max(len(a), len(b))
    left = (1,) * (rank - len(a)) + tuple(a)
    right = (1,) * (rank - len(b)) + tuple(b)
    for d, (m, n) in enumerate(zip(left, right, strict=True)):
        if m != n and 1 not in (m, n):
            raise RuntimeError(
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton "
                f"dimension {d}"
            )
    return tuple(n if m == 1 else m for m, n in zip(left, right, strict=True))


def preserved(spec: TensorSpec) -> tuple[int, ...]:
    """Strides of a result that keeps the input's layout."""
    return strides_for(preserve_format, spec.sizes, (spec.sizes, spec.strides))


def cat(meta: MetaBase, tensors: Sequence[TensorSpec], dim: int) -> None:
    """Tensors one after another along `dim`; 1-D empty ones are skipped, dtypes are promoted."""
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for position, spec in enumerate(tensors):
        if spec.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {position}) cannot be concatenated")
    kept = [i for i, spec in enumerate(tensors) if spec.sizes != (0,)]
    first = tensors[kept[0]] if kept else tensors[0]
    d = wrap_dim(dim, first.ndim)
    total = 0
    common = tensors[0].dtype
    for spec in tensors:
        if spec.dtype is not common:
            common = promote_types(common, spec.dtype)
        if spec is not first:
            check_same_device("cat", first, spec)
    for position in kept:
        spec = tensors[position]
        if spec is first:
            total += first.sizes[d]
            continue
        if spec.ndim != first.ndim:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {spec.ndim}"
            )
        for axis, (have, wanted) in enumerate(zip(spec.sizes, first.sizes, strict=True)):
            if axis != d and have != wanted:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {d}. Expected size {wanted} but got "
                    f"size {have} "
                    f"for tensor number {position} in the list."
                )
        total += spec.sizes[d]
    given = meta.maybe_get_output()
    if given is not None:
        if not can_cast(common, given.dtype):
            raise TypeError(
                f"torch.cat(): input types can't be cast to the desired output type {given.dtype.scalar_name}"
            )
        common = given.dtype
    sizes = (*first.sizes[:d], total, *first.sizes[d + 1 :])
    formats = {tensors[i].suggest_memory_format() for i in kept}
    strides = strides_for(formats.pop(), sizes) if len(formats) == 1 else contiguous_strides(sizes)
    meta.extra["kept"] = tuple(kept)
    meta.extra["dim"] = d
    meta.extra["apart_from"] = ("tensors",)
    meta.set_output_raw_strided(0, sizes, strides, dtype=common, device=first.device)
    if len(kept) == len(tensors) and all(s.is_contiguous and s.dtype is common for s in tensors):
        meta.rule = _joined(first.ndim, d, common, first.device)


def _joined(rank: int, d: int, dtype: Any, device: Any) -> Callable[[Sequence[Any]], TensorSpec | None]:
    """The result of joining contiguous tensors of one dtype and rank along a dimension, from the call's arguments."""

    def rule(args: Sequence[Any]) -> TensorSpec | None:
        tensors = args[0]
        sizes = tensors[0].sizes
        if len(sizes) != rank:
            return None
        total, head, tail = 0, sizes[:d], sizes[d + 1 :]
        for spec in tensors:
            each = spec.sizes
            if len(each) != rank or each[:d] != head or each[d + 1 :] != tail:
                return None
            total += each[d]
        if rank == 1 and 0 in [spec.numel for spec in tensors]:
            return None
        return TensorSpec.contiguous((*head, total, *tail), dtype, device)

    return rule


def is_mask(spec: TensorSpec | None) -> bool:
    """Whether an index tensor picks by truth rather than by number."""
    return spec is not None and spec.dtype in (bool_, uint8)


def indexed_sizes(
    self: TensorSpec, indices: Sequence[TensorSpec | None]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes of ``self[indices]`` for integer indices, and the strides of `self` along them, 0 if picked.

    Result dimensions stand where the indices do if those are adjacent, else in front. Raises IndexError.
    """
    if len(indices) > self.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim} (got {len(indices)})")
    picked = [i for i, spec in enumerate(indices) if spec is not None]
    shape: tuple[int, ...] = ()
    for position in picked:
        spec = indices[position]
        assert spec is not None
        if spec.dtype not in (int64, int32):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if spec.device is not self.device:
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({self.device})"
            )
        try:
            shape = broadcast_sizes(shape, spec.sizes)
        except RuntimeError:
            shapes = ", ".join(str(list(s.sizes)) for s in indices if s is not None)
            raise IndexError(
                f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
            ) from None
    if 0 not in shape and any(self.sizes[p] == 0 for p in picked):
        raise IndexError("index is out of bounds for dimension with size 0")
    adjacent = not picked or picked == list(range(picked[0], picked[-1] + 1))
    front = picked[0] if picked and adjacent else 0
    rest = [d for d in range(self.ndim) if d not in picked]
    before, after = [d for d in rest if d < front], [d for d in rest if d >= front]
    sizes = (*[self.sizes[d] for d in before], *shape, *[self.sizes[d] for d in after])
    strides = (*[self.strides[d] for d in before], *[0 for _ in shape], *[self.strides[d] for d in after])
    return sizes, strides


def index_meta(meta: MetaBase, self: TensorSpec, indices: Sequence[TensorSpec | None]) -> None:
    """``self[indices]`` with integer indices."""
    sizes, strides = indexed_sizes(self, indices)
    meta.set_output_raw_strided(
        0, sizes, dense_strides_like(sizes, strides), dtype=self.dtype, device=self.device
    )


def index_put_meta(
    meta: MetaBase,
    self: TensorSpec,
    indices: Sequence[TensorSpec | None],
    values: TensorSpec,
    accumulate: bool,
) -> None:
    """`self` with `values` at integer indices."""
    if values.dtype is not self.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {self.dtype.scalar_name} for "
            "the "
            f"destination and {values.dtype.scalar_name} for the source."
        )
    sizes, _ = indexed_sizes(self, indices)
    lead = len(sizes) - values.ndim
    if lead < 0 or any(n not in (1, sizes[lead + i]) for i, n in enumerate(values.sizes)):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.sizes)} cannot be broadcast to indexing "
            "result of "
            f"shape {list(sizes)}"
        )
    meta.extra["sizes"] = sizes
    meta.extra["apart_from"] = ("indices", "values")
    meta.set_output_raw_strided(0, self.sizes, preserved(self), dtype=self.dtype, device=self.device)


_INDEX = StructuredKernel(index_meta, "index_stub", "functional")
_INDEX_PUT = StructuredKernel(index_put_meta, "index_put_stub", "functional")
_INDEX_PUT_ = StructuredKernel(index_put_meta, "index_put_stub", "inplace")


def check_masks(self: TensorSpec, indices: Sequence[TensorSpec | None]) -> None:
    """Refuse a mask whose shape is not that of the dimensions which it covers."""
    d = 0
    for spec in indices:
        if spec is None or not is_mask(spec):
            d += 1
            continue
        if spec.dtype is uint8:
            warnings.warn(
                "indexing with dtype triten.uint8 is now deprecated, please use a dtype triten.bool instead.",
                UserWarning,
                stacklevel=2,
            )
        for position, size in enumerate(spec.sizes):
            if d + position >= self.ndim:
                raise IndexError(f"too many indices for tensor of dimension {self.ndim}")
            if size != self.sizes[d + position]:
                raise IndexError(
                    f"The shape of the mask {list(spec.sizes)} at index {position} does not match the "
                    "shape of the "
                    f"indexed tensor {list(self.sizes)} at index {d + position}"
                )
        d += spec.ndim


def _spec_or_none(value: Any) -> TensorSpec | None:
    return None if value is None else value._spec


def _numbered(indices: Sequence[Any], device: Any) -> list[Any]:
    """Masks as the places where they hold, a tensor for each dimension; host indices on `device`."""
    from ...generated.functions import nonzero

    out: list[Any] = []
    for value in indices:
        if value is None:
            out.append(None)
            continue
        if value._spec.device is not device:
            value = value.to(device)
        out += nonzero(value).unbind(1) if is_mask(value._spec) else [value]
    return out


def _is_direct(self: TensorSpec, indices: Sequence[TensorSpec | None]) -> bool:
    """Whether all indices are numbers on the tensor's own device."""
    return not any(spec is not None and (is_mask(spec) or spec.device is not self.device) for spec in indices)


def _check_indirect(self: TensorSpec, indices: Sequence[TensorSpec | None]) -> None:
    for spec in indices:
        if spec is not None and spec.device is not self.device and spec.device.type != "cpu":
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor ({self.device})"
            )
    check_masks(self, indices)


def index(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """The planner of ``index.Tensor(self, indices)``."""
    self: TensorSpec = args[0]._spec.detached
    indices = [_spec_or_none(i) for i in args[1]]
    if _is_direct(self, indices):
        return _INDEX(op, key_set, args)
    _check_indirect(self, indices)
    device = self.device
    if self.is_meta and any(spec is not None and is_mask(spec) for spec in indices):
        raise NotImplementedError(
            "index: the shape of a result picked by a mask depends on data; Meta has none"
        )
    same_device = all(spec is None or spec.device is device for spec in indices)
    if same_device and "index_masked_stub" in stub_names(device.type):
        given = {"self": self, "indices": tuple(indices)}
        call = StructuredCall("index", given, ("self", "indices"), (), None, device, {})
        pick = find_kernel("index_masked_stub", device.type, "index")(call).fresh
        assert pick is not None

        def masked(self: Any, indices: Any) -> Any:
            data = pick(self._data, data_of(indices))
            return Tensor.from_data(data, TensorSpec.contiguous(data.shape, self._spec.dtype, device))

        return masked
    return lambda self, indices: op.call_with_keys(key_set, (self, tuple(_numbered(indices, device))))


def index_put(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """The planner of ``index_put(self, indices, values, accumulate)`` and of its in-place form."""
    self: TensorSpec = args[0]._spec.detached
    indices = [_spec_or_none(i) for i in args[1]]
    values: TensorSpec = args[2]._spec
    move = values.device is not self.device and values.ndim == 0
    if _is_direct(self, indices) and not move:
        check_same_device("index_put_", self, values)
        return (_INDEX_PUT_ if op.schema.is_mutable else _INDEX_PUT)(op, key_set, args)
    _check_indirect(self, indices)
    device = self.device
    accumulate = args[3]
    if self.is_meta and any(spec is not None and is_mask(spec) for spec in indices):
        # How many values a mask takes depends on data, the result's shape does not.
        if op.schema.is_mutable:
            return lambda self, indices, values: self
        result = TensorSpec.of(self.sizes, preserved(self), self.dtype, device)
        allocate = allocator_of(result)
        return lambda self, indices, values: Tensor.from_data(allocate(), result)

    # One value where masks hold is a fill: it may be an element of what is filled.
    fills = not accumulate and values.numel == 1 and all(spec is None or is_mask(spec) for spec in indices)

    def plan(self: Any, indices: Any, values: Any) -> Any:
        if move:
            values = values.to(device)
        elif fills and shares_memory(self, values):
            values = values.clone()
        return op.call_with_keys(key_set, (self, tuple(_numbered(indices, device)), values, accumulate))

    return plan


def nonzero(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """The planner of ``nonzero(self)``: the places of elements that are not zero, a row for each."""
    spec: TensorSpec = args[0]._spec.detached
    if spec.is_meta:
        raise NotImplementedError("nonzero: the result's shape depends on data; Meta has none")
    device, rank = spec.device, spec.ndim
    call = StructuredCall("nonzero", {"self": spec}, ("self",), (), None, device, {})
    find = find_kernel("nonzero_stub", device.type, "nonzero")(call).fresh
    assert find is not None

    def plan(self: Any) -> Any:
        data, count = find(self._data)
        return Tensor.from_data(data, TensorSpec.of((count, rank), (1, max(count, 1)), int64, device))

    return plan


def nonzero_static(meta: MetaBase, self: TensorSpec, size: int, fill_value: int) -> None:
    """The first `size` places of elements that are not zero, a row for each, and `fill_value` after the last."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    given = meta.maybe_get_output()
    if given is not None and given.dtype is not int64:
        raise RuntimeError(
            "nonzero_static: Expected out tensor to have scalar type Long but got scalar type"
            f"{given.dtype.scalar_name}"
        )
    sizes = (size, self.ndim)
    meta.set_output_raw_strided(0, sizes, contiguous_strides(sizes), dtype=int64, device=self.device)


def _check_index_vector(name: str, self: TensorSpec, index: TensorSpec) -> None:
    if index.dtype not in (int64, int32):
        raise RuntimeError(
            f"{name}(): Expected dtype int32 or int64 for index but got: {index.dtype.scalar_name}"
        )
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    check_same_device(name, self, index)


def index_select(meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec) -> None:
    """The entries of `dim` that a vector of numbers names."""
    _check_index_vector("index_select", self, index)
    d = wrap_dim(dim, self.ndim)
    meta.extra["dim"] = d
    meta.extra["apart_from"] = ("self", "index")
    if self.ndim == 0:
        if index.numel != 1:
            raise RuntimeError(
                f"index_select(): Index to scalar can have only 1 value, got {index.numel} value(s)"
            )
        meta.set_output_raw_strided(0, (), dtype=self.dtype)
        return
    sizes = (*self.sizes[:d], index.numel, *self.sizes[d + 1 :])
    meta.set_output_raw_strided(0, sizes, contiguous_strides(sizes), dtype=self.dtype)


def _slices(name: str, self: TensorSpec, dim: int, index: TensorSpec, source: TensorSpec) -> int:
    """The checks that `index_add` and `index_reduce` share; the wrapped dimension."""
    d = wrap_dim(dim, self.ndim)
    _check_index_vector(name, self, index)
    if self.dtype is not source.dtype:
        raise RuntimeError(
            f"{name}(): self ({self.dtype.scalar_name}) and source ({source.dtype.scalar_name}) must have "
            "the same "
            "scalar type"
        )
    check_same_device(name, self, source)
    if d and d >= source.ndim:
        raise RuntimeError(
            f"{name}(): Indexing dim {d} is out of bounds of the source tensor with dim {source.ndim}"
        )
    if index.numel != (source.sizes[d] if source.ndim else 1):
        if not source.ndim:
            raise IndexError(f"{name}(): a source of no dimensions takes one index, got {index.numel}")
        raise RuntimeError(
            f"{name}(): Number of indices ({index.numel}) should be equal to source.size(dim): ({source.sizes[d]}), "
            f"for dim: {d}"
        )
    mine, theirs = self.sizes, source.sizes
    if self.ndim and source.ndim:
        mine, theirs = mine[:d] + mine[d + 1 :], theirs[:d] + theirs[d + 1 :]
    if mine != theirs:
        raise RuntimeError(
            f"{name}(): source tensor shape must match self tensor shape, excluding the specified "
            "dimension. Got "
            f"self.shape = {list(self.sizes)} source.shape = {list(source.sizes)}"
        )
    return d


def index_add(
    meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, source: TensorSpec, alpha: Any
) -> None:
    """`self` with slices of `source`, times `alpha`, added where a vector of numbers says."""
    meta.extra["dim"] = _slices("index_add_", self, dim, index, source)
    meta.extra["apart_from"] = ("index", "source")
    meta.set_output_raw_strided(0, self.sizes, contiguous_strides(self.sizes), dtype=self.dtype)


REDUCED = ("prod", "mean", "amax", "amin")


def index_reduce(
    meta: MetaBase,
    self: TensorSpec,
    dim: int,
    index: TensorSpec,
    source: TensorSpec,
    reduce: str,
    include_self: bool,
) -> None:
    """`self` with slices of `source` combined where a vector of numbers says."""
    if reduce not in REDUCED:
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    meta.extra["dim"] = _slices("index_reduce_", self, dim, index, source)
    if self.dtype is bool_ or self.dtype.is_complex:
        kernel = "index_func_" if include_self else "index_reduce_func_exclude_input_init"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{self.dtype.scalar_name}'")
    meta.extra["apart_from"] = ("index", "source")
    meta.set_output_raw_strided(0, self.sizes, contiguous_strides(self.sizes), dtype=self.dtype)


def index_copy(meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, source: TensorSpec) -> None:
    """`self` with slices of `source` where a vector of numbers says."""
    d = meta.extra["dim"] = wrap_dim(dim, self.ndim)
    _check_index_vector("index_copy_", self, index)
    if not source.ndim and index.numel != 1:
        raise IndexError(
            f"index_copy_(): When source is scalar, index should have one element (got {index.numel})"
        )
    if self.ndim and source.ndim and self.ndim != source.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({self.ndim})"
        )
    if self.dtype is not source.dtype:
        raise RuntimeError(
            f"index_copy_(): self and source expected to have the same dtype, but got (self) {self.dtype.scalar_name} "
            f"and (source) {source.dtype.scalar_name}"
        )
    check_same_device("index_copy_", self, source)
    mine, theirs = (sizes[:d] + sizes[d + 1 :] for sizes in (self.sizes, source.sizes))
    if mine != theirs:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{list(mine)} at dimension {d} and source slice shape: {list(theirs)} at dimension 0."
        )
    if source.ndim and index.numel != source.sizes[d]:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.numel}) should be equal to source.size(dim) ({source.sizes[d]})"
        )
    meta.extra["apart_from"] = ("index", "source")
    meta.set_output_raw_strided(0, self.sizes, contiguous_strides(self.sizes), dtype=self.dtype)


def _elementwise(name: str, self: TensorSpec, dim: int, index: TensorSpec, src: TensorSpec | None) -> int:
    """The checks of gather and scatter; the wrapped dimension. A number counts as a vector of one."""
    d = wrap_dim(dim, self.ndim)
    if index.numel and index.dtype not in (int64, int32):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    check_same_device(name, self, index)
    if src is not None and src.dtype is not self.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
    if index.numel == 0:
        return d
    mine, theirs = self.sizes or (1,), index.sizes or (1,)
    if len(mine) != len(theirs):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    fits = all(n <= m for axis, (n, m) in enumerate(zip(theirs, mine, strict=True)) if axis != d)
    if src is None:
        if not fits:
            wrong = next(i for i, (n, m) in enumerate(zip(theirs, mine, strict=True)) if i != d and n > m)
            raise RuntimeError(
                f"Size does not match at dimension {wrong} expected index {list(index.sizes)} to be no "
                "larger than "
                f"self {list(self.sizes)} apart from dimension {d}"
            )
        return d
    given = src.sizes or (1,)
    if len(given) != len(theirs):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if not fits or any(n > m for n, m in zip(theirs, given, strict=True)):
        raise RuntimeError(
            f"Expected index {list(index.sizes)} to be no larger than self {list(self.sizes)} apart from "
            f"dimension {d} "
            f"and to be no larger size than src {list(src.sizes)}"
        )
    return d


def gather(meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, sparse_grad: bool) -> None:
    """For each element of `index` the element of `self` at that place of `dim`."""
    meta.extra["dim"] = _elementwise("gather", self, dim, index, None)
    meta.extra["apart_from"] = ("self", "index")
    meta.set_output_raw_strided(0, index.sizes, contiguous_strides(index.sizes), dtype=self.dtype)


_REDUCTIONS = {None: None, "add": "add", "multiply": "multiply"}


def _scatter(
    name: str,
    meta: MetaBase,
    self: TensorSpec,
    dim: int,
    index: TensorSpec,
    src: TensorSpec | None,
    reduce: str | None,
) -> None:
    if reduce not in _REDUCTIONS:
        raise RuntimeError("reduce argument must be either add or multiply.")
    meta.extra["dim"] = _elementwise(name, self, dim, index, src)
    meta.extra["apart_from"] = ("index", "src")
    meta.extra["reduce"] = reduce
    meta.set_output_raw_strided(0, self.sizes, contiguous_strides(self.sizes), dtype=self.dtype)


def scatter(
    meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, src: TensorSpec, reduce: str | None = None
) -> None:
    """`self` with elements of `src` put at the places of `dim` that `index` names."""
    _scatter("scatter", meta, self, dim, index, src, reduce)


def scatter_value(
    meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, value: Any, reduce: str | None = None
) -> None:
    """`self` with a number put at the places of `dim` that `index` names."""
    _scatter("scatter", meta, self, dim, index, None, reduce)


def scatter_add(meta: MetaBase, self: TensorSpec, dim: int, index: TensorSpec, src: TensorSpec) -> None:
    """`self` with elements of `src` added at the places of `dim` that `index` names."""
    _scatter("scatter", meta, self, dim, index, src, "add")


COMBINED = ("sum", "prod", "mean", "amax", "amin")


def scatter_reduce(
    meta: MetaBase,
    self: TensorSpec,
    dim: int,
    index: TensorSpec,
    src: TensorSpec,
    reduce: str,
    include_self: bool,
) -> None:
    """`self` with elements of `src` combined at the places of `dim` that `index` names."""
    if reduce not in COMBINED:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    _scatter("scatter", meta, self, dim, index, src, None)
    ordered = self.dtype.is_complex and reduce in ("amax", "amin")
    if ordered or (self.dtype is bool_ and reduce == "mean"):
        kernel = f"scatter_gather_tensor_{self.device.type}_reduce_{reduce}"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{self.dtype.scalar_name}'")
    meta.extra["reduce"] = reduce


def masked_fill(meta: MetaBase, self: TensorSpec, mask: TensorSpec, value: Any) -> None:
    """`self` with a number where the mask holds; both are broadcast."""
    if mask.dtype is not bool_:
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}"
        )
    if isinstance(value, TensorSpec):
        if value.ndim:
            raise RuntimeError(
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        number = value.dtype
    else:
        number = dtype_of_number(value if isinstance(value, type) else value.__class__)
    if number.is_complex and not self.dtype.is_complex:
        raise RuntimeError(f"value cannot be converted to type {self.dtype.name} without overflow")
    check_same_device("masked_fill_", self, mask)
    sizes = broadcast_sizes(self.sizes, mask.sizes)
    meta.set_output_raw_strided(0, sizes, contiguous_strides(sizes), dtype=self.dtype, device=self.device)


def take(meta: MetaBase, self: TensorSpec, index: TensorSpec) -> None:
    """Elements of the flattened tensor."""
    if index.dtype is not int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype.scalar_name}")
    if self.numel == 0 and index.numel:
        raise IndexError("take(): tried to take from an empty tensor")
    check_same_device("take", self, index)
    meta.extra["apart_from"] = ("self", "index")
    meta.set_output_raw_strided(0, index.sizes, contiguous_strides(index.sizes), dtype=self.dtype)


def embedding(
    meta: MetaBase,
    weight: TensorSpec,
    indices: TensorSpec,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> None:
    """Rows of a table, by number."""
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype not in (int64, int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
            "Int; but got "
            f"{indices.dtype.scalar_name} instead (while checking arguments for embedding)"
        )
    check_same_device("embedding", weight, indices)
    sizes = (*indices.sizes, weight.sizes[1])
    meta.set_output_raw_strided(0, sizes, contiguous_strides(sizes), dtype=weight.dtype)


def embedding_renorm(
    meta: MetaBase, self: TensorSpec, indices: TensorSpec, max_norm: Any, norm_type: Any
) -> None:
    """The named rows scaled down to a norm, in place."""
    if self.ndim != 2:
        raise RuntimeError(
            f"Expected 2-dimensional tensor, but got {self.ndim}-dimensional tensor for argument #1 'self'"
        )
    if indices.dtype not in (int64, int32):
        raise RuntimeError("embedding_renorm_: expected tensor for argument #2 'indices' to be Long or Int")
    meta.set_output_raw_strided(0, self.sizes, self.strides, dtype=self.dtype)


def embedding_dense_backward(
    meta: MetaBase,
    grad_output: TensorSpec,
    indices: TensorSpec,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> None:
    """The gradient of the table: rows of `grad_output` added by number, in a fixed order."""
    sizes = (num_weights, grad_output.sizes[-1])
    meta.set_output_raw_strided(0, sizes, contiguous_strides(sizes), dtype=grad_output.dtype)


def flip(meta: MetaBase, self: TensorSpec, dims: Sequence[int]) -> None:
    """Dimensions the other way round."""
    wrapped = [wrap_dim(d, self.ndim) for d in dims]
    for d in wrapped:
        if wrapped.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    meta.extra["dims"] = tuple(wrapped) if self.ndim else ()
    meta.set_output_raw_strided(0, self.sizes, preserved(self), dtype=self.dtype)


def triangle(meta: MetaBase, self: TensorSpec, diagonal: int) -> None:
    """A triangle of each matrix, zero elsewhere."""
    if self.ndim < 2:
        raise RuntimeError(f"{meta.name}: input tensor must have at least 2 dimensions")
    meta.set_output_raw_strided(0, self.sizes, contiguous_strides(self.sizes), dtype=self.dtype)
