"""Pooling over planes: windows are gathered in both directions, so that nothing is added atomically."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.tensor_spec import TensorSpec
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..folded_grid import folded
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from ..reduction.reduction import lowest
from .pooling_kernels import average_pool, average_pool_backward, max_pool, max_pool_backward

BLOCK = 256
INTERPRETED_BLOCK = 8192
CHANNELS = 64
"""Channels of a tile, if they are the fastest dimension."""


def with_batch(spec: TensorSpec, rank: int) -> TensorSpec:
    """(N, C, D, H, W) of a tensor of `rank` spatial dimensions, with or without a batch."""
    sizes, strides = spec.sizes, spec.strides
    if len(sizes) == rank + 1:
        sizes, strides = (1, *sizes), (0, *strides)
    missing = 3 - rank
    return spec.replace(
        sizes=(*sizes[:2], *(1,) * missing, *sizes[2:]), strides=(*strides[:2], *(0,) * missing, *strides[2:])
    )


def three(sizes: tuple[int, ...], fill: int) -> tuple[int, ...]:
    """Pad a list over spatial dimensions to three entries."""
    return (*(fill,) * (3 - len(sizes)), *sizes)


def check_floating(call: StructuredCall) -> TensorSpec:
    """Return the spec of `self`; raise for dtypes that pooling lacks, except integers that an operator names."""
    spec: TensorSpec = call.args["self"]
    check_dtypes(call, [spec])
    if not (spec.dtype.is_floating_point or spec.dtype.name in call.extra.get("integers", ())):
        raise call.refuse(spec)
    return spec


def plan(
    call: StructuredCall,
    kernel: Any,
    tensors: Mapping[str, tuple[str, TensorSpec]],
    over: TensorSpec,
    constants: Mapping[str, object],
) -> Any:
    """Return ``launch(*addresses)`` of a program over the elements of `over`.

    Args:
        tensors: parameter names of the pointers, in the kernel's order, with the letter of their strides.
        constants: Constexprs of this kernel other than the window; among them a divisor of None or a number.
    """
    pool = call.extra["pool"]
    rank = len(pool.out)
    spec, space = with_batch(call.args["self"], rank), with_batch(over, rank)
    channels = spec.sizes[1]
    last = space.strides[1] == 1 and channels > 1 and not over.is_contiguous
    n = space.numel // channels if last else space.numel
    if last:
        chosen("channels side by side", "the {} channels of a place lie one after another", channels)
    else:
        chosen("places side by side", "channels do not lie one after another, {} places do", n)
    vectors = all(with_batch(tensor, rank).strides[1] == 1 for _, tensor in tensors.values())
    block, wide = tile_of(n, channels, over.dtype.itemsize if vectors else ALIGNMENT // 2, last)
    strides: dict[str, int] = {}
    planes = max(math.prod(spec.sizes[2:]), math.prod(pool.out)) * 2
    reach = max(n + block, planes * max(*spec.sizes[2:], *pool.out) if pool.adaptive else planes)
    for letter, tensor in tensors.values():
        own = with_batch(tensor, rank)
        strides |= {letter + dim: stride for dim, stride in zip("ncdhw", own.strides, strict=True)}
        reach = max(reach, 4 * sum(s * (size + 64) for size, s in zip(own.sizes, own.strides, strict=True)))
    kind = integer_type(reach)
    values = {
        "n": n,
        "channels": channels,
        **dict(zip(("d", "h", "w"), spec.sizes[2:], strict=True)),
        **dict(zip(("od", "oh", "ow"), three(pool.out, 1), strict=True)),
        **strides,
    }
    # Strides of 0 and 1, and the sizes of dimensions that planes do not have.
    fixed = {name: value for name, value in values.items() if name in strides and value in (0, 1)}
    if rank < 3:
        fixed |= {"d": 1, "od": 1}
    values = {name: value for name, value in values.items() if name not in fixed}
    window = (("K", pool.kernel, 1), ("S", pool.stride, 1), ("P", pool.padding, 0), ("D", pool.dilation, 1))
    sides = {
        letter + side: size
        for letter, sizes, fill in (*window, ("B", pool.windows, 1))
        for side, size in zip("DHW", three(sizes, fill), strict=True)
    }
    every = {name: f"*{tensor.dtype.triton_name}" for name, (_, tensor) in tensors.items()}
    every |= dict.fromkeys(values, kind)
    launch = Launch(
        call.device,
        kernel,
        {name: every[name] for name in kernel.arg_names if name in every},
        {
            **constants,
            **fixed,
            **{name: value for name, value in sides.items() if name in kernel.arg_names},
            "TYPE": compute_type(spec.dtype),
            "ADAPTIVE": pool.adaptive,
            "INDEX": tl.int32 if kind == "i32" else tl.int64,
            "LAST": last,
            "BLOCK_P": block,
            "BLOCK_C": wide,
        },
        divisible=[
            name for name, value in values.items() if value % ALIGNMENT == 0 and name in kernel.arg_names
        ],
    )
    grid = folded(cdiv(n, block), cdiv(channels, wide) if last else 1)
    numbers = tuple(values[name] for name in kernel.arg_names if name in values)
    return lambda *addresses: launch(grid, *addresses, *numbers)


def tile_of(n: int, channels: int, itemsize: int, last: bool) -> tuple[int, int]:
    """Return the positions and channels of a program; a lane has 16 bytes of each position where channels are last.

    `itemsize` is of elements that are read in vectors; of 8 bytes where they cannot be.
    """
    if not last:
        max_block = INTERPRETED_BLOCK if interpreted() else BLOCK
        return min(max(next_power_of_2(n), 16), max_block), 1
    wide = min(next_power_of_2(channels), CHANNELS)
    elements = INTERPRETED_BLOCK if interpreted() else 128 * min(ALIGNMENT // itemsize, 8)
    return min(next_power_of_2(n), max(elements // wide, 1)), wide


def max_pool_(call: StructuredCall) -> PlannedKernel:
    """Compute the maximum of each window: the first of equal elements, the last of NaNs."""
    spec = check_floating(call)
    values, indices = call.outputs
    if values.numel == 0:
        return PlannedKernel(launch_nothing)
    run = plan(
        call,
        max_pool,
        {"x": ("x", spec), "out": ("y", values), "index": ("s", indices)},
        values,
        {"LOWEST": lowest(compute_type(spec.dtype))},
    )
    return PlannedKernel(lambda out, where, x: run(x.address, out.address, where.address))


def max_pool_backward_(call: StructuredCall) -> PlannedKernel:
    """Sum for each element the gradients of the windows whose index names it."""
    check_floating(call)
    out = call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    grad, indices = call.args["grad_output"], call.args["indices"]
    run = plan(
        call, max_pool_backward, {"g": ("g", grad), "index": ("s", indices), "out": ("y", out)}, out, {}
    )
    return PlannedKernel(lambda out_data, g, _, where: run(g.address, where.address, out_data.address))


def averaging(call: StructuredCall) -> dict[str, object]:
    """Return the kernels' constexprs of averages."""
    return {
        "divisor": call.args.get("divisor_override"),
        "WITH_PAD": call.args.get("count_include_pad", False),
    }


