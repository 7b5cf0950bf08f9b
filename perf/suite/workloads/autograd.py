"""The engine: long chains, many branches, accumulation, gradients of gradients."""

from __future__ import annotations

from collections.abc import Iterator

from ..workload import Operand, Scale, Workload, normal

CHAIN = "y = w\nfor _ in range({count}):\n    y = y * b\n"
WIDE = "sum([w * b for _ in range({count})])"


def workloads(scale: Scale) -> Iterator[Workload]:
    """Yield the host time of small tensors, so that the graph and the engine dominate."""
    count = scale.side(100, 100, 5)
    operands = {
        "w": Operand(normal(16, 16), requires_grad=True),
        "v": Operand(normal(16, 16), requires_grad=True),
        "b": Operand(normal(16, 16, scale=0.5)),
    }
    grad, reset = "w.grad", "w.grad = None"
    for operator, name, statement, direction, result, cleared in (
        ("graph", f"a chain of {count} products", CHAIN.format(count=count), "forward", "y", ""),
        ("engine", f"a chain of {count} products", CHAIN.format(count=count) + "y.sum().backward()", "both", grad,
         reset),
        ("engine", f"{count} branches", WIDE.format(count=count) + ".sum().backward()", "both", grad, reset),
        ("engine", "two leaves", "(w * v).sum().backward()", "both", "(w.grad, v.grad)", "w.grad = v.grad = None"),
        ("engine", "views", "w.t()[2:].reshape(-1).sum().backward()", "both", grad, reset),
        ("accumulate", "into a gradient that is there", "w.grad = b\n(w * b).sum().backward()", "both", "", ""),
        ("grad", "autograd.grad", "tt.autograd.grad((w * b).sum(), w)[0]", "both", "", ""),
        ("grad", "a gradient of a gradient",
         "tt.autograd.grad(tt.autograd.grad((w * w * w).sum(), w, create_graph=True)[0].sum(), w)[0]", "both", "", ""),
    ):  # fmt: skip
        yield Workload(
            "autograd", operator, name, "16x16", "float32", statement, "", operands, direction=direction, result=result,
            reset=cleared, threads=1, host=True, compared=operator != "accumulate",
        )  # fmt: skip
