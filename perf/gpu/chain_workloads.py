"""Workloads of `docs/compiling.md`: chains of operators, compiled by both libraries."""

from __future__ import annotations

from collections.abc import Iterator

from .workloads import Operand, Workload

CHAINS = "compiled chains"
MILLION = 1 << 20
TWENTY = "a"
for _ in range(10):
    TWENTY = f"({TWENTY}) * a + b"


def chain_workloads(scale: int) -> Iterator[Workload]:
    """Yield the chains. `scale` divides the sizes."""
    large, small = (max(count * MILLION // scale**2, 64) for count in (64, 16))
    x, y = Operand((large,), "float32"), Operand((small,), "float32")
    for name, statement, operand, letters in (
        ("relu((a + b) * c)", "lib.relu((a + b) * c)", x, "abc"),
        ("5 operators", "((a * b + c) * a - b).abs()", y, "abc"),
        ("20 operators", TWENTY, y, "ab"),
        ("GELU by hand", "a * (1 + lib.tanh(0.7978845608 * (a + 0.044715 * a * a * a))) / 2", y, "a"),
    ):
        yield Workload(
            CHAINS, f"{name} {operand.shape[0]} float32", statement, dict.fromkeys(letters, operand),
            operand.nbytes, compiled=True,
        )  # fmt: skip
    rows, columns = max(16384 // scale, 2), max(4096 // scale, 8)
    z, size = Operand((rows, columns), "float32"), f"{rows}x{columns} float32"
    by_hand = "(lambda e: e / e.sum(1, keepdim=True))((a - a.amax(1, keepdim=True)).exp())"
    yield Workload(CHAINS, f"softmax by hand {size}", by_hand, {"a": z}, z.nbytes, compiled=True)
    yield Workload(
        CHAINS, f"layer_norm of a sum {size}", f"F.layer_norm(a + b, ({columns},))", {"a": z, "b": z}, z.nbytes,
        compiled=True,
    )  # fmt: skip
