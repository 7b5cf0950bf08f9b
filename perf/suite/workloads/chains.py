"""Compiled chains: `tt.compile` beside `torch.compile`, and beside NumExpr where it has the chain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from ..workload import Operand, Scale, Workload, normal


class Chain(NamedTuple):
    """A function of `a`, `b` and `c`.

    Attributes:
        name: what it is called.
        body: it, in PyTorch's names.
        expression: it in NumExpr's language, whose numbers that are not whole are `k0`, `k1`; empty where it has none.
        compared: whether libraries give the same.
    """

    name: str
    body: str
    expression: str = ""
    compared: bool = True


NUMBERS = (0.044715, math.sqrt(2 / math.pi))
"""`k0` and `k1`: NumExpr computes in float64 with numbers that it is told in an expression."""
TWENTY = "a"
for _ in range(10):
    TWENTY = f"({TWENTY}) * a + b"
CHAINS = (
    Chain("3 operators", "tt.relu((a + b) * c)", "where((a + b) * c > 0, (a + b) * c, 0)"),
    Chain("5 operators", "((a * b + c) * a - b).abs()", "abs((a * b + c) * a - b)"),
    Chain("20 operators", TWENTY, TWENTY),
    Chain("a gate", "a / (1 + tt.exp(-b))", "a / (1 + exp(-b))"),
    Chain(
        "gelu by hand",
        f"a * (1 + tt.tanh({NUMBERS[1]} * (a + {NUMBERS[0]} * a * a * a))) / 2",
        "a * (1 + tanh(k1 * (a + k0 * a * a * a))) / 2",
    ),
    Chain("mean squared error", "((a - b) ** 2).mean()"),
    Chain("standard deviations of columns", "(a * b).std(0)"),
    Chain("places of columns' maxima", "(a - b).max(0)[1]"),
    Chain("scaled softmax", "((a * 0.125) + b).softmax(-1)"),
    Chain("layer_norm of a sum", "F.layer_norm(a + b, a.shape[-1:])"),
    Chain(
        "layer_norm of a residual and dropout",
        "F.layer_norm(a + F.dropout(b, 0.1), a.shape[-1:])",
        compared=False,
    ),
    Chain("gelu and dropout", "F.dropout(F.gelu(a), 0.1)", compared=False),
    Chain(
        "rotary embedding",
        "a * b[:1] + tt.cat([-a[:, a.shape[1] // 2:], a[:, :a.shape[1] // 2]], -1) * c[:1]",
    ),
    Chain("a gate of halves", "F.silu((a * b)[:, :a.shape[1] // 2]) * (a * b)[:, a.shape[1] // 2:]"),
)


def workloads(scale: Scale) -> Iterator[Workload]:
    """Every chain at every size."""
    sides = sorted({scale.side(64, 64, 8), scale.side(512, 256, 8), scale.side(4096, 1024, 16)})
    numbers = {f"k{i}": Operand(partial(np.array, n, np.float32)) for i, n in enumerate(NUMBERS)}
    given = ", ".join(f"{name!r}: {name}" for name in ("a", "b", "c", *numbers))
    for chain in CHAINS:
        for side in sides:
            operands = {name: Operand(normal(side, side, scale=0.5 + i / 4)) for i, name in enumerate("abc")}
            expression = f"ne.evaluate({chain.expression!r}, {{{given}}})" if chain.expression else ""
            yield Workload(
                "chains", "compile", chain.name, f"{side}x{side}", "float32", "f(a, b, c)", "", operands | numbers,
                setup=f"f = tt.compile(lambda a, b, c: {chain.body})", compared=chain.compared, counted=False,
                expression=expression,
            )  # fmt: skip
