"""Copies between any strides and dtypes.

Casts are PyTorch's: float to integer truncates (what does not fit comes out as x86 has it: the least int32 or
int64, or its low bits); complex to real drops the imaginary part; to bool asks for nonzero; narrow floats
round to nearest even, float8_e4m3fn saturates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.scalar_type import bfloat16, bool_, dtype, float8_e4m3fn, float8_e5m2, registered
from .error_state import IGNORE, reset_state, set_state
from .widen import cast_by

FOREIGN = frozenset({bfloat16, float8_e4m3fn, float8_e5m2})
"""Dtypes of ml_dtypes, whose own casts are exact to and from float32 only."""
BLOCK = 1 << 15
"""Elements of a block of a cast by way of a third dtype: block and buffer stay in the second-level cache."""
TILE = 128
TILE_FROM = 1 << 20
"""Bytes from which a transposing copy goes tile by tile."""


def copy(call: StructuredCall) -> PlannedKernel:
    """``out[...] = self``, with broadcasting and casts."""
    source, target = call.args["self"].dtype, call.outputs[0].dtype
    large = call.outputs[0].nbytes >= TILE_FROM
    if source is target:
        return PlannedKernel(_tiled if large else np.copyto)
    steps = cast_steps(source, target)

    def cast(out: Any, src: Any) -> None:
        token = set_state(IGNORE)
        try:
            if source.is_complex and not target.is_complex and target is not bool_:
                src = src.real
            if not steps:
                _tiled(out, src) if large else np.copyto(out, src, casting="unsafe")
            else:
                for piece_out, piece in _blocks(out, src):
                    for step in steps:
                        piece = step(piece)
                    np.copyto(piece_out, piece, casting="unsafe")
        finally:
            reset_state(token)

    return PlannedKernel(cast)


def cast_steps(source: dtype, target: dtype) -> list[Callable[[Any], Any]]:
    """What is done to an array before NumPy's own cast to `target` gives PyTorch's result."""
    steps: list[Callable[[Any], Any]] = []
    real = source.to_real()
    if source in registered:
        steps.append(_to(cast_by(source)))
    elif source in FOREIGN:
        steps.append(_to(np.float32))
    if target in registered:
        if not (target.is_integral and real.is_integral):
            steps.append(_to(cast_by(target)))
    elif target.is_integral and real.is_floating_point:
        if (target.np.kind == "i" and target.itemsize < 4) or target.name in ("uint8", "uint16"):
            steps.append(_to(np.int32))
        elif target.name == "uint32":
            steps.append(_to(np.int64))
    elif target in FOREIGN:
        if real is not source or not source.is_floating_point or source.itemsize > 4:
            steps.append(_to(np.float32))
        if target is float8_e4m3fn:
            if not steps:
                steps.append(_to(np.float32))
            steps.append(_saturate)
    return steps


def _to(np_type: Any) -> Callable[[Any], Any]:
    return lambda array: array.astype(np_type)


def _saturate(array: Any) -> Any:
    return np.clip(array, np.float32(-448), np.float32(448))


def _blocks(out: Any, src: Any) -> Any:
    """Pairs of pieces of two arrays that together are the whole of both."""
    if out.size <= BLOCK:
        yield out, src
        return
    src = np.broadcast_to(src, out.shape)
    if out.flags.c_contiguous and src.flags.c_contiguous:
        flat_out, flat = out.reshape(-1), src.reshape(-1)
        for start in range(0, out.size, BLOCK):
            yield flat_out[start : start + BLOCK], flat[start : start + BLOCK]
        return
    axis = max(range(out.ndim), key=lambda i: out.shape[i])
    rows = max(1, BLOCK * out.shape[axis] // out.size)
    lead = (slice(None),) * axis
    for start in range(0, out.shape[axis], rows):
        index = (*lead, slice(start, start + rows))
        yield out[index], src[index]


def _tiled(out: Any, src: Any) -> None:
    """A copy that, where the fastest axes differ, goes in tiles that fit the cache."""
    if out.ndim > 1 and src.ndim == out.ndim:
        fast_out, fast_src = _fastest(out), _fastest(src)
        if (
            fast_out != fast_src
            and min(out.shape[fast_out], out.shape[fast_src]) >= TILE // 4
            and out.shape == src.shape
        ):
            first, second = sorted((fast_out, fast_src))
            for i in range(0, out.shape[first], TILE):
                for j in range(0, out.shape[second], TILE):
                    index: list[Any] = [slice(None)] * out.ndim
                    index[first], index[second] = slice(i, i + TILE), slice(j, j + TILE)
                    at = tuple(index)
                    np.copyto(out[at], src[at], casting="unsafe")
            return
    np.copyto(out, src, casting="unsafe")


def _fastest(array: Any) -> int:
    """The axis of the smallest stride among those longer than one."""
    return min(range(array.ndim), key=lambda i: (array.shape[i] <= 1, array.strides[i] or 1 << 62))


register_stub("copy_stub", "cpu", copy)
