"""Scaled dot-product attention: lengths, the causal mask, one query as in decoding, the backward pass."""

from __future__ import annotations

from collections.abc import Iterator

from ..workload import Operand, Scale, Workload, normal


def workloads(scale: Scale) -> Iterator[Workload]:
    """Rows by length and mask."""
    heads, depth = scale.side(8, 4, 1), scale.side(64, 64, 8)
    for length in sorted({scale.side(256, 128, 8), scale.side(1024, 256, 16)}):
        for causal in (False, True):
            yield _attention(1, heads, length, length, depth, causal)
    yield _attention(scale.side(8, 2, 1), heads, 1, scale.side(1024, 256, 16), depth, False)
    yield _attention(1, heads, *(2 * (scale.side(256, 128, 8),)), depth, True, backward=True)


def _attention(
    batch: int, heads: int, queries: int, keys: int, depth: int, causal: bool, *, backward: bool = False
) -> Workload:
    statement = f"F.scaled_dot_product_attention(q, k, v, is_causal={causal})"
    shapes = {"q": queries, "k": keys, "v": keys}
    operands = {
        name: Operand(normal(batch, heads, length, depth), requires_grad=backward)
        for name, length in shapes.items()
    }
    return Workload(
        "attention", "scaled_dot_product_attention", "attention, causal" if causal else "attention",
        f"{batch}x{heads}x{queries}x{depth} of {keys}", "float32",
        f"{statement}.sum().backward()" if backward else statement, "", operands,
        direction="both" if backward else "forward",
        result="(q.grad, k.grad, v.grad)" if backward else "",
        reset="q.grad = k.grad = v.grad = None" if backward else "",
    )  # fmt: skip
