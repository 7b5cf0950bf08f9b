"""Sampling of images at given places, over any strides of image and grid."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.meta.grid_sampler import taps_of
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.tensor_spec import TensorSpec
from ..contiguous import contiguous_copy
from ..conversion import compute_type
from ..elementwise.elementwise import check_dtypes
from ..folded_grid import folded
from ..geometry import coalesced
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from .grid_sampler_kernels import sample, sample_grid_backward, sample_taps

BLOCK = 128
CHANNELS = 8
INTERPRETED_BLOCK = 4096


def places_apart(grid: TensorSpec) -> int | None:
    """Return the common stride of an image's grid positions, or None if there is none."""
    merged = coalesced(grid.sizes[1:-1], [grid.strides[1:-1]], keep_order=True)
    if len(merged.sizes) > 1:
        return None
    return merged.strides[0][0] if merged.sizes else 0


def launching(
    call: StructuredCall,
    kernel: Any,
    pointers: dict[str, TensorSpec],
    grid: TensorSpec,
    image: dict[str, int],
) -> Any:
    """Return ``run(*addresses)`` in the kernel's order; `image` has sizes and strides of what is sampled."""
    for spec in (grid, *pointers.values()):
        if not spec.dtype.is_floating_point and (spec is grid or spec.dtype.name != "int64"):
            raise NotImplementedError(f"\"grid_sampler\" not implemented for '{spec.dtype.scalar_name}'")
    check_dtypes(call, list(pointers.values()))
    rank = grid.sizes[-1]
    positions = math.prod(grid.sizes[1:-1])
    num_positions = grid.sizes[0] * positions
    by_channels = "BLOCK_C" in kernel.arg_names
    if by_channels:
        chosen(
            "places by channels",
            "{} places of {} channels share what is computed of a place",
            num_positions,
            image["channels"],
        )
    else:
        chosen("place by place", "each of {} places is computed once, by a program's element", num_positions)
    wide = min(next_power_of_2(image["channels"]), CHANNELS) if by_channels else 1
    max_block = INTERPRETED_BLOCK if interpreted() else BLOCK * 4 // wide if by_channels else BLOCK
    block = min(max(next_power_of_2(num_positions), 16), max_block)
    mode = call.args["interpolation_mode"]
    integers = {
        "n_places": num_positions,
        "places": positions,
        "gn": grid.strides[0],
        "gp": places_apart(grid) or 0,
        "g1": grid.strides[-1],
        **image,
    }
    extents = [
        2 * (1 + sum((n - 1) * abs(s) for n, s in zip(spec.sizes, spec.strides, strict=True)))
        for spec in pointers.values()
    ]
    kind = integer_type(*extents, num_positions + block, (num_positions + block) * taps_of(mode, rank))
    fixed = {
        name: n for name, n in integers.items() if n in (0, 1) and name not in ("d", "h", "w", "channels")
    }
    integers = {name: n for name, n in integers.items() if name not in fixed and name in kernel.arg_names}
    fixed = {name: n for name, n in fixed.items() if name in kernel.arg_names}
    types = {
        **{name: f"*{spec.dtype.triton_name}" for name, spec in pointers.items()},
        **{name: "i32" if name in ("d", "h", "w") else kind for name in integers},
    }
    order = [name for name in kernel.arg_names if name in types]
    launch = Launch(
        call.device,
        kernel,
        {name: types[name] for name in order},
        {
            **fixed,
            "RANK": rank,
            "MODE": mode,
            "PADDING": call.args["padding_mode"],
            "ALIGN": bool(call.args["align_corners"]),
            "K": taps_of(mode, 1),
            "TYPE": compute_type(grid.dtype),
            "INDEX": tl.int32 if kind == "i32" else tl.int64,
            "BLOCK": block,
            **({"BLOCK_C": wide} if by_channels else {}),
        },
        divisible=[name for name, n in integers.items() if n % ALIGNMENT == 0],
    )
    numbers = tuple(integers[name] for name in order if name in integers)
    blocks = folded(cdiv(num_positions, block), cdiv(image["channels"], wide) if by_channels else 1)
    return lambda *addresses: launch(blocks, *addresses, *numbers)


def image_of(spec: TensorSpec) -> dict[str, int]:
    """Return sizes and strides of (N, C, *spatial), with a plane of its own where there is none."""
    missing = 5 - spec.ndim
    d, h, w = (*(1,) * missing, *spec.sizes[2:])
    xd, xh, xw = (*(0,) * missing, *spec.strides[2:])
    return {
        "channels": spec.sizes[1],
        "d": d,
        "h": h,
        "w": w,
        "xn": spec.strides[0],
        "xc": spec.strides[1],
        "xd": xd,
        "xh": xh,
        "xw": xw,
    }


def grid_of(call: StructuredCall) -> tuple[TensorSpec, Any]:
    """Return the grid as the kernels read it, and the function that copies its data there."""
    grid: TensorSpec = call.args["grid"]
    if places_apart(grid) is not None:
        return grid, lambda data: data
    return contiguous_copy(grid)


def grid_sampler(call: StructuredCall) -> PlannedKernel:
    """Compute each position's weighted sum of elements, in the order of the taps."""
    spec, out = call.args["input"], call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    grid, copied = grid_of(call)
    run = launching(
        call,
        sample,
        {"x": spec, "grid": grid, "out": out},
        grid,
        {**image_of(spec), "yn": out.strides[0], "yc": out.strides[1]},
    )

    def into(out_data: Any, x: Any, positions: Any) -> None:
        grid_data = copied(positions)
        run(x.address, grid_data.address, out_data.address)

    return PlannedKernel(into)


def grid_sampler_taps(call: StructuredCall) -> PlannedKernel:
    """Compute the indices and weights of `_grid_sampler_taps`."""
    index, weight = call.outputs
    if index.numel == 0:
        return PlannedKernel(launch_nothing)
    grid, copied = grid_of(call)
    size = tuple(call.args["size"])
    d, h, w = (*(1,) * (3 - len(size)), *size)
    run = launching(
        call, sample_taps, {"grid": grid, "index": index, "weight": weight}, grid, {"d": d, "h": h, "w": w}
    )

    def into(out: Any, weight_data: Any, positions: Any) -> None:
        grid_data = copied(positions)
        run(grid_data.address, out.address, weight_data.address)

    return PlannedKernel(into)


def grid_sampler_grid_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradient of each coordinate."""
    spec, out = call.args["input"], call.outputs[0]
    if out.numel == 0:
        return PlannedKernel(launch_nothing)
    grid, copied = grid_of(call)
    grad, gapless = contiguous_copy(call.args["grad_output"])
    run = launching(
        call,
        sample_grid_backward,
        {"g": grad, "x": spec, "grid": grid, "out": out},
        grid,
        {**image_of(spec), "dn": grad.strides[0], "dc": grad.strides[1]},
    )

    def into(out_data: Any, g: Any, x: Any, positions: Any) -> None:
        data, grid_data = gapless(g), copied(positions)
        run(data.address, x.address, grid_data.address, out_data.address)

    return PlannedKernel(into)


for _rank in (2, 3):
    register_stub(f"grid_sampler_{_rank}d_stub", "cuda", grid_sampler)
register_stub("_grid_sampler_taps_stub", "cuda", grid_sampler_taps)
register_stub("_grid_sampler_grid_backward_stub", "cuda", grid_sampler_grid_backward)
