"""Softmax and similar functions of float32 by compiled loops (`softmax_loop.py`): short rows, and other dimensions.

`tt.compile` fuses neither, so its results are those of these kernels.
"""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall
from ...runtime.cpu.loop_requests import Loop, Sharing, loop_now, shared_loop
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

COMPILE_THRESHOLD = 1 << 12
"""Compile loops for calls of at least this many elements: NumPy takes 20 us for so few, and a loop 7 us."""
SHARED_FROM, WAKING_FROM = 1 << 14, 1 << 17
"""Elements from which threads share a loop, and from which sleeping threads are woken for it."""
PARTS = 16
"""Parts of a loop, which threads take one by one."""
WIDTH = 256
"""Lines of a block."""
MIN_INNER = 8
"""Adjacent lines from which a loop along another dimension is vectorized."""


def _loop(name: str, is_row: bool) -> Loop | None:
    from .softmax_loop import softmax_loop

    return loop_now(softmax_loop, name, is_row)


def compiled(call: StructuredCall, name: str, dim: int, min_row: int, max_row: int) -> PlannedKernel | None:
    """Return the kernel of a loop, or None if no loop serves the call.

    Args:
        call: The planned call.
        name: The operator.
        dim: The dimension of its lines.
        min_row: Rows of a matrix of fewer elements have no loop.
        max_row: The same for rows of more elements.
    """
    operands = [each for each in call.args.values() if isinstance(each, TensorSpec)]
    spec = operands[0]
    if spec.numel < COMPILE_THRESHOLD or not all(
        each.is_contiguous and each.np_dtype == np.float32 and each.sizes == spec.sizes
        for each in (*operands, call.outputs[0])
    ):
        return None
    n, inner = spec.sizes[dim], math.prod(spec.sizes[dim + 1 :])
    is_row = dim == spec.ndim - 1
    if (spec.ndim != 2 or not min_row <= n <= max_row) if is_row else inner < MIN_INNER:
        return None
    loop = _loop(name, is_row)
    if loop is None:
        return None
    chosen("a compiled loop", "{} elements are at least {}", spec.numel, COMPILE_THRESHOLD)
    outer = spec.numel // (n * inner)
    total = outer if is_row else outer * -(-inner // WIDTH)
    sharing = Sharing.of(spec.numel, SHARED_FROM, WAKING_FROM)
    step = -(-total // PARTS) if sharing else total
    parts = [
        np.array([first, min(first + step, total), n, inner], np.int64) for first in range(0, total, step)
    ]
    run = shared_loop(loop, parts, sharing, (len(operands), 8 * WIDTH))

    def into(out: Array, *arrays: Array) -> None:
        run(*[a.copy() if np.may_share_memory(out, a) else a for a in arrays], out)

    def fresh(*arrays: Array) -> Array:
        out = np.empty(spec.sizes, np.float32)
        run(*arrays, out)
        return out

    return PlannedKernel(into, fresh, quiet=True)
