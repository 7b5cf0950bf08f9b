"""Activations: values, edges, derivatives, in-place forms, refusals."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional
VALUES = np.array([-50.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 3.0, 6.0, 50.0])
SELU = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
FUNCTIONS: dict[str, tuple[Callable, Callable]] = {
    "elu": (lambda x: F.elu(x, 2.0), lambda v: np.where(v > 0, v, 2 * np.expm1(np.minimum(v, 0)))),
    "selu": (F.selu, lambda v: SELU[0] * np.where(v > 0, v, SELU[1] * np.expm1(np.minimum(v, 0)))),
    "celu": (lambda x: F.celu(x, 2.0), lambda v: np.where(v > 0, v, 2 * np.expm1(np.minimum(v, 0) / 2))),
    "hardtanh": (lambda x: F.hardtanh(x, -0.5, 2.0), lambda v: np.clip(v, -0.5, 2.0)),
    "relu6": (F.relu6, lambda v: np.clip(v, 0, 6)),
    "hardswish": (F.hardswish, lambda v: v * np.clip(v + 3, 0, 6) / 6),
    "hardsigmoid": (F.hardsigmoid, lambda v: np.clip(v + 3, 0, 6) / 6),
    "hardshrink": (F.hardshrink, lambda v: np.where(np.abs(v) <= 0.5, 0, v)),
    "softshrink": (F.softshrink, lambda v: np.sign(v) * np.maximum(np.abs(v) - 0.5, 0)),
    "mish": (F.mish, lambda v: v * np.tanh(np.logaddexp(v, 0))),
    "logsigmoid": (F.logsigmoid, lambda v: -np.logaddexp(-v, 0)),
    "threshold": (lambda x: F.threshold(x, 0.5, 7.0), lambda v: np.where(v > 0.5, v, 7.0)),
    "softsign": (F.softsign, lambda v: v / (1 + np.abs(v))),
    "tanhshrink": (F.tanhshrink, lambda v: v - np.tanh(v)),
}
KEEPS_NAN = sorted(set(FUNCTIONS))
IN_PLACE = ["celu", "elu", "hardsigmoid", "hardswish", "hardtanh", "mish", "relu6", "selu"]


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str, dtype: tt.dtype, device: str) -> None:
    function, expected = FUNCTIONS[name]
    x = tt.tensor(VALUES.tolist(), dtype=dtype, device=device)
    result = function(x)
    assert result.dtype is dtype
    tolerance = 2e-6 if dtype is tt.float32 else 1e-12
    np.testing.assert_allclose(result.cpu().numpy(), expected(VALUES), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", KEEPS_NAN)
def test_nan_stays(name: str, device: str) -> None:
    assert math.isnan(FUNCTIONS[name][0](tt.tensor([math.nan], device=device)).item())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    x = tt.tensor([-4.0, -2.0, -0.7, -0.2, 0.3, 0.8, 2.5, 7.0], dtype=tt.float64, requires_grad=True)
    assert tt.autograd.gradcheck(FUNCTIONS[name][0], (x,), check_forward_ad=True)
    assert tt.autograd.gradgradcheck(FUNCTIONS[name][0], (x,))


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str, device: str) -> None:
    function = getattr(F, name)
    x = tt.tensor(VALUES.tolist(), device=device)
    expected = function(x.clone()).tolist()
    assert function(x, inplace=True) is x
    assert x.tolist() == expected


def test_slopes_at_the_bounds_are_zero() -> None:
    x = tt.tensor([-1.0, 1.0], requires_grad=True)
    F.hardtanh(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_glu_and_prelu(device: str) -> None:
    x = tt.tensor([[1.0, -2.0, 0.0, 0.0]], device=device)
    assert F.glu(x).tolist() == [[0.5, -1.0]]
    y = tt.tensor([[[-1.0], [-1.0]]], device=device)
    assert F.prelu(y, tt.tensor([0.5, 0.25], device=device)).tolist() == [[[-0.5], [-0.25]]]
    assert F.prelu(y, tt.tensor(2.0, device=device)).tolist() == [[[-2.0], [-2.0]]]


@pytest.mark.parametrize("weight", [0.25, 2.0, -0.5])
def test_prelu_of_one_weight_and_many_elements(weight: float) -> None:
    x = tt.randn(300_001, generator=tt.Generator().manual_seed(1))
    got = F.prelu(x, tt.tensor([weight]))
    assert tt.equal(got, tt.where(x > 0, x, x * weight))


@pytest.mark.parametrize("name", ["elu", "hardsigmoid", "hardswish", "logsigmoid", "mish", "hardshrink"])
def test_integers_are_refused(name: str, device: str) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
        getattr(F, name)(tt.ones(2, dtype=tt.int32, device=device))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="min_val cannot be greater"):
        F.hardtanh(tt.ones(1), 2.0, 1.0)
    with pytest.raises(RuntimeError, match="alpha cannot be 0"):
        F.celu(tt.ones(1), 0.0)
    with pytest.raises(RuntimeError, match="Halving dimension must be even"):
        F.glu(tt.ones(3))
    with pytest.raises(RuntimeError, match="lambda must be finite and at least 0"):
        F.softshrink(tt.ones(1), -1.0)
    with pytest.raises(RuntimeError, match="Mismatch of parameter numbers"):
        F.prelu(tt.ones(1, 3), tt.ones(2))


@pytest.mark.parametrize("count", [9, 5000, 100_000])
@pytest.mark.parametrize("numbers", [(1.0, 1.0, 1.0), (1.7, 1.05, 1.0), (-0.5, 2.0, 0.7)])
def test_the_gradient_of_elu(count, numbers):
    alpha, scale, slope = numbers
    x = np.linspace(-9, 9, count).astype(np.float32)
    grad = np.linspace(1, 2, count).astype(np.float32)
    wide = x.astype(np.float64)
    below = alpha * scale * slope * np.exp(np.minimum(wide, 0) * slope)
    expected = grad * np.where(wide <= 0, below, scale)
    made = tt.ops.aten.elu_backward(tt.from_numpy(grad), alpha, scale, slope, False, tt.from_numpy(x))
    np.testing.assert_allclose(made.numpy(), expected, 1e-5)
    a = tt.from_numpy(x).requires_grad_()
    (found,) = tt.autograd.grad(tt.ops.aten.elu(a, alpha, scale, slope), a, tt.from_numpy(grad))
    np.testing.assert_allclose(found.numpy(), expected, 1e-5)
