"""Workloads of matmuls with narrow, grouped and sparse operands."""

from __future__ import annotations

from collections.abc import Iterator

from .workloads import Operand, Workload

NARROW = "matmul, narrow operands"
GROUPED = "matmul, grouped"
SPARSE = "matmul, sparse"
DENSITY_THRESHOLD = 1.2816
"""Normal numbers above it are a tenth."""


def narrow_products(scale: int) -> Iterator[Workload]:
    """Yield int8 matmuls, and matmuls with weights of 8 and 4 bits."""
    for m, n, k in ((4096, 4096, 4096), (32, 14336, 4096)):
        m, n, k = max(m // scale, 32), max(n // scale, 32), max(k // scale, 256)
        left, right = Operand((m, k), "int8", high=100), Operand((k, n), "int8", high=100)
        yield Workload(
            NARROW, f"_int_mm {m}x{n}x{k}", "lib._int_mm(a, b)", {"a": left, "b": right}, flops=2 * m * n * k
        )
    for m in (1, 16, 256):
        n, k = max(14336 // scale, 32), max(4096 // scale, 256)
        x = Operand((m, k), "bfloat16")
        weight = Operand((n, k), "int8", high=100)
        yield Workload(
            NARROW, f"_weight_int8pack_mm {m}x{n}x{k}", "lib._weight_int8pack_mm(x, w, s)",
            {"x": x, "w": weight, "s": Operand((n,), "bfloat16")}, flops=2 * m * n * k,
            moved=x.nbytes + weight.nbytes + 2 * m * n,
        )  # fmt: skip
        packed = Operand((n, k // 2), "uint8", high=255)
        yield Workload(
            NARROW, f"_weight_int4pack_mm {m}x{n}x{k}", "lib._weight_int4pack_mm(x, p, 128, s)",
            {"x": x, "w": packed, "s": Operand((k // 128, n, 2), "bfloat16")}, flops=2 * m * n * k,
            moved=x.nbytes + packed.nbytes + 2 * m * n, setup="p = lib._convert_weight_to_int4pack(w, 8)",
        )  # fmt: skip


def grouped_products(scale: int) -> Iterator[Workload]:
    """Yield grouped matmuls, as of the experts of a mixture."""
    for groups, tokens, n, k in ((8, 16384, 14336, 4096), (64, 8192, 1408, 2048)):
        tokens, n, k = (
            max(tokens // scale, groups) // groups * groups,
            max(n // scale // 16 * 16, 16),
            max(k // scale // 16 * 16, 16),
        )
        setup = (
            f"offsets = lib.arange(1, {groups + 1}, device=a.device, dtype=lib.int32) * {tokens // groups}"
        )
        yield Workload(
            GROUPED, f"grouped_mm {groups} groups {tokens}x{n}x{k} bfloat16", "lib._grouped_mm(a, b, offs=offsets)",
            {"a": Operand((tokens, k), "bfloat16"), "b": Operand((groups, k, n), "bfloat16")},
            flops=2 * tokens * n * k, setup=setup, needs="_grouped_mm",
        )  # fmt: skip


def sparse_products(scale: int) -> Iterator[Workload]:
    """Yield matmuls with 2:4 weights, compressed rows and compressed blocks."""
    m, n, k = max(4096 // scale, 64), max(4096 // scale, 64), max(4096 // scale, 64)
    x, w = Operand((m, k), "bfloat16"), Operand((n, k), "bfloat16")
    yield Workload(
        SPARSE, f"2:4 linear {m}x{n}x{k} bfloat16", "F.linear(x, s)", {"x": x, "w": w}, flops=2 * m * n * k,
        setup=f"mask = (lib.arange({k}, device=w.device) % 4 > 1).to(w.dtype)\n"
              "s = lib.sparse.to_sparse_semi_structured(w * mask)",
    )  # fmt: skip
    columns = max(256 // scale, 8)
    w, x = Operand((n, k), "float32"), Operand((k, columns), "float32")
    yield Workload(
        SPARSE, f"CSR, a tenth, {n}x{k} by {columns} float32", "s @ x", {"w": w, "x": x},
        flops=2 * n * k * columns // 10, setup=f"s = (w * (w > {DENSITY_THRESHOLD})).to_sparse_csr()",
    )  # fmt: skip
    block = 64 if scale == 1 else 16
    wide, x = Operand((n, k), "bfloat16"), Operand((k, columns), "bfloat16")
    kept = Operand((n // block, k // block), "float32")
    yield Workload(
        SPARSE, f"BSR of {block}, a tenth, {n}x{k} by {columns} bfloat16", "s @ x",
        {"w": wide, "x": x, "m": kept}, flops=2 * n * k * columns // 10,
        setup=f"keep = (m > {DENSITY_THRESHOLD}).repeat_interleave({block}, 0).repeat_interleave({block}, 1)\n"
              f"s = (w * keep).to_sparse_bsr(({block}, {block}))",
    )  # fmt: skip


def narrow_workloads(scale: int) -> Iterator[Workload]:
    """Yield all workloads of this module. `scale` divides the sizes."""
    yield from narrow_products(scale)
    yield from grouped_products(scale)
    yield from sparse_products(scale)
