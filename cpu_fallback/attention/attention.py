"""Blocked attention, forward and backward; each block's scores fit the cache, and 16-bit floats compute in
float32.

A block of queries reads all keys that it attends to, so its softmax is exact in one pass: Rabe and Staats,
"Self-attention does not need O(n^2) memory", 2021, with blocks of queries alone. Memory grows with the number
of keys, not with keys times queries. Threads share the blocks in forward and the heads in backward. Blocks
follow from the sizes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cpu.workspace import borrow, give_back
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..normalization.moments import CHUNK, ones, row_dots
from ..plain_numpy import np
from ..widen import compute_np
from . import compiled

Array = np.ndarray[Any, Any]

SCORES = 1 << 17
"""Scores of a block: with the block's other arrays they stay in the L2 cache."""
MIN_QUERIES = 16
"""A block has at least so many queries, of long keys too: products of fewer rows are bound by reading the keys."""
CAUSAL_QUERIES = 64
"""Queries of a block, at most, where each sees only the keys up to its own place: those beyond are left out."""
KEYS = 1 << 19
"""Elements of keys and values that the heads of a block read together, at most."""
GRAIN = 1 << 16
"""Scores that a thread takes at least."""
UNSHIFTED = 32.0
"""Scores no larger than that need no maximum subtracted: exp of them, times any usual value, is far from float32's
end."""
MIN_SUM = math.exp(-UNSHIFTED)
"""Unless a row's sum of their exp is smaller than that."""


class Block(NamedTuple):
    """Batches, key heads (each read by `group` heads), queries of each of these, and how many keys they see."""

    batches: slice
    heads: slice
    queries: slice
    keys: int


