"""Passes that move reductions and pointwise steps together: kept dimensions, broadcasts, norms."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.passes.broadcasts import broadcast_in_pointwise_steps
from triten.compiler.passes.kept_dimensions import keep_dimensions
from triten.compiler.passes.vector_norms import reduce_to_norms
from triten.compiler.pipeline import run_passes
from triten.tests.compiler.beside_eager import agree, drawn, same

F = tt.nn.functional


def graph_of(function: Callable[..., Any], *sizes: tuple[int, ...]) -> Any:
    return tt.func.make_graph(function, "fake")(*[drawn(*each) for each in sizes or ((4, 6),)]).graph


def operators(graph: Any) -> list[str]:
    return [n.target._opname for n in graph.find_nodes(op="call_function") if hasattr(n.target, "_opname")]


KEPT: dict[str, tuple[Callable[..., Any], bool]] = {
    "unsqueeze": (lambda x: x - x.mean(-1).unsqueeze(-1), True),
    "an index": (lambda x: x - x.sum(1)[:, None], True),
    "view": (lambda x: x - x.amax(-1).view(-1, 1), True),
    "a keyword": (lambda x: x - x.std(-1, correction=0).unsqueeze(1), True),
    "a norm": (lambda x: x / x.norm(dim=-1).unsqueeze(-1), True),
    "another place": (lambda x: x.t() - x.mean(-1).unsqueeze(0), False),
    "read elsewhere": (lambda x: (x - (m := x.mean(-1)).unsqueeze(-1), m * 2), False),
    "a result": (lambda x: x.mean(-1).unsqueeze(-1), False),
    "kept already": (lambda x: x - x.mean(-1, keepdim=True), False),
    "everything": (lambda x: x - x.amax().view(1, 1), False),
}


@pytest.mark.parametrize("name", KEPT)
def test_dimensions_are_kept(name: str, device: str) -> None:
    function, wanted = KEPT[name]
    graph = graph_of(function)
    reduce_to_norms(graph)
    before = operators(graph)
    assert keep_dimensions(graph) == wanted
    graph.lint()
    assert len(operators(graph)) == len(before) - wanted
    assert not keep_dimensions(graph)
    agree(function, lambda: (drawn(4, 6, device=device),), calls=1)


BROADCAST: dict[str, tuple[Callable[..., Any], bool, int]] = {
    "a column": (lambda x, y: x / y.sum(-1, keepdim=True).expand(4, 6), True, 0),
    "a row": (lambda x, y: x * y[0].expand(4, 6) + 1, True, 0),
    "alone": (lambda x, y: y[:1].expand(4, 6) * 2, False, 1),
    "two of them": (lambda x, y: y[:1].expand(4, 6) * x[:, :1].expand(4, 6), True, 1),
    "a scalar": (lambda x, y: x.half() + y.sum().expand(4, 6), False, 1),
    "no pointwise step": (lambda x, y: x @ y[:1].expand(4, 6).t(), False, 1),
}
"""Functions, whether a step is changed, and how many expansions are left."""


@pytest.mark.parametrize("name", BROADCAST)
def test_pointwise_steps_broadcast_themselves(name: str, device: str) -> None:
    function, wanted, left = BROADCAST[name]
    graph = graph_of(function, (4, 6), (4, 6))
    assert broadcast_in_pointwise_steps(graph) == wanted
    graph.lint()
    assert operators(run_passes(graph)).count("expand") == left
    agree(function, lambda: (drawn(4, 6, device=device), drawn(4, 6, device=device, seed=1)), calls=1)


NORMS: dict[str, tuple[Callable[..., Any], bool]] = {
    "two": (lambda x: x.norm(dim=-1), True),
    "one": (lambda x: tt.linalg.vector_norm(x, 1, -1), True),
    "columns": (lambda x: tt.linalg.vector_norm(x, 1, 0), True),
    "all dimensions": (lambda x: tt.linalg.vector_norm(x, 1, (0, 1)), False),
    "infinity": (lambda x: tt.linalg.vector_norm(x, float("inf"), -1, keepdim=True), True),
    "three": (lambda x: tt.linalg.vector_norm(x, 3, -1), False),
    "everything": (lambda x: tt.linalg.vector_norm(x), False),
    "another dtype": (lambda x: tt.linalg.vector_norm(x, dim=-1, dtype=tt.float64), False),
    "single elements": (lambda x: tt.linalg.vector_norm(x[:, :1], dim=-1), False),
    "complex numbers": (lambda x: tt.linalg.vector_norm(tt.complex(x, x), dim=-1), False),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_one_pass(name: str, device: str) -> None:
    function, wanted = NORMS[name]
    graph = graph_of(function)
    assert reduce_to_norms(graph) == wanted
    graph.lint()
    assert ("_vector_norm" in operators(graph)) == wanted
    agree(function, lambda: (drawn(4, 6, device=device),), calls=1)


@pytest.mark.parametrize("order", [1, 2])
def test_normalize_is_one_kernel(order: int, device: str) -> None:
    function = lambda x: F.normalize(x, p=order, dim=-1) * 2  # noqa: E731
    (schedule,) = tt.compiler.explain(function, drawn(4, 6, device=device)).schedules
    assert [kernel.name for kernel in schedule.kernels] == ["vector_norm_clamp_min_div_mul"]
    assert len(schedule.steps) == 1
    agree(function, lambda: (drawn(4, 6, device=device),), calls=1)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2, math.inf, -math.inf])
def test_a_number_has_no_rows(order: float, keepdim: bool) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        whole = tt.linalg.vector_norm(x, order, 0, keepdim)
        return whole + x.sum(0, True).unsqueeze(0)[0] + x.amax(-1).view(())

    same(tt.compile(f, fullgraph=True)(tt.tensor(-3.0)), f(tt.tensor(-3.0)))


def test_dropout_takes_a_gradient_that_is_the_same_along_a_row(device: str) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return F.dropout(x, 0.5).sum(-1, True) * 2

    x, y = (drawn(4, 6, device=device).requires_grad_() for _ in range(2))
    for function, given in ((f, x), (tt.compile(f, fullgraph=True), y)):
        tt.manual_seed(3)
        function(given).sum().backward()
    same(y.grad, x.grad)
