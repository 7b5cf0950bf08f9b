"""Rows of a matrix as 8-bit integers, each with a scale: blocks of rows that stay in the cache."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.quantized_data import MIN_ROW_SCALE
from ..plain_numpy import np

BLOCK = 1 << 17
"""Elements of a block of rows."""
SHARED_FROM = 1 << 20
"""Elements from which another thread takes blocks."""

single = np.float32


def quantize_rows(call: StructuredCall) -> PlannedKernel:
    """Quantize rows by their largest magnitude over a divisor; NaN, also from an infinite scale, becomes 0."""
    m, k = call.args["self"].sizes
    low = call.args["low"]
    rows = max(BLOCK // max(k, 1), 1)
    blocks = -(-m // rows)

    @quietly
    def into(integers: Any, scales: Any, x: Any, divisor: float) -> None:
        def work(first: int, last: int) -> None:
            for start in range(first * rows, min(last * rows, m), rows):
                part = slice(start, min(start + rows, m))
                wide = x[part].astype(single)
                scale = np.abs(wide).max(1, initial=0) / single(divisor)
                np.maximum(scale, single(MIN_ROW_SCALE), out=scale)
                scales[part] = scale
                np.divide(wide, scale[:, None], out=wide)
                np.rint(wide, out=wide)
                if not np.isfinite(scale).all():
                    np.copyto(wide, 0, where=~np.isfinite(wide))
                np.copyto(integers[part], np.clip(wide, low, 127), casting="unsafe")

        parallel_for(0, blocks, 1 if m * k >= SHARED_FROM else max(blocks, 1), work)

    return PlannedKernel(into)


register_stub("_quantize_rows_stub", "cpu", quantize_rows)
