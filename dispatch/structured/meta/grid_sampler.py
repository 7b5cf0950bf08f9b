"""Meta functions of sampling at given positions (ATen/native/GridSamplerUtils.h)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....runtime.scalar_type import int64
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from ..operand_checks import check_dtype, check_ranks, check_sizes
from .linalg import check_same_device

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2


def taps_of(interpolation_mode: int, rank: int) -> int:
    """Return the number of elements that a sample is interpolated from."""
    taps = {BILINEAR: 2**rank, NEAREST: 1, BICUBIC: 4**rank}.get(interpolation_mode)
    if taps is None:
        raise RuntimeError(
            f"grid_sampler: interpolation_mode must be {BILINEAR} (bilinear), {NEAREST} (nearest) or {BICUBIC} "
            f"(bicubic), got {interpolation_mode}"
        )
    return int(taps)


def check_grid_sampler(
    input: TensorSpec, grid: TensorSpec, interpolation_mode: int, rank: int | None
) -> None:
    """Raise RuntimeError with PyTorch's messages. `rank` is the number of spatial dimensions; None for any."""
    if input.device is not grid.device:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to be on same device, but input is on {input.device} and grid is "
            f"on {grid.device}"
        )
    if input.sizes[:1] != grid.sizes[:1]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.sizes)} and grid with sizes {list(grid.sizes)}"
        )
    if grid.sizes[-1:] != (input.ndim - 2,):
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got grid with sizes "
            f"{list(grid.sizes)}"
        )
    for dim in range(2, input.ndim):
        if input.sizes[dim] <= 0:
            raise RuntimeError(
                f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(input.sizes)} with dimension {dim} being empty"
            )
    if rank is not None and (input.ndim != rank + 2 or grid.ndim != input.ndim):
        raise RuntimeError(
            f"grid_sampler(): expected {rank + 2}D input and grid with same number of dimensions, but got input with "
            f"sizes {list(input.sizes)} and grid with sizes {list(grid.sizes)}"
        )
    if rank == 3 and interpolation_mode == BICUBIC:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if grid.dtype is not input.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have same dtype, but input has {input.dtype.scalar_name} and "
            f"grid has {grid.dtype.scalar_name}"
        )


def check_grid_gradient(
    grad_output: TensorSpec, input: TensorSpec, grid: TensorSpec, interpolation_mode: int
) -> None:
    """Raise RuntimeError for an unknown mode, and for operands of the backward operator that do not fit each other."""
    rank = input.ndim - 2
    name = f"grid_sampler_{rank}d_backward()"
    check_ranks(name, "input", input, 4, 5)
    check_ranks(name, "grid", grid, input.ndim)
    check_grid_sampler(input, grid, interpolation_mode, rank)
    taps_of(interpolation_mode, rank)
    check_same_device(name, input, grad_output)
    check_dtype(name, "grad_output", grad_output, input.dtype)
    check_sizes(name, "grad_output", grad_output, (*input.sizes[:2], *grid.sizes[1:-1]))


def grid_sampler_nd(
    meta: MetaBase,
    input: TensorSpec,
    grid: TensorSpec,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> None:
    """Infer (N, C, *spatial) sampled at (N, *positions, rank), whose last dimension is x, y, z in [-1, 1]."""
    rank = 3 if "3d" in meta.name else 2
    check_grid_sampler(input, grid, interpolation_mode, rank)
    meta.set_output_contiguous(0, (*input.sizes[:2], *grid.sizes[1:-1]), dtype=input.dtype)


def _grid_sampler_taps(
    meta: MetaBase,
    grid: TensorSpec,
    size: Sequence[int],
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> None:
    """Infer the indices of each position's elements in a plane, one past the last for none, and their weights.

    Both are (N, positions, taps).
    """
    rank = len(size)
    check_ranks(meta.name, "grid", grid, rank + 2)
    check_sizes(meta.name, "grid", grid, (*grid.sizes[:-1], rank))
    if not grid.dtype.is_floating_point:
        raise RuntimeError(
            f"{meta.name}: expected a grid of a floating dtype, but got {grid.dtype.scalar_name}"
        )
    sizes = (grid.sizes[0], math.prod(grid.sizes[1:-1]), taps_of(interpolation_mode, rank))
    meta.set_output_contiguous(0, sizes, dtype=int64)
    meta.set_output_contiguous(1, sizes, dtype=grid.dtype)


def _grid_sampler_grid_backward(
    meta: MetaBase,
    grad_output: TensorSpec,
    input: TensorSpec,
    grid: TensorSpec,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> None:
    """Infer the gradient of the grid."""
    check_grid_gradient(grad_output, input, grid, interpolation_mode)
    meta.set_output_contiguous(0, grid.sizes, dtype=grid.dtype)
