"""Dask arrays of tensors: registers triten's chunk functions when ``dask.array`` is imported.

``dask.array.from_array(tensor, chunks, asarray=False)`` cuts a tensor into chunks, `map_blocks` and `from_delayed` make
arrays of tensors that functions give, and ``array.to_backend("triten")`` turns chunks of other libraries into tensors.
Chunks stay on their device.

Source: https://docs.dask.org/en/stable/how-to/selecting-the-collection-backend.html.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.array import _shuffle, chunk, dispatch
from dask.array.backends import ArrayBackendEntrypoint, array_creation_dispatch
from dask.base import normalize_token
from dask.sizeof import sizeof
from dask.utils import Dispatch

from .. import _public as tt
from ..dispatch.tensor import Tensor
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import from_numpy_dtype

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["TritenBackend", "register"]

Axis = int | Sequence[int] | None


def _dtype(dtype: DTypeLike | ScalarType | None) -> ScalarType | None:
    return dtype if dtype is None or isinstance(dtype, ScalarType) else from_numpy_dtype(np.dtype(dtype))


def _like(value: Any, tensor: Tensor) -> Tensor:
    """Return a value as a tensor on the device of `tensor`."""
    return value if isinstance(value, Tensor) else tt.as_tensor(value, device=tensor.device)


def _concatenate(chunks: Sequence[Any], axis: int = 0, **options: Any) -> Tensor:
    first = next(each for each in chunks if isinstance(each, Tensor))
    return tt.cat([_like(each, first) for each in chunks], axis)


def _take(x: Tensor, indices: Any, axis: int | None = None, **options: Any) -> Tensor:
    positions = _like(indices, x).to(tt.int64)
    if axis is None:
        return x.reshape(-1)[positions]
    return x[(slice(None),) * (axis % x.ndim) + (positions,)]


def _einsum(subscripts: str, *operands: Tensor, dtype: DTypeLike | None = None, **options: Any) -> Tensor:
    return tt.einsum(subscripts, *(operand.to(_dtype(dtype) or operand.dtype) for operand in operands))


def _empty(shape: Sequence[int], dtype: DTypeLike | None = None, **options: Any) -> Tensor:
    return tt.empty(tuple(shape), dtype=_dtype(dtype))


def _divide(a: Any, b: Any, out: None = None, dtype: DTypeLike | None = None) -> Tensor:
    either = a if isinstance(a, Tensor) else b
    quotient: Tensor = tt.true_divide(_like(a, either), _like(b, either))
    return quotient.to(_dtype(dtype) or quotient.dtype)


def _dims(x: Tensor, axis: Axis) -> tuple[int, ...]:
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return tuple(each % x.ndim for each in axes)


def _number_of_elements(
    x: Tensor, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike = np.float64
) -> Tensor:
    dims = _dims(x, axis)
    sizes = [1 if dim in dims else size for dim, size in enumerate(x.shape) if keepdims or dim not in dims]
    count = math.prod(x.shape[dim] for dim in dims)
    return tt.full(sizes, count, dtype=_dtype(dtype), device=x.device)


def _number_of_numbers(
    x: Tensor, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike = np.float64
) -> Tensor:
    return (~tt.isnan(x)).sum(_dims(x, axis), keepdim=keepdims, dtype=_dtype(dtype))


def _to_numpy(x: Tensor, **options: Any) -> Any:
    return x.detach().cpu().numpy()


def _token(x: Tensor) -> Any:
    """Return a token that differs for tensors with different contents."""
    return normalize_token(_to_numpy(x)), str(x.device)


def _taken(obj: Any, index: Any) -> Any:
    """Index a chunk by positions. Dask uses the smallest dtype for them, and PyTorch takes uint8 for a mask."""
    positions = tuple(each.astype(np.int64) if isinstance(each, np.ndarray) else each for each in index[1])
    return chunk.getitem(obj, positions)


def _percentile(x: Tensor, q: Any, method: str = "linear") -> Any:
    percentiles, count = dispatch.percentile_lookup(_to_numpy(x), q, method)
    return tt.as_tensor(percentiles, device=x.device), count


LOOKUPS: Mapping[Dispatch, Callable[..., Any]] = {
    dispatch.concatenate_lookup: _concatenate,
    dispatch.take_lookup: _take,
    dispatch.tensordot_lookup: lambda a, b, axes: tt.tensordot(a, b, axes),
    dispatch.einsum_lookup: _einsum,
    dispatch.empty_lookup: _empty,
    dispatch.divide_lookup: _divide,
    dispatch.percentile_lookup: _percentile,
    dispatch.numel_lookup: _number_of_elements,
    dispatch.nannumel_lookup: _number_of_numbers,
    dispatch.to_numpy_dispatch: _to_numpy,
    sizeof: lambda x: int(x.nbytes),
    normalize_token: _token,
}
"""What Dask calls for a chunk by its class."""

to_triten_dispatch = Dispatch("to_triten_dispatch")
"""How chunks of other libraries become tensors."""


class TritenBackend(ArrayBackendEntrypoint):  # type: ignore[misc]
    """Arrays of tensors that Dask makes itself, under ``dask.config.set({"array.backend": "triten"})``.

    Example:
        >>> import dask, dask.array as da
        >>> import triten as tt
        >>> with dask.config.set({"array.backend": "triten"}):
        ...     total = (da.ones((4, 6), chunks=2) * 2).sum()
        >>> total.compute()
        tensor(48., dtype=triten.float64)
    """

    @classmethod
    def to_backend_dispatch(cls) -> Dispatch:
        """Return the dispatch that converts chunks to tensors."""
        return to_triten_dispatch

    @classmethod
    def to_backend(cls, data: Any, **kwargs: Any) -> Any:
        """Convert an array's chunks to tensors."""
        if isinstance(data._meta, Tensor):
            return data
        return data.map_blocks(to_triten_dispatch, meta=to_triten_dispatch(data._meta), **kwargs)

    @staticmethod
    def _made(name: str, meta: Any, *args: Any, **kwargs: Any) -> Any:
        """Create an array with Dask's NumPy backend, and convert its chunks to tensors."""
        from dask import array, config

        with config.set({"array.backend": "numpy"}):
            return TritenBackend.to_backend(getattr(array, name)(*args, **kwargs))

    @staticmethod
    def ones(shape: Any, *, dtype: Any = None, meta: Any = None, **kwargs: Any) -> Any:
        """Implement `dask.array.ones`."""
        return TritenBackend._made("ones", meta, shape, dtype=dtype, **kwargs)

    @staticmethod
    def zeros(shape: Any, *, dtype: Any = None, meta: Any = None, **kwargs: Any) -> Any:
        """Implement `dask.array.zeros`."""
        return TritenBackend._made("zeros", meta, shape, dtype=dtype, **kwargs)

    @staticmethod
    def empty(shape: Any, *, dtype: Any = None, meta: Any = None, **kwargs: Any) -> Any:
        """Implement `dask.array.empty`."""
        return TritenBackend._made("empty", meta, shape, dtype=dtype, **kwargs)

    @staticmethod
    def full(shape: Any, fill_value: Any, *, dtype: Any = None, meta: Any = None, **kwargs: Any) -> Any:
        """Implement `dask.array.full`."""
        return TritenBackend._made("full", meta, shape, fill_value, dtype=dtype, **kwargs)

    @staticmethod
    def arange(
        start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, meta: Any = None, **kwargs: Any
    ) -> Any:
        """Implement `dask.array.arange`."""
        return TritenBackend._made("arange", meta, start, stop, step, dtype=dtype, **kwargs)


def register() -> None:
    """Tell Dask of tensors."""
    array_creation_dispatch.register_backend("triten", TritenBackend())
    _shuffle._getitem = _taken
    for lookup, function in LOOKUPS.items():
        lookup.register(Tensor, function)
    to_triten_dispatch.register(np.ndarray, lambda x, **options: tt.from_numpy(np.ascontiguousarray(x)))
    to_triten_dispatch.register(Tensor, lambda x, **options: x)


register()
