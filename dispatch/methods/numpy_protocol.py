"""NumPy protocols of a tensor: conversion to arrays, results as tensors, and reductions such as ``np.sum(tensor)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float64, from_numpy_dtype
from ...runtime.tensor_impl import TensorImpl
from . import nan_reductions

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from ..tensor import Tensor

    _Base = TensorImpl
else:
    _Base = object

REFLECTED: Final[dict[Any, str]] = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__",
    np.floor_divide: "__rfloordiv__",
    np.remainder: "__rmod__",
    np.power: "__rpow__",
    np.matmul: "__rmatmul__",
    np.bitwise_and: "__rand__",
    np.bitwise_or: "__ror__",
    np.bitwise_xor: "__rxor__",
    np.left_shift: "__rlshift__",
    np.right_shift: "__rrshift__",
    np.less: "__gt__",
    np.less_equal: "__ge__",
    np.greater: "__lt__",
    np.greater_equal: "__le__",
    np.equal: "__eq__",
    np.not_equal: "__ne__",
}
"""The special method that computes a ufunc whose first operand is a NumPy number."""
HOST: Final = frozenset({"cpu", "meta"})
"""Devices on which NumPy computes or raises."""
_PLAIN: Final = np.empty(0)
"""An ndarray, whose ``__array_function__`` is NumPy's own."""
_DOES_COPY = (
    "Unable to avoid copy while creating an array as requested: a tensor of {own} was asked for as {wanted}. Use "
    "np.asarray(tensor, dtype) to allow a copy when needed."
)