def average_pool_(call: StructuredCall) -> PlannedKernel:
    """Compute the mean of each window; integers divide as in C."""
    spec = check_floating(call)
    out = call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    run = plan(call, average_pool, {"x": ("x", spec), "out": ("y", out)}, out, averaging(call))
    return PlannedKernel(lambda out_data, x: run(x.address, out_data.address))


def average_pool_backward_(call: StructuredCall) -> PlannedKernel:
    """Sum for each element its shares of the gradients of the windows that contain it."""
    check_floating(call)
    out = call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    grad = call.args["grad_output"]
    run = plan(call, average_pool_backward, {"g": ("g", grad), "out": ("y", out)}, out, averaging(call))
    return PlannedKernel(lambda out_data, g, _: run(g.address, out_data.address))


KERNELS: dict[str, Callable[[StructuredCall], PlannedKernel]] = {
    **dict.fromkeys(
        (
            "max_pool2d_with_indices_stub",
            "max_pool3d_with_indices_stub",
            "adaptive_max_pool2d_stub",
            "adaptive_max_pool3d_stub",
        ),
        max_pool_,
    ),
    **dict.fromkeys(
        (
            "max_pool2d_with_indices_backward_stub",
            "max_pool3d_with_indices_backward_stub",
            "adaptive_max_pool2d_backward_stub",
            "adaptive_max_pool3d_backward_stub",
        ),
        max_pool_backward_,
    ),
    **dict.fromkeys(
        ("avg_pool2d_stub", "avg_pool3d_stub", "_adaptive_avg_pool2d_stub", "_adaptive_avg_pool3d_stub"),
        average_pool_,
    ),
    **dict.fromkeys(
        (
            "avg_pool2d_backward_stub",
            "avg_pool3d_backward_stub",
            "_adaptive_avg_pool2d_backward_stub",
            "_adaptive_avg_pool3d_backward_stub",
        ),
        average_pool_backward_,
    ),
}

for _stub, _factory in KERNELS.items():
    register_stub(_stub, "cuda", _factory)
