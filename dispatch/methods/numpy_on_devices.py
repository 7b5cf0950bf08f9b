"""NumPy functions of tensors that are not on the CPU: triten's counterparts run on the tensors' device.

PyTorch rejects these calls. Libraries that build arrays from other arrays, such as Dask, rely on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import from_numpy_dtype
from ...runtime.tensor_impl import TensorImpl
from ..generated import functions
from ..tensor_data import as_tensor

Axis = int | Sequence[int] | None

UFUNC_NAMES: Final = {"invert": "bitwise_not", "left_shift": "bitwise_left_shift", "power": "pow"} | {
    "right_shift": "bitwise_right_shift",
    "degrees": "rad2deg",
    "radians": "deg2rad",
    "conjugate": "conj",
    "mod": "remainder",
    "rint": "round",
}
"""Ufuncs whose triten function has another name."""


def of_ufunc(ufunc: np.ufunc, inputs: Sequence[Any], dtype: Any = None) -> Any:
    """Return a ufunc's result on its operands' device; NotImplemented if triten has no such function.

    Arrays with dimensions are not copied to the device.
    """
    function = getattr(functions, UFUNC_NAMES.get(ufunc.__name__, ufunc.__name__), None)
    operands = _beside(inputs)
    if function is None or not all(isinstance(each, TensorImpl) for each in operands):
        return NotImplemented
    kind = _dtype(dtype)
    return function(*operands if kind is None else (each.to(kind) for each in operands))


def of_function(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a function's result on its operands' device; NotImplemented if triten has no such function."""
    function = FUNCTIONS.get(func)
    options = {name: value for name, value in kwargs.items() if value is not np._NoValue}
    return NotImplemented if function is None else function(*args, **options)


def _beside(operands: Sequence[Any]) -> list[Any]:
    """Return operands with numbers converted to tensors on the first tensor's device."""
    first = next(each for each in operands if isinstance(each, TensorImpl))
    return [
        as_tensor(each, device=first.device)
        if not isinstance(each, TensorImpl) and np.ndim(each) == 0
        else each
        for each in operands
    ]


def _dtype(dtype: Any, otherwise: ScalarType | None = None) -> ScalarType | None:
    if dtype is None or isinstance(dtype, ScalarType):
        return dtype or otherwise
    return from_numpy_dtype(np.dtype(dtype))


def _dims(x: Any, axis: Axis) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def _like(fill: Any) -> Callable[..., Any]:
    def made(a: Any, *value: Any, dtype: Any = None, shape: Any = None, **options: Any) -> Any:
        sizes = a.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        kind = _dtype(dtype, a.dtype)
        if fill is None and not value:
            return functions.empty(sizes, dtype=kind, device=a.device)
        return functions.full(sizes, value[0] if value else fill, dtype=kind, device=a.device)

    return made


def _where(condition: Any, x: Any, y: Any) -> Any:
    return functions.where(*_beside((condition, x, y)))


def _clip(a: Any, a_min: Any = None, a_max: Any = None, **options: Any) -> Any:
    low, high = options.pop("min", a_min), options.pop("max", a_max)
    return functions.clamp(a, low, high)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    if isinstance(axes, int):
        axes = range(a.ndim - axes, a.ndim), range(axes)
    left, right = ([each] if isinstance(each, int) else list(each) for each in axes)
    first, second = _beside((a, b))
    return functions.tensordot(first, second, left, right)


def _cumulative(function: Callable[..., Any]) -> Callable[..., Any]:
    def made(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        return function(a.reshape(-1) if axis is None else a, axis or 0, dtype=_dtype(dtype))

    return made


def _arg(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, axis=None, out=None, keepdims=False: function(a, axis, keepdims)


FUNCTIONS: Final[dict[Any, Callable[..., Any]]] = {
    np.argmax: _arg(functions.argmax),
    np.argmin: _arg(functions.argmin),
    np.broadcast_to: lambda array, shape, subok=False: functions.broadcast_to(array, tuple(shape)),
    np.clip: _clip,
    np.concatenate: lambda arrays, axis=0, **options: functions.cat(_beside(arrays), axis),
    np.cumprod: _cumulative(functions.cumprod),
    np.cumsum: _cumulative(functions.cumsum),
    np.diag: lambda v, k=0: functions.diag(v, k),
    np.dot: lambda a, b, out=None: functions.matmul(*_beside((a, b))),
    np.empty_like: _like(None),
    np.expand_dims: lambda a, axis: functions.unsqueeze(a, axis),
    np.flip: lambda m, axis=None: functions.flip(m, _dims(m, axis)),
    np.full_like: _like(None),
    np.ones_like: _like(1),
    np.ravel: lambda a, order="C": a.reshape(-1),
    np.repeat: lambda a, repeats, axis=None: functions.repeat_interleave(a, repeats, axis),
    np.reshape: lambda a, shape, order="C", copy=None: a.reshape(shape),
    np.roll: lambda a, shift, axis=None: functions.roll(a, shift, () if axis is None else axis),
    np.round: lambda a, decimals=0, out=None: functions.round(a, decimals=decimals),
    np.sort: lambda a, axis=-1, **options: functions.sort(a, axis)[0],
    np.squeeze: lambda a, axis=None: a.squeeze() if axis is None else a.squeeze(axis),
    np.stack: lambda arrays, axis=0, **options: functions.stack(_beside(arrays), axis),
    np.tensordot: _tensordot,
    np.transpose: lambda a, axes=None: a.permute(*(axes or range(a.ndim - 1, -1, -1))),
    np.tril: lambda m, k=0: functions.tril(m, k),
    np.triu: lambda m, k=0: functions.triu(m, k),
    np.where: _where,
    np.zeros_like: _like(0),
    np.linalg.svd: lambda a, full_matrices=True: functions.linalg_svd(a, full_matrices),
    np.linalg.qr: lambda a, mode="reduced": functions.linalg_qr(a, mode),
}
"""Implementations by NumPy function, with NumPy's parameters."""
