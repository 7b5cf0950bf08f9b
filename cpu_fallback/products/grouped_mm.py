"""Grouped matmul, a BLAS matmul for each group: 16-bit floats compute in float32 and round once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np


def groups_of(offs: Any, total: int) -> Iterator[slice]:
    """Yield each group's slice of the shared dimension; an offset below its predecessor makes an empty group."""
    start = 0
    for end in offs.tolist():
        stop = max(start, min(end, total))
        yield slice(start, stop)
        start = stop


def multiply_groups(out: Any, x: Any, y: Any, offs: Any, by_row: Any = None, by_column: Any = None) -> None:
    """Write the products into `out`, each of them times the scales of its rows and columns."""

    def product(left: Any, right: Any, rows: Any, columns: Any) -> Any:
        made = np.matmul(left.astype(np.float32, copy=False), right.astype(np.float32, copy=False))
        if rows is not None:
            made *= rows[:, None]
            made *= columns
        return made

    def scale(scales: Any, part: Any) -> Any:
        return None if scales is None else scales[part]

    if offs is None:
        for g in range(len(x)):
            np.copyto(out[g], product(x[g], y[g], scale(by_row, g), scale(by_column, g)), casting="unsafe")
        return
    if x.ndim == y.ndim:
        rows, columns = (None if s is None else s.reshape(len(offs), -1) for s in (by_row, by_column))
        for g, part in enumerate(groups_of(offs, x.shape[1])):
            made = product(x[:, part], y[part], scale(rows, g), scale(columns, g))
            np.copyto(out[g], made, casting="unsafe")
        return
    end = 0
    for g, part in enumerate(groups_of(offs, x.shape[0] if x.ndim == 2 else y.shape[1])):
        if x.ndim == 2:
            made = product(x[part], y[g], scale(by_row, part), scale(by_column, g))
            np.copyto(out[part], made, casting="unsafe")
        else:
            made = product(x[g], y[:, part], scale(by_row, g), scale(by_column, part))
            np.copyto(out[:, part], made, casting="unsafe")
        end = part.stop
    if x.ndim == 2:
        out[end:] = 0
    else:
        out[:, end:] = 0


def grouped_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_grouped_mm`` and of ``_scaled_grouped_mm``."""
    names = call.runtime

    @quietly
    def into(out: Any, *inputs: Any) -> None:
        arguments = dict(zip(names, inputs, strict=True))
        scales = arguments.get("scale_a"), arguments.get("scale_b")
        multiply_groups(out, arguments["self"], arguments["mat2"], arguments.get("offs"), *scales)

    return PlannedKernel(into)


register_stub("_grouped_mm_stub", "cpu", grouped_mm)
register_stub("_scaled_grouped_mm_stub", "cpu", grouped_mm)
