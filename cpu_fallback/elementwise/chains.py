"""Chains of NumPy's calls over contiguous operands: with the call's numbers made constants, and arrays kept for blocks.

A *chain* is ``chain(out, kept, *operands)``, all of one dtype and size, `out` and `kept` apart from the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from .constants import constants_for

Array = np.ndarray[Any, Any]
Chain = Callable[..., None]
Maker = Callable[..., Chain]
"""Function from the call's numbers, as 0-d arrays of the compute dtype, to the chain."""

SMALL = 1 << 11
"""Elements up to which a choice by a mask is quicker than arithmetic that comes to the same."""
BLOCK = 1 << 15
"""Elements of a block for one thread: the arrays of a chain stay in the second-level cache."""
SHARED_FROM = 1 << 21
"""Elements from which several threads take part: they wait for each other at every short call."""
SHARED_BLOCK = 1 << 18
"""Elements of a block then."""
CACHE_SIZE = 64
"""Number of cached chains for recently used numbers."""
REAL = (np.dtype(np.float32), np.dtype(np.float64))


def is_plain(call: StructuredCall, np_dtype: np.dtype[Any]) -> bool:
    """Return True if all tensors are contiguous, of one size, and already in the compute dtype."""
    specs = [*call.outputs, *(call.args[name] for name in call.runtime)]
    tensors = [s for s in specs if isinstance(s, TensorSpec)]
    sizes = tensors[0].sizes
    return bool(sizes) and all(
        s.is_contiguous and s.sizes == sizes and s.np_dtype == np_dtype and s.numel for s in tensors
    )


def chained(call: StructuredCall, make: Maker, np_dtype: np.dtype[Any]) -> PlannedKernel:
    """Return the kernel of a call that `is_plain`; tensors come before numbers in its arguments."""
    names = call.runtime
    count = sum(isinstance(call.args[name], TensorSpec) for name in names)
    constants = [constants_for(call, name, np_dtype, call.args[name]) for name in names[count:]]
    known: dict[Any, Chain] = {}

    def chain_of(numbers: Sequence[Any]) -> Chain:
        # A zero's sign counts, and is not seen in a tuple's hash.
        key = numbers if all(numbers) else str(numbers)
        chain = known.get(key)
        if chain is None:
            if len(known) >= CACHE_SIZE:
                known.clear()
            chain = known[key] = make(*[c[n] for c, n in zip(constants, numbers, strict=True)])
        return chain

    spec = call.outputs[0]
    numel = spec.numel
    if numel <= BLOCK:
        shape_kernel = _unary if count == 1 else _of_several

        def sized(sizes: tuple[int, ...]) -> PlannedKernel:
            fresh = shape_kernel(chain_of, count, sizes, np_dtype)
            return PlannedKernel(
                lambda out, *inputs: np.copyto(out, fresh(*inputs)),
                fresh,
                quiet=True,
                any_shape=BLOCK if count == 1 else 0,
                sized=sized,
            )

        return sized(spec.sizes)
    block = BLOCK if numel < SHARED_FROM else SHARED_BLOCK
    grain = numel if numel < SHARED_FROM else SHARED_BLOCK

    def into(out: Any, *inputs: Any) -> None:
        chain = chain_of(inputs[count:])
        target = out.reshape(-1)
        lines = [(a.copy() if np.may_share_memory(out, a) else a).reshape(-1) for a in inputs[:count]]

        def some(first: int, last: int) -> None:
            scratch = np.empty(min(block, last - first), np_dtype)
            for start in range(first, last, block):
                end = min(start + block, last)
                chain(target[start:end], scratch[: end - start], *[line[start:end] for line in lines])

        parallel_for(0, numel, grain, some)

    return PlannedKernel(quietly(into))


def _unary(
    chain_of: Callable[[Sequence[Any]], Chain], count: int, sizes: tuple[int, ...], np_dtype: np.dtype[Any]
) -> Callable[..., Array]:
    empty = np.empty

    def fresh(a: Array, *numbers: Any) -> Array:
        out = empty(sizes, np_dtype)
        chain_of(numbers)(out, empty(sizes, np_dtype), a)
        return out

    return fresh


def _of_several(
    chain_of: Callable[[Sequence[Any]], Chain], count: int, sizes: tuple[int, ...], np_dtype: np.dtype[Any]
) -> Callable[..., Array]:
    empty = np.empty

    def fresh(*inputs: Any) -> Array:
        out = empty(sizes, np_dtype)
        chain_of(inputs[count:])(out, empty(sizes, np_dtype), *inputs[:count])
        return out

    return fresh


def general(make: Maker) -> Callable[..., Array]:
    """Return the chain as a function of arrays and 0-d arrays that returns a new array."""

    def function(a: Any, *numbers: Any) -> Array:
        out = np.empty_like(a)
        make(*numbers)(out, np.empty_like(a), a)
        return out

    return function