class NumPyMethods(_Base):
    """Mixin of `Tensor`."""

    __slots__ = ()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the tensor as an ndarray, sharing memory if dtype and `copy` allow it; see `numpy`.

        Raises ValueError if `copy` is False and `dtype` differs.
        """
        tensor: Tensor = self  # type: ignore[assignment]
        array = tensor.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(_DOES_COPY.format(own=array.dtype, wanted=np.dtype(dtype)))
            return array.astype(dtype)
        return array.copy() if copy else array

    def __buffer__(self, flags: int) -> memoryview:
        """Return a buffer of the memory, as ``memoryview(tensor)`` requests from Python 3.12 on (PEP 688).

        Raises BufferError for tensors that `numpy` rejects, and for dtypes without a buffer format, such as bfloat16.
        """
        try:
            array: Any = self.__array__()
            return memoryview(array)
        except (TypeError, RuntimeError, ValueError) as error:
            raise BufferError(f"{type(self).__name__} has no buffer: {error}") from None

    def __array_wrap__(self, array: NDArray[Any], context: Any = None, return_scalar: bool = False) -> Tensor:
        """Wrap the result of a NumPy function of this tensor as a tensor that shares its memory."""
        from ..tensor_data import from_numpy

        return from_numpy(np.asarray(array))

    def astype(
        self,
        dtype: DTypeLike | ScalarType,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Tensor:
        """Return the tensor in another dtype (`numpy.ndarray.astype`); `to` is PyTorch's name.

        Args:
            dtype: A triten or NumPy dtype, or its name.
            order: Accepted for compatibility with NumPy.
            casting: Accepted for compatibility with NumPy.
            subok: Accepted for compatibility with NumPy.
            copy: If True, copy a tensor that already has the dtype.

        Returns:
            A tensor of the same shape and device.

        Raises:
            TypeError: The dtype does not exist.

        Example:
            >>> import triten as tt
            >>> tt.tensor([1.5, -2.5]).astype("int32")
            tensor([ 1, -2], dtype=triten.int32)
        """
        target = dtype if isinstance(dtype, ScalarType) else from_numpy_dtype(np.dtype(dtype))
        tensor: Tensor = self  # type: ignore[assignment]
        return tensor.to(target, copy=copy)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a NumPy function: the tensor's own method for reductions, NumPy's implementation for all else.

        Reductions keep device and history. As in NumPy, ``np.mean`` of integers is in float64, and ``np.std`` divides
        by n.
        """
        if not all(issubclass(kind, np.ndarray | TensorImpl) for kind in types):
            return NotImplemented
        reduction = REDUCTIONS.get(func)
        if reduction is not None:
            bound = reduction.arguments(args, kwargs)
            return _of_arrays(func, args, kwargs) if bound is None else reduction.result(bound)
        if self._spec.device.type not in HOST:
            from . import numpy_on_devices

            computed = numpy_on_devices.of_function(func, args, kwargs)
            if computed is not NotImplemented:
                return computed
        return np.ndarray.__array_function__(_PLAIN, func, (), args, kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Compute a ufunc with NumPy on the elements, and wrap the result as a tensor.

        Tensors that are not on the CPU use triten's function of that name, if it exists.
        """
        if len(inputs) == 2 and isinstance(inputs[0], np.generic) and method == "__call__" and not kwargs:
            special = REFLECTED.get(ufunc)
            if special is not None:
                return getattr(self, special)(inputs[0])
        if self._spec.device.type not in HOST and method == "__call__" and kwargs.keys() <= {"dtype"}:
            from . import numpy_on_devices

            computed = numpy_on_devices.of_ufunc(ufunc, inputs, **kwargs)
            if computed is not NotImplemented:
                return computed
        out = kwargs.get("out", ())
        if out:
            kwargs = kwargs | {"out": tuple(map(_as_array, out))}
        result = getattr(ufunc, method)(*map(_as_array, inputs), **kwargs)
        results = result if isinstance(result, tuple) else (result,)
        made = [each if each is not None else _tensor(result) for each, result in _beside(out, results)]
        return tuple(made) if isinstance(result, tuple) else made[0]


def _beside(out: tuple[Any, ...], results: tuple[Any, ...]) -> zip[tuple[Any, Any]]:
    """Pair each result with its output tensor, or with None."""
    return zip(out or (None,) * len(results), results, strict=True)


def _tensor(result: Any) -> Any:
    from ..tensor_data import from_numpy

    return None if result is None else from_numpy(np.asarray(result))


def _of_arrays(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return NumPy's result for the tensors' elements, as a tensor unless it is one of the caller's arrays."""
    from ..tensor_data import from_numpy

    result = func(*map(_as_array, args), **{name: _as_array(value) for name, value in kwargs.items()})
    operands = (*args, *kwargs.values())
    return result if any(result is each for each in operands) else from_numpy(np.asarray(result))


def _as_array(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, TensorImpl) else value


class Reduction:
    """NumPy function that maps to a method of tensors.

    Args:
        method: The method that reduces all or the given dimensions.
        parameters: NumPy's names of the arguments by position.
        is_mean: True if integers have float64 results.
    """

    __slots__ = ("is_mean", "method", "parameters")

    def __init__(self, method: str, *parameters: str, is_mean: bool = False) -> None:
        self.method = method
        self.parameters = ("a", "axis", *parameters)
        self.is_mean = is_mean

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """Return the arguments by name; None if one is specific to NumPy, or if no tensor is reduced.

        An empty axis tuple reduces no dimensions in NumPy, and all of them in PyTorch.
        """
        bound = dict(zip(self.parameters, args, strict=False)) | kwargs
        bound = {name: value for name, value in bound.items() if value is not np._NoValue}
        known = len(args) <= len(self.parameters) and bound.keys() <= set(self.parameters)
        out = bound.get("out")
        if not known or not isinstance(bound.get("a"), TensorImpl) or isinstance(out, np.ndarray):
            return None
        if bound.get("axis") == ():
            return None
        return bound

    def result(self, bound: dict[str, Any]) -> Any:
        """Return the reduced tensor."""
        tensor: Any = bound["a"]
        axis, keepdims, dtype = bound.get("axis"), bool(bound.get("keepdims", False)), bound.get("dtype")
        if dtype is not None and not isinstance(dtype, ScalarType):
            dtype = from_numpy_dtype(np.dtype(dtype))
        if dtype is None and self.is_mean and not (tensor.is_floating_point() or tensor.is_complex()):
            dtype = float64
        if dtype is not None:
            tensor = tensor.to(dtype)
        options = {"correction": bound.get("ddof", 0)} if "ddof" in self.parameters else {}
        made = _reduced(tensor, self.method, axis, keepdims, options)
        out = bound.get("out")
        if out is None:
            return made
        if out.shape != made.shape:
            raise ValueError(
                f"output parameter for reduction operation {self.method} has the shape {tuple(out.shape)}, expected "
                f"{tuple(made.shape)}"
            )
        return out.copy_(made)


def _reduced(tensor: Any, method: str, axis: Any, keepdims: bool, options: dict[str, Any]) -> Any:
    dims = tuple(range(tensor.dim())) if axis is None else axis
    if method.startswith("nan"):
        if tensor.is_floating_point() or tensor.is_complex():
            reduce = nan_reductions.BY_NAME[method]
            return reduce(tensor, (dims,) if isinstance(dims, int) else tuple(dims), keepdims, **options)
        method = {"nanmax": "amax", "nanmin": "amin"}.get(method, method.removeprefix("nan"))
    if method == "prod":  # reduces one dimension at a time
        rank = tensor.dim()
        each = sorted((int(d) % rank for d in np.atleast_1d(dims)), reverse=True) if rank else ()
        for dim in each:
            tensor = tensor.prod(dim, keepdims)
        return tensor.prod() if axis is None and not rank else tensor
    if not tensor.dim() and axis is None:
        return getattr(tensor, method)(**options)
    return getattr(tensor, method)(dim=dims, keepdim=keepdims, **options)


REDUCTIONS: Final[dict[Any, Reduction]] = {
    np.sum: Reduction("sum", "dtype", "out", "keepdims"),
    np.prod: Reduction("prod", "dtype", "out", "keepdims"),
    np.mean: Reduction("mean", "dtype", "out", "keepdims", is_mean=True),
    np.std: Reduction("std", "dtype", "out", "ddof", "keepdims", is_mean=True),
    np.var: Reduction("var", "dtype", "out", "ddof", "keepdims", is_mean=True),
    np.max: Reduction("amax", "out", "keepdims"),
    np.amax: Reduction("amax", "out", "keepdims"),
    np.min: Reduction("amin", "out", "keepdims"),
    np.amin: Reduction("amin", "out", "keepdims"),
    np.all: Reduction("all", "out", "keepdims"),
    np.any: Reduction("any", "out", "keepdims"),
    np.nansum: Reduction("nansum", "dtype", "out", "keepdims"),
    np.nanprod: Reduction("nanprod", "dtype", "out", "keepdims"),
    np.nanmean: Reduction("nanmean", "dtype", "out", "keepdims", is_mean=True),
    np.nanstd: Reduction("nanstd", "dtype", "out", "ddof", "keepdims", is_mean=True),
    np.nanvar: Reduction("nanvar", "dtype", "out", "ddof", "keepdims", is_mean=True),
    np.nanmax: Reduction("nanmax", "out", "keepdims"),
    np.nanmin: Reduction("nanmin", "out", "keepdims"),
}
"""Functions that would call a tensor's method with arguments that it lacks, and those that skip NaN."""
