"""Planners of attention in packed sequences and in windows, and the contract that every backend's kernels keep.

query (T_q, H, E), key (T_k, G, E), value (T_k, G, Ev), where G divides H and head h reads the keys of h // (H / G).
Sequence i has the queries from ``cu_seq_q[i]`` to ``cu_seq_q[i + 1]`` and the keys from ``cu_seq_k[i]`` to ``cu_seq_k[i
+ 1]``. With `seqused_k`, only the first ``seqused_k[i]`` keys count. The bounds are int32, begin with 0 and do not
descend. The last query of a sequence has the position of its last key. A query at position p sees the keys from p -
left to p + right; a negative side is unbounded.

With a `block_table`, int32 of (sequences, entries), keys and values are a pool of pages (pages, page size, G, E), and
`cu_seq_k` is ignored. Key s of sequence i is row ``s % page size`` of page ``block_table[i, s // page size]``;
``seqused_k[i]`` keys count. Entries whose keys no query sees may have any value.

The operands of a *sliding window* are dense, like those of `attention`: query (B, H, L, E), key (B, G, S, E), value (B,
G, S, Ev); each batch is a sequence.

- ``varlen_attn_stub(out, logsumexp, query, key, value, cu_seq_q, cu_seq_k, scale, seqused_k, block_table)``
- ``varlen_attn_backward_stub(grad_query, grad_key, grad_value, grad, query, key, value, out, logsumexp, cu_seq_q,
  cu_seq_k, scale)``
- ``sliding_window_attn_stub(out, logsumexp, query, key, value, scale)``
- ``sliding_window_attn_backward_stub(grad_query, grad_key, grad_value, grad, query, key, value, out, logsumexp,
  scale)``

`out` (T_q, H, Ev) and the gradients lie in memory as `query`, `key` and `value` do, the last dimension inner;
`logsumexp` (H, T_q), or (B, H, L), is contiguous, float32 (float64 for float64), natural. A query that sees no key, and
one behind the last sequence, gives zeros, and minus infinity as its logarithm. ``call.extra["window"]`` is (left,
right).

Invalid bounds and pages never access other memory. The host raises RuntimeError; a kernel on a GPU reports it
(`faults`).
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
from .attention import (
    FUSED,
    LARGEST_HEAD,
    _data,
    _divides,
    _kernel,
    _scale,
    _specs,
    check_attention,
    check_gradient,
    laid_out_as,
)
from .attention import _statistics as _dense_statistics
from .linalg import check_same_device

WRONG_STARTS = (
    "{argument}: expected bounds that begin with 0 and do not descend, within [0, {rows}], but got others"
)
WRONG_COUNTS = "seqused_k: expected counts of at least 0 and at most each sequence's keys, but got others"
WRONG_PAGES = "block_table: expected pages within [0, {pages}) for the keys that queries see, but got others"
"""Kernel error messages for bounds, counts and pages that are invalid by value."""


def _check(
    name: str,
    query: TensorSpec,
    key: TensorSpec,
    value: TensorSpec,
    starts: tuple[TensorSpec, TensorSpec | None],
    used: TensorSpec | None,
    table: TensorSpec | None,
) -> None:
    """Refuse operands that the kernels do not take."""
    paged = table is not None
    if query.ndim != 3 or not key.ndim == value.ndim == (4 if paged else 3):
        shape = "(pages, page size, heads, width)" if paged else "(rows, heads, width)"
        raise RuntimeError(
            f"{name}: expected query of shape (rows, heads, width) and key and value of shape {shape}, but got "
            f"{list(query.sizes)}, {list(key.sizes)} and {list(value.sizes)}"
        )
    check_same_device(name, query, key, value, *starts, used, table)
    allowed = FUSED["cpu"] if query.device.type != "cuda" else (float16, bfloat16)
    if query.dtype not in allowed or not query.dtype is key.dtype is value.dtype:
        names = ", ".join(dtype.scalar_name for dtype in allowed)
        raise RuntimeError(
            f"{name}: expected query, key and value in one of {names}, but got {query.dtype}, {key.dtype} and "
            f"{value.dtype}"
        )
    (_, heads, width), width_v = query.sizes, value.sizes[-1]
    if (
        key.sizes[-1] != width
        or value.sizes[:-1] != key.sizes[:-1]
        or not _divides(key.sizes[-2], heads)
        or (paged and not key.sizes[1])
    ):
        rows = "pages, page size" if paged else "rows"
        raise RuntimeError(
            f"{name}: expected key of ({rows}, heads, {width}) and value of as many {rows} and heads, which divide "
            f"{heads}, but got {list(key.sizes)} and {list(value.sizes)}"
        )
    if query.device.type == "cuda" and max(width, width_v) > LARGEST_HEAD:
        raise RuntimeError(f"{name}: expected heads of at most {LARGEST_HEAD}, but got {width} and {width_v}")
    if starts[0].ndim == 1 and starts[0].numel == 0:
        raise RuntimeError(f"{name}: expected at least one bound in cu_seq_q, but got none")
    named = [("cu_seq_q", starts[0], starts[0].numel)]
    if paged and used is None:
        raise RuntimeError(f"{name}: block_table needs seqused_k, the number of keys of each sequence")
    if not paged and starts[1] is None:
        raise RuntimeError(f"{name}: expected cu_seq_k, got None without block_table")
    if starts[1] is not None and not paged:
        named.append(("cu_seq_k", starts[1], starts[0].numel))
    if used is not None:
        named.append(("seqused_k", used, starts[0].numel - 1))
    if table is not None and (table.dtype is not int32 or table.ndim != 2):
        raise RuntimeError(
            f"{name}: expected block_table to be int32 of shape (sequences, pages of a sequence), but got "
            f"{table.dtype} of {list(table.sizes)}"
        )
    if table is not None and table.sizes[0] != starts[0].numel - 1:
        raise RuntimeError(
            f"{name}: expected block_table to have {starts[0].numel - 1} rows, one for each sequence, but got "
            f"{list(table.sizes)}"
        )
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
    """Plan ``(query, key, value, cu_seq_q, cu_seq_k, scale, seqused_k, block_table)``: (output, logsumexp)."""
    query, key, value, starts_q, starts_k, used, table = _specs(*args[:5], *args[8:10])
    assert query is not None and key is not None and value is not None and starts_q is not None
    _check("varlen_attn", query, key, value, (starts_q, starts_k), used, table)
    out, statistics = laid_out_as(query, (*query.sizes[:2], value.sizes[-1])), _statistics(query)
    names = {
        "query": query,
        "key": key,
        "value": value,
        "cu_seq_q": starts_q,
        "cu_seq_k": starts_k,
        "scale": float,
        "seqused_k": used,
        "block_table": table,
    }
    extra = {"window": (args[5], args[6]), "num_splits": args[10]}
    into: Callable[..., Any] = _kernel("varlen_attn", "varlen_attn_stub", (out, statistics), names, extra)
    allocate, allocate_statistics, width = allocator_of(out), allocator_of(statistics), query.sizes[2]

    def plan(*values: Any) -> tuple[Tensor, Tensor]:
        *tensors, scale, used, table = values
        data, logsumexp = allocate(), allocate_statistics()
        into(data, logsumexp, *[_data(t) for t in tensors], _scale(width, scale), _data(used), _data(table))
        return Tensor.from_data(data, out), Tensor.from_data(logsumexp, statistics)

    return plan


def varlen_attn_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``(grad_out, query, key, value, out, logsumexp, cu_seq_q, cu_seq_k, scale)``: three gradients."""
    name = "varlen_attn_backward"
    grad, query, key, value, out, statistics, starts_q, starts_k = _specs(*args[:8])
    assert query is not None and key is not None and value is not None and starts_q is not None
    _check(name, query, key, value, (starts_q, starts_k), None, None)
    check_same_device(name, query, grad, out, statistics)
    expected = (*query.sizes[:2], value.sizes[2])
    for argument, spec in (("grad_out", grad), ("out", out)):
        if spec is None or spec.sizes != expected or spec.dtype is not query.dtype:
            actual = None if spec is None else f"{spec.dtype} of {list(spec.sizes)}"
            raise RuntimeError(
                f"{name}: expected {argument} to be {query.dtype} of {list(expected)}, but got {actual}"
            )
    expected_statistics = _statistics(query)
    if statistics is not None and not statistics.dtype.is_floating_point:
        raise RuntimeError(
            f"{name}: expected logsumexp of a floating dtype, but got {statistics.dtype.scalar_name}"
        )
    if statistics is None or statistics.sizes != expected_statistics.sizes or not statistics.is_contiguous:
        raise RuntimeError(
            f"{name}: expected logsumexp to be contiguous, of {list(expected_statistics.sizes)}, as the forward pass "
            f"gives it, but got {None if statistics is None else list(statistics.sizes)}"
        )
    outputs = tuple([laid_out_as(spec, spec.sizes) for spec in (query, key, value)])
    names = {
        "grad_out": grad,
        "query": query,
        "key": key,
        "value": value,
        "out": out,
        "logsumexp": statistics,
        "cu_seq_q": starts_q,
        "cu_seq_k": starts_k,
        "scale": float,
    }
    extra = {"window": (args[8], args[9])}
    into = _kernel(name, "varlen_attn_backward_stub", outputs, names, extra)
    return _gradients(into, outputs, query)


