"""layer_norm and rms_norm as compiled loops (the extra ``triten[jit]``).

A row is normalized while it is in the cache (`row_loop.py`). No result depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.cpu.loop_requests import Sharing, loop_now, shared_loop
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

Array = np.ndarray[Any, Any]

COMPILE_THRESHOLD = 1 << 13
"""Compile a loop for calls of at least this many elements; NumPy takes some 40 us for them."""
SHARED_FROM, WAKING_FROM = 1 << 15, 1 << 18
"""Elements from which threads share a loop, and from which those that sleep are woken for it."""
PART = 1 << 13
"""Elements of a part, at least."""
PARTS = 32
"""Parts at most."""


def are_served(call: StructuredCall, rows: int, n: int) -> bool:
    """Return True if all tensors are of one dtype that loops support, and large. The input may have any strides."""
    dtype = call.args["input"].dtype
    given = [value for value in call.args.values() if isinstance(value, TensorSpec)]
    parameters = [value for name, value in call.args.items() if name != "input"]
    return (
        dtype.name in ("float32", "float64")
        and n > 0
        and rows * n >= COMPILE_THRESHOLD
        and all(spec.dtype is dtype for spec in (*given, *call.outputs))
        and all(spec.is_contiguous for spec in (*parameters, *call.outputs) if isinstance(spec, TensorSpec))
        and _loop_now(dtype.name, "centred") is not None
    )


def _loop_now(dtype: str, *flags: str) -> Callable[..., None] | None:
    from .row_loop import row_loop

    return loop_now(row_loop, dtype, *flags)


def forward(rows: int, n: int, dtype: Any, default: float) -> Callable[..., None]:
    """Return ``into(out, means, rstds, x, weight, bias, eps)``; `means` and `bias` may be None, without a mean."""
    step = -(-rows // max(1, min(PARTS, rows, rows * n // PART)))
    parts = [np.array([first, min(first + step, rows), n], np.int64) for first in range(0, rows, step)]
    sharing = Sharing.of(rows * n, SHARED_FROM, WAKING_FROM)
    name = np.dtype(dtype).name
    loops: dict[tuple[bool, ...], Callable[..., None]] = {}

    def planned(*there: bool) -> Callable[..., None]:
        flags = [
            flag for flag, is_there in zip(("centred", "weight", "bias"), there, strict=True) if is_there
        ]
        loop = _loop_now(name, *flags)
        assert loop is not None
        return shared_loop(loop, parts, sharing, None)

    def into(
        out: Array,
        means: Array | None,
        rstds: Array,
        x: Array,
        weight: Array | None,
        bias: Array | None,
        eps: float | None,
    ) -> None:
        there = means is not None, weight is not None, bias is not None
        loop = loops.get(there)
        if loop is None:
            loop = loops[there] = planned(*there)
        x = np.ascontiguousarray(x)
        given = [x if each is None else each for each in (weight, bias)]
        loop(
            x,
            np.array([default if eps is None else eps]),
            *given,
            out,
            out if means is None else means,
            rstds,
        )

    return into
