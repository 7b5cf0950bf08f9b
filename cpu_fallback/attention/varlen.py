"""Attention in packed sequences of different lengths, one sequence after the other; narrow floats in float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...dispatch.structured.meta.varlen_attention import WRONG_COUNTS, WRONG_STARTS
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from ..widen import compute_np


class Sequence(NamedTuple):
    """The rows of one sequence in queries and in keys."""

    queries: slice
    keys: slice


class Varlen:
    """The geometry of a call: (rows, heads, width) as (key heads, heads that share them, rows, width)."""

    def __init__(self, call: StructuredCall) -> None:
        query, key = call.args["query"], call.args["key"]
        self.rows_q, self.heads, _ = query.sizes
        self.rows_k, self.heads_k, _ = key.sizes
        self.dtype = compute_np(query.dtype)
        self.left, self.right = call.extra["window"]

    def sequences(self, starts_q: Any, starts_k: Any, used: Any = None) -> Iterator[Sequence]:
        """Every sequence that has queries and keys. Raises RuntimeError for wrong bounds."""
        for argument, starts, rows in (
            ("cu_seq_q", starts_q, self.rows_q),
            ("cu_seq_k", starts_k, self.rows_k),
        ):
            if starts[0] != 0 or (starts[1:] < starts[:-1]).any() or starts[-1] > rows:
                raise RuntimeError(f"varlen_attn: {WRONG_STARTS.format(argument=argument, rows=rows)}")
        lengths = starts_k[1:] - starts_k[:-1]
        if used is not None:
            if ((used < 0) | (used > lengths)).any():
                raise RuntimeError(f"varlen_attn: {WRONG_COUNTS}")
            lengths = used
        for first, end, first_k, count in zip(
            starts_q[:-1].tolist(),
            starts_q[1:].tolist(),
            starts_k[:-1].tolist(),
            lengths.tolist(),
            strict=True,
        ):
            if end > first and count:
                yield Sequence(slice(first, end), slice(first_k, first_k + count))

    def of_queries(self, array: Any, rows: slice) -> Any:
        """A sequence of (T, H, E) in the dtype of computing: (key heads, group, rows, E)."""
        own = array[rows].astype(self.dtype, copy=False).swapaxes(0, 1)
        return own.reshape(self.heads_k, self.heads // self.heads_k, *own.shape[1:])

    def of_keys(self, array: Any, rows: slice) -> Any:
        """A sequence of (T, G, E) in the dtype of computing: (key heads, 1, rows, E)."""
        return array[rows].astype(self.dtype, copy=False).swapaxes(0, 1)[:, None]

    def scores(self, q: Any, k: Any, scale: float) -> Any:
        """scale * q . k, minus infinity outside of the window."""
        made = np.matmul(q, k.swapaxes(-1, -2))
        made *= self.dtype.type(scale)
        queries, keys = made.shape[-2:]
        distance = np.arange(keys) - (np.arange(queries)[:, None] + (keys - queries))
        if self.left >= 0:
            np.copyto(made, -np.inf, where=distance < -self.left)
        if self.right >= 0:
            np.copyto(made, -np.inf, where=distance > self.right)
        return made

    def write(self, to: Any, rows: slice, values: Any) -> None:
        """A sequence's (key heads, group, rows, E) into (T, H, E)."""
        flat = values.reshape(-1, *values.shape[2:]).swapaxes(0, 1)
        np.copyto(to[rows], flat, casting="unsafe")


def attention(call: StructuredCall) -> PlannedKernel:
    """softmax(scale * query @ key^T) @ value of each sequence, and the logarithm of each row's sum."""
    how = Varlen(call)

    def into(
        out: Any,
        logsumexp: Any,
        query: Any,
        key: Any,
        value: Any,
        starts_q: Any,
        starts_k: Any,
        scale: float,
        used: Any,
    ) -> None:
        out.fill(0)
        logsumexp.fill(-np.inf)
        for queries, keys in how.sequences(starts_q, starts_k, used):
            weights = how.scores(how.of_queries(query, queries), how.of_keys(key, keys), scale)
            top = weights.max(-1, keepdims=True)
            # A row that sees nothing is relative to 0, so that its weights are 0.
            np.copyto(top, 0, where=np.isneginf(top))
            weights -= top
            np.exp(weights, weights)
            total = weights.sum(-1, keepdims=True)
            empty = total == 0
            np.copyto(total, 1, where=empty)
            how.write(out, queries, np.matmul(weights, how.of_keys(value, keys)) / total)
            top += np.log(total)
            np.copyto(top, -np.inf, where=empty)
            logsumexp[:, queries] = top.reshape(how.heads, -1)

    return PlannedKernel(quietly(into))


def attention_backward(call: StructuredCall) -> PlannedKernel:
    """The gradients of query, key and value; the heads that read one set of keys are added in order."""
    how = Varlen(call)

    def into(
        grad_query: Any,
        grad_key: Any,
        grad_value: Any,
        grad: Any,
        query: Any,
        key: Any,
        value: Any,
        out: Any,
        logsumexp: Any,
        starts_q: Any,
        starts_k: Any,
        scale: float,
    ) -> None:
        for made in (grad_query, grad_key, grad_value):
            made.fill(0)
        for queries, keys in how.sequences(starts_q, starts_k):
            q, g, o = (how.of_queries(x, queries) for x in (query, grad, out))
            k, v = how.of_keys(key, keys), how.of_keys(value, keys)
            weights = how.scores(q, k, scale)
            rows = logsumexp[:, queries].reshape(*q.shape[:3], 1)
            weights -= np.where(np.isneginf(rows), 0, rows)
            np.exp(weights, weights)
            how.write(grad_value, keys, np.matmul(weights.swapaxes(-1, -2), g).sum(1, keepdims=True))
            changes = np.matmul(g, v.swapaxes(-1, -2))
            changes -= np.einsum("ngld,ngld->ngl", g, o)[..., None]
            changes *= weights
            changes *= how.dtype.type(scale)
            how.write(grad_query, queries, np.matmul(changes, k))
            how.write(grad_key, keys, np.matmul(changes.swapaxes(-1, -2), q).sum(1, keepdims=True))

    return PlannedKernel(quietly(into))


register_stub("varlen_attn_stub", "cpu", attention)
register_stub("varlen_attn_backward_stub", "cpu", attention_backward)
