"""Vector norms in one pass: elements are mapped and combined block by block, sums pairwise along any axis."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from ..widen import compute_np
from .blocks import folded, over_everything, over_kept
from .line_reductions import adds_lines, line_square_sums
from .sums import pairwise_sum

MAPPED: dict[str, tuple[Any, np.ufunc]] = {
    "0": (lambda block: (block != 0).astype(block.dtype), np.add),
    "1": (np.abs, np.add),
    "2": (np.square, np.add),
    "inf": (np.abs, np.maximum),
    "-inf": (np.abs, np.minimum),
}
"""Map of an element, and the reduction that combines the mapped values, by the norm's order."""
SQUARED = "2"


def vector_norm(call: StructuredCall) -> PlannedKernel:
    """Compute a norm of real elements over the plan's dimensions."""
    spec, out_spec = call.args["self"], call.outputs[0]
    dims: tuple[int, ...] = call.extra["dims"]
    np_dtype = compute_np(spec.dtype)
    sizes = out_spec.sizes
    order = call.args["ord"]
    mapped, combined = MAPPED[order]
    is_sum = combined is np.add
    everything = over_everything(spec, combined, np_dtype, prepares=True) if len(dims) == spec.ndim else None
    run_blocks = over_kept(spec, dims, out_spec.ndim)

    def compute(block: Any) -> Any:
        if order == SQUARED and dims == (spec.ndim - 1,) and adds_lines(block, dims[0], np_dtype):
            return np.sqrt(line_square_sums(block))
        elements = mapped(block.astype(np_dtype, copy=False))
        if is_sum:
            total = pairwise_sum(elements, dims, np_dtype)
            return np.sqrt(total) if order == SQUARED else total
        return combined.reduce(elements, dims, keepdims=True)

    def fold(piece: Any) -> Any:
        if order == SQUARED and np_dtype.kind == "f":
            return line_square_sums(piece)
        return folded(combined, mapped(piece))

    def into(out: Any, array: Any) -> None:
        if everything is not None:
            total = everything(array, fold)
            np.copyto(out, np.sqrt(total) if order == SQUARED else total, casting="unsafe")
        elif run_blocks is not None:
            run_blocks(lambda block: (compute(block),), (out,), array)
        else:
            np.copyto(out, compute(array).reshape(sizes), casting="unsafe")

    return PlannedKernel(quietly(into))


register_stub("_vector_norm_stub", "cpu", vector_norm)
