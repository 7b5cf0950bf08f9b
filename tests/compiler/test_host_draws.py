"""Dropout in fused CPU kernels: eager's random numbers, and eager's final generator state."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler import draws
from triten.compiler.host import loops, pointwise, rows
from triten.tests.compiled_code import needs_llvm
from triten.tests.compiler.beside_eager import agree, drawn, same
from triten.tests.compiler.test_fused_draws import CASES, steps

F = tt.nn.functional

HOST_CASES: dict[str, Callable[..., Any]] = {
    **{name: function for name, (function, _) in CASES.items()},
    "after a reduction": lambda x, y: F.dropout((z := x * y) / z.abs().amax(-1, keepdim=True), 0.5) + y,
    "what NumPy computes": lambda x, y: F.dropout(tt.fmod(x, y), 0.5).tanh() + F.dropout(x, 0.2),
    "rows that NumPy computes": lambda x, y: (
        F.dropout(tt.fmod(x, y).softmax(-1), 0.5).exp() + F.dropout(x, 0.2).sum(-1, keepdim=True)
    ),
    "alone": lambda x, y: (F.dropout(x, 0.25), tt.native_dropout(y, 0.75, True)[1]),
}
"""Functions of two matrices."""


@pytest.mark.parametrize("shape", [(5, 7), (5, 8), (33, 130), (3, 1025), (1100, 40)])
@pytest.mark.parametrize("name", HOST_CASES)
def test_numbers_are_eager(name: str, shape: tuple[int, int]) -> None:
    agree(HOST_CASES[name], lambda: (drawn(*shape), drawn(*shape, seed=1)))


@pytest.mark.parametrize("shape", [(5, 7), (70, 600)])
@pytest.mark.parametrize("name", HOST_CASES)
def test_kernels_that_are_cut(name: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pointwise, rows):
        monkeypatch.setattr(module, "is_possible", lambda: False)
    agree(HOST_CASES[name], lambda: (drawn(*shape), drawn(*shape, seed=1)))


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float64])
def test_dtypes(dtype: Any) -> None:
    agree(lambda x: F.dropout(x * 3, 0.3) + 1, lambda: (drawn(3, 150, dtype=dtype),))


@pytest.mark.parametrize("size", [2, 127, 128, 1023, 1024, 1025, 4099])
def test_edges_of_tiles(size: int) -> None:
    agree(lambda x: F.dropout(x + 1, 0.5), lambda: (drawn(size),), calls=1)


def test_numbers_that_are_not_finite_and_signs() -> None:
    x = tt.tensor([float("inf"), float("-inf"), float("nan"), -0.0, -1.0] * 60)
    agree(lambda x: F.dropout(x * 1, 0.5).neg(), lambda: (x.clone(),))


@pytest.mark.parametrize("offset", [2**32 - 40, 2**40 + 1])
def test_counters_of_two_words(offset: int) -> None:
    function, x = (lambda x: F.dropout(x + 1, 0.5)), drawn(300)
    found = []
    for each in (function, tt.compile(function, fullgraph=True)):
        for seed in (2**63 + 5, 7):
            generator = tt.manual_seed(seed)
            generator.set_offset(offset)
            last = each(x)
        found.append(last)
    same(found[1], found[0])


@pytest.mark.parametrize("name", ["a chain", "rows", "two of them"])
def test_the_number_of_threads_changes_nothing(
    name: str,
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loops, "SHARED_FROM", 256)
    agree(HOST_CASES[name], lambda: (drawn(90, 700), drawn(90, 700, seed=1)))


@needs_llvm
@pytest.mark.parametrize("name", ["a chain", "rows", "weights", "two of them", "with the mask", "alone"])
def test_one_loop_draws_and_computes(name: str) -> None:
    found = tt.compiler.explain(HOST_CASES[name], drawn(33, 130), drawn(33, 130, seed=1))
    assert found.execution
    assert all("one compiled loop" in each and each.endswith("which draws") for each in found.execution)


def test_a_training_step_draws_once() -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        return F.dropout(F.gelu(x), 0.3) * y

    found = []
    for function in (f, tt.compile(f, fullgraph=True)):
        x, y = drawn(60, 90, grad=True), drawn(60, 90, seed=1)
        tt.manual_seed(3)
        result = function(x, y)
        result.sum().backward()
        found.append((result.detach(), x.grad, tt.rand(1)))
    same(found[1], found[0])


@needs_llvm
def test_the_gradient_is_a_loop() -> None:
    f = lambda g, m: tt.ops.aten.native_dropout_backward(g * 2, m, 1.25) + 1  # noqa: E731
    make = lambda: (drawn(40, 30), drawn(40, 30, seed=1) > 0)  # noqa: E731
    agree(f, make)
    assert tt.compiler.explain(f, *make()).execution == (
        "mul_native_dropout_backward_add: one compiled loop",
    )


def test_without_loops_draws_are_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "is_possible", lambda: False)
    function = HOST_CASES["a chain"]
    assert steps(function, drawn(4, 8), drawn(4, 8, seed=1)) == ["add", "native_dropout", "mul"]
    agree(function, lambda: (drawn(4, 8), drawn(4, 8, seed=1)))
