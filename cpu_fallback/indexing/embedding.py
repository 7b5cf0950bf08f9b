"""Embedding kernels: rows of a table by number, their norms, and the gradient of the table."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from ..widen import FLOAT32, NARROW
from .index_bounds import check_rows, own
from .scatter_reduction import add_rows


def embedding(call: StructuredCall) -> PlannedKernel:
    """Return rows of a table."""
    size = call.args["weight"].sizes[0]
    take = np.take

    def into(out: Any, weight: Any, indices: Any) -> None:
        check_rows(indices, size)
        if not out.size:
            return
        if out.flags.c_contiguous:
            take(weight, indices, 0, out, "clip")
        else:
            np.copyto(out, take(weight, indices, 0, None, "clip"))

    def fresh(weight: Any, indices: Any) -> Any:
        check_rows(indices, size)
        return weight.take(indices, 0, None, "clip")

    return PlannedKernel(into, fresh if size else None)


def embedding_renorm(call: StructuredCall) -> PlannedKernel:
    """Scale the indexed rows down to a maximum norm."""
    spec = call.outputs[0]
    size = spec.sizes[0]
    narrow = spec.dtype in NARROW

    @quietly
    def into(out: Any, table: Any, indices: Any, max_norm: float, norm_type: float) -> None:
        rows = np.unique(indices)
        check_rows(rows, size)
        if not rows.size or not table.size:
            return
        values = table[rows].astype(FLOAT32) if narrow else table[rows]
        norms = np.linalg.norm(values, norm_type, axis=1)
        large = norms > max_norm
        scale = (max_norm / (norms[large] + 1e-7)).astype(values.dtype)
        out[rows[large]] = (values[large] * scale[:, None]).astype(out.dtype)

    return PlannedKernel(into)


def embedding_dense_backward(call: StructuredCall) -> PlannedKernel:
    """Add the gradient's rows at their indices; the padding's row stays zero."""
    spec = call.outputs[0]
    padding: int = call.args["padding_idx"]
    by_frequency: bool = call.args["scale_grad_by_freq"]
    narrow = spec.dtype in NARROW
    count, width = spec.sizes

    @quietly
    def into(out: Any, grad: Any, indices: Any) -> None:
        rows = own(indices.reshape(-1))
        check_rows(rows, count)
        values = np.ascontiguousarray(grad).reshape(rows.size, width)
        work = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
        work.fill(0)
        if padding >= 0:
            is_kept = rows != padding
            rows, values = rows[is_kept], values[is_kept]
        if by_frequency and rows.size:
            times = np.bincount(rows, minlength=count)[rows]
            scale = FLOAT32 if narrow else values.dtype
            values = values.astype(scale) / times[:, None].astype(scale)
        add_rows(work, rows, values, narrow)
        if work is not out:
            np.copyto(out, work)

    return PlannedKernel(into)


for _stub, _factory in {
    "embedding_stub": embedding,
    "embedding_renorm_stub": embedding_renorm,
    "embedding_dense_backward_stub": embedding_dense_backward,
}.items():
    register_stub(_stub, "cpu", _factory)
