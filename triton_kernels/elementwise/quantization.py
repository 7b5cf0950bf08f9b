"""Fake quantization: values and mask in one pass.

Both outputs lie in memory alike and without gaps. An input that lies otherwise is copied to the first one, where it is
quantized in place.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import libdevice, tl, triton
from ...runtime.tensor_spec import TensorSpec
from ..budget import STREAMING, Configuration, declare
from ..conversion import compute_type, convert, triton_type
from ..launch import Launch, cdiv, interpreted, launch_nothing, next_power_of_2
from . import pointwise_functions as f
from .elementwise import BYTES, INTERPRETED_BLOCK, Operand, check_dtypes, elementwise, elementwise_geometry
from .operands import ELEMENT, read

EXACT = 1 << 24
"""Integers up to this magnitude are exact in float32."""


@triton.jit
def fake_quantize(
    x,
    out,
    mask,
    scale,
    zero_point,
    enabled,
    low,
    high,
    n,
    KIND: tl.constexpr,
    TYPE: tl.constexpr,
    CLAMPED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    step = read(scale, 0, None, KIND, tl.float32)
    zero = read(zero_point, 0, None, KIND, tl.int64)
    quantizes = read(enabled, 0, None, KIND, tl.int64) != 0
    if tl.program_id(0).to(tl.int64) * BLOCK + BLOCK <= n:
        given = tl.load(x + index)
        value, inside = quantized(convert(given, TYPE), step, zero, low, high, CLAMPED)
        value = convert(value, out.dtype.element_ty)
        tl.store(out + index, tl.where(quantizes, value, given))
        tl.store(mask + index, inside | (quantizes == 0))
    else:
        within = index < n
        given = tl.load(x + index, mask=within)
        value, inside = quantized(convert(given, TYPE), step, zero, low, high, CLAMPED)
        value = convert(value, out.dtype.element_ty)
        tl.store(out + index, tl.where(quantizes, value, given), mask=within)
        tl.store(mask + index, inside | (quantizes == 0), mask=within)


@triton.jit
def quantized(x, step, zero, low, high, CLAMPED: tl.constexpr):
    """Return the nearest integers, clamped to a range, and a mask of those within it."""
    steps = libdevice.rint(x * tl.div_rn(1.0, step).to(x.dtype)) + zero.to(x.dtype)
    inside = (steps >= low.to(x.dtype)) & (steps <= high.to(x.dtype))
    clamped = steps.to(CLAMPED)
    # A nan is not greater than the lowest.
    clamped = tl.where(clamped > low.to(CLAMPED), clamped, low.to(CLAMPED))
    clamped = tl.where(clamped < high.to(CLAMPED), clamped, high.to(CLAMPED))
    return (clamped - zero.to(CLAMPED)).to(tl.float32) * step, inside


def planned(call: StructuredCall, *numbers: Any) -> PlannedKernel:
    """Return the kernel of a call; `numbers` are scale, zero point and whether to quantize, as in plans."""
    out, mask = call.outputs
    spec: TensorSpec = call.args["self"]
    check_dtypes(call, [spec, *numbers])
    n = out.numel
    if n == 0:
        return PlannedKernel(launch_nothing)
    low, high = call.args["quant_min"], call.args["quant_max"]
    operands = [
        Operand(number, type_)
        for number, type_ in zip(numbers, (tl.float32, tl.int64, tl.int64), strict=True)
    ]
    names = ("scale", "zero_point", "enabled")
    for operand in operands:
        if operand.spec is not None:
            operand.kind = ELEMENT
    if interpreted():
        block = min(max(next_power_of_2(n), 16), INTERPRETED_BLOCK)
    else:
        # 2048 elements of 2 bytes would take more registers than the declared occupancy leaves.
        block = BYTES // max(spec.itemsize, 4)
    name = spec.dtype.triton_name
    launch = Launch(
        call.device,
        fake_quantize,
        {
            "x": f"*{name}",
            "out": f"*{name}",
            "mask": "*i1",
            **{name: operand.type_name for name, operand in zip(names, operands, strict=True)},
            "low": "i64",
            "high": "i64",
            "n": "i64",
        },
        {
            "KIND": operands[0].kind.value,
            "TYPE": compute_type(spec.dtype),
            "CLAMPED": tl.float64 if max(-low, high) > EXACT else tl.float32,
            "BLOCK": block,
        },
        elements=[name for name, operand in zip(names, operands, strict=True) if operand.spec is not None],
    )
    grid = (cdiv(n, block), 1, 1)
    prepares = [operand.prepare for operand in operands]
    dense = elementwise_geometry(out, [mask, spec]).is_dense
    copy = None
    if not dense:
        copied = call._replace(args={"self": spec}, runtime=("self",), outputs=(out,))
        copy = elementwise(copied, f.same, [spec], [triton_type(spec.dtype)]).into

    def into(out_data: Any, inside: Any, x: Any, *parameters: Any) -> None:
        if copy is not None:
            copy(out_data, x)
            x = out_data
        values = [prepare(each) for prepare, each in zip(prepares, parameters, strict=True)]
        launch(grid, x.address, out_data.address, inside.address, *values, low, high, n)

    return PlannedKernel(into)


def by_numbers(call: StructuredCall) -> PlannedKernel:
    """Quantize by scalar parameters."""
    kernel = planned(call, float, int, int)
    into, zero_point = kernel.into, call.args["zero_point"]
    return PlannedKernel(lambda out, inside, x, scale: into(out, inside, x, scale, zero_point, 1))


def by_tensors(call: StructuredCall) -> PlannedKernel:
    """Quantize by one-element tensors."""
    return planned(call, *(call.args[name] for name in call.runtime[1:]))


register_stub("fake_quantize_per_tensor_affine_cachemask_stub", "cuda", by_numbers)
register_stub("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams_stub", "cuda", by_tensors)

declare(
    fake_quantize,
    why=STREAMING,
    dtypes={
        ("fp32", "fp16", "bf16"): (Configuration((1024,)),),
        ("fp64",): (Configuration((512,)),),
    },
    operations="9 n",
    traffic="n (2 itemsize + 1)",
    loads=("x",),
    stores=("out",),
)
