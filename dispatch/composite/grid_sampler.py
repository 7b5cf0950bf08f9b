"""Sampling at given positions: the gradient of the image, and grids of affine maps (ATen/native/GridSampler.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...runtime.scalar_type import float32
from ..generated import functions as ops
from ..plans.host_kernel import host_kernel
from ..structured.meta.grid_sampler import check_grid_gradient, check_grid_sampler

if TYPE_CHECKING:
    from ..tensor import Tensor


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Compute `torch.grid_sampler`, over two or three spatial dimensions."""
    check_grid_sampler(input._spec, grid._spec, interpolation_mode, None)
    rank = input.dim() - 2
    if rank not in (2, 3) or grid.dim() != input.dim():
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    sampler = ops.grid_sampler_2d if rank == 2 else ops.grid_sampler_3d
    return sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@host_kernel("grid_sampler_backward", "_grid_sampler_taps", "index_add", "_grid_sampler_grid_backward")
def grid_sampler_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Compute the gradients of the image and of the grid.

    Each sample scatters its gradient to the elements that it was interpolated from. `index_add` sums them in a fixed
    order. An extra row of the plane receives the gradients of positions outside.
    """
    modes = (interpolation_mode, padding_mode, align_corners)
    check_grid_gradient(grad_output._spec, input._spec, grid._spec, interpolation_mode)
    size = list(input.shape[2:])
    of_input = of_grid = None
    if output_mask[0]:
        n, c = input.shape[:2]
        wide = grad_output if input.dtype.itemsize > 2 else grad_output.to(float32)
        index, weight = ops._grid_sampler_taps(grid.to(wide.dtype), size, *modes)
        rows = input[0, 0].numel() + 1
        num_points, taps = index.shape[1:]
        first = ops.arange(n, device=grid.device).reshape(n, 1, 1) * rows
        shares = wide.reshape(n, c, num_points).permute(0, 2, 1).unsqueeze(2) * weight.unsqueeze(3)
        added = ops.zeros([n * rows, c], dtype=wide.dtype, device=grid.device).index_add(
            0, (index + first).reshape(n * num_points * taps), shares.reshape(n * num_points * taps, c)
        )
        planes = added.reshape(n, rows, c).narrow(1, 0, rows - 1).permute(0, 2, 1)
        of_input = planes.contiguous().reshape(input.shape).to(input.dtype)
    if output_mask[1]:
        of_grid = ops._grid_sampler_grid_backward(grad_output, input, grid, *modes)
    return of_input, of_grid


def _coordinates(theta: Tensor, n: int, align_corners: bool) -> Tensor:
    """Return the coordinates of the elements of a dimension in [-1, 1]."""
    if n <= 1:
        return ops.zeros(n, dtype=theta.dtype, device=theta.device)
    coordinates = ops.linspace(-1, 1, n, dtype=theta.dtype, device=theta.device)
    return coordinates if align_corners else coordinates * ((n - 1) / n)


def _base_grid(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Return (positions, rank + 1): each element's coordinates, the last dimension first, and 1."""
    spatial = list(size[2:])
    rank = len(spatial)
    parts = []
    for d in range(rank - 1, -1, -1):
        line = _coordinates(theta, spatial[d], align_corners)
        parts.append(line.reshape([-1 if i == d else 1 for i in range(rank)]).expand(spatial))
    parts.append(ops.ones(spatial, dtype=theta.dtype, device=theta.device))
    return ops.stack(parts, -1).reshape(-1, rank + 1)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Return (N, *spatial, rank) positions of (N, rank, rank + 1) matrices, for `torch.nn.functional.grid_sample`."""
    rank = len(size) - 2
    if rank not in (2, 3):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    base = _base_grid(theta, size, align_corners)
    made = ops.matmul(base.unsqueeze(0), theta.transpose(1, 2))
    # A copy: below autograd a result must not be a view of a hidden temporary.
    return made.reshape([size[0], *size[2:], rank]).clone()


def affine_grid_generator_backward(grad: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Compute the gradient of the matrices."""
    if len(size) not in (4, 5):
        raise RuntimeError(f"affine_grid_generator_backward: expected 4 or 5 sizes, got {list(size)}")
    rank = len(size) - 2
    base = _base_grid(grad, size, align_corners)
    flat = grad.reshape(size[0], -1, rank)
    return ops.matmul(flat.transpose(1, 2), base.unsqueeze(0))
