"""layer_norm and rms_norm as compiled loops (the extra ``triten[jit]``).

A row is normalized while it is in the cache (`row_loop.py`). Results do not depend on the number of threads. Row
kernels of `compiler/host` add in the same order if an eager call `is_served`.
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
"""Compile a loop for calls of at least this many elements: NumPy takes 40 us for so few, and a loop 7 us."""
SHARED_FROM, WAKING_FROM = 1 << 15, 1 << 18
"""Elements from which threads share a loop, and from which those that sleep are woken for it."""
PART = 1 << 13
"""Elements of a part, at least."""
PARTS = 32
"""Parts at most."""


def is_served(call: StructuredCall, rows: int, n: int) -> bool:
    """Return True if all tensors are large and of one dtype that loops support. The input may have any strides."""
    dtype = call.args["input"].dtype
    parameters = [call.args[name] for name in ("weight", "bias") if _has(call, name)]
    return (
        dtype.name in ("float32", "float64")
        and n > 0
        and rows * n >= COMPILE_THRESHOLD
        and all(spec.dtype is dtype and spec.is_contiguous for spec in (*parameters, *call.outputs))
        and _loop_of(call) is not None
    )


def _has(call: StructuredCall, name: str) -> bool:
    return isinstance(call.args.get(name), TensorSpec)


def _loop_of(call: StructuredCall) -> Callable[..., None] | None:
    from .row_loop import row_loop

    flags = [name for name in ("weight", "bias") if _has(call, name)]
    # Only layer_norm returns means.
    centred = ["centred"] if len(call.outputs) == 3 else []
    return loop_now(row_loop, call.args["input"].dtype.name, *centred, *flags)


def forward(call: StructuredCall, rows: int, n: int, default: float) -> Callable[..., None]:
    """Return ``into(out, means, rstds, x, weight, bias, eps)`` of a served call, with None for absent arrays.

    Args:
        call: The call.
        rows: Number of rows.
        n: Number of elements of a row.
        default: Value of `eps` if it is None.
    """
    step = -(-rows // max(1, min(PARTS, rows, rows * n // PART)))
    parts = [np.array([first, min(first + step, rows), n], np.int64) for first in range(0, rows, step)]
    loop = _loop_of(call)
    assert loop is not None
    run = shared_loop(loop, parts, Sharing.of(rows * n, SHARED_FROM, WAKING_FROM), None)

    def into(
        out: Array,
        means: Array | None,
        rstds: Array,
        x: Array,
        weight: Array | None,
        bias: Array | None,
        eps: float | None,
    ) -> None:
        x = np.ascontiguousarray(x)
        weight, bias = x if weight is None else weight, x if bias is None else bias
        eps_array = np.array([default if eps is None else eps])
        run(x, eps_array, weight, bias, out, out if means is None else means, rstds)

    return into
