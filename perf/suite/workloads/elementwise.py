"""Work on each element by itself: fresh results, in place, conversions, copies of every layout, random numbers."""

from __future__ import annotations

from collections.abc import Iterator

from ..workload import Operand, Scale, Workload, bar, normal

# operator: (statement, the same over arrays, the largest ratio accepted of large operands)
CALLS = {
    "add": ("a + b", "a + b", 1.0),
    "mul": ("a * 2.5", "a * np.asarray(2.5, a.dtype)", 1.0),
    "relu": ("tt.relu(a)", "np.maximum(a, 0)", 1.0),
    "exp": ("tt.exp(a)", "np.exp(a)", 1.0),
    "gelu": ("F.gelu(a)", "", 1.0),
    "where": ("tt.where(a > 0, a, b)", "np.where(a > 0, a, b)", 1.0),
    "clone": ("a.clone()", "a.copy()", 1.0),
}
# operator, name, statement: libraries generate different random numbers
DRAWS = (
    ("normal", "randn", "tt.randn(a.shape)"),
    ("uniform", "rand", "tt.rand(a.shape)"),
    ("random", "randint", "tt.randint(0, 10, a.shape)"),
    ("randperm", "randperm", "tt.randperm(a.numel())"),
    ("bernoulli", "bernoulli_", "a.bernoulli_(0.3)"),
    ("dropout", "dropout", "F.dropout(a, 0.3)"),
)
TRANSPOSED_BAR, INTO_BAR, BFLOAT16_BAR = 1.3, 1.25, 2.0


def workloads(scale: Scale) -> Iterator[Workload]:
    """Yield rows by operator and size, then by dtype, then by layout."""
    large = scale.side(4096, 1024, 16)
    sides = sorted({scale.side(64, 64, 8), scale.side(512, 64, 8), large})
    for operator, (statement, arrays, max_ratio) in CALLS.items():
        for side in sides:
            operands = {name: Operand(normal(side, side)) for name in "ab"}
            yield Workload(
                "elementwise", operator, operator, f"{side}x{side}", "float32", statement, arrays, operands,
                bar=bar(max_ratio) if side == large else None,
            )  # fmt: skip
    size = f"{large}x{large}"
    for dtype, arrays, max_ratio in (
        ("float64", "a + b", 1.0),
        ("int64", "a + b", 1.0),
        ("bfloat16", "", BFLOAT16_BAR),
    ):
        operands = {name: Operand(normal(large, large, scale=100.0), dtype) for name in "ab"}
        yield Workload(
            "elementwise", "add", "add", size, dtype, "a + b", arrays, operands, bar=bar(max_ratio)
        )
    x, y, z = (Operand(normal(large, large)) for _ in range(3))
    middle = scale.side(512, 64, 8)
    m, n = (Operand(normal(middle, middle)) for _ in range(2))
    for operator, name, statement in (
        ("mul", "mul by its first column", "a * a[:, :1]"),
        ("lerp", "lerp", "tt.lerp(a, b, 0.3)"),
        ("addcmul", "addcmul", "tt.addcmul(a, a, b, value=0.5)"),
        ("sigmoid", "sigmoid", "tt.sigmoid(a)"),
        ("silu", "silu", "F.silu(a)"),
        ("leaky_relu", "leaky_relu", "F.leaky_relu(a)"),
        ("to", "float32 to float16", "a.to(tt.float16)"),
    ):
        yield Workload(
            "elementwise", operator, name, f"{middle}x{middle}", "float32", statement, "", {"a": m, "b": n}
        )
    for operator, name, statement in DRAWS:
        yield Workload(
            "elementwise", operator, name, f"{middle}x{middle}", "float32", statement, "", {"a": m}, compared=False
        )  # fmt: skip
    for operator, name, statement, arrays, operands, max_ratio in (
        ("add", "add, out=", "tt.add(a, b, out=c)", "np.add(a, b, out=c)", {"a": x, "b": y, "c": z}, INTO_BAR),
        ("add", "add_ in place", "c.copy_(a).add_(b)", "", {"a": x, "b": y, "c": z}, INTO_BAR),
        ("add", "add of a row", "a + b[0]", "a + b[0]", {"a": x, "b": y}, 1.0),
        ("add", "add of a column", "a + b[:, :1]", "a + b[:, :1]", {"a": x, "b": y}, 1.0),
        ("mul", "mul by its first column", "a * a[:, :1]", "a * a[:, :1]", {"a": x}, 1.0),
        ("add", "add of a transpose", "a + b.t()", "a + b.T", {"a": x, "b": y}, TRANSPOSED_BAR),
        ("clone", "copy of a transpose", "a.t().contiguous()", "np.ascontiguousarray(a.T)", {"a": x},
         TRANSPOSED_BAR),
        ("clone", "copy of every second column", "a[:, ::2].contiguous()", "a[:, ::2].copy()", {"a": x}, None),
        ("to", "float32 to float64", "a.to(tt.float64)", "a.astype(np.float64)", {"a": x}, None),
        ("to", "float32 to bfloat16", "a.to(tt.bfloat16)", "", {"a": x}, BFLOAT16_BAR),
    ):  # fmt: skip
        yield Workload(
            "elementwise", operator, name, size, "float32", statement, arrays, operands,
            bar=None if max_ratio is None else bar(max_ratio),
        )  # fmt: skip
