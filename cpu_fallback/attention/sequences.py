"""Attention of one sequence's queries to its keys within a window; 16-bit floats compute in float32."""

from __future__ import annotations

from typing import Any

from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import compute_np

Array = np.ndarray[Any, Any]


class WindowedAttention:
    """Parameters that all sequences of a call share; a sequence's operands are views (rows, heads, width).

    Args:
        query: the call's queries, for their dtype.
        heads, heads_k: Number of query heads and key heads; the second divides the first.
        window: Number of keys before and after its own position that a query sees; a negative side sees all.
            The last query is at the position of the last key.
    """

    def __init__(self, query: TensorSpec, heads: int, heads_k: int, window: tuple[int, int]) -> None:
        self.heads_k, self.group = heads_k, heads // heads_k if heads_k else 1
        self.dtype = compute_np(query.dtype)
        self.left, self.right = window

    def forward(
        self, out: Array, logsumexp: Array, query: Array, key: Array, value: Array, scale: float
    ) -> None:
        """Compute softmax(scale * query @ key^T) @ value, and the logarithm of each row's sum (heads, rows)."""
        weights = self._scores(self._of_queries(query), self._of_keys(key), scale)
        row_max = weights.max(-1, keepdims=True)
        # A row that sees nothing is relative to 0, so that its weights are 0.
        np.copyto(row_max, 0, where=np.isneginf(row_max))
        weights -= row_max
        np.exp(weights, weights)
        total = weights.sum(-1, keepdims=True)
        empty = total == 0
        np.copyto(total, 1, where=empty)
        self._write(out, np.matmul(weights, self._of_keys(value)) / total)
        row_max += np.log(total)
        np.copyto(row_max, -np.inf, where=empty)
        logsumexp[...] = row_max.reshape(logsumexp.shape)

    def backward(
        self,
        grad_query: Array,
        grad_key: Array,
        grad_value: Array,
        grad: Array,
        query: Array,
        key: Array,
        value: Array,
        out: Array,
        logsumexp: Array,
        scale: float,
    ) -> None:
        """Compute the gradients of query, key and value; heads that share keys accumulate in order."""
        q, g, o = (self._of_queries(x) for x in (query, grad, out))
        k, v = self._of_keys(key), self._of_keys(value)
        weights = self._scores(q, k, scale)
        rows = logsumexp.reshape(*q.shape[:3], 1)
        weights -= np.where(np.isneginf(rows), 0, rows)
        np.exp(weights, weights)
        self._write(grad_value, np.matmul(weights.swapaxes(-1, -2), g).sum(1, keepdims=True))
        changes = np.matmul(g, v.swapaxes(-1, -2))
        changes -= np.einsum("ngld,ngld->ngl", g, o)[..., None]
        changes *= weights
        changes *= self.dtype.type(scale)
        self._write(grad_query, np.matmul(changes, k))
        self._write(grad_key, np.matmul(changes.swapaxes(-1, -2), q).sum(1, keepdims=True))

    def _of_queries(self, array: Array) -> Array:
        """Return (rows, heads, width) as (key heads, group, rows, width) in the compute dtype."""
        own = array.astype(self.dtype, copy=False).swapaxes(0, 1)
        return own.reshape(self.heads_k, self.group, *own.shape[1:])

    def _of_keys(self, array: Array) -> Array:
        """Return (rows, key heads, width) as (key heads, 1, rows, width) in the compute dtype."""
        return array.astype(self.dtype, copy=False).swapaxes(0, 1)[:, None]

    def _scores(self, q: Array, k: Array, scale: float) -> Array:
        """Compute scale * q . k, minus infinity outside of the window."""
        made = np.matmul(q, k.swapaxes(-1, -2))
        made *= self.dtype.type(scale)
        queries, keys = made.shape[-2:]
        distance = np.arange(keys) - (np.arange(queries)[:, None] + (keys - queries))
        if self.left >= 0:
            np.copyto(made, -np.inf, where=distance < -self.left)
        if self.right >= 0:
            np.copyto(made, -np.inf, where=distance > self.right)
        return made

    def _write(self, out: Any, values: Any) -> None:
        """Write (key heads, group, rows, width) into (rows, heads, width)."""
        heads, group, rows, width = values.shape
        flat = values.reshape(heads * group, rows, width).swapaxes(0, 1)
        np.copyto(out, flat, casting="unsafe")
