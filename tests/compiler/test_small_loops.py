"""Plans of few elements that are called often get loops, whose results have the bits of NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.structured import compiled_loops
from triten.runtime.cpu.background import background
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm
F = tt.nn.functional
CALLS = 3
SPECIAL = [0.0, -0.0, 1.0, -1.5, float("inf"), -float("inf"), float("nan"), 1e-42, 3e38, 7.0]


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the stubs whose loops were installed, after three calls of a plan."""
    made: list[str] = []
    tt.ones(2).add(1)  # loads the CPU's kernels, and what compiles their loops
    load = compiled_loops._load_compiler

    def noting(stub: str, *arguments: Any) -> Any:
        loop = load()(stub, *arguments)
        if loop is not None:
            made.append(stub)
        return loop

    monkeypatch.setattr(compiled_loops, "SMALL_CALLS", CALLS)
    monkeypatch.setattr(compiled_loops, "_load_compiler", lambda: noting)
    for clear in (compiled_loops._wrapper_of.cache_clear, Dispatcher.singleton().forget_all):
        clear()
    yield made
    for clear in (compiled_loops._wrapper_of.cache_clear, Dispatcher.singleton().forget_all):
        clear()


def values(*shape: int, dtype: tt.dtype = tt.float32) -> tt.Tensor:
    flat = np.resize(np.array(SPECIAL, np.float32), shape)
    return tt.from_numpy(np.ascontiguousarray(np.roll(flat, sum(shape)))).to(dtype)


FUNCTIONS: dict[str, Callable[..., tt.Tensor]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: y - x,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": tt.maximum,
    "minimum": tt.minimum,
    "lt": lambda x, y: x < y,
    "ge": lambda x, y: x >= y,
    "ne": lambda x, y: x != y,
    "where": lambda x, y: tt.where(y == 1, x, y),
    "sigmoid": lambda x, y: x.sigmoid(),
    "silu": lambda x, y: F.silu(x),
    "hardswish": lambda x, y: F.hardswish(x),
    "rsqrt": lambda x, y: x.rsqrt(),
}


def bits(x: tt.Tensor) -> bytes:
    """Return the bytes of a tensor, with one NaN."""
    array = x.float().numpy() if x.dtype is tt.bfloat16 else x.numpy()
    return np.where(np.isnan(array), np.nan, array).astype(array.dtype).tobytes()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_loops_have_the_bits_of_numpy(name: str, loops: list[str]) -> None:
    function = FUNCTIONS[name]
    for shape, other in (((3, 11), (11,)), ((5, 13), (5, 1)), ((2, 3, 7), (3, 1)), ((1, 17), (9, 1))):
        x, y = values(*shape), values(*other)
        expected = bits(function(x, y))
        for _ in range(CALLS):
            assert bits(function(x, y)) == expected
        background.wait()
        first, second = function(x, y), function(x, y)
        assert bits(first) == bits(second) == expected and first.data_ptr() != second.data_ptr()
    assert f"{name}_stub" in loops


def test_each_plan_has_its_own_loop(loops: list[str]) -> None:
    for size in (19, 23, 29):
        x, y = values(1, size), values(7, size)
        expected = bits(x * y)
        for _ in range(2 * CALLS):
            assert bits(x * y) == expected
            background.wait()
    assert loops.count("mul_stub") == 3


def test_halves_and_doubles(loops: list[str]) -> None:
    for dtype in (tt.bfloat16, tt.float64):
        x, y = values(3, 31, dtype=dtype), values(31, dtype=dtype)
        for function in (FUNCTIONS["add"], FUNCTIONS["sigmoid"]):
            expected = bits(function(x, y))
            for _ in range(2 * CALLS):
                assert bits(function(x, y)) == expected
                background.wait()
    assert loops


def test_operands_of_other_strides_stay_with_numpy(loops: list[str]) -> None:
    turned, line = values(37, 3).t(), values(37)
    expected = bits(turned + line)
    for _ in range(2 * CALLS):
        assert bits(turned + line) == expected
        background.wait()
    assert loops == []


def test_gradients_and_modes_see_the_same_calls(loops: list[str]) -> None:
    x, y = values(4, 41).nan_to_num().requires_grad_(), values(41).nan_to_num().requires_grad_()
    for _ in range(2 * CALLS):
        x.grad = y.grad = None
        (x * y).clamp(-10, 10).sum().backward()
        background.wait()
    inside = ((x * y).abs() <= 10).float()
    assert bits(x.grad) == bits(inside * y.detach()) and y.grad.shape == (41,)
    with tt.no_grad():
        assert not (x * y).requires_grad
