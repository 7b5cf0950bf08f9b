"""Views of pointwise results compute only the elements that are read, without an intermediate write."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.passes import views_first
from triten.compiler.schedule import OperatorCall
from triten.tests.compiler.beside_eager import agree, drawn, same

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.runtime.cuda.driver import driver

VIEWS = ("slice", "select", "unsqueeze", "t", "view", "transpose", "permute", "expand", "squeeze")


def steps(function: Callable[..., Any], *given: Any) -> list[str]:
    """Return the names of the kernels and operators in a function's first graph, without views."""
    schedule = tt.compiler.explain(function, *given).schedules[0]
    schedule.check()
    names = [s.node.target._opname if isinstance(s, OperatorCall) else s.name for s in schedule.steps]
    return [name for name in names if name not in VIEWS]


CASES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a slice": (lambda x, y: (x * y)[:, 1:3] + 1, ["mul_add"]),
    "every second": (lambda x, y: (x.exp() * y)[:, ::2].clamp(0) * y[:, 1::2], ["exp_mul_clamp_mul"]),
    "a row": (lambda x, y: (x * y)[1] + x[0], ["mul_add"]),
    "numbers": (lambda x, y: (x * 2 - tt.full((), 0.5, device="cuda"))[:2] + 1, ["mul_sub_add"]),
    "a gate": (
        lambda x, y: (h := (x * y[:1] + 1).chunk(2, -1))[0].sigmoid() * h[1],
        ["mul_add_mul_add_sigmoid_mul"],
    ),
    "a stack": (lambda x, y: tt.stack([x * 2, y + 1], -1).relu(), ["mul_add_cat_relu"]),
    "a cat in another order": (lambda x, y: tt.cat([x, y]).t().contiguous() * 2, ["cat_clone_mul"]),
    "a slice of a cat": (lambda x, y: tt.cat([x * 2, y], 1)[:2] + 1, ["mul_cat_add"]),
    "a row of a cat": (lambda x, y: tt.cat([x * 2, y], 1)[2] + 1, ["mul_cat_add"]),
    "a slice along a cat": (lambda x, y: tt.cat([x * 2, y], 1)[:, 2:9] + 1, ["mul_cat", "add"]),
    "another order": (lambda x, y: (x * 2).t() + 1, ["mul", "add"]),
    "an element": (lambda x, y: (x * y)[1, 2] + 1, ["mul", "add"]),
    "a product": (lambda x, y: (x * 2)[0] @ y.t(), ["mul", "mm", "_unsafe_view"]),
    "the whole, too": (lambda x, y: ((z := x * y)[:2] + 1, z.sum()), ["mul_sum", "add"]),
    "overlapping slices": (lambda x, y: ((z := x * y)[1:] - 1) * z[:-1], ["mul", "sub_mul"]),
    "a result": (lambda x, y: ((z := x * y)[:2] + 1, z), ["mul", "add"]),
    "a view as a result": (lambda x, y: ((z := (x * y)[:2]), z + 1), ["mul", "add"]),
    "whole numbers": (
        lambda x, y: (x.int() // 3)[:, 1:].float() * y[:, 1:],
        ["to_copy_floor_divide_to_copy_mul"],
    ),
}
"""Functions, and their steps on CUDA but for views."""


@pytest.mark.parametrize("name", CASES)
def test_results_are_eager(name: str) -> None:
    function, wanted = CASES[name]
    make = lambda: (drawn(4, 8, device="cuda"), drawn(4, 8, device="cuda", seed=1))  # noqa: E731
    agree(function, make)
    assert steps(function, *make()) == wanted


def test_a_view_moves_before_a_limited_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views_first, "MAX_STEPS", 4)

    def chain(x: tt.Tensor) -> tt.Tensor:
        return ((((((x + 1) * 2) - 3) * 4 + 5) * 6)[:2] + 7).exp()

    x = drawn(4, 8, device="cuda")
    assert steps(chain, x) == ["add_mul", "sub_mul_add_mul_add_exp"]


def test_a_gate_is_one_launch_each_way() -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        a, b = (x * y).chunk(2, -1)
        return tt.nn.functional.silu(a) * b

    found = []
    for function in (f, tt.compile(f, fullgraph=True)):
        x, y = drawn(4, 8, device="cuda", grad=True), drawn(4, 8, device="cuda", seed=1)
        result = function(x, y)
        result.sum().backward()
        found.append((result.detach(), x.grad))
    same(found[1], found[0])
    compiled = tt.compile(f, fullgraph=True)
    with tt.no_grad():
        compiled(x, y)
        before = driver().launches
        compiled(x, y)
    assert driver().launches - before == 1


def test_writes_stay_where_they_are() -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        z = x * y
        z[:, :2] += 1
        x[0] = z[1] * 2
        return z[:, 1:] + 1

    agree(f, lambda: (drawn(4, 8, device="cuda"), drawn(4, 8, device="cuda", seed=1)), calls=3)


def test_gradients_of_gates_and_rotations_are_one_kernel() -> None:
    def gate(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        a, b = x.chunk(2, -1)
        return tt.nn.functional.silu(a) * b + y[:, :4]

    def rotated(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        a, b = x.chunk(2, -1)
        return x * y + tt.cat([-b, a], -1) * y[:1]

    for function in (gate, rotated):
        x, y = drawn(4, 8, device="cuda", grad=True), drawn(4, 8, device="cuda", seed=1)
        forward, backward = tt.compiler.explain(function, x, y).schedules
        assert [len(schedule.kernels) for schedule in (forward, backward)] == [1, 1]
        weights = drawn(*function(x, y).shape, device="cuda", seed=2)
        found = [
            tt.autograd.grad(f(x, y), x, weights) for f in (function, tt.compile(function, fullgraph=True))
        ]
        same(found[1], found[0])
