"""Kernels of several passes over a thousand elements get loops, whose results have the bits of NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.structured import compiled_loops
from triten.dispatch.structured.compiled_loops import CALLS, PASSES_LOOPED_FROM
from triten.runtime.cpu.background import background
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm
F = tt.nn.functional
SPECIAL = [0.0, -0.0, 1.0, -1.5, float("inf"), -float("inf"), float("nan"), 1e-42, 3e38, 7.0, -0.4]
COLUMNS = 50


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the stubs whose loops were compiled, after `CALLS` calls of a plan."""
    made: list[str] = []
    tt.ones(2).add(1)  # loads the CPU's kernels, and what compiles their loops
    load = compiled_loops._load_compiler

    def noting(stub: str, *arguments: Any) -> Any:
        loop = load()(stub, *arguments)
        if loop is not None:
            made.append(stub)
        return loop

    monkeypatch.setattr(compiled_loops, "COMPILE_THRESHOLD", 1)
    monkeypatch.setattr(compiled_loops, "_load_compiler", lambda: noting)
    Dispatcher.singleton().forget_all()
    yield made
    Dispatcher.singleton().forget_all()


FUNCTIONS: dict[str, tuple[Callable[[tt.Tensor], tt.Tensor], str]] = {
    "elu": (lambda x: F.elu(x, 0.5), "elu_stub"),
    "erf": (tt.erf, "erf_stub"),
    "gelu": (F.gelu, "gelu_stub"),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), "leaky_relu_stub"),
    "softmax": (lambda x: F.softmax(x.reshape(-1, 2, COLUMNS), -1), "softmax_stub"),
    "log_softmax": (lambda x: F.log_softmax(x.reshape(-1, 2, COLUMNS), -1), "log_softmax_stub"),
}


def bits(x: tt.Tensor) -> bytes:
    """Return the bytes of a tensor, with one NaN."""
    array = x.numpy()
    return np.where(np.isnan(array), np.float32(np.nan), array).tobytes()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_loops_have_the_bits_of_numpy(name: str, loops: list[str]) -> None:
    function, stub = FUNCTIONS[name]
    rows = -(-PASSES_LOOPED_FROM // COLUMNS) // 2 * 2 + 2
    random = np.random.default_rng(3).standard_normal((rows, COLUMNS)).astype(np.float32)
    special = random.copy()
    special[::3].reshape(-1)[: len(SPECIAL)] = SPECIAL
    for array in (random, special):
        x = tt.from_numpy(array)
        expected = bits(function(x))
        for _ in range(CALLS):
            function(x)
        background.wait()
        assert bits(function(x)) == expected
    assert stub in loops


def test_fewer_elements_have_no_loop(loops: list[str]) -> None:
    few = tt.ones(PASSES_LOOPED_FROM - 1)
    for _ in range(4 * CALLS):
        tt.erf(few)
    background.wait()
    assert loops == []
