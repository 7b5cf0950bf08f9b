"""Optimizers' steps as compiled loops have the bits of NumPy's passes, for any lists of parameters."""

import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.optimizers import compiled_steps
from triten.cpu_fallback.optimizers.compiled_steps import CompiledSteps
from triten.runtime.cpu.background import background
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm
STEPS = 7


@pytest.fixture(autouse=True)
def loops_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(compiled_steps, "WARM_COMPILE_THRESHOLD", 1)
    compiled_steps.step_loop.cache_clear()
    yield
    compiled_steps.step_loop.cache_clear()


def parameters(dtype: tt.dtype) -> list[tt.Tensor]:
    tt.manual_seed(3)
    made = [tt.randn(s).to(dtype) for s in ((3,), (17, 33), (), (0, 4), (5, 40000))]
    return [tt.nn.Parameter(each) for each in (*made, tt.randn(20, 10).to(dtype).t())]


def trained(make: Any, dtype: tt.dtype) -> list[tt.Tensor]:
    """Return parameters and states after some steps.

    Some steps have new gradients and some in-place ones; one step lacks a parameter's gradient, and one has a
    moved parameter.
    """
    of = parameters(dtype)
    optimizer = make(of)
    for i in range(STEPS):
        for each in of if i not in (4, 5) else ():
            each.grad = tt.randn(each.shape).to(dtype)
        if i == 2:
            of[1].grad = None
        if i == 5:
            of[4].data = of[4].data.clone()
        optimizer.step()
        background.wait()
    states = [v for each in of for v in optimizer.state[each].values() if isinstance(v, tt.Tensor)]
    return [each.detach() for each in (*of, *states)]


def both(make: Any, dtype: tt.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare steps with loops and without."""
    real, done = CompiledSteps.run, []

    def run(self: CompiledSteps, *args: Any) -> bool:
        done.append(real(self, *args))
        return done[-1]

    monkeypatch.setattr(CompiledSteps, "run", run)
    found = trained(make, dtype)
    assert not done[0] and done[-1], "the loop was made after the first step"
    monkeypatch.setattr(CompiledSteps, "run", lambda *args: False)
    for a, b in zip(found, trained(make, dtype), strict=True):
        assert np.array_equal(a.float().numpy(), b.float().numpy(), equal_nan=True)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.bfloat16, tt.float16], ids=str)
@pytest.mark.parametrize(
    ("amsgrad", "maximize", "decay", "betas"),
    [
        *itertools.product((False, True), (False,), (0.0, 0.1), ((0.9, 0.99),)),
        (False, True, 0.1, (0.3, 0.8)),
    ],
)
@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_adam(
    kind: str,
    amsgrad: bool,
    maximize: bool,
    decay: float,
    betas: tuple[float, float],
    dtype: tt.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"amsgrad": amsgrad, "maximize": maximize, "weight_decay": decay, "betas": betas}
    both(lambda of: getattr(tt.optim, kind)(of, lr=0.01, fused=True, **options), dtype, monkeypatch)


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_decay": 0.1, "maximize": True},
        {"momentum": 0.9, "dampening": 0.2},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_sgd(options: dict[str, Any], dtype: tt.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    both(lambda of: tt.optim.SGD(of, lr=0.01, fused=True, **options), dtype, monkeypatch)


def test_a_parameter_that_is_there_twice_takes_two_steps() -> None:
    p, g = tt.ones(4), tt.ones(4)
    for _ in range(3):
        tt._fused_sgd_([p, p], [g, g], [], lr=0.25, **PLAIN)
        background.wait()
    assert p.tolist() == [-0.5] * 4


def test_gradients_are_let_go_of() -> None:
    p = tt.nn.Parameter(tt.ones(1000))
    optimizer = tt.optim.SGD([p], lr=0.5, fused=True)
    for _ in range(3):
        p.grad = tt.ones(1000)
        optimizer.step()
        background.wait()
    gone = weakref.ref(p.grad)
    p.grad = None
    assert gone() is None


PLAIN: dict[str, Any] = {
    "weight_decay": 0.0,
    "momentum": 0.0,
    "dampening": 0.0,
    "nesterov": False,
    "maximize": False,
    "is_first_step": False,
}
