"""Convolutions over lines and planes as implicit matrix products: columns are never written to memory.

Rows of the product are pixels, its columns channels of one group. The inner side runs over channels and
filter taps in a fixed order; strides come as they are, so NCHW and NHWC share a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...dispatch.structured.stub import KernelFactory, PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.driver import driver
from ...runtime.errors import internal_assert
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import BY_NAME
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.factories import zero
from ..launch import Launch, cdiv, integer_type, interpreted, launch_nothing
from ..products.product import Accumulation, Tiling, accumulation, stride_arguments, tiling
from ..reduction.reduction import REDUCTIONS, Reduction, reduction
from .convolution_kernels import convolve, convolve_backward_input, convolve_backward_weight


def geometry_constants(call: StructuredCall) -> dict[str, object]:
    """Stride, padding and dilation as the kernels' constants."""
    args = call.args
    pairs = (("SH", "SW", "stride"), ("PH", "PW", "padding"), ("DH", "DW", "dilation"))
    return {name: args[key][i] for *names, key in pairs for i, name in enumerate(names)}


def strides_of(prefix: str, spec: TensorSpec, letters: str) -> dict[str, int]:
    """A tensor's strides by the kernels' names, such as ``xn``, ``xc``, ``xh``, ``xw``."""
    return {prefix + letter: stride for letter, stride in zip(letters, spec.strides, strict=True)}


