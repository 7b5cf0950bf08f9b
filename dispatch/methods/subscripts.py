"""``x[...]`` and ``x[...] = value``: basic indices become one view, others call `index` and `index_put_`.

Source: torch/csrc/autograd/python_variable_indexing.cpp. A list of numbers stands for a tensor, a bool for a 0-dim
mask. A list that holds tensors, sequences, slices, None or Ellipsis counts as a tuple.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.device import CPU
from ...runtime.dispatch_key import PYTHON_BIT, Functionality, functionality_bit
from ...runtime.errors import NegativeStep
from ...runtime.layout import strided
from ...runtime.local_dispatch_key_set import modes
from ...runtime.scalar_type import bool_, int64, uint8, uint64
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ...runtime.traceback_filter import hide_inner_frames
from ..core.call_arguments import all_ints
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.native_calls import from_composites
from ..core.operator_entry import MAX_PLANS
from ..core.tensor_function import handle, overloaded, plain_classes
from ..generated.functions.views import (
    _basic_index_packet,
    _select_first_packet,
    _select_first_plans,
    _slice_first_plans,
)
from ..iterator.overlap import shares_memory
from ..scalars import overflow_error, rounded

if TYPE_CHECKING:
    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object

_BATCHED = functionality_bit(Functionality.Batched)
"""Flag of a number that differs between the examples of a `vmap`: it indexes as a tensor, since it cannot be read."""

_SPARSE = functionality_bit(Functionality.Sparse) | functionality_bit(Functionality.SparseCsr)
"""Flags of sparse layouts, of which an index makes a copy."""

_LEAST, _MOST = -(2**63), 2**63 - 1
"""The range of index values."""

NEW_AXIS, INTEGER, RANGE = 0, 1, 2
"""Item types of `_basic_index`; `structured/meta/views.py` reads them."""

_basic_plans: dict[TensorSpec, dict[Any, Callable[..., Tensor]]] = {}
_count = [0]


def _forget() -> None:
    _basic_plans.clear()
    _count[0] = 0


Dispatcher.singleton().on_change.append(_forget)


class SubscriptMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Tensor:
        tensor: Tensor = self  # type: ignore[assignment]
        if not modes:
            cls = index.__class__
            if cls is int:
                try:
                    plan: Callable[..., Tensor] = _select_first_plans[self._spec][int]
                except KeyError:
                    plan = _select_first_packet.miss(self, 0 if abs(index) > _MOST else index)
                return plan(self, index)
            if cls is slice:
                step = index.step
                try:
                    plan = _slice_first_plans[self._spec][
                        index.start, index.stop, 1 if step is None else step
                    ]
                except (KeyError, TypeError):
                    try:
                        return _slice_first(tensor, index)
                    except NegativeStep:
                        return _backward_slices().read(tensor, (index,))  # type: ignore[no-any-return]
                    except BaseException:
                        hide_inner_frames()
                        raise
                return plan(self)
            if cls is tuple or index is None or index is Ellipsis:
                items = index if cls is tuple else (index,)
                try:
                    result = _basic(tensor, items)
                    if result is None and tensor.__class__ in plain_classes:
                        result = _by_numbers[0](tensor, items)
                except NegativeStep:
                    return _backward_slices().read(tensor, index)  # type: ignore[no-any-return]
                if result is not None:
                    return result
            if cls in plain_classes and isinstance(index, TensorImpl) and index._spec.ndim:
                try: return tensor.index((index,))  # type: ignore[arg-type]  # fmt: skip
                except BaseException:
                    hide_inner_frames()
                    raise
            if cls is list and tensor._spec.device is CPU and all_ints(index) and index:
                from ..tensor_data import from_numpy

                try: return tensor.index((from_numpy(np.array(index, np.int64)),))  # fmt: skip
                except BaseException:
                    hide_inner_frames()
                    raise
        try:
            askers = overloaded((tensor, index), {})
            if askers:
                return handle(_public("__getitem__"), askers, (tensor, index), {})  # type: ignore[no-any-return]
            picked, advanced = _apply(tensor, _as_tuple(index))
            if advanced is not None:
                return picked.index(advanced)
            return picked.alias() if picked is tensor else picked
        except NegativeStep:
            return _backward_slices().read(tensor, _as_tuple(index))  # type: ignore[no-any-return]
        except BaseException:
            hide_inner_frames()
            raise

    def __delitem__(self, index: Any) -> None:
        raise TypeError("Tensor does not support deleting items")

    def __setitem__(self, index: Any, value: Any) -> None:
        try:
            tensor: Any = self
            if tensor._spec.keys & _SPARSE:
                raise TypeError("Cannot assign to a sparse tensor")
            is_tensor = isinstance(value, TensorImpl)
            if value.__class__ not in plain_classes:
                askers = overloaded((tensor, index, value), {})
                if askers:
                    handle(_public("__setitem__"), askers, (tensor, index, value), {})
                    return
            if not is_tensor:
                value = _number(value, tensor)
                if modes:
                    value = _seen_whole(value, tensor)
                    is_tensor = isinstance(value, TensorImpl)
            basic = None
            cls = index.__class__
            if not modes and (cls is int or cls is slice or index is Ellipsis or index is None):
                if cls is slice and index.step is not None:
                    _bounds(index)
                basic = tensor[index]
            elif cls is tuple and not modes:
                basic = _basic(tensor, index)
            advanced: Sequence[Any] | None = None
            if basic is None and cls not in plain_classes:
                askers = overloaded((tensor, index), {})
                if askers:
                    handle(_public("__setitem__"), askers, (tensor, index, value), {})
                    return
            if isinstance(index, TensorImpl) and index._spec.ndim:
                basic, advanced = tensor, (index,)
            elif basic is None:
                if index is False:
                    return
                if index is True:
                    basic = tensor.unsqueeze(0)
                else:
                    basic, advanced = _apply(tensor, _as_tuple(index))
            if advanced is None:
                _write(basic, value, is_tensor)
            else:
                _write_at(basic, advanced, value, is_tensor)
        except NegativeStep:
            _backward_slices().write(tensor, _as_tuple(index), value)
        except BaseException:
            hide_inner_frames()
            raise


def _backward_slices() -> Any:
    from . import backward_slices

    return backward_slices


def _public(name: str) -> Any:
    from ..tensor import Tensor

    return getattr(Tensor, name)


def _number(value: object, tensor: TensorImpl) -> Any:
    """Return an assigned value as a Python number. Raises TypeError for neither number nor tensor."""
    if isinstance(value, np.generic) and value.dtype.kind not in "OSUmM":
        value = value.item()
    if isinstance(value, int | float | complex):
        dtype = tensor._spec.dtype
        if isinstance(value, complex) and not dtype.is_complex:
            if value.imag and dtype is not bool_:
                raise overflow_error(dtype)
            value = value != 0 if dtype is bool_ else value.real
        if isinstance(value, int) and not _LEAST <= value <= (2**64 - 1 if dtype is uint64 else _MOST):
            raise ValueError(f"Overflow when unpacking long long: {value} is assigned")
        if isinstance(value, float) and dtype.is_integral and not math.isfinite(value) and dtype is not bool_:
            raise overflow_error(dtype)
        narrow = dtype.itemsize == 2 and dtype.is_floating_point
        if narrow and not isinstance(value, complex) and not -65504 <= value <= 65504:
            return rounded(value, dtype)
        return value
    cls = type(value)
    name = cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"
    raise TypeError(f"can't assign a {name} to a triten.{tensor.dtype.scalar_name}Tensor")


def _seen_whole(value: Any, tensor: TensorImpl) -> Any:
    """Return a number as the tensor that PyTorch assigns, if the innermost mode sees PyTorch's dispatch."""
    from ..layers.python_key import sees_whole, without_modes

    if not sees_whole():
        return value
    from ..core.op_overload import find_overload
    from ..generated.functions import scalar_tensor

    with without_modes():
        made = scalar_tensor(value, dtype=tensor.dtype, device=tensor.device)
    return find_overload("aten::lift_fresh")(made)


