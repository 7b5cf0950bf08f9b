"""Compiled programs: `tt.compile` beside `torch.compile`, and beside NumExpr and Numba where they have the chain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from ..workload import Operand, Phrase, Scale, Workload, normal


class Chain(NamedTuple):
    """A function of `a`, `b` and `c`.

    Attributes:
        name: Name of the chain.
        body: Expression in PyTorch's names.
        expression: Expression for NumExpr, with `k0`, `k1` for non-integer constants; empty if there is none.
        arrays: Expression in NumPy's names for Numba, with the numbers `one`, `two`, `k0`, `k1`; empty if
            there is none.
        compared: True if all libraries give the same result.
    """

    name: str
    body: str
    expression: str = ""
    arrays: str = ""
    compared: bool = True


NUMBERS = {"k0": 0.044715, "k1": math.sqrt(2 / math.pi), "one": 1.0, "two": 2.0}
"""NumExpr and Numba compute in float64 with numbers that they are told in an expression."""
TWENTY = "a"
for _ in range(10):
    TWENTY = f"({TWENTY}) * a + b"
CHAINS = (
    Chain(
        "3 operators",
        "tt.relu((a + b) * c)",
        "where((a + b) * c > 0, (a + b) * c, 0)",
        "np.maximum((a + b) * c, one - one)",
    ),
    Chain(
        "5 operators",
        "((a * b + c) * a - b).abs()",
        "abs((a * b + c) * a - b)",
        "np.abs((a * b + c) * a - b)",
    ),
    Chain("20 operators", TWENTY, TWENTY, TWENTY),
    Chain("a gate", "a / (1 + tt.exp(-b))", "a / (1 + exp(-b))", "a / (one + np.exp(-b))"),
    Chain(
        "gelu by hand",
        f"a * (1 + tt.tanh({NUMBERS['k1']} * (a + {NUMBERS['k0']} * a * a * a))) / 2",
        "a * (1 + tanh(k1 * (a + k0 * a * a * a))) / 2",
        "a * (one + np.tanh(k1 * (a + k0 * a * a * a))) / two",
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
ATTENTION = "((q @ k.transpose(-2, -1)) * 0.125 + m).softmax(-1) @ v"
MLP = "F.linear(F.gelu(F.linear(x, w, a)), u, b)"
OPTIMIZER = """parameters = [tt.nn.Parameter(p.clone()) for p in (p0, p1, p2, p3)]
for parameter, grad in zip(parameters, (g0, g1, g2, g3)):
    parameter.grad = grad
f = tt.compile(tt.optim.AdamW(parameters, lr=tt.tensor(1e-3), weight_decay=0.1).step)
"""


def workloads(scale: Scale) -> Iterator[Workload]:
    """Yield every chain at every size, and programs with matmuls and steps of an optimizer."""
    sides = sorted({scale.side(64, 64, 8), scale.side(512, 256, 8), scale.side(4096, 1024, 16)})
    numbers = {name: Operand(partial(np.array, n, np.float32)) for name, n in NUMBERS.items()}
    for chain in CHAINS:
        for side in sides:
            operands = {name: Operand(normal(side, side, scale=0.5 + i / 4)) for i, name in enumerate("abc")}
            yield Workload(
                "chains", "compile", chain.name, f"{side}x{side}", "float32", "f(a, b, c)", "", operands | numbers,
                setup=f"f = tt.compile(lambda a, b, c: {chain.body})", compared=chain.compared, counted=False,
                phrases=_phrases(chain),
            )  # fmt: skip
    yield from _programs(scale)


def _phrases(chain: Chain) -> dict[str, Phrase]:
    """Return a chain in the syntax of NumExpr and of Numba."""
    phrases = {}
    names = ", ".join(("a", "b", "c", *NUMBERS))
    if chain.expression:
        local_dict = ", ".join(f"{name!r}: {name}" for name in names.split(", "))
        phrases["numexpr"] = Phrase(f"ne.evaluate({chain.expression!r}, {{{local_dict}}})")
    if chain.arrays:
        numbers = "".join(f"{name} = {name}[()]\n" for name in NUMBERS)  # from arrays of no dimensions
        function = f"f = nb.njit(parallel=True)(lambda {names}: {chain.arrays})"
        phrases["numba"] = Phrase(f"f({names})", numbers + function)
    return phrases


def _programs(scale: Scale) -> Iterator[Workload]:
    lengths = sorted({scale.side(64, 64, 8), scale.side(256, 128, 8), scale.side(1024, 256, 16)})
    for length in lengths:
        sizes = (scale.side(4, 2, 1), scale.side(8, 4, 2), length, 64)
        operands = {name: Operand(normal(*sizes, scale=1 + i / 8)) for i, name in enumerate("qkv")}
        causal = Operand(partial(np.triu, np.full((length, length), -np.inf, np.float32), 1))
        yield Workload(
            "chains", "compile", "attention by hand", "x".join(map(str, sizes)), "float32", "f(q, k, v, m)", "",
            operands | {"m": causal}, setup=f"f = tt.compile(lambda q, k, v, m: {ATTENTION})", counted=False,
        )  # fmt: skip
    for width in sorted({scale.side(64, 64, 8), scale.side(256, 128, 8), scale.side(1024, 256, 16)}):
        operands = {
            "x": Operand(normal(scale.side(256, 128, 8), width)),
            "w": Operand(normal(4 * width, width, scale=width**-0.5)),
            "a": Operand(normal(4 * width)),
            "u": Operand(normal(width, 4 * width, scale=width**-0.5 / 2)),
            "b": Operand(normal(width)),
        }
        yield Workload(
            "chains", "compile", "gelu MLP", f"256x{width}", "float32", "f(x, w, a, u, b)", "", operands,
            setup=f"f = tt.compile(lambda x, w, a, u, b: {MLP})", counted=False,
        )  # fmt: skip
    for side in sorted({scale.side(64, 64, 8), scale.side(256, 128, 8), scale.side(1024, 256, 16)}):
        shapes = ((side, side), (4 * side, side), (side,), (4 * side,))
        operands = {f"{kind}{i}": Operand(normal(*sizes)) for i, sizes in enumerate(shapes) for kind in "pg"}
        yield Workload(
            "chains", "compile", "AdamW step", f"4 tensors of {side}", "float32", "f()", "", operands,
            setup=OPTIMIZER, compared=False, counted=False,
        )  # fmt: skip
