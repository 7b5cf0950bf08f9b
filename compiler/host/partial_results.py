"""Index space, partial results and combination of reductions that blocks share, on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...cpu_fallback.widen import compute_np
from ...dispatch.structured.allocation import allocator_of
from ...runtime.device import device as Device
from ...runtime.float_errors import unwrapped
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import float32
from ...runtime.tensor_spec import TensorSpec
from ...triton_kernels.geometry import broadcast_strides
from ..block_reductions import NORM, ReductionCall, ReductionSpace, planned_reduction


class Dimensions:
    """An index space in as few dimensions as can be: neighbours of a kind, which all arrays go through in one stride.

    Attributes:
        sizes: the dimensions' sizes; those of size 1 are left out.
        is_reduced: which of them are reduced.
    """

    def __init__(self, space: ReductionSpace, specs: Sequence[TensorSpec]) -> None:
        self._strides = {spec: broadcast_strides(spec, space.sizes) for spec in specs}
        lead = {spec: (1,) * (len(space.sizes) - spec.ndim) + tuple(spec.sizes) for spec in specs}
        self._moves = {spec: [n != 1 for n in lead[spec]] for spec in specs}
        groups: list[list[int]] = []
        for d, size in enumerate(space.sizes):
            if size == 1:
                continue
            last = groups[-1][-1] if groups else None
            if (
                last is not None
                and (last in space.dims) == (d in space.dims)
                and self._follows(last, d, size)
            ):
                groups[-1].append(d)
            else:
                groups.append([d])
        self._groups = groups
        self.sizes = tuple([math.prod(space.sizes[d] for d in group) for group in groups])
        self.is_reduced = [group[0] in space.dims for group in groups]

    def _follows(self, before: int, d: int, size: int) -> bool:
        return all(own[before] == own[d] * size for own in self._strides.values()) and all(
            own[before] == own[d] for own in self._moves.values()
        )

    def strides(self, spec: TensorSpec) -> tuple[int, ...]:
        """Return the strides of an array over the dimensions, 0 where it is broadcast."""
        return tuple([self._strides[spec][group[-1]] for group in self._groups])

    def moves(self, spec: TensorSpec) -> list[bool]:
        """Return True for each dimension along which an array is not broadcast."""
        return [self._moves[spec][group[-1]] for group in self._groups]

    def shape(self, spec: TensorSpec) -> tuple[int, ...]:
        """Return the sizes of an array over the dimensions, 1 where it is broadcast."""
        return tuple([n if moves else 1 for n, moves in zip(self.sizes, self.moves(spec), strict=True)])

    def kept(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        """Return the entries of the dimensions that are not reduced."""
        return tuple([n for n, reduced in zip(sizes, self.is_reduced, strict=True) if not reduced])


class Partial(NamedTuple):
    """Computation and combination of a reduction's partial results.

    Attributes:
        stub: The kernel of both.
        dtype: Dtype of the partial results.
        divisor: Divisor of the combined result; None unless it is a mean.
        order: The order of a norm, and of the norm of norms; empty for other reductions.
    """

    stub: str
    dtype: ScalarType
    divisor: Any
    order: str

    @property
    def order_of_parts(self) -> str:
        """The order of the norm that combines norms: elements that are not zero are counted, and counts added."""
        return "1" if self.order == "0" else self.order


def partial_of(call: ReductionCall) -> Partial:
    """Return how a reduction is split: a mean is a sum divided at the end; 16-bit floats accumulate in float32."""
    stub, out = call.stub, call.node.val.dtype
    if stub not in ("sum_stub", "mean_stub", "prod_stub", NORM):
        return Partial(stub, out, None, "")
    np_dtype = compute_np(out)
    dtype = out if out.np == np_dtype else float32
    divisor = np_dtype.type(call.space.n) if stub == "mean_stub" else None
    return Partial("sum_stub" if stub == "mean_stub" else stub, dtype, divisor, call.order)


def combination(
    how: Partial, shape: tuple[int, ...], kept_sizes: tuple[int, ...], device: Device, has_lanes: bool = False
) -> Callable[[Any, Any], None]:
    """Return a function that combines partial results into an output, by the reduction's eager kernel.

    Args:
        how: The kind of partial results.
        shape: Their sizes: the number for each result, then `kept_sizes`, then lanes if `has_lanes`.
        kept_sizes: The sizes of the output, whatever shape it has.
        device: Their device.
        has_lanes: If True, the last dimension is reduced, too. Default: False.
    """
    out = TensorSpec.contiguous(kept_sizes, how.dtype, device)
    new, divisor = allocator_of(out), how.divisor
    if has_lanes and (not kept_sizes or shape[0] == 1):
        shape = (*kept_sizes, math.prod(shape[:1] + shape[len(kept_sizes) + 1 :]))
        dims: tuple[int, ...] = (len(kept_sizes),)
    else:
        dims = (0, len(shape) - 1) if has_lanes else (0,)
    is_one = math.prod(shape) == math.prod(kept_sizes)
    spec = TensorSpec.contiguous(shape, how.dtype, device)
    into = (
        None if is_one else unwrapped(planned_reduction(how.stub, spec, out, dims, how.order_of_parts).into)
    )

    def combine(out_array: Any, partials: Any) -> None:
        if into is None:
            total = partials.reshape(kept_sizes)
        else:
            total = new()
            into(total, partials.reshape(shape))
        np.copyto(
            out_array.reshape(kept_sizes), total if divisor is None else total / divisor, casting="unsafe"
        )

    return combine