class Attention:
    """The geometry of a call. Arrays are views (batch, key heads, group, length, ...)."""

    def __init__(self, call: StructuredCall) -> None:
        query, key, value = (call.args[name] for name in ("query", "key", "value"))
        mask: TensorSpec | None = call.args["attn_mask"]
        self.batch, self.heads, self.length_q, self.width = query.sizes
        self.heads_k, self.length_k, self.width_v = key.sizes[1], key.sizes[2], value.sizes[3]
        self.group = self.heads // self.heads_k if self.heads_k else 1
        self.is_causal: bool = call.extra["is_causal"]
        self.dtype = compute_np(query.dtype)
        self.mask_is_bool = mask is not None and mask.dtype.name == "bool"
        self.is_added = mask is not None and not self.mask_is_bool
        self.is_empty = 0 in (self.batch, self.heads_k, self.length_q, self.length_k)
        self.sets: list[list[Block]] = [] if self.is_empty else self._sets()
        self.blocks = [block for blocks in self.sets for block in blocks]
        step = self.queries_of_block
        self.beyond: Array | None = None
        if self.is_causal:
            self.beyond = np.arange(step) > np.arange(step)[:, None]
            self.added = np.where(self.beyond, -np.inf, 0).astype(self.dtype)

    def _sets(self) -> list[list[Block]]:
        """Return the blocks of each set of batches and heads, the last queries first, since those read the most
        keys.
        """
        row = self.group * self.length_k
        step = min(self.length_q, max(SCORES // row, MIN_QUERIES))
        if self.is_causal:
            step = min(step, max(CAUSAL_QUERIES, MIN_QUERIES))
        self.queries_of_block = step
        together = min(SCORES // (row * step), KEYS // max(self.length_k * (self.width + self.width_v), 1))
        batches, heads = max(together // self.heads_k, 1), min(max(together, 1), self.heads_k)
        starts = reversed(range(0, self.length_q, step))
        queries = [slice(start, min(start + step, self.length_q)) for start in starts]
        return [
            [
                Block(
                    slice(b, min(b + batches, self.batch)),
                    slice(h, min(h + heads, self.heads_k)),
                    each,
                    min(self.length_k, each.stop) if self.is_causal else self.length_k,
                )
                for each in queries
            ]
            for b in range(0, self.batch, batches)
            for h in range(0, self.heads_k, heads)
        ]

    queries_of_block = 0

    def scores_of(self, block: Block) -> int:
        """Return the number of scores in a block."""
        heads = (block.batches.stop - block.batches.start) * (block.heads.stop - block.heads.start)
        queries = block.queries.stop - block.queries.start
        return int(heads * self.group * queries * block.keys)

    def share(self, count: int, blocks_each: int, run: Callable[[int, int], None]) -> None:
        """Call `run` over ranges of sets or blocks, on several threads where there is enough to do."""
        parallel_for(0, count, max(1, GRAIN // max(self.scores_of(self.blocks[0]) * blocks_each, 1)), run)

    def of_queries(self, array: Array) -> Array:
        """View (B, H, L, ...) as (B, key heads, group, L, ...)."""
        return array.reshape(self.batch, self.heads_k, self.group, *array.shape[2:])

    def operand(self, array: Array) -> Array:
        """Return the array as matmuls take it: in the compute dtype, with contiguous rows."""
        array = array.astype(self.dtype, copy=False)
        down, across = array.strides[-2:]
        ready = across == array.itemsize and down >= array.shape[-1] * across
        return array if ready else np.ascontiguousarray(array)

    def of_keys(self, array: Array) -> Array:
        """View (B, G, S, ...) as (B, G, 1, S, ...)."""
        return self.operand(array)[:, :, None]

    def of_mask(self, mask: Array | None) -> Array | None:
        """Return the mask as a view (B, key heads, group, L, S), or None without a mask.

        A boolean mask is inverted: True marks a key to leave out.
        """
        if mask is None:
            return None
        mask = np.logical_not(mask) if self.mask_is_bool else mask.astype(self.dtype, copy=False)
        full = np.broadcast_to(mask, (self.batch, self.heads, self.length_q, self.length_k))
        return full.reshape(self.batch, self.heads_k, self.group, self.length_q, self.length_k)

    def scores(self, q: Array, k: Array, mask: Array | None, block: Block, room: Array) -> tuple[Array, bool]:
        """Scaled q . k and the mask, for a block: (batches, key heads, group, queries, keys), in `room`.

        And whether none is beyond `UNSHIFTED` before the mask, or NaN.
        """
        queries = q[block.batches, block.heads, :, block.queries]
        keys = k[block.batches, block.heads, :, : block.keys]
        shape = (*queries.shape[:-1], block.keys)
        made = np.matmul(queries, keys.swapaxes(-1, -2), room[: math.prod(shape)].reshape(shape))
        are_small = bool(np.maximum.reduce(made.reshape(-1)) <= UNSHIFTED)
        if mask is not None:
            given = mask[block.batches, block.heads, :, block.queries, : block.keys]
            if self.mask_is_bool:
                np.copyto(made, -np.inf, where=given)
            else:
                made += given
        if self.beyond is not None:
            start, rows = block.queries.start, shape[-2]
            if start < block.keys:
                place, own = made[..., start:], (slice(rows), slice(block.keys - start))
                if are_small:  # a sum takes half the time
                    np.add(place, self.added[own], place)
                else:
                    np.copyto(place, -np.inf, where=self.beyond[own])
        return made, are_small and not self.is_added

    def room(self, count: int) -> tuple[Array, list[Array]]:
        """Return a borrowed buffer, and `count` arrays in it with an element for each score of the largest
        block.
        """
        size = max(map(self.scores_of, self.blocks))
        borrowed = borrow(count * size * self.dtype.itemsize)
        flat = borrowed[: count * size * self.dtype.itemsize].view(self.dtype)
        return borrowed, [flat[i * size : (i + 1) * size] for i in range(count)]

    def tell(self) -> None:
        """Note how the blocks were cut."""
        step, row = self.queries_of_block, self.group * self.length_k
        if step == self.length_q:
            why = "a set of {} keys has {} scores, and a block up to {}"
            chosen("several heads in a block", why, self.length_k, step * row, SCORES)
        else:
            why = "each of {} queries has {} scores, and a block of {} queries up to {}"
            chosen("queries in blocks", why, self.length_q, row, step, SCORES)


def attention(call: StructuredCall) -> PlannedKernel:
    """Compute softmax(scale * query @ key^T + mask) @ value, and the logarithm of each row's sum."""
    if compiled.is_served(call):
        chosen("compiled loops over blocks of queries", "llvmlite is installed, and scores are many")
        return PlannedKernel(quietly(compiled.forward(call)))
    how = Attention(call)
    if how.is_empty:
        chosen("nothing", "there are no scores")

        def zero(out: Any, logsumexp: Any, *_: Any) -> None:
            out.fill(0)
            logsumexp.fill(0)

        return PlannedKernel(zero)
    how.tell()
    same = call.outputs[0].np_dtype == how.dtype
    units = ones(how.length_k, how.dtype)

    def sums(weights: Array) -> Array:
        if how.length_k <= CHUNK:
            made: Array = np.vecdot(weights, units[: weights.shape[-1]])[..., None]
            return made
        lines = weights.reshape(-1, weights.shape[-1])
        return row_dots(lines, units).astype(how.dtype).reshape(*weights.shape[:-1], 1)

    def into(out: Any, logsumexp: Any, query: Any, key: Any, value: Any, mask: Any, scale: float) -> None:
        q = how.of_queries(np.multiply(query.astype(how.dtype, copy=False), how.dtype.type(scale), order="C"))
        k, v = how.of_keys(key), how.of_keys(value)
        given = how.of_mask(mask)
        target, rows = how.of_queries(out), how.of_queries(logsumexp)

        def some(first: int, last: int) -> None:
            borrowed, (room,) = how.room(1)
            for block in how.blocks[first:last]:
                at = (block.batches, block.heads, slice(None), block.queries)
                weights, are_small = how.scores(q, k, given, block, room)
                row_max = None
                if are_small:
                    np.exp(weights, weights)
                    total = sums(weights)
                    are_small = bool(total.min() >= MIN_SUM)
                    if not are_small:
                        weights, _ = how.scores(q, k, given, block, room)
                if not are_small:
                    row_max = weights.max(-1, keepdims=True)
                    # A row that sees nothing is relative to 0, so that its weights are 0.
                    np.copyto(row_max, 0, where=np.isneginf(row_max))
                    weights -= row_max
                    np.exp(weights, weights)
                    total = sums(weights)
                empty = total == 0
                np.copyto(total, 1, where=empty)
                values = v[block.batches, block.heads, :, : block.keys]
                made = np.matmul(weights, values, target[at]) if same else np.matmul(weights, values)
                np.divide(made, total, target[at], casting="unsafe")
                np.log(total, total)
                if row_max is not None:
                    total += row_max
                    np.copyto(total, 0, where=empty)
                rows[at] = total[..., 0]
            give_back(borrowed)

        how.share(len(how.blocks), 1, some)

    return PlannedKernel(quietly(into))


def attention_backward(call: StructuredCall) -> PlannedKernel:
    """Compute the gradients of query, key and value; recompute the weights from scores and logsumexp.

    Heads that share keys (grouped-query attention) accumulate in a fixed order.
    """
    if compiled.is_served(call):
        return PlannedKernel(quietly(compiled.backward(call)))
    how = Attention(call)
    if how.is_empty:

        def zero(grad_query: Any, grad_key: Any, grad_value: Any, *_: Any) -> None:
            for made in (grad_query, grad_key, grad_value):
                made.fill(0)

        return PlannedKernel(zero)
    same = call.outputs[0].np_dtype == how.dtype

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
        factor = how.dtype.type(scale)
        q = how.of_queries(np.multiply(query.astype(how.dtype, copy=False), factor, order="C"))
        g, o = (how.of_queries(how.operand(a)) for a in (grad, out))
        k, v = how.of_keys(key), how.of_keys(value)
        given, rows = how.of_mask(mask), how.of_queries(logsumexp)
        delta = np.vecdot(g, o)[..., None]
        of_q, of_k, of_v = (
            made if same else np.empty(made.shape, how.dtype) for made in (grad_query, grad_key, grad_value)
        )
        to_q = how.of_queries(of_q)

        def add(out: Array, block: Block, is_first: bool, left: Array, right: Array) -> None:
            """Add left^T @ right of each head of the group to the block's keys."""
            target = out[block.batches, block.heads]
            left = left.swapaxes(-1, -2)
            if is_first and how.group == 1 and block.keys == how.length_k:
                np.matmul(left[:, :, 0], right[:, :, 0], target)
                return
            if is_first:
                target[...] = 0
            target[:, :, : block.keys] += np.matmul(left, right).sum(2)

        def some(first: int, last: int) -> None:
            borrowed, (room, other) = how.room(2)
            for blocks in how.sets[first:last]:
                for block in blocks:
                    at = (block.batches, block.heads, slice(None), block.queries)
                    keys = (block.batches, block.heads, slice(None), slice(block.keys))
                    is_first = block is blocks[0]
                    weights, _ = how.scores(q, k, given, block, room)
                    weights -= rows[at][..., None]
                    np.exp(weights, weights)
                    add(of_v, block, is_first, weights, g[at])
                    changes = other[: weights.size].reshape(weights.shape)
                    np.matmul(g[at], v[keys].swapaxes(-1, -2), changes)
                    changes -= delta[at]
                    changes *= weights
                    np.matmul(changes, k[keys], to_q[at])
                    to_q[at] *= factor
                    add(of_k, block, is_first, changes, q[at])
            give_back(borrowed)

        how.share(len(how.sets), len(how.sets[0]), some)
        if not same:
            for made, wide in ((grad_query, of_q), (grad_key, of_k), (grad_value, of_v)):
                np.copyto(made, wide, casting="unsafe")

    return PlannedKernel(quietly(into))


register_stub("flash_attention_for_cpu_stub", "cpu", attention)
register_stub("flash_attention_for_cpu_backward_stub", "cpu", attention_backward)