def _writes_whole(value: Any) -> bool:
    """Return whether PyTorch's own operators must serve the write of a tensor."""
    from ..layers.python_key import sees_whole

    return isinstance(value, TensorImpl) and sees_whole()


def _stripped(value: Tensor, rank: int) -> Tensor:
    """Squeeze leading dimensions of size 1 that the target lacks."""
    while value._spec.ndim > rank and value._spec.sizes[0] == 1:
        value = value.squeeze(0)
    return value


def _write(target: Tensor, value: Any, is_tensor: bool) -> None:
    """Fill a view with a number or a tensor."""
    if not is_tensor:
        target.fill_(value)
        return
    sizes = target._spec.sizes
    if value._spec.sizes != sizes:
        if not value._spec.ndim and value._spec.device is CPU and (not modes or _writes_whole(value)):
            target.fill_(value)
            return
        from ..structured.meta.views import expand

        if modes and _writes_whole(value):
            first = next((d for d, n in enumerate(value._spec.sizes) if n != 1), value._spec.ndim)
            value = value.view(value._spec.sizes[first:]).expand(sizes)
        else:
            value = _stripped(value, len(sizes))
            expand(value._spec, sizes, False)
    target.copy_(value)


def _write_at(picked: Tensor, advanced: Sequence[Any], value: Any, is_tensor: bool) -> None:
    """Write a number or a tensor at index tensors; one element under a single mask is a fill."""
    index_tensors = [i for i in advanced if i is not None]
    is_filled = (
        len(index_tensors) == 1
        and index_tensors[0]._spec.dtype is bool_
        and index_tensors[0]._spec.device is picked._spec.device
        and (not is_tensor or value._spec.numel == 1)
    )
    if is_filled and not (modes and _writes_whole(value)):
        mask = index_tensors[0]
        sizes = mask._spec.sizes
        if sizes != picked._spec.sizes:
            from ..structured.meta.indexing import check_masks

            check_masks(picked._spec, [None] * (len(advanced) - 1) + [mask._spec])
            mask = mask.reshape(sizes + (1,) * (picked._spec.ndim - len(advanced) + 1 - len(sizes)))
        if is_tensor:
            value = (value.clone() if shares_memory(picked, value) else value).reshape(())
        picked.masked_fill_(mask, value)
        return
    if not is_tensor:
        from ..generated.functions import scalar_tensor

        value = scalar_tensor(value, dtype=picked.dtype, device=picked.device)
    elif value._spec.ndim:
        rank = max(i._spec.ndim for i in index_tensors) + picked._spec.ndim - len(index_tensors)
        value = _stripped(value, max(rank, 0))
    picked.index_put_(advanced, value)


