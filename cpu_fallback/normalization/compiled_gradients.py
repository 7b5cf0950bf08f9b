"""Gradients of layer_norm and rms_norm as compiled loops (the extra ``triten[jit]``).

A row's two sums and its gradient are computed while the row is in the cache
(`row_gradient_loop.py`). The order of summation follows from the sizes, not from the number
of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.cpu.loop_requests import Sharing, loop_now, shared_loop
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

COMPILE_THRESHOLD = 1 << 12
"""Compile a loop for calls of at least this many elements: NumPy takes 150 us for so few, and a loop 100 us."""
SHARED_FROM, WAKING_FROM = 1 << 15, 1 << 18
"""Elements from which threads share a loop, and from which those that sleep are woken for it."""
PART = 1 << 13
"""Elements of a part, at least."""
PARTS = 32
"""Parts at most: each has sums of its own."""


def are_served(call: StructuredCall) -> bool:
    """Return True if all tensors are large and of one dtype that loops support.

    The input and the output's gradient may have any strides: a copy costs less than NumPy's passes.
    """
    first = call.args["input"]
    given = [value for value in call.args.values() if isinstance(value, TensorSpec)]
    small = [value for name, value in call.args.items() if name not in ("input", "grad_out")]
    return (
        first.dtype.name in ("float32", "float64")
        and first.numel >= COMPILE_THRESHOLD
        and all(spec.dtype is first.dtype for spec in (*given, *call.outputs))
        and all(spec.is_contiguous for spec in small if isinstance(spec, TensorSpec))
        and _loop_now(first.dtype.name, "weight", "input_gradient") is not None
    )


def _loop_now(dtype: str, *flags: str) -> Callable[..., None] | None:
    from .row_gradient_loop import row_gradient_loop

    return loop_now(row_gradient_loop, dtype, *flags)


def rows_of_part(rows: int, n: int) -> int:
    """Return the number of rows in a part."""
    count = max(1, min(PARTS, rows, rows * n // PART))
    return -(-rows // count)


def backward(rows: int, n: int, dtype: Any, centred: bool) -> Callable[..., None]:
    """Return ``into(to, to_weight, to_bias, grad, x, means, rstds, weight)``, with None for what there is not."""
    step = rows_of_part(rows, n)
    parts = [
        np.array([first, min(first + step, rows), n, index], np.int64)
        for index, first in enumerate(range(0, rows, step))
    ]
    sharing = Sharing.of(rows * n, SHARED_FROM, WAKING_FROM)
    name = np.dtype(dtype).name
    loops: dict[tuple[bool, ...], Callable[..., None]] = {}

    def planned(*there: bool) -> Callable[..., None]:
        names = ("weight", "input_gradient", "weight_gradient", "bias_gradient")
        flags = [flag for flag, is_there in zip(names, there, strict=True) if is_there]
        loop = _loop_now(name, *flags, *(["centred"] if centred else []))
        assert loop is not None
        return shared_loop(loop, parts, sharing, None)

    def into(
        out: Array | None,
        to_weight: Array | None,
        to_bias: Array | None,
        grad: Array,
        x: Array,
        means: Array | None,
        rstds: Array,
        weight: Array | None,
    ) -> None:
        there = (weight is not None, out is not None, to_weight is not None, to_bias is not None)
        loop = loops.get(there)
        if loop is None:
            loop = loops[there] = planned(*there)
        targets = [target for target in (to_weight, to_bias) if target is not None]
        sizes = (len(parts), len(targets), n)
        sums = np.zeros(sizes)
        given = [rstds if each is None else each for each in (means, rstds, weight)]
        grad, x = np.ascontiguousarray(grad), np.ascontiguousarray(x)
        loop(grad, x, *given, grad if out is None else out, np.empty(sizes, dtype), sums)
        for target, item in zip(targets, sums.sum(0), strict=True):
            np.copyto(target, item.reshape(target.shape), casting="unsafe")

    return into
