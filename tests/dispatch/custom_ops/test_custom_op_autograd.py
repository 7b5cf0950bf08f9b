"""Formulas of `register_autograd`: contexts, lists, keyword-only arguments, errors."""

from typing import Any

import numpy as np
import pytest

import triten as tt
from triten import Tensor
from triten.library import CustomOpDef, custom_op


@pytest.fixture
def power() -> CustomOpDef:
    """Return an operator for x ** n by NumPy, without a formula."""

    @custom_op("t_formula::power", mutates_args=())
    def power(x: Tensor, n: int = 2) -> Tensor:
        return tt.from_numpy(x.numpy() ** n)

    return power


def x_of(*values: float) -> Tensor:
    return tt.tensor(values, dtype=tt.float64, requires_grad=True)


def save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.n = inputs[1]


def power_backward(ctx: Any, grad: Tensor) -> Any:
    (x,) = ctx.saved_tensors
    return grad * ctx.n * x ** (ctx.n - 1), None


def test_without_a_formula_only_backward_raises(power: CustomOpDef) -> None:
    y = power(x_of(3.0))
    assert y.requires_grad
    assert "GeneratedBackwardFor_t_formula_power_default" in repr(y)
    with pytest.raises(
        RuntimeError, match=r"Trying to backward through t_formula.power.default but no autograd"
    ):
        y.sum().backward()
    assert not power(tt.ones(1)).requires_grad
    with tt.no_grad():
        assert not power(x_of(3.0)).requires_grad


def test_a_formula_with_context(power: CustomOpDef) -> None:
    power.register_autograd(power_backward, setup_context=save)
    x = x_of(2.0, 3.0)
    power(x, 3).sum().backward()
    assert x.grad.tolist() == [12.0, 27.0]
    assert tt.autograd.gradcheck(power, (x_of(0.5, -1.5),))
    assert tt.autograd.gradgradcheck(power, (x_of(0.5, -1.5),))


def test_defaults_reach_the_context(power: CustomOpDef) -> None:
    seen: list[Any] = []
    power.register_autograd(power_backward, setup_context=lambda ctx, inputs, output: seen.append(inputs))
    x = x_of(1.0)
    power(x)
    assert seen == [(x, 2)]


def test_an_output_may_be_saved() -> None:
    op = custom_op("t_formula::exp", lambda x: x.exp(), mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
    )
    assert tt.autograd.gradcheck(op, (x_of(0.5, -1.5),))
    x = x_of(1.0)
    y = op(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_several_results_and_what_needs_a_gradient() -> None:
    seen: list[Any] = []

    @custom_op("t_formula::both", mutates_args=())
    def both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, int]:
        return x + y, x * y, 5

    def backward(ctx: Any, added: Tensor, multiplied: Tensor, number: Any) -> Any:
        seen.append((ctx.needs_input_grad, number))
        x, y = ctx.saved_tensors
        return added + multiplied * y, added + multiplied * x

    both.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    x, y = x_of(2.0), tt.tensor([3.0], dtype=tt.float64)
    added, multiplied, number = both(x, y)
    assert number == 5
    (added + multiplied).sum().backward()
    assert x.grad.tolist() == [4.0]
    assert seen == [((True, False), None)]
    assert y.grad is None


def test_lists_of_tensors_and_keyword_only_arguments() -> None:
    seen: list[Any] = []

    @custom_op("t_formula::scaled", mutates_args=())
    def scaled(xs: list[Tensor], weights: list[float], *, bias: float = 1.0) -> list[Tensor]:
        return [x * w + bias for x, w in zip(xs, weights, strict=True)]

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        seen.append((ctx.needs_input_grad, keyword_only_inputs, len(output)))
        ctx.weights = inputs[1]

    def backward(ctx: Any, grads: list[Tensor]) -> Any:
        return [g * w for g, w in zip(grads, ctx.weights, strict=True)], None

    scaled.register_autograd(backward, setup_context=setup)
    x, y = x_of(1.0), tt.ones(1, dtype=tt.float64)
    out = scaled([x, y], [2.0, 3.0], bias=0.5)
    assert [o.tolist() for o in out] == [[2.5], [3.5]]
    out[0].sum().backward()
    assert x.grad.tolist() == [2.0]
    assert seen == [(([True, False], False), {"bias": 0.5}, 2)]
    scaled.register_autograd(lambda ctx, grads: (grads[0], None), setup_context=setup)
    with pytest.raises(RuntimeError, match="a list of 2 gradients at position 1, got Tensor"):
        scaled([x, y], [2.0, 3.0])[0].sum().backward()


def test_the_number_of_gradients(power: CustomOpDef) -> None:
    power.register_autograd(lambda ctx, grad: grad)
    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
        power(x_of(1.0)).sum().backward()
    power.register_autograd(lambda ctx, grad: (grad, None, None, None))
    power(x_of(1.0)).sum().backward()


def test_kernels_run_below_autograd() -> None:
    modes: list[bool] = []

    class Leak(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 100

    @custom_op("t_formula::leak", mutates_args=())
    def leak(x: Tensor) -> Tensor:
        modes.append(tt.is_grad_enabled())
        return Leak.apply(x)

    leak.register_autograd(lambda ctx, grad: grad * 2)
    x = x_of(1.0)
    leak(x).sum().backward()
    assert x.grad.tolist() == [2.0]
    assert modes == [False]
    assert tt.is_grad_enabled()


def test_a_kernel_that_raises_leaves_grad_mode_alone() -> None:
    op = custom_op(
        "t_formula::no", lambda x: np.linalg.inv(x), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    with pytest.raises(np.linalg.LinAlgError):
        op(tt.ones(2))
    assert tt.is_grad_enabled()


def test_operators_that_write_have_no_formula() -> None:
    def add_(x: Tensor, y: Tensor) -> Tensor:
        return x.add_(y)

    op = custom_op("t_formula::add_", add_, mutates_args={"x"}, tags="inplace")
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional operator"):
        op.register_autograd(lambda ctx, grad: (grad, grad))
    x = x_of(1.0) * 2
    y = op(x, tt.ones(1, dtype=tt.float64))
    assert y.tolist() == [3.0]
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()