def _load_by_numbers(tensor: Tensor, index: tuple[Any, ...]) -> Tensor | None:
    from .index_by_numbers import indexed_by_numbers

    _by_numbers[0] = indexed_by_numbers
    return indexed_by_numbers(tensor, index)


_by_numbers: list[Callable[[Tensor, tuple[Any, ...]], Tensor | None]] = [_load_by_numbers]
"""The fast path for integer subscripts, imported on first use."""


def _slice_first(tensor: Tensor, index: slice) -> Tensor:
    """Return ``tensor[start:stop:step]`` for a slice without a plan."""
    step = index.step
    try:
        return tensor._slice_first(index.start, index.stop, 1 if step is None else step)
    except TypeError:
        _bounds(index)
        raise
    except ValueError:
        bounds = _bounds(index)
        if bounds == (index.start, index.stop, 1 if step is None else step):
            raise
        return tensor._slice_first(*bounds)


def _basic(tensor: Tensor, index: tuple[Any, ...]) -> Tensor | None:
    """Return ``tensor[index]`` for numbers, slices, None and Ellipsis, as one planned view; None for others."""
    key: list[Any] = []
    numbers = 0
    for item in index:
        cls = item.__class__
        if cls is int:
            key.append(item)
            numbers += 1
        elif cls is slice:
            key.append((item.start, item.stop, item.step))
        elif item is None or item is Ellipsis:
            key.append(item)
        else:
            return None
    if numbers == len(index) > 0:
        try: return _element(tensor, index)  # fmt: skip
        except BaseException:
            hide_inner_frames()
            raise
    try:
        plan = _basic_plans[tensor._spec][tuple(key)]
    except (KeyError, TypeError):
        try:
            plan = _plan_basic(tensor, index, tuple(key))
        except BaseException:
            hide_inner_frames()
            raise
    return plan(tensor)


