"""Attention as compiled loops over blocks of queries, in float32 (the extra ``triten[jit]``).

A part has some queries of a head; in backward, a part has all queries that read one head's keys. The loops
(`attention_loop.py`) run without Python's lock, so threads share the parts. Parts and blocks
follow from the sizes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.cpu.loop_requests import Sharing, loop_now, shared_loop
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import compute_np

Array = np.ndarray[Any, Any]

MIN_WORK = 1 << 14
"""Multiplications of scores from which a call is worth a loop: NumPy has some 30 us for them."""
SHARED_WORK, WAKING_WORK = 1 << 17, 1 << 20
"""Those from which threads share a call, and from which those that sleep are woken for it."""
SCORES = 1 << 15
"""Maximum number of scores of a block: they stay in the L2 cache beside the transposed keys."""
QUERIES, MIN_QUERIES = 96, 24
"""Queries of a block, at most, and at least or where each sees only the keys up to its own place: whole tiles."""
PARTS = 16
"""Parts of a forward pass, at least, where there are queries enough: each turns its keys itself."""
MAX_VECTOR_ELEMENTS = 8
"""Maximum number of elements of a vector register."""

FORWARD = (
    *("q", "k", "v", "mask", "out", "lse", "first", "count", "keys", "q_row", "k_row", "v_row", "mask_row"),
    *("mask_key", "out_row", "width", "width_v", "pitch", "block", "causal"),
)
"""Fields of a part: the offsets of its elements, its first query and number of queries, keys, and strides. Then the
elements of a head's query and value, and of a row of scores, the queries of a block, and a causal flag.
"""
STEPPING = ("q", "grad", "out", "lse", "mask", "to_q")
"""Operands with a separate offset for each head that reads the same keys."""
BACKWARD = (
    *("q", "k", "v", "mask", "grad", "out", "lse", "to_q", "to_k", "to_v", "group", "count", "keys"),
    *("q_row", "k_row", "v_row", "mask_row", "mask_key", "grad_row", "out_row", "lse_row", "to_q_row"),
    *("to_k_row", "to_v_row", *(f"{name}_head" for name in STEPPING)),
    *("width", "width_v", "pitch", "block", "causal"),
)
"""Likewise, with the strides between the heads of a group."""


class Compiled:
    """The geometry of a call: query (B, H, L, E), key (B, G, S, E), value (B, G, S, Ev)."""

    def __init__(self, call: StructuredCall) -> None:
        query, key, value = (call.args[name] for name in ("query", "key", "value"))
        self.mask: TensorSpec | None = call.args["attn_mask"]
        self.batch, self.heads, self.length_q, self.width = query.sizes
        self.heads_k, self.length_k, self.width_v = key.sizes[1], key.sizes[2], value.sizes[3]
        self.group = self.heads // self.heads_k
        self.is_causal: bool = call.extra["is_causal"]
        self.pitch = -(-self.length_k // MAX_VECTOR_ELEMENTS) * MAX_VECTOR_ELEMENTS
        rows = max(SCORES // self.pitch, MIN_QUERIES)
        self.block = min(MIN_QUERIES if self.is_causal else QUERIES, rows, self.length_q)
        scores = self.batch * self.heads * self.length_q * self.length_k
        self.sharing = Sharing.of(scores * self.width, SHARED_WORK, WAKING_WORK)
        self.loops: dict[Any, Callable[..., None]] = {}

    def loop(self, kind: str, room: int, places: int, key: Any, parts: Callable[[], list[Array]]) -> Any:
        """Return the loop of a kind for arrays of these strides, with `room` scratch elements for each of
        `places`.
        """
        cached = self.loops.get(key)
        if cached is None:
            mask = "none" if self.mask is None else "bool" if self.mask.dtype.name == "bool" else "float"
            loop = _loop_now(kind, mask)
            assert loop is not None
            cached = self.loops[key] = shared_loop(loop, parts(), self.sharing, (places, 4 * room))
        return cached

    def operand(self, array: Array) -> Array:
        """Return the array as loops take it: float32, with contiguous rows padded to whole vectors."""
        width = array.shape[-1]
        if width % MAX_VECTOR_ELEMENTS:
            padded = np.zeros((*array.shape[:-1], self.padded(width)), np.float32)
            padded[..., :width] = array
            return padded
        array = array.astype(np.float32, copy=False)
        is_ready = array.strides[-1] == 4 and not any(s % 4 for s in array.strides)
        return array if is_ready else np.ascontiguousarray(array)

    @staticmethod
    def padded(width: int) -> int:
        """Round a number of elements up to whole vectors."""
        return -(-width // MAX_VECTOR_ELEMENTS) * MAX_VECTOR_ELEMENTS

    def target(self, array: Array) -> Array:
        """Return the array that a loop writes: the output itself, or a float32 buffer that is copied to it."""
        width = array.shape[-1]
        if width % MAX_VECTOR_ELEMENTS or array.dtype != np.float32:
            return np.empty((*array.shape[:-1], self.padded(width)), np.float32)
        return array

    def full_mask(self, mask: Array | None) -> Array | None:
        """Return the mask as a view (B, H, L, S)."""
        if mask is None:
            return None
        if mask.dtype != bool:
            mask = mask.astype(np.float32, copy=False)
        return np.broadcast_to(mask, (self.batch, self.heads, self.length_q, self.length_k))


def _loop_now(kind: str, mask: str) -> Callable[..., None] | None:
    from .attention_loop import attention_loop

    return loop_now(attention_loop, kind, mask)


def is_served(call: StructuredCall) -> bool:
    """Return True if the compiled loops take this call; a single query reads its keys only once and gains
    nothing.
    """
    query, key, value = (call.args[name] for name in ("query", "key", "value"))
    if compute_np(query.dtype) != np.float32 or 0 in (*query.sizes, *key.sizes, *value.sizes):
        return False
    work = query.numel * key.sizes[2]
    return query.sizes[2] > 1 and work >= MIN_WORK and _loop_now("forward", "none") is not None


def strides_of(array: Array | None) -> tuple[int, ...]:
    """Return strides in elements, zeros for a missing array."""
    return (0,) * 4 if array is None else tuple([s // array.itemsize for s in array.strides])


def forward(call: StructuredCall) -> Callable[..., None]:
    """Return ``into(out, logsumexp, query, key, value, mask, scale)``."""
    how = Compiled(call)
    splits = max(1, min(how.length_q // (2 * MIN_QUERIES), -(-PARTS // (how.batch * how.heads))))
    each = -(-how.length_q // splits)
    each = -(-each // how.block) * how.block

    def parts(q: Any, k: Any, v: Any, mask: Any, out: Any, width: int, width_v: int) -> list[Array]:
        made = []
        for b in range(how.batch):
            for h in range(how.heads):
                for first in range(0, how.length_q, each):
                    numbers = {
                        **{
                            name: b * steps[0] + h * steps[1] + first * steps[2]
                            for name, steps in (("q", q), ("mask", mask), ("out", out))
                        },
                        **{
                            name: b * steps[0] + h // how.group * steps[1]
                            for name, steps in (("k", k), ("v", v))
                        },
                        "lse": (b * how.heads + h) * how.length_q + first,
                        "first": first,
                        "count": min(each, how.length_q - first),
                        "keys": how.length_k,
                        **{
                            f"{name}_row": steps[2]
                            for name, steps in (("q", q), ("k", k), ("v", v), ("mask", mask), ("out", out))
                        },
                        "mask_key": mask[3],
                        "width": width,
                        "width_v": width_v,
                        "pitch": how.pitch,
                        "block": how.block,
                        "causal": int(how.is_causal),
                    }
                    made.append(np.array([numbers[name] for name in FORWARD], np.int64))
        return made

    def into(out: Any, logsumexp: Any, query: Any, key: Any, value: Any, mask: Any, scale: float) -> None:
        q, k, v = (how.operand(each) for each in (query, key, value))
        given, to = how.full_mask(mask), how.target(out)
        width, width_v = q.shape[-1], v.shape[-1]
        room = width * how.pitch + how.block * (how.pitch + width_v + 1)
        steps = tuple(strides_of(each) for each in (q, k, v, given, to))
        loop = how.loop("forward", room, 7, steps, lambda: parts(*steps, width, width_v))
        loop(np.array([scale], np.float32), q, k, v, q if given is None else given, to, logsumexp)
        if to is not out:
            np.copyto(out, to[..., : out.shape[-1]], casting="unsafe")

    return into


def backward(call: StructuredCall) -> Callable[..., None]:
    """Return ``into(grad_query, grad_key, grad_value, grad, query, key, value, out, logsumexp, mask, scale)``."""
    how = Compiled(call)

    def parts(steps: dict[str, tuple[int, ...]], width: int, width_v: int) -> list[Array]:
        made = []
        lse = (how.heads * how.length_q, how.length_q, 1)
        every = {**steps, "lse": lse}
        for b in range(how.batch):
            for h in range(how.heads_k):
                numbers = {
                    **{
                        name: b * own[0] + h * (how.group if name in STEPPING else 1) * own[1]
                        for name, own in every.items()
                    },
                    **{f"{name}_row": own[2] for name, own in every.items()},
                    **{f"{name}_head": every[name][1] for name in STEPPING},
                    "group": how.group,
                    "count": how.length_q,
                    "keys": how.length_k,
                    "mask_key": steps["mask"][3],
                    "width": width,
                    "width_v": width_v,
                    "pitch": how.pitch,
                    "block": how.block,
                    "causal": int(how.is_causal),
                }
                made.append(np.array([numbers[name] for name in BACKWARD], np.int64))
        return made

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
        q, k, v, g, o = (how.operand(each) for each in (query, key, value, grad, out))
        given = how.full_mask(mask)
        targets = [how.target(each) for each in (grad_query, grad_key, grad_value)]
        width, width_v = q.shape[-1], v.shape[-1]
        room = (width + width_v) * (how.pitch + how.length_k) + how.block * (2 * how.pitch + width)
        names = ("q", "k", "v", "mask", "grad", "out", "to_q", "to_k", "to_v")
        arrays = (q, k, v, given, g, o, *targets)
        steps = tuple(strides_of(each) for each in arrays)
        loop = how.loop(
            *("backward", room, 11, steps),
            lambda: parts(dict(zip(names, steps, strict=True)), width, width_v),
        )
        factor = np.array([scale], np.float32)
        loop(factor, q, k, v, q if given is None else given, g, o, logsumexp, *targets)
        for to, made in zip((grad_query, grad_key, grad_value), targets, strict=True):
            if made is not to:
                np.copyto(to, made[..., : to.shape[-1]], casting="unsafe")

    return into
