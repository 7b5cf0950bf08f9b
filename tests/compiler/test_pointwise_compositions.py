"""Composite pointwise operators decompose into kernel steps, bitwise identical to eager."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.passes.pointwise_compositions import compose_pointwise_steps
from triten.tests.compiler.beside_eager import agree, drawn, same

F = tt.nn.functional

CASES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "relu6": (lambda x, y: F.relu6(x + y), ["add", "clamp"]),
    "hardtanh": (lambda x, y: F.hardtanh(x * y, -0.5, 2.0), ["mul", "clamp"]),
    "prelu": (lambda x, y: F.prelu(x, y[0]), ["select", "view", "gt", "mul", "where"]),
    "twice": (lambda x, y: F.relu6(x) + F.relu6(y), ["clamp", "clamp", "add"]),
    "a result": (lambda x, y: F.relu6(x), ["clamp"]),
    "huber": (
        lambda x, y: F.huber_loss(x, y, reduction="none"),
        ["sub", "clamp", "sub", "mul"],
    ),
}
"""Functions, and their steps after the pass."""


def operators(graph: Any) -> list[str]:
    return [n.target._opname for n in graph.find_nodes(op="call_function")]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16], ids=str)
def test_they_are_what_they_are_composed_of(name: str, dtype: Any, device: str) -> None:
    function, wanted = CASES[name]
    make = lambda: tuple(drawn(4, 6, device=device, dtype=dtype, seed=i) for i in range(2))  # noqa: E731
    graph = tt.func.make_graph(function, "fake")(*make()).graph
    assert compose_pointwise_steps(graph)
    graph.lint()
    assert operators(graph) == wanted
    assert not compose_pointwise_steps(graph)
    agree(function, make, calls=1)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 6.0])
def test_bounds_and_numbers_beyond(value: float, device: str) -> None:
    agree(lambda x: F.relu6(x * 1.0), lambda: (tt.full((3, 5), value, device=device),), calls=1)


def test_they_are_in_kernels(device: str) -> None:
    def f(x: tt.Tensor, w: tt.Tensor) -> tt.Tensor:
        return F.prelu(F.relu6(x + 1), w) * 2

    made = drawn(2, 3, 4, 5, device=device), drawn(3, device=device)
    agree(f, lambda: made, calls=1)
    (kernel,) = tt.compiler.explain(f, *made).schedules[0].kernels
    assert kernel.name == "add_clamp_gt_mul_where_mul"


def test_integers_stay(device: str) -> None:
    x = tt.tensor([[1, 9], [-3, 4]], device=device)
    graph = tt.func.make_graph(lambda x: F.hardtanh(x, 0, 6), "fake")(x).graph
    assert not compose_pointwise_steps(graph)
    agree(lambda x: F.hardtanh(x + 1, 0, 6), lambda: (x,), calls=1)


def test_gradients_are_those_of_the_operators(device: str) -> None:
    def f(x: tt.Tensor, w: tt.Tensor) -> tt.Tensor:
        return F.prelu(F.relu6(x * 4), w)

    def step(function: Callable[..., tt.Tensor]) -> list[Any]:
        x, w = drawn(2, 3, 5, device=device, grad=True), drawn(3, device=device, grad=True)
        result = function(x, w)
        (result * 2).sum().backward()
        return [result.detach(), x.grad, w.grad]

    same(step(tt.compile(f, fullgraph=True)), step(f))
