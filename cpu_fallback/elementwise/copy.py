"""Copies between any strides and dtypes.

Casts follow PyTorch:
- Float to integer truncates. Values out of range become the x86 result: the least int32 or int64, or its low
  bits.
- Complex to real drops the imaginary part.
- A cast to bool tests for nonzero.
- 16-bit floats round to nearest even, and float8_e4m3fn saturates.
- float8_e8m0fnu is the nearest power of two of the magnitude.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, followed_by, register_stub
from ...runtime.exponent_format import to_exponents
from ...runtime.float_errors import quietly
from ...runtime.scalar_type import (
    bfloat16,
    bool_,
    complex32,
    dtype,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    registered,
)
from ...runtime.tensor_spec import TensorSpec
from ..blocks import BLOCK, SHARED_BLOCK, SHARED_BYTES, SHARED_FROM, TURNED_FROM, Blocks, part_of
from ..plain_numpy import copyto, np
from ..transposes import transposed_copy
from ..widen import HALVES_FROM, cast_by, compute_np, widened_halves

FOREIGN = frozenset({bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu})
"""Dtypes of ml_dtypes, whose own casts are exact to and from float32 only."""
CAST_FROM = 1 << 19
"""Elements from which a cast that takes longer to compute than to read is shared among threads."""
CAST_BLOCK = 1 << 16
"""Elements of a part of it, at least."""
QUICK = frozenset({(float32, float64), (float64, float32)})
"""Casts that take no longer than their operands take to come from memory."""


def copy(call: StructuredCall) -> PlannedKernel:
    """``out[...] = self``, with broadcasting and casts."""
    spec, out_spec = call.args.get("src", call.args["self"]), call.outputs[0]
    source, target = spec.dtype, out_spec.dtype
    is_plain = spec.is_contiguous and out_spec.is_contiguous and spec.sizes == out_spec.sizes
    if source is target:
        whole = _whole(out_spec, spec, shares_from=SHARED_BYTES)
        if whole is None:
            chosen("NumPy's copyto", "{} elements are copied by one thread", out_spec.numel)
        else:
            chosen("blocks for threads", "{} elements are many", out_spec.numel)
        run = transposed_copy(out_spec, spec, whole or copyto)
        return PlannedKernel(run, np.ndarray.copy if is_plain and whole is None else None)
    steps = cast_steps(source, target)
    if source.is_complex and not target.is_complex and target is not bool_:
        steps.insert(0, attrgetter("real"))
    if source is complex32 and not target.is_complex:
        steps.insert(0, _to(compute_np(source)))

    def step(out: Any, piece: Any) -> None:
        for function in steps:
            piece = function(piece)
        np.copyto(out, piece, casting="unsafe")

    chosen("a cast", "{} becomes {}", source.name, target.name)
    run = step
    if not steps:
        quick = (source, target) in QUICK
        shares_from = SHARED_BYTES if quick else CAST_FROM * (source.itemsize + target.itemsize)
        run = _whole(out_spec, spec, shares_from, SHARED_BLOCK if quick else CAST_BLOCK) or step
    elif out_spec.numel > BLOCK:
        run = partial(Blocks(out_spec, [spec]).run, step)

    @quietly
    def cast(out: Any, src: Any) -> None:
        run(out, src)

    if steps or not is_plain:
        return PlannedKernel(cast)
    return PlannedKernel(cast, followed_by(np.ndarray.astype, out_spec.np_dtype), quiet=True)


def _whole(
    out: TensorSpec, spec: TensorSpec, shares_from: int, least: int = SHARED_BLOCK
) -> Callable[[Any, Any], None] | None:
    """Return one NumPy call in parts, shared among threads or tiled, or None if one call is as fast."""
    if out.numel < TURNED_FROM:
        return None
    blocks = Blocks(out, [spec], part_of(out.numel, least))
    shares = blocks.nbytes >= shares_from if blocks.flat else out.numel >= SHARED_FROM
    if not shares and not any(blocks.turns):
        return None
    return partial(blocks.run, partial(np.copyto, casting="unsafe"))


def cast_steps(source: dtype, target: dtype) -> list[Callable[[Any], Any]]:
    """Return the steps before NumPy's own cast to `target` that make the result PyTorch's."""
    steps: list[Callable[[Any], Any]] = []
    real = source.to_real()
    if source is float16 and target in (float32, float64):
        steps.append(_widened)
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
        elif target is float8_e8m0fnu:
            steps.append(to_exponents)
    return steps


def _to(np_type: Any) -> Callable[[Any], Any]:
    return lambda array: array.astype(np_type)


def _widened(array: Any) -> Any:
    return widened_halves(array) if array.size >= HALVES_FROM else array


def _saturate(array: Any) -> Any:
    return np.clip(array, np.float32(-448), np.float32(448))


register_stub("copy_stub", "cpu", copy)
