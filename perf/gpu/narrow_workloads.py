"""Workloads of matmuls with narrow, grouped and sparse operands."""

from __future__ import annotations

from collections.abc import Iterator

from .decode_workloads import TOKENS, WEIGHTS
from .workloads import Operand, Workload

NARROW = "matmul, narrow operands"
NARROW_DECODE = "matmul, narrow weights and at most 16 rows"
GROUPED = "matmul, grouped"
SPARSE = "matmul, sparse"
MAX_TOKENS = 16
"""Rows of activations up to which reading the weight takes the time."""
DENSITY_THRESHOLD = 1.2816
"""Normal numbers above it are a tenth."""


def int8_weight(group: str, m: int, n: int, k: int) -> Workload:
    """Return a matmul of bfloat16 with an int8 weight, whose rows have a scale each."""
    x, weight, scales = (
        Operand((m, k), "bfloat16"),
        Operand((n, k), "int8", high=100),
        Operand((n,), "bfloat16"),
    )
    return Workload(
        group, f"int8 weight {m}x{n}x{k}", "lib._weight_int8pack_mm(x, w, s)", {"x": x, "w": weight, "s": scales},
        flops=2 * m * n * k, moved=x.nbytes + weight.nbytes + scales.nbytes + 2 * m * n,
    )  # fmt: skip


def float8_weight(group: str, m: int, n: int, k: int) -> Workload:
    """Return a matmul of bfloat16 with a weight of 8-bit floats, which PyTorch first converts to bfloat16."""
    x, weight, scales = (
        Operand((m, k), "bfloat16"),
        Operand((n, k), "float8_e4m3fn"),
        Operand((n,), "bfloat16"),
    )
    return Workload(
        group, f"float8 weight {m}x{n}x{k}", "lib._weight_int8pack_mm(x, w, s)", {"x": x, "w": weight, "s": scales},
        flops=2 * m * n * k, moved=x.nbytes + weight.nbytes + scales.nbytes + 2 * m * n,
        peer_statement="F.linear(x, w.to(x.dtype)) * s",
    )  # fmt: skip


def int4_weight(group: str, m: int, n: int, k: int) -> Workload:
    """Return a matmul of bfloat16 with a weight of 4-bit integers; 128 of a row have a scale and a zero point."""
    x, packed = Operand((m, k), "bfloat16"), Operand((n, k // 2), "uint8", high=255)
    scales = Operand((k // 128, n, 2), "bfloat16")
    return Workload(
        group, f"int4 weight {m}x{n}x{k}", "lib._weight_int4pack_mm(x, p, 128, s)", {"x": x, "w": packed, "s": scales},
        flops=2 * m * n * k, moved=x.nbytes + packed.nbytes + scales.nbytes + 2 * m * n,
        setup="p = lib._convert_weight_to_int4pack(w, 8)",
    )  # fmt: skip


def narrow_products(scale: int) -> Iterator[Workload]:
    """Yield int8 matmuls, and matmuls of many rows with weights of 8 and 4 bits."""
    for m, n, k in ((4096, 4096, 4096), (32, 14336, 4096)):
        m, n, k = max(m // scale, 32), max(n // scale, 32), max(k // scale, 256)
        left, right = Operand((m, k), "int8", high=100), Operand((k, n), "int8", high=100)
        yield Workload(
            NARROW, f"_int_mm {m}x{n}x{k}", "lib._int_mm(a, b)", {"a": left, "b": right}, flops=2 * m * n * k
        )
    n, k = max(14336 // scale, 32), max(4096 // scale, 256)
    for of_weight in (int8_weight, int4_weight):
        yield of_weight(NARROW, 256, n, k)


def narrow_decode(scale: int) -> Iterator[Workload]:
    """Yield the layers of decoding with weights of 8 and 4 bits, for at most 16 tokens.

    Example:
        >>> from triten.perf.gpu.narrow_workloads import narrow_decode
        >>> rows = list(narrow_decode(1))
        >>> len(rows), rows[0].name, rows[-1].operands["w"].shape
        (75, 'int4 weight 1x6144x4096', (128256, 4096))
    """
    sizes = [
        (m, max(n // scale // 32 * 32, 32), max(k // scale, 256))
        for m in TOKENS
        if m <= MAX_TOKENS
        for n, k in WEIGHTS
    ]
    for of_weight in (int4_weight, int8_weight, float8_weight):
        for m, n, k in dict.fromkeys(sizes):
            yield of_weight(NARROW_DECODE, m, n, k)


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
    yield from narrow_decode(scale)
