"""How the samples of a batch become tensors of one more dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...dispatch.tensor_data import as_tensor, tensor
from ...runtime.scalar_type import float64

FOUND = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _of_kind(like: Any, items: list[Any]) -> Any:
    """A sequence of the same class; a list where that takes no list."""
    try:
        return type(like)(items)
    except TypeError:
        return items


def default_convert(data: Any) -> Any:
    """NumPy's arrays and numbers as tensors, inside containers too (`torch.utils.data.default_convert`).

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


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples as a batch (`torch.utils.data.default_collate`).

    Tensors and arrays are stacked, numbers become a tensor, texts a list; containers are collated part by part.

    Raises:
        RuntimeError: sequences of a batch are not of one length.
        TypeError: samples of another class.

    Example:
        >>> import triten as tt
        >>> tt.utils.data.default_collate([(1, "a"), (2, "b")])
        [tensor([1, 2]), ('a', 'b')]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _ops.stack(list(batch), 0)
    if isinstance(first, np.ndarray | np.generic):
        if first.dtype.kind in "SUO":
            raise TypeError(FOUND.format(first.dtype))
        return _ops.stack([as_tensor(each) for each in batch], 0)
    if isinstance(first, float):
        return tensor(batch, dtype=float64)
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        collated = {key: default_collate([each[key] for each in batch]) for key in first}
        try:
            return type(first)(collated)  # type: ignore[call-arg]
        except TypeError:
            return collated
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(each) for each in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(each) != len(first) for each in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(each) for each in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else _of_kind(first, columns)
    raise TypeError(FOUND.format(type(first)))
