"""`cat` and `stack` in fused kernels: each part is computed where the result is stored."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.schedule import OperatorCall
from triten.tests.compiler.beside_eager import agree, drawn, same

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.runtime.cuda.driver import driver

F = tt.nn.functional
VIEWS = ("slice", "select", "unsqueeze", "t", "view", "transpose", "permute", "expand")


def steps(function: Callable[..., Any], *given: Any) -> list[str]:
    """Return the names of the kernels and operators in a function's first graph, without views."""
    schedule = tt.compiler.explain(function, *given).schedules[0]
    schedule.check()
    names = [s.node.target._opname if isinstance(s, OperatorCall) else s.name for s in schedule.steps]
    return [name for name in names if name not in VIEWS]


def rotary(x: tt.Tensor, cos: tt.Tensor, sin: tt.Tensor) -> tt.Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + tt.cat([-b, a], -1) * sin


def rotary_arguments(device: str = "cuda", grad: bool = False) -> tuple[tt.Tensor, ...]:
    x = drawn(2, 3, 5, 8, device=device, grad=grad)
    return x, drawn(5, 8, device=device, seed=1), drawn(5, 8, device=device, seed=2)


def launches(run: Callable[[], Any]) -> int:
    before = driver().launches
    run()
    return driver().launches - before


def test_rotary_embeddings_are_one_launch() -> None:
    assert steps(rotary, *rotary_arguments()) == ["mul_neg_cat_mul_add"]
    compiled = agree(rotary, rotary_arguments)
    given = rotary_arguments()
    assert launches(lambda: compiled(*given)) == 1 < launches(lambda: rotary(*given))