def plan(
    call: StructuredCall,
    kernel: Any,
    pointers: Mapping[str, str],
    sizes: Mapping[str, int],
    strides: Mapping[str, int],
    constants: Mapping[str, object],
    tile: Tiling,
    how: Accumulation,
    extent: int,
) -> tuple[Launch, tuple[int, ...]]:
    """The launch, and the numbers that follow the pointers at each call."""
    kind = integer_type(extent)
    signature, fixed, values, divisible = stride_arguments(strides, kind)
    every = {**pointers, **dict.fromkeys(sizes, "i32"), **signature}
    values = {**sizes, **values}
    launch = Launch(
        call.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {**constants, **fixed, **tile.constants(), "ACCUMULATOR": how.type, "DOT": how.dot},
        divisible=divisible,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    return launch, tuple(values[name] for name in kernel.arg_names if name in values)


def reach(*specs: TensorSpec) -> int:
    """A bound on the offsets of masked lanes too, which lie a tile beyond the tensors."""
    return 2 * max(sum(n * abs(s) for n, s in zip(spec.sizes, spec.strides, strict=True)) for spec in specs)


def floating(call: StructuredCall, spec: TensorSpec) -> Accumulation:
    """The accumulation of a convolution, which has no integers."""
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    return accumulation(call, spec)


def convolution(call: StructuredCall) -> PlannedKernel:
    """(N, C, H, W) by (O, C / groups, R, S) gives (N, O, OH, OW), with a bias of (O) where there is one."""
    x, weight, bias = call.args["input"], call.args["weight"], call.args["bias"]
    out, groups = call.outputs[0], call.args["groups"]
    how = floating(call, x)
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    o, per_group, r, s = weight.sizes
    n, _, oh, ow = out.sizes
    m, columns, inner = n * oh * ow, o // groups, per_group * r * s
    tile = tiling(call.device, x.itemsize, how, m, columns, inner, groups, True)
    pointers = {"x": x, "w": weight, "out": out} | ({} if bias is None else {"bias": bias})
    constants: dict[str, object] = {**geometry_constants(call), "R": r, "S": s}
    if bias is None:
        constants["bias"] = None
    launch, numbers = plan(
        call,
        convolve,
        {name: f"*{spec.dtype.triton_name}" for name, spec in pointers.items()},
        {
            "m": m,
            "columns": columns,
            "channels": per_group,
            "h": x.sizes[2],
            "width": x.sizes[3],
            "oh": oh,
            "ow": ow,
        },
        {
            **strides_of("x", x, "nchw"),
            **strides_of("w", weight, "ocrs"),
            **strides_of("y", out, "nchw"),
            **({"bs": 0} if bias is None else strides_of("b", bias, "s")),
        },
        constants,
        tile,
        how,
        reach(x, weight, out) + tile.m * max(out.strides),
    )
    grid = (cdiv(m, tile.m) * cdiv(columns, tile.n) * groups, 1, 1)

    def into(to: Any, data: Any, filters: Any, offset: Any = None) -> None:
        if offset is None:
            launch(grid, data.address, filters.address, to.address, *numbers)
        else:
            launch(grid, data.address, filters.address, offset.address, to.address, *numbers)

    return PlannedKernel(into)


def backward_input(call: StructuredCall) -> PlannedKernel:
    """Each input pixel gathers from the outputs that it went into: no scatter, no atomics."""
    grad, weight = call.args["grad_output"], call.args["weight"]
    out, groups = call.outputs[0], call.args["groups"]
    how = floating(call, grad)
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    o, per_group, r, s = weight.sizes
    n, _, h, width = out.sizes
    m, outputs = n * h * width, o // groups
    tile = tiling(call.device, grad.itemsize, how, m, per_group, outputs * r * s, groups, True)
    launch, numbers = plan(
        call,
        convolve_backward_input,
        {
            "g": f"*{grad.dtype.triton_name}",
            "w": f"*{weight.dtype.triton_name}",
            "out": f"*{out.dtype.triton_name}",
        },
        {
            "m": m,
            "columns": per_group,
            "outputs": outputs,
            "h": h,
            "width": width,
            "oh": grad.sizes[2],
            "ow": grad.sizes[3],
        },
        {**strides_of("g", grad, "nchw"), **strides_of("w", weight, "ocrs"), **strides_of("x", out, "nchw")},
        {**geometry_constants(call), "R": r, "S": s},
        tile,
        how,
        reach(grad, weight, out) + tile.m * max(out.strides),
    )
    grid = (cdiv(m, tile.m) * cdiv(per_group, tile.n) * groups, 1, 1)
    return PlannedKernel(lambda to, g, w: launch(grid, g.address, w.address, to.address, *numbers))


def backward_weight(call: StructuredCall) -> PlannedKernel:
    """Gradient by input, summed over all pixels; long sums are cut into parts that are added up after."""
    grad, x = call.args["grad_output"], call.args["input"]
    out, groups = call.outputs[0], call.args["groups"]
    how = floating(call, grad)
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    o, per_group, r, s = out.sizes
    n, _, oh, ow = grad.sizes
    pixels, outputs, columns = n * oh * ow, o // groups, per_group * r * s
    if pixels == 0:
        return zero(call)
    tile = tiling(call.device, grad.itemsize, how, outputs, columns, pixels, groups, True)
    programs = cdiv(outputs, tile.m) * cdiv(columns, tile.n) * groups
    target = 2 * driver().properties(call.device.resolved_index).multi_processor_count
    splits = max(1, min(cdiv(pixels, 8 * tile.k), target // programs, 1 if interpreted() else 64))
    chunk = cdiv(cdiv(pixels, splits), tile.k) * tile.k
    splits = cdiv(pixels, chunk)
    accumulator = BY_NAME["float64" if how.type.primitive_bitwidth == 64 else "float32"]
    parts = TensorSpec.contiguous((splits, *out.sizes), accumulator, out.device)
    target_spec = out if splits == 1 else parts
    target_strides = out.strides if splits == 1 else contiguous_strides(out.sizes)
    launch, numbers = plan(
        call,
        convolve_backward_weight,
        {
            "g": f"*{grad.dtype.triton_name}",
            "x": f"*{x.dtype.triton_name}",
            "out": f"*{target_spec.dtype.triton_name}",
        },
        {
            "pixels": pixels,
            "chunk": chunk,
            "outputs": outputs,
            "channels": per_group,
            "h": x.sizes[2],
            "width": x.sizes[3],
            "oh": oh,
            "ow": ow,
        },
        {
            **strides_of("g", grad, "nchw"),
            **strides_of("x", x, "nchw"),
            **{f"w{letter}": stride for letter, stride in zip("ocrs", target_strides, strict=True)},
            "part": 0 if splits == 1 else out.numel,
        },
        {**geometry_constants(call), "R": r, "S": s},
        tile,
        how,
        reach(grad, x, out) + tile.m * max(out.strides),
    )
    grid = (programs, splits, 1)
    if splits == 1:
        return PlannedKernel(lambda to, g, x_: launch(grid, g.address, x_.address, to.address, *numbers))
    row = REDUCTIONS["sum_stub"]
    internal_assert(isinstance(row, Reduction), "sum_stub is no reduction")
    add_up = reduction(row)(
        call._replace(name="sum", args={"self": parts}, runtime=("self",), extra={"dims": (0,)})
    ).into
    allocate = get_allocator("cuda").allocate

    def into(to: Any, g: Any, data: Any) -> None:
        buffer = allocate(parts.nbytes, parts.device)
        launch(grid, g.address, data.address, buffer.address, *numbers)
        add_up(to, buffer)

    return PlannedKernel(into)


NEUTRAL = {"stride": 1, "padding": 0, "dilation": 1}


def with_height(spec: TensorSpec) -> TensorSpec:
    """(A, B, W) as (A, B, 1, W)."""
    (a, b, w), (sa, sb, sw) = spec.sizes, spec.strides
    return spec.replace(sizes=(a, b, 1, w), strides=(sa, sb, w * sw, sw))


def over_planes(factory: KernelFactory) -> KernelFactory:
    """The factory for one spatial dimension too, as a plane of height 1. Refuses three of them."""

    def planned(call: StructuredCall) -> PlannedKernel:
        rank = call.outputs[0].ndim - 2
        if rank == 2:
            return factory(call)
        if rank != 1:
            raise NotImplementedError(
                f"{call.kernel_name()}: {rank} spatial dimensions are not implemented, expected 1 or 2"
            )
        args = dict(call.args)
        for name, value in call.args.items():
            if isinstance(value, TensorSpec) and value.ndim == 3:
                args[name] = with_height(value)
            elif name in NEUTRAL:
                args[name] = (NEUTRAL[name], *value)
        return factory(call._replace(args=args, outputs=(with_height(call.outputs[0]),)))

    return planned


register_stub("convolution_stub", "cuda", over_planes(convolution))
register_stub("convolution_backward_input_stub", "cuda", over_planes(backward_input))
register_stub("convolution_backward_weight_stub", "cuda", over_planes(backward_weight))