def _element(tensor: Tensor, index: tuple[int, ...]) -> Tensor:
    """Return ``tensor[i, j, ...]`` by successive selects, whose plans serve every index."""
    out = tensor
    for d, number in enumerate(index):
        size = tensor._spec.sizes[d] if d < tensor._spec.ndim else 0
        if not -size <= number < size:
            if len(index) > tensor._spec.ndim:
                raise _too_many(tensor._spec.ndim)
            raise _out_of_bounds(number, d, size)
        out = out._select_first(number)
    return out


def _too_many(rank: int) -> IndexError:
    return IndexError(f"too many indices for tensor of dimension {rank}")


def _out_of_bounds(number: int, d: int, size: int) -> IndexError | ValueError:
    if not _LEAST <= number <= _MOST:
        return ValueError(f"Overflow when unpacking long long: index {number} of dimension {d}")
    return IndexError(f"index {number} is out of bounds for dimension {d} with size {size}")


def _plan_basic(tensor: Tensor, index: tuple[Any, ...], key: tuple[Any, ...]) -> Plan:
    """Return the plan of a basic index; cache it unless a bound was read from an object that may change."""
    spec: TensorSpec = tensor._spec
    items = _encoded(spec, index)
    if spec.layout is not strided or (
        spec.keys & PYTHON_BIT and not getattr(type(tensor), "sees_parts", False)
    ):
        # One operator for each item: sparse layouts have kernels for those, and a user's handler knows them.
        return lambda tensor: _by_item(tensor, index)
    plan = _basic_index_packet.miss(tensor, items)
    bounds = [b for part in key if part.__class__ is tuple for b in part]
    if all(b is None or b.__class__ is int for b in bounds):
        if _count[0] >= MAX_PLANS:
            _forget()
        _count[0] += 1
        _basic_plans.setdefault(spec, {})[key] = plan
    return plan


def _by_item(tensor: Tensor, index: tuple[Any, ...]) -> Tensor:
    """Return ``tensor[index]`` of a basic index by a view operator for each item."""
    picked = _apply(tensor, index)[0]
    return picked.alias() if picked is tensor and tensor._spec.layout is strided else picked


