"""Collation of samples into batches: tensors with a new first dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...dispatch.tensor_data import as_tensor, tensor
from ...runtime.scalar_type import float64

FOUND = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _of_kind(like: Any, items: list[Any]) -> Any:
    """Build a sequence of the same class; return a list if the class does not take a list."""
    try:
        return type(like)(items)
    except TypeError:
        return items


def default_convert(data: Any) -> Any:
    """Convert NumPy arrays and numbers to tensors, also inside containers (`torch.utils.data.default_convert`).

    Example:
        >>> import numpy as np, triten as tt
        >>> tt.utils.data.default_convert({"x": np.zeros(2, np.float32), "name": "text"})
        {'x': tensor([0., 0.]), 'name': 'text'}
    """
    if isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, Mapping):
        return type(data)({key: default_convert(value) for key, value in data.items()})  # type: ignore[call-arg]
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(each) for each in data]
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _of_kind(data, [default_convert(each) for each in data])
    return data


Collate = Callable[..., Any]
CollateMap = dict[type | tuple[type, ...], Collate]


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Collate samples into a batch, by a function for each class (`torch.utils.data._utils.collate.collate`).

    The class of the first sample selects the function: the map's entry for that class, else the map's first entry for
    a base class. Containers without an entry are collated element by element.

    Args:
        batch: A sequence of samples.
        collate_fn_map: Functions by class or tuple of classes. Each takes the batch and the map as
            `collate_fn_map`.

    Raises:
        RuntimeError: The sequences of a batch differ in length.
        TypeError: No entry matches the samples.
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for known, function in collate_fn_map.items():
            if isinstance(first, known):
                return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        collated = {
            key: collate([each[key] for each in batch], collate_fn_map=collate_fn_map) for key in first
        }
        try:
            return type(first)(collated)  # type: ignore[call-arg]
        except TypeError:
            return collated
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        fields = zip(*batch, strict=True)
        return type(first)(*(collate(each, collate_fn_map=collate_fn_map) for each in fields))
    if isinstance(first, Sequence):
        if any(len(each) != len(first) for each in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(each, collate_fn_map=collate_fn_map) for each in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _of_kind(first, columns)
    raise TypeError(FOUND.format(kind))


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Stack the tensors of a batch."""
    return _ops.stack(list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Stack the arrays, or NumPy's numbers, of a batch."""
    if batch[0].dtype.kind in "SUO":
        raise TypeError(FOUND.format(batch[0].dtype))
    return _ops.stack([as_tensor(each) for each in batch], 0)


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return a tensor of float64 of the numbers of a batch."""
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return a tensor of the numbers of a batch."""
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return the texts of a batch as they are."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_array_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
"""Collate functions of `default_collate` by class; programs may add classes."""


def default_collate(batch: Any) -> Any:
    """Collate samples into a batch (`torch.utils.data.default_collate`).

    Tensors and arrays are stacked, numbers become a tensor, and strings stay a sequence. Containers are collated
    element by element.

    Raises:
        RuntimeError: Sequences of a batch differ in length.
        TypeError: The class of the samples is not supported.

    Example:
        >>> import triten as tt
        >>> tt.utils.data.default_collate([(1, "a"), (2, "b")])
        [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
