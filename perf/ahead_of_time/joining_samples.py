"""Tensors one after another, for the gate."""

from __future__ import annotations

from collections.abc import Iterator

from .sample import FLOATING, SIZES, Sample, empty, tt

JOIN = ("join",)


def joins(capability: int) -> Iterator[Sample]:
    """Yield samples of `cat`: few and many tensors, first and last dimension, aligned and unaligned, converted."""
    for dtype in SIZES.values():
        for count in (2, 9):
            rows = [empty(64, 512, dtype=dtype) for _ in range(count)]
            yield Sample(f"cat {count} of {dtype}", lambda t=rows: tt.cat(t), JOIN)
            yield Sample(f"cat {count} of {dtype} along columns", lambda t=rows: tt.cat(t, 1), JOIN)
            odd = [empty(64, 511, dtype=dtype) for _ in range(count)]
            yield Sample(f"cat {count} of {dtype} along odd columns", lambda t=odd: tt.cat(t, 1))
        deep = [empty(8, 9, 10, dtype=dtype).permute(2, 0, 1) for _ in range(3)]
        yield Sample(f"cat of {dtype} permuted", lambda t=deep: tt.cat(t, 1))
    for dtype in (*FLOATING, "int32", "int64", "int8", "int16", "uint8"):
        for size in (4096, 4095):
            truths = [empty(size, dtype="bool") for _ in range(2)]
            yield Sample(
                f"cat of bool and {dtype}, {size} each",
                lambda t=truths, d=dtype, n=size: tt.cat([*t, empty(n, dtype=d)]),
            )
    for source, target in (
        ("bfloat16", "float32"),
        ("float16", "float64"),
        ("int64", "float32"),
        ("float32", "float64"),
    ):
        narrow = [empty(64, 512, dtype=source) for _ in range(5)]
        yield Sample(
            f"cat of {source} and {target}",
            lambda t=narrow, d=target: tt.cat([*t, empty(64, 512, dtype=d)], 1),
        )
