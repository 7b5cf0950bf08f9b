"""Windows as columns over any strides. A complex tensor is moved, or added up, as its two parts in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.meta.fold import Windows
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.tensor_spec import TensorSpec
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from .fold_kernels import col2im, im2col
from .line_maps import by_parts

ELEMENTS, COLUMNS = 512, 128
INTERPRETED_ELEMENTS = 8192


def checked(call: StructuredCall) -> TensorSpec:
    """Return the operand; raise for dtypes that PyTorch's kernels lack."""
    spec: TensorSpec = call.args["self"]
    if not (spec.dtype.is_floating_point or spec.dtype.is_complex or spec.dtype.name == "bool"):
        raise call.refuse(spec)
    return spec


def launching(
    call: StructuredCall,
    kernel: Any,
    spec: TensorSpec,
    sizes: dict[str, int],
    strides: dict[str, int],
    constants: dict[str, object],
) -> Callable[[Any, Any], None]:
    """Return ``run(output, input)`` of a program over lines by columns, once for each part of an element."""
    part, offsets = by_parts(spec)
    check_dtypes(call, [part])
    windows: Windows = call.extra["windows"]
    elements = INTERPRETED_ELEMENTS if interpreted() else ELEMENTS
    block_c = min(next_power_of_2(sizes["columns"]), COLUMNS)
    block_l = min(next_power_of_2(sizes["n_lines"]), elements // block_c)
    scale = len(offsets)
    strides = {name: stride * scale for name, stride in strides.items()}
    sizes = {**sizes, "column_blocks": cdiv(sizes["columns"], block_c)}
    reach = 2 * scale * max(call.outputs[0].numel, 1 + sum(
        (n - 1) * s for n, s in zip(spec.sizes, spec.strides, strict=True)
    ))  # fmt: skip
    borders = max((k * d + p + s * o) for k, d, p, s, o in zip(*windows[1:], strict=True))
    kind = integer_type(
        reach, 4 * borders, 2 * (sizes["n_lines"] + block_l), 2 * (sizes["columns"] + block_c)
    )
    fixed = {name: stride for name, stride in strides.items() if stride in (0, 1)}
    integers = {name: n for name, n in {**sizes, **strides}.items() if name not in fixed}
    sides = {
        letter + side: n
        for letter, pair in (
            ("K", windows.kernel),
            ("S", windows.stride),
            ("P", windows.padding),
            ("D", windows.dilation),
        )
        for side, n in zip("HW", pair, strict=True)
    }
    pointer = f"*{part.dtype.triton_name}"
    types = {"x": pointer, "out": pointer, **dict.fromkeys(integers, kind)}
    order = [name for name in kernel.arg_names if name in types]
    launch = Launch(
        call.device,
        kernel,
        {name: types[name] for name in order},
        {
            **fixed,
            **sides,
            **constants,
            "INDEX": tl.int32 if kind == "i32" else tl.int64,
            "BLOCK_L": block_l,
            "BLOCK_C": block_c,
        },
        divisible=[name for name, n in integers.items() if n % ALIGNMENT == 0],
    )
    grid = (cdiv(sizes["n_lines"], block_l) * sizes["column_blocks"], 1, 1)
    numbers = tuple(integers[name] for name in order if name in integers)

    def run(out: Any, x: Any) -> None:
        for offset in offsets:
            launch(grid, x.address + offset, out.address + offset, *numbers)

    return run


def batched(spec: TensorSpec, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return sizes and strides with a batch."""
    if spec.ndim == rank:
        return spec.sizes, spec.strides
    return (1, *spec.sizes), (0, *spec.strides)


def im2col_(call: StructuredCall) -> PlannedKernel:
    """Gather each element of a column from the image."""
    spec, out = checked(call), call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    windows: Windows = call.extra["windows"]
    (n, c, h, w), (xn, xc, xh, xw) = batched(spec, 4)
    oh, ow = windows.out
    sizes = {
        "n_lines": n * c * windows.kernel[0] * windows.kernel[1],
        "columns": oh * ow,
        "channels": c,
        "h": h,
        "w": w,
        "oh": oh,
        "ow": ow,
    }
    strides = {"xn": xn, "xc": xc, "xh": xh, "xw": xw, "yl": oh * ow, "yw": 1}
    run = launching(call, im2col, spec, sizes, strides, {})
    return PlannedKernel(run)


def col2im_(call: StructuredCall) -> PlannedKernel:
    """Sum each element of the image from the columns."""
    spec, out = checked(call), call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    windows: Windows = call.extra["windows"]
    (n, rows, _), (xn, xc, xl) = batched(spec, 3)
    h, w = windows.size
    channels = rows // (windows.kernel[0] * windows.kernel[1])
    sizes = {
        "n_lines": n * channels * h,
        "columns": w,
        "channels": channels,
        "h": h,
        "oh": windows.out[0],
        "ow": windows.out[1],
    }
    strides = {"xn": xn, "xc": xc, "xl": xl, "yl": w, "yw": 1}
    real = spec.dtype.to_real() if spec.dtype.is_complex else spec.dtype
    type_ = tl.int32 if real.name == "bool" else compute_type(real)
    return PlannedKernel(launching(call, col2im, spec, sizes, strides, {"TYPE": type_}))


register_stub("im2col_stub", "cuda", im2col_)
register_stub("col2im_stub", "cuda", col2im_)