def test_queries_and_keys_are_two_launches() -> None:
    def f(q: tt.Tensor, k: tt.Tensor, cos: tt.Tensor, sin: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
        return rotary(q, cos, sin), rotary(k, cos, sin)

    make = lambda: (drawn(2, 4, 5, 8, device="cuda"), *rotary_arguments())  # noqa: E731
    assert len(steps(f, *make())) == 2
    agree(f, make)


def test_gradients_of_rotary_embeddings() -> None:
    found = []
    for function in (rotary, tt.compile(rotary, fullgraph=True)):
        x, cos, sin = rotary_arguments(grad=True)
        function(x, cos, sin).square().sum().backward()
        found.append(x.grad)
    same(found[1], found[0])


CASES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "the last dimension": (lambda x, y: tt.cat([x * 2, y.exp()], -1), ["mul_exp_cat"]),
    "the first dimension": (lambda x, y: tt.cat([x * 2, y.exp(), x]).relu(), ["mul_exp_cat_relu"]),
    "one part alone": (lambda x, y: tt.cat([x, y]) + 1, ["cat_add"]),
    "a step of a part that is read elsewhere": (
        lambda x, y: (tt.cat([(z := x * 2) + 1, y]), z),
        ["mul", "add_cat"],
    ),
    "a part twice": (lambda x, y: tt.cat([(z := x * 2), z]) + 1, ["mul", "cat_add"]),
    "a part that is a result": (lambda x, y: (tt.cat([(z := x * 2), y]) + 1, z), ["mul", "cat_add"]),
    "steps that join": (
        lambda x, y: tt.cat([(x * 2 - (z := x.exp())) * z, y.relu() + y]),
        ["mul_exp_sub_mul_relu_add_cat"],
    ),
    "broadcasts": (lambda x, y: tt.cat([x * y[:, :1], y + x[0]], 1).tanh(), ["mul_add_cat_tanh"]),
    "permuted parts": (lambda x, y: tt.cat([x.t() * 2, y.t()], 1), ["mul", "cat"]),
    "numbers for each row": (lambda x, y: tt.cat([x * 2, y], 1).softmax(-1), ["mul_cat", "_softmax"]),
    "another dtype": (lambda x, y: tt.cat([x * 2, y.half()], 1) + 1, ["mul", "_to_copy", "cat", "add"]),
    "masks": (lambda x, y: ~tt.cat([x > 0, y < 0], 1), ["gt_lt_cat_bitwise_not"]),
    "one dimension": (lambda x, y: tt.cat([x[0] * 2, y[1]]) + 1, ["mul_cat_add"]),
    "a cat of a cat": (lambda x, y: tt.cat([tt.cat([x * 2, y]), y * 3]) + 1, ["mul_cat", "mul_cat_add"]),
    "no elements": (lambda x, y: tt.cat([x * 2, y[:0]]) + 1, ["mul", "cat", "add"]),
    "division of whole numbers": (
        lambda x, y: tt.cat([x.int() // 3, 7 % (y.int().abs() + 1)]),
        ["to_copy_floor_divide_to_copy_abs_add_remainder_cat"],
    ),
}
"""Functions, and their steps but for views."""


@pytest.mark.parametrize("name", CASES)
def test_results_are_eager(name: str) -> None:
    function, wanted = CASES[name]
    make = lambda: (drawn(4, 6, device="cuda"), drawn(4, 6, device="cuda", seed=1))  # noqa: E731
    agree(function, make, calls=1)
    assert steps(function, *make()) == wanted


PADDINGS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "zeros": (lambda x: F.pad(x * 2, (1, 2)).relu(), ["mul_constant_pad_nd_relu"]),
    "a number": (lambda x: F.pad(x, (0, 0, 3, 0), value=-1.5) * 2, ["constant_pad_nd_mul"]),
    "infinity": (lambda x: F.pad(x.exp(), (0, 3), value=float("-inf")) + 1, ["exp_constant_pad_nd_add"]),
    "whole numbers": (
        lambda x: F.pad(x.int() // 3, (2, 0)) + 1,
        ["to_copy_floor_divide_constant_pad_nd_add"],
    ),
    "masks": (lambda x: ~F.pad(x > 0, (2, 0), value=True), ["gt_constant_pad_nd_bitwise_not"]),
    "half": (lambda x: F.pad(x.half(), (2, 0), value=0.1) + 1, ["to_copy_constant_pad_nd_add"]),
    "two dimensions": (lambda x: F.pad(x * 2, (1, 0, 1, 0)) + 1, ["mul", "constant_pad_nd", "add"]),
    "a crop": (lambda x: F.pad(x * 2, (-1, 1)) + 1, ["mul", "constant_pad_nd", "add"]),
}
"""Functions, and their steps but for views."""


@pytest.mark.parametrize("name", PADDINGS)
def test_paddings_are_parts(name: str) -> None:
    function, wanted = PADDINGS[name]
    agree(function, lambda: (drawn(4, 6, device="cuda"),), calls=1)
    assert steps(function, drawn(4, 6, device="cuda")) == wanted


SLICES: dict[str, tuple[Callable[..., Any], int]] = {
    "halves": (
        lambda x, y: x * y + tt.cat([-x[..., 4:], x[..., :4]], -1) * y[:1],
        1,
    ),
    "the middle": (lambda x, y: x[:, 2:5] * y[:, :3], 1),
    "from the end": (lambda x, y: x[-2:, :-1] * y[:2, 1:] + x[:2, 1:], 4),
    "every second": (lambda x, y: x[:, ::2] * y[:, 1::2], 3),
}
"""Functions of slices, and the launches of their derivatives at most."""


@pytest.mark.parametrize("name", SLICES)
def test_gradients_of_slices_are_padded_where_they_are_added(name: str) -> None:
    function, most = SLICES[name]
    x, y = drawn(4, 8, device="cuda", grad=True), drawn(4, 8, device="cuda", seed=1)
    weights = drawn(*function(x, y).shape, device="cuda", seed=2)
    compiled = tt.compile(function, fullgraph=True)
    expected = tt.autograd.grad(function(x, y), x, weights)
    result = compiled(x, y)
    counted: list[Any] = []
    assert launches(lambda: counted.append(tt.autograd.grad(result, x, weights))) <= most
    same(counted[0], expected)


def test_many_parts_are_a_call() -> None:
    function = lambda x: tt.cat([x * i for i in range(9)], -1) + 1  # noqa: E731
    assert "cat" in steps(function, drawn(3, 5, device="cuda"))
    agree(function, lambda: (drawn(3, 5, device="cuda"),), calls=1)


@pytest.mark.parametrize("sizes", [(1, 3), (16, 33), (40, 64)])
def test_edges_of_blocks(sizes: tuple[int, int]) -> None:
    make = lambda: (drawn(*sizes, device="cuda"), drawn(sizes[0], 7, device="cuda"))  # noqa: E731
    agree(lambda x, y: tt.cat([x.sin(), y, x * 3], 1) - 1, make, calls=1)
    agree(lambda x, y: tt.cat([x.sin().flatten(), y.flatten() * 2]) - 1, make, calls=1)
