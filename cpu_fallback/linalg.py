"""Matrix products by BLAS; integers in blocks; narrow floats in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .error_state import IGNORE, reset_state, set_state
from .widen import NARROW

CHUNK = 64
"""Elements of the inner dimension that an integer product handles at a time."""


def integer_matmul(a: Any, b: Any) -> Any:
    """A product of integer matrices that wraps like C: exact in float64 blocks where that is safe, else by parts.

    NumPy has no BLAS for integers; partial products of up to 16 bits each are exact in float64.
    """
    dtype = a.dtype
    if dtype.itemsize <= 2:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64).astype(dtype)
    return np.matmul(a, b)


def matmul_function(call: StructuredCall, name: str) -> Any:
    """``f(a, b)`` for the call's dtype."""
    dtype = call.args[name].dtype
    if dtype in NARROW:
        return lambda a, b: np.matmul(a.astype(np.float32), b.astype(np.float32))
    if dtype.name == "bool":
        raise call.refuse(call.args[name])
    if dtype.is_integral:
        return integer_matmul
    return np.matmul


def mm(call: StructuredCall) -> PlannedKernel:
    """(n, m) by (m, p)."""
    spec = call.args["self"]
    function = matmul_function(call, "self")
    if spec.sizes[1] == 0:
        return PlannedKernel(lambda out, a, b: out.fill(0))
    if function is np.matmul:
        dot = np.dot

        def fresh(a: Any, b: Any) -> Any:
            token = set_state(IGNORE)
            try:
                return dot(a, b)
            finally:
                reset_state(token)

        def into(out: Any, a: Any, b: Any) -> None:
            token = set_state(IGNORE)
            try:
                np.matmul(a, b, out)
            finally:
                reset_state(token)

        return PlannedKernel(into, fresh)

    def cast_into(out: Any, a: Any, b: Any) -> None:
        token = set_state(IGNORE)
        try:
            np.copyto(out, function(a, b), casting="unsafe")
        finally:
            reset_state(token)

    return PlannedKernel(cast_into)


register_stub("mm_stub", "cpu", mm)
