"""Kernels over contiguous copies, for operands with more dimensions than the kernels have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dispatch.structured.stub import PlannedKernel, StructuredCall
from ..runtime.allocator import get_allocator
from ..runtime.tensor_spec import TensorSpec
from .elementwise.copy import copy_kernel


def contiguous_copy(spec: TensorSpec) -> tuple[TensorSpec, Callable[[Any], Any]]:
    """Return the contiguous spec of a tensor's sizes, and a function that copies data to it."""
    flat = TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device)
    if spec.is_contiguous:
        return flat, lambda data: data
    gather = copy_kernel(flat, spec)
    allocate = get_allocator("cuda").allocate

    def copied(data: Any) -> Any:
        buffer = allocate(flat.nbytes, flat.device)
        gather(buffer, data)
        return buffer

    return flat, copied


def through_contiguous_operands(
    call: StructuredCall, factory: Callable[[StructuredCall], PlannedKernel], names: Sequence[str]
) -> PlannedKernel:
    """`factory`'s kernel over contiguous copies of the tensors `names`, and to a contiguous first output."""
    copies = [contiguous_copy(call.args[name]) for name in names]
    out = call.outputs[0]
    result = TensorSpec.contiguous(out.sizes, out.dtype, out.device)
    scatter = None if out.is_contiguous else copy_kernel(out, result)
    flats = {name: flat for name, (flat, _) in zip(names, copies, strict=True)}
    inner = factory(call._replace(args={**call.args, **flats}, outputs=(result,))).into
    allocate = get_allocator("cuda").allocate

    def into(out_data: Any, *inputs: Any) -> None:
        data = [copied(x) for (_, copied), x in zip(copies, inputs[: len(copies)], strict=True)]
        target = out_data if scatter is None else allocate(result.nbytes, result.device)
        inner(target, *data, *inputs[len(copies) :])
        if scatter is not None:
            scatter(out_data, target)

    return PlannedKernel(into)
