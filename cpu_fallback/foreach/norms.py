"""Euclidean norms of several small tensors in one call."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly

CHUNK = 4096
"""Squares that BLAS adds at a time, on one thread and in 32 to 64 partial sums."""


def norms(call: StructuredCall) -> PlannedKernel:
    """Compute the norm of each of several contiguous tensors; chunks are added in float64."""

    def into(arrays: Any, out: Any) -> None:
        for array, made in zip(arrays, out, strict=True):
            row = array if array.ndim == 1 else array.reshape(-1)
            if row.size > CHUNK:
                chunks = [row[start : start + CHUNK] for start in range(0, row.size, CHUNK)]
                made[()] = math.sqrt(sum([float(chunk.dot(chunk)) for chunk in chunks]))
            else:
                made[()] = math.sqrt(row.dot(row))

    return PlannedKernel(quietly(into))


register_stub("multi_tensor_norm_stub", "cpu", norms)