def _encoded(spec: TensorSpec, index: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the index in `_basic_index` form: in bounds, not negative, four numbers for each item."""
    num_consumed = sum(item is not None and item is not Ellipsis for item in index)
    if num_consumed > spec.ndim:
        raise _too_many(spec.ndim)
    out: list[int] = []
    d = 0
    skipped = False
    for item in index:
        if item is None:
            out += (NEW_AXIS, 0, 0, 0)
            continue
        if item is Ellipsis:
            for _ in range(0 if skipped else spec.ndim - num_consumed):
                out += (RANGE, 0, spec.sizes[d], 1)
                d += 1
            skipped = True
            continue
        size = spec.sizes[d]
        if item.__class__ is int:
            if not -size <= item < size:
                raise _out_of_bounds(item, d, size)
            out += (INTEGER, item % size, 0, 0)
        else:
            start, stop, step = _bounds(item)
            first = 0 if start is None else start
            last = size if stop is None else stop
            first = min(max(first + size if first < 0 else first, 0), size)
            last = min(max(last + size if last < 0 else last, first), size)
            out += (RANGE, first, last, step)
        d += 1
    return tuple(out)


def _bounds(item: slice) -> tuple[int | None, int | None, int]:
    """Return a slice's bounds and step as ints. Raises ValueError for a step below 1, TypeError for a non-int."""
    bounds: list[int | None] = []
    for value in (item.start, item.stop, item.step):
        if value is not None and not hasattr(value, "__index__"):
            raise TypeError("slice indices must be integers or None or have an __index__ method")
        bounds.append(None if value is None else value.__index__())
    start, stop, step = (None if bound is None else min(max(bound, _LEAST), _MOST) for bound in bounds)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step is not None and step <= 0:
        raise NegativeStep("step must be greater than zero")
    return start, stop, 1 if step is None else step


def _as_tuple(index: object) -> tuple[Any, ...]:
    """Return the items of an index; a short list with anything but numbers counts as a tuple."""
    if isinstance(index, tuple):
        return tuple(index)
    if isinstance(index, list) and len(index) < 32:
        for item in index:
            if (
                item is None
                or item is Ellipsis
                or isinstance(item, TensorImpl | Sequence | slice | np.ndarray)
            ):
                return tuple(index)
    return (index,)


def _apply(tensor: Tensor, index: tuple[Any, ...]) -> tuple[Tensor, list[Any] | None]:
    """Return the view of the basic items, and the index tensors of its dimensions, or None if there are none."""
    items = [_tensor_of(item, tensor) if _is_list(item) else item for item in index]
    rank = tensor._spec.ndim
    num_consumed = sum(_consumed(item) for item in items)
    if num_consumed > rank:
        raise _too_many(rank)
    out = tensor
    dim = original = 0
    advanced: list[Any] = []
    skipped = False
    for item in items:
        if item is None:
            out = out.unsqueeze(dim)
            advanced.append(None)
            dim += 1
        elif item is Ellipsis:
            skip = 0 if skipped else rank - num_consumed
            skipped = True
            advanced += [None] * skip
            dim += skip
            original += skip
        elif isinstance(item, slice):
            start, stop, step = _bounds(item)
            if start is not None or stop is not None or step != 1:
                out = out.slice(dim, start, stop, step)
            advanced.append(None)
            dim += 1
            original += 1
        elif isinstance(item, bool | np.bool_) or _is_truth(item):
            out = out.unsqueeze(dim)
            advanced.append(_index_of_truth(bool(item), tensor))
            dim += 1
        elif isinstance(item, TensorImpl) and (item._spec.ndim or item._spec.keys & _BATCHED):
            consumed = _consumed(item)
            advanced.append(item)
            dim += consumed
            original += consumed
        else:
            number = _integer(item)
            size = out._spec.sizes[dim]
            if not -size <= number < size:
                raise _out_of_bounds(number, original, size)
            out = out.select(dim, number)
            original += 1
    while advanced and advanced[-1] is None:
        advanced.pop()
    return out, advanced or None


def _is_list(item: object) -> bool:
    return isinstance(item, list | tuple | range | np.ndarray)


def _is_truth(item: object) -> bool:
    """Return whether an item is a 0-dim mask."""
    return isinstance(item, TensorImpl) and item._spec.ndim == 0 and item._spec.dtype in (bool_, uint8)


def _consumed(item: Any) -> int:
    """Return the number of dimensions that an item consumes."""
    if item is None or item is Ellipsis or isinstance(item, bool | np.bool_):
        return 0
    if isinstance(item, TensorImpl) and item._spec.dtype in (bool_, uint8):
        return item._spec.ndim
    return 1


def _integer(item: Any) -> int:
    if isinstance(item, TensorImpl) and not item._spec.dtype.is_integral:
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if not hasattr(item, "__index__"):
        if isinstance(item, str):
            raise TypeError("new(): invalid data type 'str'")
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
            "indices "
            f"(got {type(item).__name__})"
        )
    return int(item.__index__())


def _index_of_truth(is_true: bool, tensor: TensorImpl) -> Tensor:
    """Return the index of a new dimension of size 1 for True, of size 0 for False."""
    if not (modes and _writes_whole(tensor)):
        return _tensor_of([0] if is_true else [], tensor)
    from ..generated.functions import empty

    made = empty((int(is_true),), dtype=int64, device=tensor.device)
    with from_composites():
        return made.fill_(0.0) if is_true else made


def _tensor_of(values: Any, tensor: TensorImpl) -> Tensor:
    """Return a sequence as an index on the tensor's device: bools as a mask, anything else as int64."""
    from ..tensor_data import tensor as make

    try:
        made = make(values if isinstance(values, np.ndarray) else list(values), device=tensor.device)
    except (TypeError, ValueError) as failure:
        if str(failure).startswith("Overflow"):
            raise ValueError(f"{failure}: index {values!r}") from None
        raise IndexError(f"{values!r} is no index: {failure}") from None
    return made if made.dtype in (bool_, uint8, int64) else made.to(int64)
