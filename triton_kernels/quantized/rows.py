"""Rows of a matrix as 8-bit integers, each with a scale: a program for each row, which reads it twice."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ...runtime.quantized_data import MIN_ROW_SCALE
from ..budget import STREAMING, Configuration, declare
from ..launch import Launch, interpreted, launch_nothing, next_power_of_2
from ..products.product import stride_arguments

LARGEST = 2048
"""Elements of a block; the second reading of a row finds it in L2."""
MIN_SCALE = tl.constexpr(MIN_ROW_SCALE)


@triton.jit
def quantize_row(x, integers, scales, divisor, k, low, xm, xk, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    x += row * xm
    integers += row * k
    row_max = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, k, BLOCK):
        index = start + columns
        value = tl.abs(tl.load(x + index.to(tl.int64) * xk, mask=index < k, other=0).to(tl.float32))
        # Once a nan is there, it stays: no comparison with it is true.
        row_max = tl.where((value > row_max) | (value != value), value, row_max)
    has_nan = tl.max((row_max != row_max).to(tl.int32), 0) != 0
    largest = tl.where(has_nan, float("nan"), tl.max(tl.where(row_max == row_max, row_max, 0.0), 0))
    scale = tl.div_rn(largest, divisor)
    scale = tl.where(scale < MIN_SCALE, MIN_SCALE, scale)
    tl.store(scales + row, scale)
    for start in range(0, k, BLOCK):
        index = start + columns
        value = tl.load(x + index.to(tl.int64) * xk, mask=index < k, other=0).to(tl.float32)
        steps = libdevice.rint(tl.div_rn(value, scale))
        # Nan, which infinities over each other give too, is no integer.
        steps = tl.where(steps == steps, steps, 0.0)
        steps = tl.where(steps < low, low.to(tl.float32), tl.where(steps > 127.0, 127.0, steps))
        tl.store(integers + index, steps.to(tl.int32).to(tl.int8), mask=index < k)


declare(
    quantize_row,
    why=STREAMING,
    operand="x",
    dtypes={("fp32", "fp16", "bf16"): (Configuration((LARGEST,), 4), Configuration((1024,), 4))},
    operations="5 m k",
    traffic="m (k (itemsize + 1) + 4)",
    loads=("x",),
)


def quantize_rows(call: StructuredCall) -> PlannedKernel:
    """Quantize all rows to integers and scales in one launch."""
    spec = call.args["self"]
    m, k = spec.sizes
    if m == 0:
        return PlannedKernel(launch_nothing)
    block = min(max(next_power_of_2(k), 16), LARGEST) if interpreted() or k > 1024 else 1024
    low, (xm, xk) = call.args["low"], spec.strides
    signature, constants, values, divisible = stride_arguments({"xm": xm, "xk": xk}, "i64")
    numbers = {"k": k, "low": low}
    launch = Launch(
        call.device,
        quantize_row,
        {
            "x": f"*{spec.dtype.triton_name}",
            "integers": "*i8",
            "scales": "*fp32",
            "divisor": "fp32",
            **dict.fromkeys(numbers, "i32"),
            **signature,
        },
        {**constants, "BLOCK": block},
        divisible=[*divisible, *(["k"] if k % 16 == 0 else [])],
    )
    number_values = (*numbers.values(), *values.values())

    def into(integers: Any, scales: Any, x: Any, divisor: float) -> None:
        launch((m, 1, 1), x.address, integers.address, scales.address, divisor, *number_values)

    return PlannedKernel(into)


register_stub("_quantize_rows_stub", "cuda", quantize_rows)
