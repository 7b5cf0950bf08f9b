"""``x[...]`` and ``x[...] = value``: basic indices become views, tensors and masks become `index` and `index_put_`.

Source: torch/csrc/autograd/python_variable_indexing.cpp. A list of numbers stands for a tensor, a bool for a
mask of no dimension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime.local_dispatch_key_set import modes
from ..runtime.tensor_impl import TensorImpl

if TYPE_CHECKING:
    _Base = TensorImpl
else:
    _Base = object


class IndexingMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        kind = index.__class__
        tensor: Any = self
        if kind is int:
            return tensor.select(0, index)
        if kind is slice and not modes and self._spec.ndim:
            start, stop, step = index.start, index.stop, index.step
            return tensor._slice_first(start, stop, 1 if step is None else step)
        return _get(tensor, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        tensor: Any = self
        picked, advanced = _apply_basic(tensor, _as_tuple(index))
        if not isinstance(value, TensorImpl):
            from .generated.functions import scalar_tensor

            value = scalar_tensor(value, dtype=tensor.dtype, device=tensor.device)
        if advanced is None:
            target = picked
            while value._spec.ndim > target._spec.ndim and value._spec.sizes[0] == 1:
                value = value.squeeze(0)
            target.copy_(value)
            return
        while value._spec.ndim > 0 and value._spec.sizes[0] == 1 and value._spec.ndim > picked._spec.ndim:
            value = value.squeeze(0)
        if value._spec.device is not tensor._spec.device and value._spec.ndim == 0:
            value = value.to(tensor.device)
        picked.index_put_(advanced, value)


def _as_tuple(index: Any) -> tuple[Any, ...]:
    return index if index.__class__ is tuple else (index,)


def _get(tensor: Any, index: Any) -> Any:
    picked, advanced = _apply_basic(tensor, _as_tuple(index))
    if advanced is not None:
        return picked.index(advanced)
    return picked.alias() if picked is tensor else picked


def _consumes(index: Any) -> int:
    """How many dimensions one index takes."""
    if index is None or index is Ellipsis or index is True or index is False:
        return 0
    if isinstance(index, TensorImpl):
        return index._spec.ndim if index._spec.dtype.name in ("bool", "uint8") else 1
    if isinstance(index, list | np.ndarray):
        array = np.asarray(index)
        return array.ndim if array.dtype == bool else 1
    return 1


def _apply_basic(tensor: Any, indices: tuple[Any, ...]) -> tuple[Any, list[Any] | None]:
    """The view that the basic indices give, and the tensors for its dimensions, or None if there are none."""
    given = sum(_consumes(i) for i in indices)
    rank = tensor._spec.ndim
    if given > rank:
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    if sum(i is Ellipsis for i in indices) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    out = tensor
    dim = 0
    advanced: list[Any] = []
    found = False
    for position, index in enumerate(indices):
        kind = index.__class__
        if index is None:
            out = out.unsqueeze(dim)
            advanced.append(None)
            dim += 1
        elif index is Ellipsis:
            skip = rank - given
            advanced += [None] * skip
            dim += skip
        elif kind is bool or isinstance(index, np.bool_):
            out = out.unsqueeze(dim)
            advanced.append(_tensor_like([bool(index)], tensor))
            found = True
            dim += 1
        elif kind is slice:
            step = 1 if index.step is None else index.step.__index__()
            start = None if index.start is None else index.start.__index__()
            stop = None if index.stop is None else index.stop.__index__()
            if step <= 0:
                raise ValueError("step must be greater than zero")
            if start is not None or stop is not None or step != 1:
                out = out.slice(dim, start, stop, step)
            advanced.append(None)
            dim += 1
        elif isinstance(index, TensorImpl) and (
            index._spec.ndim or index._spec.dtype.name in ("bool", "uint8")
        ):
            advanced.append(_checked(index, tensor))
            found = True
            dim += _consumes(index)
        elif isinstance(index, list | np.ndarray | range) or (isinstance(index, tuple) and position >= 0):
            made = _tensor_like(list(index) if isinstance(index, tuple | range) else index, tensor)
            advanced.append(_checked(made, tensor))
            found = True
            dim += _consumes(made)
        else:
            out = out.select(dim, _integer(index))
    if not found:
        return out, None
    while advanced and advanced[-1] is None:
        advanced.pop()
    return out, advanced


def _integer(index: Any) -> int:
    try:
        return int(index.__index__())
    except (AttributeError, TypeError):
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(index).__name__})"
        ) from None


def _checked(index: Any, tensor: Any) -> Any:
    name = index._spec.dtype.name
    if name not in ("int64", "int32", "int16", "int8", "uint8", "bool"):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    del tensor
    return index


def _tensor_like(values: Any, tensor: Any) -> Any:
    from .composite.tensor_data import tensor as make

    if isinstance(values, list) and not values:
        return make(values, dtype=_int64(), device=tensor.device)
    try:
        made = make(values, device=tensor.device)
    except (TypeError, ValueError) as error:
        raise IndexError(f"invalid index {values!r}: {error}") from None
    return made


def _int64() -> Any:
    from ..runtime.scalar_type import int64

    return int64
