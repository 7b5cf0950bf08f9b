"""Interpolation to a size or by factors: the ``.vec`` overloads (ATen/native/UpSample.cpp)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..plans.delegated import plan_with_numbers
from ..plans.register import planned_by

if TYPE_CHECKING:
    from ..tensor import Tensor


def output_size_of(
    input_size: Sequence[int], output_size: Sequence[int] | None, scale_factors: Sequence[float] | None
) -> list[int]:
    """Return the spatial sizes of the result. Raises RuntimeError unless exactly one of the two is given."""
    rank = len(input_size) - 2
    if (output_size is None) == (scale_factors is None):
        raise RuntimeError("Must specify exactly one of output_size and scale_factors")
    sizes_or_factors = output_size if output_size is not None else scale_factors
    assert sizes_or_factors is not None
    if len(sizes_or_factors) != rank:
        argument = "output_size" if output_size is not None else "scale_factors"
        raise RuntimeError(
            f"{argument}: expected {rank} values for an input of {rank + 2} dimensions, got {len(sizes_or_factors)}"
        )
    if output_size is not None:
        return list(output_size)
    if not all(map(math.isfinite, sizes_or_factors)):
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got scale_factors: {list(sizes_or_factors)} of "
            f"sizes {list(input_size[2:])}"
        )
    return [int(n * factor) for n, factor in zip(input_size[2:], sizes_or_factors, strict=True)]


def _by_vector(name: str) -> Callable[..., Any]:
    spatial = int(next(letter for letter in name if letter.isdigit()))

    def plan(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        input, output_size, *align_corners, scale_factors = args
        # Scale factors are arguments of each call, on which the output size depends.
        if scale_factors is not None or output_size is None or input._spec.ndim != spatial + 2:
            return op.rebind(vec, args)
        if len(output_size) != spatial:
            return op.rebind(vec, args)
        part_args = (input, tuple(output_size), *align_corners, *[None] * len(output_size))
        part = plan_with_numbers(op, key_set, args, f"aten::{name}", part_args)
        return op.rebind(vec, args) if part is None else part

    @planned_by(plan)
    def vec(input: Tensor, output_size: Sequence[int] | None, *rest: Any) -> Any:
        *align_corners, scale_factors = rest
        sizes = output_size_of(input._spec.sizes, output_size, scale_factors)
        if len(sizes) != spatial:
            raise RuntimeError(f"It is expected output_size equals to {spatial}, but got size {len(sizes)}")
        factors = [None] * len(sizes) if scale_factors is None else list(scale_factors)
        by_sizes = Dispatcher.singleton().find_schema_or_throw(f"aten::{name}")
        return by_sizes.call(input, tuple(sizes), *align_corners, *factors)

    return vec


upsample_nearest1d = _by_vector("upsample_nearest1d")
upsample_nearest2d = _by_vector("upsample_nearest2d")
upsample_nearest3d = _by_vector("upsample_nearest3d")
_upsample_nearest_exact1d = _by_vector("_upsample_nearest_exact1d")
_upsample_nearest_exact2d = _by_vector("_upsample_nearest_exact2d")
_upsample_nearest_exact3d = _by_vector("_upsample_nearest_exact3d")
upsample_linear1d = _by_vector("upsample_linear1d")
upsample_bilinear2d = _by_vector("upsample_bilinear2d")
upsample_bicubic2d = _by_vector("upsample_bicubic2d")
upsample_trilinear3d = _by_vector("upsample_trilinear3d")
_upsample_bilinear2d_aa = _by_vector("_upsample_bilinear2d_aa")
_upsample_bicubic2d_aa = _by_vector("_upsample_bicubic2d_aa")
