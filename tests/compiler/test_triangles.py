"""`tril` and `triu` in fused CUDA kernels."""

import sys
from typing import Any

import pytest

import triten as tt
from triten.compiler.schedule import OperatorCall
from triten.tests.compiler.beside_eager import agree, drawn

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")


def names(function: Any, *given: tt.Tensor) -> list[str]:
    """Return the names of the steps of a function's graph."""
    schedule = tt.compiler.explain(function, *given).schedules[0]
    schedule.check()
    return [s.node.target._opname if isinstance(s, OperatorCall) else s.name for s in schedule.steps]


@pytest.mark.parametrize("diagonal", [-(1 << 40), -2, 0, 1, 9, 1 << 40])
@pytest.mark.parametrize("sizes", [(5, 7), (2, 3, 6, 4), (1, 6), (6, 1)])
@pytest.mark.parametrize("name", ["tril", "triu"])
def test_a_triangle_is_part_of_a_pointwise_kernel(name: str, sizes: tuple[int, ...], diagonal: int) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return getattr(x * 2, name)(diagonal).exp() - x

    assert names(f, drawn(*sizes, device="cuda")) == [f"mul_{name}_exp_sub"]
    agree(f, lambda: (drawn(*sizes, device="cuda"),))


@pytest.mark.parametrize("dtype", [tt.bool, tt.int8, tt.int64, tt.float16, tt.bfloat16, tt.float64])
def test_dtypes(dtype: tt.dtype) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return (x == x).logical_and(x.triu(1).to(tt.bool))

    agree(f, lambda: (tt.ones(4, 5, dtype=dtype, device="cuda"),))


def test_zeros_replace_infinity_and_nan() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return (x + 1).tril()

    x = tt.full((2, 2), float("nan"), device="cuda")
    assert tt.compile(f)(x)[0, 1].item() == 0


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_other_kernels_leave_it_to_the_eager_call(device: str) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return x.tril().softmax(-1)

    agree(f, lambda: (drawn(4, 6, device=device),))


def test_gradients() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return (x.exp().tril() * x).sum()

    def make() -> tuple[tt.Tensor]:
        return (drawn(4, 6, device="cuda", grad=True),)

    (x,), (y,) = make(), make()
    f(x).backward()
    tt.compile(f)(y).backward()
    assert tt.equal(x.grad, y.grad)
