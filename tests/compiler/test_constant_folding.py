"""Constant folding computes steps on literals once; each call still returns new tensors."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.passes.constant_folding import MAX_BYTES
from triten.tests.compiler.beside_eager import agree, drawn, same


def steps(function: Callable[..., Any], device: str, *sizes: int) -> list[str]:
    """Return the operators of a function's graph that constant folding leaves."""
    (schedule,) = tt.compiler.explain(function, drawn(*(sizes or (4, 4)), device=device)).schedules
    schedule.check()
    return [n.target._opname for n in schedule.graph.find_nodes(op="call_function")]


FOLDED: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a mask": (
        lambda x: x.masked_fill(tt.ones(4, 4, dtype=tt.bool, device=x.device).triu(1), 0.5),
        ["masked_fill"],
    ),
    "a range": (lambda x: x * tt.arange(4, device=x.device), ["mul"]),
    "points between": (lambda x: x * tt.linspace(0, 1, 4, device=x.device).square(), ["mul"]),
    "a diagonal": (lambda x: x - tt.eye(4, device=x.device), ["sub"]),
    "like the argument": (
        lambda x: x + tt.ones_like(x) * 2 + tt.full_like(x, 3) + tt.zeros_like(x),
        ["add", "add", "add"],
    ),
    "filled memory": (lambda x: x * tt.empty(4, device=x.device).fill_(2), ["mul"]),
    "a view of one": (lambda x: x + tt.arange(16, device=x.device).view(4, 4)[1:3, :1].sum(), ["add"]),
    "constants of constants": (
        lambda x: x * (a := tt.arange(4, device=x.device)) + (a * 2 + 1) * x + (a * 2).exp(),
        ["mul", "mul", "add", "add"],
    ),
    "a dtype": (
        lambda x: x.half() + tt.full((), 2.0, device=x.device, dtype=tt.float64),
        ["_to_copy", "add"],
    ),
    "a result": (lambda x: (x + 1, tt.arange(4, device=x.device)), ["add", "empty", "_arange"]),
    "a view of a result": (
        lambda x: (x * (m := tt.zeros(4, 4, device=x.device)), m[0].t()),
        ["zeros", "mul", "select", "t"],
    ),
}
"""Functions, and the operators that are left."""
FOLDED["memory without elements"] = (
    lambda x: x * 2 + tt.empty(4, device=x.device) * 0,
    ["mul", "empty", "mul", "add"],
)


@pytest.mark.parametrize("name", FOLDED)
def test_what_is_folded(name: str, device: str) -> None:
    function, left = FOLDED[name]
    assert steps(function, device) == left
    if name != "memory without elements":
        agree(function, lambda: (drawn(4, 4, device=device),))


def test_draws_are_not_folded(device: str) -> None:
    function = lambda x: x + tt.rand(4, device=device) + tt.ones(4, device=device).bernoulli(0.5)  # noqa: E731
    assert len(steps(function, device)) > 3
    agree(function, lambda: (drawn(4, 4, device=device),), calls=3)


def test_large_constants_are_made_anew(device: str) -> None:
    rows = MAX_BYTES // 16 + 1
    assert steps(lambda x: x[0] * tt.zeros(rows, 4, device=device), device)[:2] == ["select", "zeros"]
    assert steps(lambda x: x * tt.zeros(rows, 4, device=device, dtype=tt.bool)[:4], device) == ["mul"]


def test_a_result_is_fresh_at_each_call(device: str) -> None:
    def f(x: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
        zeros = tt.zeros(4, device=device)
        return x + zeros, zeros

    compiled = tt.compile(f, fullgraph=True)
    x = drawn(4, device=device)
    compiled(x)[1].add_(1)
    same(compiled(x), f(x))


def test_what_is_written_to_is_made_anew(device: str) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        total = tt.zeros(4, device=device)
        total += x
        total[0] = 5.0
        return x.copy_(total * 2)

    agree(f, lambda: (drawn(4, device=device),), calls=3)


def test_numbers_of_the_program_are_read_where_they_are_kept(device: str) -> None:
    function = lambda x: x * tt.tensor([1.0, 2.0, 3.0, 4.0], device=device) + tt.tensor(0.5)  # noqa: E731
    names = [
        call.node.target._opname
        for schedule in tt.compiler.explain(function, drawn(4, 4, device=device)).schedules
        for kernel in schedule.kernels
        for call in kernel.calls
    ]
    assert "lift_fresh_copy" not in names
    agree(function, lambda: (drawn(4, 4, device=device),), calls=3)
    agree(lambda x: (x + 1, tt.tensor([1.0, 2.0]).add_(1)), lambda: (drawn(4, device=device),), calls=3)


def test_modes_of_the_thread_do_not_matter() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return x @ (tt.eye(4) @ tt.full((4, 4), 0.1)) + tt.arange(4)

    compiled = tt.compile(f, fullgraph=True)
    x = drawn(4, 4)
    with tt.autocast("cpu"):
        same(compiled(x), f(x))
    with tt.inference_mode():
        same(compiled(x), f(x))
    y = drawn(4, 4, grad=True)
    same(tt.autograd.grad(compiled(y).sum(), y), tt.autograd.grad(f(y).sum(), y))
    same(compiled(x), f(x))
