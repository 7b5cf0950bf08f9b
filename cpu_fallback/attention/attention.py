"""Attention in blocks of queries whose scores stay in the cache, forward and backward; narrow floats in float32.

A block has all keys that it sees, so that its softmax is exact in one pass: Rabe and Staats, "Self-attention does not
need O(n^2) memory", 2021, with blocks of queries alone. Memory grows with the keys, not with keys times queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import compute_np

SCORES = 1 << 18
"""How many scores a block has: with the block's other arrays they stay in the second-level cache."""
LEAST_QUERIES = 16
"""A block has at least so many queries, of long keys too: products of fewer rows are bound by reading the keys."""


class Block(NamedTuple):
    """Sets of keys (one for each batch and key head), queries of each of their heads, and how many keys these see."""

    sets: slice
    queries: slice
    keys: int


class Attention:
    """The geometry of a call. Sets of keys are numbered over (batch, key head), each read by `group` heads."""

    def __init__(self, call: StructuredCall) -> None:
        query, key, value = (call.args[name] for name in ("query", "key", "value"))
        mask: TensorSpec | None = call.args["attn_mask"]
        self.batch, self.heads, self.length_q, self.width = query.sizes
        self.heads_k, self.length_k, self.width_v = key.sizes[1], key.sizes[2], value.sizes[3]
        self.group = self.heads // self.heads_k if self.heads_k else 1
        self.sets = self.batch * self.heads_k
        self.is_causal: bool = call.extra["is_causal"]
        self.dtype = compute_np(query.dtype)
        self.mask_is_bool = mask is not None and mask.dtype.name == "bool"

    def blocks(self) -> Iterator[Block]:
        """The blocks of a pass, queries of one set in order."""
        row = max(self.group * self.length_k, 1)
        whole = row * self.length_q
        if whole <= SCORES:
            step = max(SCORES // max(whole, 1), 1)
            for at in range(0, self.sets, step):
                yield self._block(slice(at, min(at + step, self.sets)), 0, self.length_q)
            return
        step = max(SCORES // row, LEAST_QUERIES)
        for at in range(self.sets):
            for start in range(0, self.length_q, step):
                yield self._block(slice(at, at + 1), start, min(start + step, self.length_q))

    def _block(self, sets: slice, start: int, stop: int) -> Block:
        return Block(sets, slice(start, stop), min(self.length_k, stop) if self.is_causal else self.length_k)

    def of_queries(self, array: Any) -> Any:
        """(B, H, L, ...) as (sets, group, L, ...)."""
        return array.reshape(self.sets, self.group, *array.shape[2:])

    def of_keys(self, array: Any) -> Any:
        """(B, G, S, ...) as (sets, 1, S, ...)."""
        return array.reshape(self.sets, 1, *array.shape[2:])

    def widened(self, array: Any) -> Any:
        """The array in the dtype of computing."""
        return array.astype(self.dtype, copy=False)

    def of_mask(self, mask: Any) -> Any:
        """The mask as a view (B, key heads, group, L, S); None without one."""
        if mask is None:
            return None
        full = np.broadcast_to(mask, (self.batch, self.heads, self.length_q, self.length_k))
        return full.reshape(self.batch, self.heads_k, self.group, self.length_q, self.length_k)

    def scores(self, q: Any, k: Any, mask: Any, block: Block, scale: float) -> Any:
        """scale * q . k and the mask, for a block: (sets, group, queries, keys)."""
        made = np.matmul(q[block.sets, :, block.queries], k[block.sets, :, : block.keys].swapaxes(-1, -2))
        made *= self.dtype.type(scale)
        if mask is not None:
            numbers = np.arange(block.sets.start, block.sets.stop)
            given = mask[:, :, :, block.queries, : block.keys][
                numbers // self.heads_k, numbers % self.heads_k
            ]
            if self.mask_is_bool:
                np.putmask(made, ~given, -np.inf)
            else:
                made += given.astype(self.dtype, copy=False)
        if self.is_causal:
            queries = np.arange(block.queries.start, block.queries.stop)
            np.copyto(made, -np.inf, where=np.arange(block.keys) > queries[:, None])
        return made


def attention(call: StructuredCall) -> PlannedKernel:
    """softmax(scale * query @ key^T + mask) @ value, and the logarithm of each row's sum."""
    how = Attention(call)
    whole = max(how.group * how.length_k, 1) * how.length_q
    if whole <= SCORES:
        chosen("several heads in a block", "the {} scores of a set of keys are at most {}", whole, SCORES)
    else:
        chosen("queries in blocks", "the {} scores of a set of keys are more than {}", whole, SCORES)
    same = call.outputs[0].np_dtype == how.dtype

    def into(out: Any, logsumexp: Any, query: Any, key: Any, value: Any, mask: Any, scale: float) -> None:
        if 0 in (how.sets, how.length_q, how.length_k):
            out.fill(0)
            logsumexp.fill(0)
            return
        q, k, v = (
            how.of_queries(how.widened(query)),
            how.of_keys(how.widened(key)),
            how.of_keys(how.widened(value)),
        )
        given = how.of_mask(mask)
        target = (
            how.of_queries(out)
            if out.flags.c_contiguous and same
            else np.empty((*q.shape[:3], how.width_v), how.dtype)
        )
        rows = how.of_queries(logsumexp)
        for block in how.blocks():
            at = (block.sets, slice(None), block.queries)
            weights = how.scores(q, k, given, block, scale)
            top = weights.max(-1, keepdims=True)
            # A row that sees nothing is relative to 0, so that its weights are 0.
            np.copyto(top, 0, where=np.isneginf(top))
            weights -= top
            np.exp(weights, weights)
            total = weights.sum(-1, keepdims=True)
            empty = total == 0
            np.copyto(total, 1, where=empty)
            np.divide(np.matmul(weights, v[block.sets, :, : block.keys]), total, out=target[at])
            top += np.log(total)
            np.copyto(top, 0, where=empty)
            rows[at] = top[..., 0]
        if not np.shares_memory(target, out):
            np.copyto(out, target.reshape(out.shape), casting="unsafe")

    return PlannedKernel(quietly(into))


def attention_backward(call: StructuredCall) -> PlannedKernel:
    """The gradients of query, key and value; weights are made again from scores and logarithms of the sum.

    The heads that read one set of keys are added in order.
    """
    how = Attention(call)

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
        mask: Any,
        scale: float,
    ) -> None:
        if 0 in (how.sets, how.length_q, how.length_k):
            for made in (grad_query, grad_key, grad_value):
                made.fill(0)
            return
        q, g, o = (how.of_queries(how.widened(a)) for a in (query, grad, out))
        k, v = how.of_keys(how.widened(key)), how.of_keys(how.widened(value))
        given, rows = how.of_mask(mask), how.of_queries(logsumexp)
        delta = np.einsum("ngld,ngld->ngl", g, o)
        of_q = np.empty(q.shape, how.dtype)
        of_k = np.zeros((how.sets, how.length_k, how.width), how.dtype)
        of_v = np.zeros((how.sets, how.length_k, how.width_v), how.dtype)
        for block in how.blocks():
            at, keys = (block.sets, slice(None), block.queries), (block.sets, slice(None), slice(block.keys))
            weights = how.scores(q, k, given, block, scale)
            weights -= rows[at][..., None]
            np.exp(weights, weights)
            seen = (block.sets, slice(block.keys))
            of_v[seen] += np.matmul(weights.swapaxes(-1, -2), g[at]).sum(1)
            changes = np.matmul(g[at], v[keys].swapaxes(-1, -2))
            changes -= delta[at][..., None]
            changes *= weights
            changes *= how.dtype.type(scale)
            np.matmul(changes, k[keys], out=of_q[at])
            of_k[seen] += np.matmul(changes.swapaxes(-1, -2), q[at]).sum(1)
        for made, wide in ((grad_query, of_q), (grad_key, of_k), (grad_value, of_v)):
            np.copyto(made, wide.reshape(made.shape), casting="unsafe")

    return PlannedKernel(quietly(into))


register_stub("flash_attention_for_cpu_stub", "cpu", attention)
register_stub("flash_attention_for_cpu_backward_stub", "cpu", attention_backward)