def sliding_window_attn(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``(query, key, value, scale)``: (output, logsumexp)."""
    name = "sliding_window_attn"
    query, key, value = _specs(*args[:3])
    assert query is not None and key is not None and value is not None
    check_attention(name, query, key, value, None)
    _check_half(name, query)
    out, statistics = laid_out_as(query, (*query.sizes[:3], value.sizes[3])), _dense_statistics(query)
    names = {"query": query, "key": key, "value": value, "scale": float}
    extra = {"window": (args[3], args[4])}
    into = _kernel(name, "sliding_window_attn_stub", (out, statistics), names, extra)
    allocate, allocate_statistics, width = allocator_of(out), allocator_of(statistics), query.sizes[3]

    def plan(query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> tuple[Tensor, Tensor]:
        data, logsumexp = allocate(), allocate_statistics()
        into(data, logsumexp, query._data, key._data, value._data, _scale(width, scale))
        return Tensor.from_data(data, out), Tensor.from_data(logsumexp, statistics)

    return plan


def sliding_window_attn_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``(grad_out, query, key, value, out, logsumexp, scale)``: three gradients."""
    name = "sliding_window_attn_backward"
    grad, query, key, value, out, statistics = _specs(*args[:6])
    assert grad is not None and query is not None and key is not None and value is not None
    check_attention(name, query, key, value, None)
    _check_half(name, query)
    check_gradient(name, grad, query, value, out, statistics)
    outputs = tuple([laid_out_as(spec, spec.sizes) for spec in (query, key, value)])
    names = {
        "grad_out": grad,
        "query": query,
        "key": key,
        "value": value,
        "out": out,
        "logsumexp": statistics,
        "scale": float,
    }
    into = _kernel(name, "sliding_window_attn_backward_stub", outputs, names, {"window": (args[6], args[7])})
    return _gradients(into, outputs, query)


def _check_half(name: str, query: TensorSpec) -> None:
    if query.device.type == "cuda" and query.dtype not in (float16, bfloat16):
        raise RuntimeError(
            f"{name}: expected query, key and value in one of Half, BFloat16, but got {query.dtype}"
        )


def _gradients(into: Callable[..., Any], outputs: tuple[TensorSpec, ...], query: TensorSpec) -> Plan:
    """Return a plan whose last argument is the scale; `into` computes all of its results."""
    allocators, width = [allocator_of(spec) for spec in outputs], query.sizes[-1]

    def plan(*values: Any) -> tuple[Tensor, ...]:
        *tensors, scale = values
        made = [allocate() for allocate in allocators]
        into(*made, *[t._data for t in tensors], _scale(width, scale))
        return tuple([Tensor.from_data(data, spec) for data, spec in zip(made, outputs, strict=True)])

    return plan
