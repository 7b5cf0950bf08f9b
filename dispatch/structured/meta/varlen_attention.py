"""Planners of attention in packed sequences of different lengths, and the contract that every backend's kernels keep.

query (T_q, H, E), key (T_k, G, E), value (T_k, G, Ev), where G divides H and head h reads the keys of h // (H / G).
Sequence i has the queries from ``cu_seq_q[i]`` to ``cu_seq_q[i + 1]`` and the keys from ``cu_seq_k[i]`` to
``cu_seq_k[i + 1]``, of which with `seqused_k` the first ``seqused_k[i]`` count: int32, which begin with 0 and do not
descend. The last query of a sequence stands at the place of its last key; a query of place p sees the keys from
p - left to p + right, each side unbounded where it is negative.

- ``varlen_attn_stub(out, logsumexp, query, key, value, cu_seq_q, cu_seq_k, scale, seqused_k)``
- ``varlen_attn_backward_stub(grad_query, grad_key, grad_value, grad, query, key, value, out, logsumexp, cu_seq_q,
  cu_seq_k, scale)``

`out` (T_q, H, Ev) and the gradients lie in memory as `query`, `key` and `value` do, the last dimension inner;
`logsumexp` (H, T_q) is contiguous, float32 (float64 for float64), natural. A query that sees no key, and one behind
the last sequence, gives zeros, and minus infinity as its logarithm. ``call.extra["window"]`` is (left, right).

Wrong bounds reach no memory of others. The host raises RuntimeError; a kernel on a GPU reports it (`faults`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.scalar_type import bfloat16, float16, float32, float64, int32
from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ...tensor import Tensor
from ..allocation import allocator_of
from .attention import FUSED, LARGEST_HEAD, _data, _divides, _kernel, _scale, _specs, laid_out_as
from .linalg import check_same_device

WRONG_STARTS = (
    "{argument}: expected bounds that begin with 0 and do not descend, within [0, {rows}], but got others"
)
WRONG_COUNTS = "seqused_k: expected counts of at least 0 and at most each sequence's keys, but got others"
"""What kernels say of bounds whose values alone show them to be wrong."""


def _check(
    name: str,
    query: TensorSpec,
    key: TensorSpec,
    value: TensorSpec,
    starts: Sequence[TensorSpec],
    used: TensorSpec | None,
) -> None:
    """Refuse operands that the kernels do not take."""
    if not query.ndim == key.ndim == value.ndim == 3:
        raise RuntimeError(
            f"{name}: expected query, key and value of shape (rows, heads, width), but got {list(query.sizes)}, "
            f"{list(key.sizes)} and {list(value.sizes)}"
        )
    check_same_device(name, query, key, value, *starts, used)
    allowed = FUSED["cpu"] if query.device.type != "cuda" else (float16, bfloat16)
    if query.dtype not in allowed or not query.dtype is key.dtype is value.dtype:
        names = ", ".join(dtype.scalar_name for dtype in allowed)
        raise RuntimeError(
            f"{name}: expected query, key and value in one of {names}, but got {query.dtype}, {key.dtype} and "
            f"{value.dtype}"
        )
    (_, heads, width), (rows, heads_k, width_k), (rows_v, heads_v, width_v) = (
        query.sizes,
        key.sizes,
        value.sizes,
    )
    if width_k != width or (rows_v, heads_v) != (rows, heads_k) or not _divides(heads_k, heads):
        raise RuntimeError(
            f"{name}: expected key of (rows, heads, {width}) and value of as many rows and heads, which divide "
            f"{heads}, but got {list(key.sizes)} and {list(value.sizes)}"
        )
    if query.device.type == "cuda" and max(width, width_v) > LARGEST_HEAD:
        raise RuntimeError(f"{name}: expected heads of at most {LARGEST_HEAD}, but got {width} and {width_v}")
    if starts[0].ndim == 1 and starts[0].numel == 0:
        raise RuntimeError(f"{name}: expected at least one bound in cu_seq_q, but got none")
    named = [("cu_seq_q", starts[0], starts[0].numel), ("cu_seq_k", starts[1], starts[0].numel)]
    if used is not None:
        named.append(("seqused_k", used, starts[0].numel - 1))
    for argument, spec, count in named:
        if spec.dtype is not int32:
            raise RuntimeError(f"{name}: {argument} must have dtype int32, got {spec.dtype}")
        if spec.sizes != (count,):
            raise RuntimeError(
                f"{name}: expected {argument} of shape ({count},), but got {list(spec.sizes)}; there is one "
                "bound more than there are sequences"
            )


def _statistics(query: TensorSpec) -> TensorSpec:
    dtype = float64 if query.dtype is float64 else float32
    return TensorSpec.contiguous((query.sizes[1], query.sizes[0]), dtype, query.device)


def varlen_attn(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """``(query, key, value, cu_seq_q, cu_seq_k, scale, seqused_k)``: (output, logsumexp)."""
    query, key, value, *starts, used = _specs(*args[:5], args[8])
    assert query is not None and key is not None and value is not None
    bounds = [spec for spec in starts if spec is not None]
    _check("varlen_attn", query, key, value, bounds, used)
    out, statistics = laid_out_as(query, (*query.sizes[:2], value.sizes[2])), _statistics(query)
    names = {
        "query": query,
        "key": key,
        "value": value,
        "cu_seq_q": bounds[0],
        "cu_seq_k": bounds[1],
        "scale": float,
        "seqused_k": used,
    }
    extra = {"window": (args[5], args[6])}
    into: Callable[..., Any] = _kernel("varlen_attn", "varlen_attn_stub", (out, statistics), names, extra)
    allocate, allocate_statistics, width = allocator_of(out), allocator_of(statistics), query.sizes[2]

    def plan(*values: Any) -> tuple[Tensor, Tensor]:
        *tensors, scale, used = values
        data, logsumexp = allocate(), allocate_statistics()
        into(data, logsumexp, *[t._data for t in tensors], _scale(width, scale), _data(used))
        return Tensor.from_data(data, out), Tensor.from_data(logsumexp, statistics)

    return plan


def varlen_attn_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """``(grad_out, query, key, value, out, logsumexp, cu_seq_q, cu_seq_k, scale)``: three gradients."""
    name = "varlen_attn_backward"
    grad, query, key, value, out, statistics, *starts = _specs(*args[:8])
    assert query is not None and key is not None and value is not None
    bounds = [spec for spec in starts if spec is not None]
    _check(name, query, key, value, bounds, None)
    check_same_device(name, query, grad, out, statistics)
    expected = (*query.sizes[:2], value.sizes[2])
    for what, spec in (("grad_out", grad), ("out", out)):
        if spec is None or spec.sizes != expected or spec.dtype is not query.dtype:
            given = None if spec is None else f"{spec.dtype} of {list(spec.sizes)}"
            raise RuntimeError(
                f"{name}: expected {what} to be {query.dtype} of {list(expected)}, but got {given}"
            )
    kept = _statistics(query)
    if statistics is None or statistics.sizes != kept.sizes or not statistics.is_contiguous:
        raise RuntimeError(
            f"{name}: expected logsumexp to be contiguous, of {list(kept.sizes)}, as the forward pass gives it, but "
            f"got {None if statistics is None else list(statistics.sizes)}"
        )
    outputs = tuple([laid_out_as(spec, spec.sizes) for spec in (query, key, value)])
    names = {
        "grad_out": grad,
        "query": query,
        "key": key,
        "value": value,
        "out": out,
        "logsumexp": statistics,
        "cu_seq_q": bounds[0],
        "cu_seq_k": bounds[1],
        "scale": float,
    }
    extra = {"window": (args[8], args[9])}
    into = _kernel(name, "varlen_attn_backward_stub", outputs, names, extra)
    allocators, width = [allocator_of(spec) for spec in outputs], query.sizes[2]

    def plan(*values: Any) -> tuple[Tensor, ...]:
        *tensors, scale = values
        made = [allocate() for allocate in allocators]
        into(*made, *[t._data for t in tensors], _scale(width, scale))
        return tuple([Tensor.from_data(data, spec) for data, spec in zip(made, outputs, strict=True)])

    return plan
