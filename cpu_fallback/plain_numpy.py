"""NumPy without NEP 18: functions that skip the `__array_function__` dispatch.

Arrays here are plain ndarrays, so no argument overrides a function. The dispatch takes 0.1 to 0.3 us: half of
a `copyto` of small arrays. The modules of this folder import `np` from here. Functions that NumPy writes in Python, and
that normalize their axes in 3 to 15 us, are written anew, with the axes of a call kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy


def undispatched(function: Any) -> Any:
    """Return the implementation behind a public NumPy function, or the function itself if NumPy exposes none."""
    return getattr(function, "_implementation", function)


def _directly(module: ModuleType) -> Any:
    """Return a copy of a module whose functions are undispatched."""
    made = ModuleType(module.__name__, module.__doc__)
    for name, value in vars(module).items():
        setattr(made, name, undispatched(value) if callable(value) else value)
    return made


@functools.lru_cache(1024)
def _moved_axes(ndim: int, source: int, destination: int) -> tuple[int, ...]:
    axes = list(range(ndim))
    axes.insert(destination % ndim, axes.pop(source))
    return tuple(axes)


def _moveaxis(array: Any, source: int, destination: int) -> Any:
    """Return `numpy.moveaxis` of one axis."""
    return array.transpose(_moved_axes(array.ndim, source, destination))


@functools.lru_cache(1024)
def _expanding(ndim: int, axis: int) -> tuple[Any, ...]:
    return (slice(None),) * (axis % (ndim + 1)) + (None,)


def _expand_dims(array: Any, axis: int) -> Any:
    """Return `numpy.expand_dims` by one axis."""
    return array[_expanding(array.ndim, axis)] if array.ndim else array.reshape(1)


KEPT_PLACES = 1 << 10
"""Size of a dimension up to which its positions are kept."""


def _new_positions(ndim: int, dim: int, size: int) -> Any:
    return numpy.arange(size).reshape((1,) * dim + (size,) + (1,) * (ndim - dim - 1))


_kept_positions = functools.lru_cache(256)(_new_positions)


def _key_along(shape: tuple[int, ...], indices: Any, axis: int) -> tuple[Any, ...]:
    """Return what an array is subscripted with for its elements at `indices` along one axis."""
    ndim = len(shape)
    axis %= ndim
    return tuple(
        [
            indices if d == axis else (_kept_positions if n <= KEPT_PLACES else _new_positions)(ndim, d, n)
            for d, n in enumerate(shape)
        ]
    )


def _take_along_axis(array: Any, indices: Any, axis: int) -> Any:
    """Return `numpy.take_along_axis`."""
    return array[_key_along(array.shape, indices, axis)]


def _put_along_axis(array: Any, indices: Any, values: Any, axis: int) -> None:
    """Run `numpy.put_along_axis`."""
    array[_key_along(array.shape, indices, axis)] = values


np: Any = _directly(numpy)
np.moveaxis, np.expand_dims = _moveaxis, _expand_dims
np.take_along_axis, np.put_along_axis = _take_along_axis, _put_along_axis
concatenate = np.concatenate
copyto = np.copyto
putmask = np.putmask
where = np.where
dot: Callable[..., Any] = numpy.ndarray.dot
"""`np.dot` of two arrays."""
