"""A tensor as contiguous lines along one dimension, and results of such lines in their own strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.data_ptr import DataPtr
from ...runtime.scalar_type import int64
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.copy import copy_kernel
from ..indexing.index_bounds import allocate
from ..launch import launch_nothing

Run = Callable[[DataPtr, DataPtr, DataPtr], None]
"""A function ``(x, values, indices)`` over contiguous lines."""


def turned(spec: TensorSpec, dim: int, has_dim: bool = True) -> TensorSpec:
    """Return a view of a tensor with `dim` last, or of size 1 if it was reduced away."""
    if not spec.ndim:
        return spec.replace(sizes=(1,), strides=(1,))
    if not has_dim:
        return spec.replace(sizes=(*spec.sizes, 1), strides=(*spec.strides, 1))
    order = [*(d for d in range(spec.ndim) if d != dim), dim]
    return spec.replace(
        sizes=tuple(spec.sizes[d] for d in order), strides=tuple(spec.strides[d] for d in order)
    )


def over_lines(call: StructuredCall, plan: Callable[[int, int], Run]) -> PlannedKernel:
    """Return ``(values, indices, self)`` along ``call.extra["dim"]``, or ``(value, self)`` if that is None.

    `plan` takes the number of lines and their length. Tensors whose lines are not contiguous, and outputs
    that share memory with the input, go through copies.
    """
    spec: TensorSpec = call.args["self"]
    dim: int | None = call.extra["dim"]
    if any(out.numel == 0 for out in call.outputs):
        return PlannedKernel(launch_nothing)
    if dim is None:
        n, view = spec.numel, spec
    else:
        n = spec.sizes[dim] if spec.ndim else 1
        view = turned(spec, dim)
    run = plan(spec.numel // n, n)
    flat = TensorSpec.contiguous(view.sizes, spec.dtype, spec.device)
    gather = None if view.is_contiguous else copy_kernel(flat, view)
    views = [out if dim is None else turned(out, dim, out.ndim == spec.ndim) for out in call.outputs]
    flats = [TensorSpec.contiguous(out.sizes, out.dtype, out.device) for out in views]
    scatters = [copy_kernel(out, flat_out) for out, flat_out in zip(views, flats, strict=True)]
    direct = [out.is_contiguous for out in views]

    def into(*data: Any) -> None:
        outs, x = data[:-1], data[-1]
        targets = [
            out if straight and out.root is not x.root else allocate(flat_out.nbytes, flat_out.device)
            for out, flat_out, straight in zip(outs, flats, direct, strict=True)
        ]
        if gather is not None:
            lines = allocate(flat.nbytes, flat.device)
            gather(lines, x)
            x = lines
        run(x, targets[0], targets[1] if len(targets) > 1 else allocate(int64.itemsize, call.device))
        for out, target, scatter in zip(outs, targets, scatters, strict=True):
            if target is not out:
                scatter(out, target)

    return PlannedKernel(into)
