"""Host kernels of a few small matrices: one matrix after the other, by the kernel of one.

A composite pays the call path of each operator that it calls, which costs more than LAPACK for a few small matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import HostKernel
from ...runtime.memory_format import contiguous_strides
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

FEW = 64
"""Largest batch whose matrices are processed one by one."""
FEWER = 8
"""The same for operators whose composite passes the whole batch to one function of NumPy."""
SMALL = 4096
"""Elements of a matrix up to which LAPACK takes less time than the composite's operators."""

Factory = Callable[..., HostKernel | None]


def over_batch(factory: Factory, *ranks: int, few: int = FEW) -> Factory:
    """Return a factory that also serves batches, by the kernel that `factory` makes for one matrix of them.

    Args:
        factory: Function from an operator's arguments to the kernel of one matrix.
        ranks: The number of dimensions of each tensor argument in a call with one matrix. Default: 2 for each.
        few: The largest batch that it serves.
    """

    def batched(*args: Any) -> HostKernel | None:
        positions = [i for i, arg in enumerate(args) if isinstance(arg, TensorSpec)]
        own_ranks = ranks or (2,) * len(positions)
        first = args[positions[0]]
        if first.ndim <= own_ranks[0]:
            return factory(*args)
        batch = first.sizes[: -own_ranks[0]]
        if not 0 < math.prod(batch) <= few or first.numel > SMALL * math.prod(batch):
            return None
        single = list(args)
        for i, rank in zip(positions, own_ranks, strict=True):
            spec = args[i]
            if spec.ndim != rank + len(batch) or spec.sizes[: len(batch)] != batch:
                return None
            single[i] = TensorSpec.of(spec.sizes[-rank:], spec.strides[-rank:], spec.dtype, spec.device)
        kernel = factory(*single)
        if kernel is None or kernel.fresh is None:
            return None
        chosen("LAPACK's routine for each matrix of a batch", "the batch is {}", batch)
        return _of_each(kernel, batch)

    return batched


def _of_each(kernel: HostKernel, batch: Sequence[int]) -> HostKernel:
    """Return the kernel that calls another one for each matrix and stacks the results."""
    specs = [_stacked(spec, batch) for spec in kernel.outputs if spec is not None]
    make = [_maker_of(spec) for spec in specs]
    compute, places, is_one = kernel.fresh, list(np.ndindex(*batch)), len(specs) == 1
    assert compute is not None

    def results(values: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        for place in places:
            yield place, compute(*[v[place] if isinstance(v, np.ndarray) else v for v in values])

    def one(*values: Any) -> Any:
        made = make[0]()
        for place, result in results(values):
            if result is None:
                return None
            made[place] = result
        return made

    def several(*values: Any) -> tuple[Any, ...] | None:
        made = tuple([new() for new in make])
        for place, result in results(values):
            if result is None:
                return None
            for stack, each in zip(made, result, strict=True):
                stack[place] = each
        return made

    return HostKernel(tuple(specs), one if is_one else several)


def _stacked(spec: TensorSpec, batch: Sequence[int]) -> TensorSpec:
    """Return the spec of a batch of results, each with the strides of one."""
    outer = [spec.numel * step for step in contiguous_strides(tuple(batch))]
    return TensorSpec.of((*batch, *spec.sizes), (*outer, *spec.strides), spec.dtype, spec.device)


def _maker_of(spec: TensorSpec) -> Callable[[], Any]:
    """Return a function that returns a new array with the strides of a spec."""
    sizes, dtype = spec.sizes, spec.np_dtype
    if spec.is_contiguous:
        return lambda: np.empty(sizes, dtype)
    turned = (*sizes[:-2], sizes[-1], sizes[-2])
    return lambda: np.empty(turned, dtype).swapaxes(-1, -2)
