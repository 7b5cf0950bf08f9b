"""`tl.reduce` and `tl.associative_scan` for the interpreter, on whole arrays.

Triton's interpreter calls the combining function once for each element. Here it is called on halves, a logarithmic
number of times. Adjacent elements are combined in order, so that the function need only be associative, as Triton
demands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from .batched_builder import aligned
from .formats import Array, is_float, numpy_type


def reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: object) -> Any:
    """Reduce one tensor, or several with one combining function, along an axis or along all."""
    tensors = _as_tuple(input)
    arrays = aligned(*(tensor.handle.data for tensor in tensors))
    programs, *shape = arrays[0].shape
    axis = tl.core._unwrap_if_constexpr(axis)
    types = [tensor.dtype for tensor in tensors]
    if axis is None:
        arrays, keepdim_shape = (
            [array.reshape(programs, -1) for array in arrays],
            (programs, *[1] * len(shape)),
        )
    else:
        axis %= len(shape)
        arrays = [np.moveaxis(array, axis + 1, -1) for array in arrays]
        keepdim_shape = (programs, *shape[:axis], 1, *shape[axis + 1 :])
    results = _reduce_last(arrays, types, combine_fn)
    if tl.core._unwrap_if_constexpr(keep_dims):
        results = [result.reshape(keepdim_shape) for result in results]
    return _like(input, [tensor_of(result, type_) for result, type_ in zip(results, types, strict=True)])


def _reduce_last(arrays: list[Array], types: list[Any], combine_fn: Any) -> list[Array]:
    ufunc = _ufunc_of(combine_fn, arrays[0])
    if ufunc is not None:
        result = ufunc.reduce(arrays[0], axis=-1).astype(arrays[0].dtype)
        # NumPy keeps either zero of an extremum; the fold below decides by the sign.
        if ufunc is np.add or not is_float(result.dtype) or result.all():
            return [result]
    while arrays[0].shape[-1] > 1:
        left, right = [array[..., 0::2] for array in arrays], [array[..., 1::2] for array in arrays]
        arrays = _combine(combine_fn, left, right, types)
    return [array[..., 0] for array in arrays]


def _ufunc_of(combine_fn: Any, array: Array) -> np.ufunc | None:
    """Return the ufunc of one of Triton's own combining functions; its `max` and `min` ignore NaN."""
    standard = tl.standard
    if combine_fn is standard._sum_combine:
        return np.add
    if combine_fn is standard._elementwise_max:
        return np.fmax if is_float(array.dtype) else np.maximum
    if combine_fn is standard._elementwise_min:
        return np.fmin if is_float(array.dtype) else np.minimum
    return None


def associative_scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: object) -> Any:
    """Inclusive scan of one tensor, or several with one combining function, along an axis."""
    tensors = _as_tuple(input)
    axis = tl.core._unwrap_if_constexpr(axis)
    axis = axis + 1 if axis >= 0 else axis
    backwards = bool(tl.core._unwrap_if_constexpr(reverse))
    types = [tensor.dtype for tensor in tensors]
    arrays = [np.moveaxis(array, axis, -1) for array in aligned(*(tensor.handle.data for tensor in tensors))]
    if backwards:
        arrays = [array[..., ::-1] for array in arrays]
    results = _scan_last(arrays, types, combine_fn)
    if backwards:
        results = [result[..., ::-1] for result in results]
    results = [np.ascontiguousarray(np.moveaxis(result, -1, axis)) for result in results]
    return _like(input, [tensor_of(result, type_) for result, type_ in zip(results, types, strict=True)])


def _scan_last(arrays: list[Array], types: list[Any], combine_fn: Any) -> list[Array]:
    if combine_fn is tl.standard._sum_combine or combine_fn is tl.standard._prod_combine:
        ufunc = np.add if combine_fn is tl.standard._sum_combine else np.multiply
        return [ufunc.accumulate(arrays[0], axis=-1).astype(arrays[0].dtype)]
    length = arrays[0].shape[-1]
    positions = np.arange(length)
    distance = 1
    while distance < length:
        # Rolling keeps the length a power of two, which blocks must have; the lanes that wrap are not used.
        earlier = [np.roll(array, distance, axis=-1) for array in arrays]
        combined = _combine(combine_fn, earlier, arrays, types)
        arrays = [
            np.where(positions >= distance, new, old) for new, old in zip(combined, arrays, strict=True)
        ]
        distance *= 2
    return arrays


def _combine(combine_fn: Any, left: list[Array], right: list[Array], types: list[Any]) -> list[Array]:
    operands = [
        tensor_of(array, type_) for side in (left, right) for array, type_ in zip(side, types, strict=True)
    ]
    results = _as_tuple(combine_fn(*operands))
    out = []
    for result, array, type_ in zip(results, left, types, strict=True):
        value = (
            result.handle.data
            if isinstance(result, tl.tensor)
            else np.asarray(tl.core._unwrap_if_constexpr(result))
        )
        out.append(np.broadcast_to(value.astype(numpy_type(type_)), array.shape))
    return out


def tensor_of(array: Array, type_: Any) -> Any:
    """Return a Triton tensor over an array; an array with only the program dimension is a scalar."""
    if array.ndim == 1:
        return tl.tensor(TensorHandle(array, type_), type_)
    return tl.tensor(TensorHandle(array, type_), tl.block_type(type_, list(array.shape[1:])))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | tl.tuple) else (value,)


def _like(input: Any, results: list[Any]) -> Any:
    return tuple(results) if isinstance(input, tuple | tl.tuple) else results[0]
