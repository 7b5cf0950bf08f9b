"""Derivatives of pointwise operators against central differences, twice, and PyTorch's conventions."""

import math

import numpy as np
import pytest

import triten as tt
from triten.dispatch.autograd.gradients import grad

STEP = 1e-6


def numerical_gradient(function, arrays, index, cotangent):
    """Compute d sum(function(*arrays) * cotangent) / d arrays[index] by central differences."""
    gradient = np.zeros_like(arrays[index])
    for position in np.ndindex(*arrays[index].shape):
        sums = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[index][position] += sign * STEP
            out = function(*[tt.from_numpy(a) for a in moved])
            sums.append(float(np.sum(out.detach().numpy() * cotangent)))
        gradient[position] = (sums[0] - sums[1]) / (2 * STEP)
    return gradient


def gradients(function, arrays, cotangent):
    leaves = [tt.from_numpy(a.copy()).requires_grad_() for a in arrays]
    (function(*leaves) * tt.from_numpy(cotangent)).sum().backward()
    return [np.zeros(tuple(t.shape)) if t.grad is None else t.grad.numpy() for t in leaves]


def check(function, arrays, name):
    rng = np.random.default_rng(1)
    cotangent = rng.standard_normal(function(*[tt.from_numpy(a) for a in arrays]).shape)
    for index, gradient in enumerate(gradients(function, arrays, cotangent)):
        expected = numerical_gradient(function, arrays, index, cotangent)
        where = f"{name}, argument {index}"
        np.testing.assert_allclose(gradient, expected, rtol=2e-5, atol=1e-7, err_msg=where)


IN_UNIT = np.array([[0.3, -0.6], [0.8, -0.2]])
POSITIVE = np.array([[0.4, 1.7], [2.5, 0.9]])
ABOVE_ONE = POSITIVE + 1.5

UNARY = {
    "abs": IN_UNIT,
    "acos": IN_UNIT,
    "acosh": ABOVE_ONE,
    "asin": IN_UNIT,
    "asinh": IN_UNIT,
    "atan": IN_UNIT,
    "atanh": IN_UNIT,
    "cos": IN_UNIT,
    "cosh": IN_UNIT,
    "erf": IN_UNIT,
    "erfc": IN_UNIT,
    "exp": IN_UNIT,
    "expm1": IN_UNIT,
    "gelu": IN_UNIT,
    "leaky_relu": IN_UNIT,
    "log": POSITIVE,
    "log10": POSITIVE,
    "log1p": POSITIVE,
    "log2": POSITIVE,
    "neg": IN_UNIT,
    "reciprocal": POSITIVE,
    "relu": IN_UNIT,
    "rsqrt": POSITIVE,
    "sigmoid": IN_UNIT,
    "sign": IN_UNIT,
    "silu": IN_UNIT,
    "sin": IN_UNIT,
    "sinh": IN_UNIT,
    "softplus": IN_UNIT,
    "sqrt": POSITIVE,
    "square": IN_UNIT,
    "tan": IN_UNIT,
    "tanh": IN_UNIT,
}
ROW, COLUMN = np.array([0.7, -1.3, 2.3]), np.array([[1.1], [0.4]])
CASES = {
    "add": (lambda a, b: tt.add(a, b, alpha=1.5), ROW, COLUMN),
    "sub": (lambda a, b: tt.sub(a, b, alpha=1.5), ROW, COLUMN),
    "rsub": (lambda a, b: tt.rsub(a, b, alpha=0.5), ROW, COLUMN),
    "mul": (tt.mul, ROW, COLUMN),
    "mul number": (lambda a: 2.5 * a * 3, ROW),
    "div": (tt.div, ROW, COLUMN),
    "div number": (lambda a: 1 / (a / 2), ROW),
    "div floor": (lambda a, b: tt.div(a, b, rounding_mode="floor"), ROW, COLUMN),
    "remainder": (tt.remainder, ROW, COLUMN),
    "fmod": (tt.fmod, ROW, COLUMN),
    "pow tensors": (tt.pow, np.abs(ROW), COLUMN),
    "pow number": (lambda a: a**3, ROW),
    "pow zero": (lambda a: a**0, ROW),
    "number pow": (lambda a: 1.7**a, ROW),
    "maximum": (tt.maximum, ROW, COLUMN),
    "minimum": (tt.minimum, ROW, COLUMN),
    "fmax": (tt.fmax, ROW, COLUMN),
    "fmin": (tt.fmin, ROW, COLUMN),
    "atan2": (tt.atan2, ROW, COLUMN),
    "clamp": (lambda a: tt.clamp(a, -1, 1), ROW),
    "clamp min": (lambda a: tt.clamp(a, min=0), ROW),
    "clamp tensors": (tt.clamp, ROW, COLUMN - 1, COLUMN + 0.2),
    "clamp_min": (tt.clamp_min, ROW, COLUMN),
    "clamp_max": (lambda a: a.clamp_max(0.5), ROW),
    "where": (lambda a, b: tt.where(a > b, a, b * 2), ROW, COLUMN),
    "where number": (lambda a: tt.where(a > 0, a, 0.5), ROW),
    "lerp": (lambda a, b: tt.lerp(a, b, 0.3), ROW, ROW + 1),
    "lerp tensor": (tt.lerp, ROW, ROW + 1, np.array([0.2, 0.6, 0.9])),
    "addcmul": (lambda a, b, c: tt.addcmul(a, b, c, value=0.5), ROW, COLUMN, ROW + 2),
    "addcdiv": (lambda a, b, c: tt.addcdiv(a, b, c, value=0.5), ROW, COLUMN, ROW + 3),
    "gelu tanh": (lambda a: tt.gelu(a, approximate="tanh"), ROW),
    "softplus": (lambda a: tt.softplus(a, 2, 3), ROW),
    "leaky_relu": (lambda a: tt.leaky_relu(a, 0.2), ROW),
}


@pytest.mark.parametrize("name", sorted(UNARY))
def test_first_derivative_of_one_operand(name):
    check(getattr(tt, name), [UNARY[name]], name)


@pytest.mark.parametrize("name", sorted(CASES))
def test_first_derivative(name):
    function, *arrays = CASES[name]
    check(function, arrays, name)


SECOND = {
    **{n: (getattr(tt, n), UNARY[n]) for n in UNARY if n not in ("abs", "neg", "relu", "sign", "leaky_relu")},
    **{
        n: CASES[n]
        for n in ("mul", "div", "pow tensors", "pow number", "number pow", "gelu tanh", "softplus")
    },
    **{n: CASES[n] for n in ("addcdiv", "atan2", "lerp tensor")},
}


@pytest.mark.parametrize("name", sorted(SECOND))
def test_second_derivative(name):
    """Check the second derivative: the derivative of the differentiable first derivative."""
    function, *arrays = SECOND[name]

    def first(*tensors):
        tensors = [t if t.requires_grad else t.requires_grad_() for t in tensors]
        out = function(*tensors)
        weights = tt.from_numpy(np.linspace(0.5, 1.5, out._spec.numel).reshape(tuple(out.shape)))
        slopes = grad((out * weights).sum(), tensors, create_graph=True)
        return sum((slope * (index + 1.5)).sum() for index, slope in enumerate(slopes))

    check(first, arrays, name)


def test_maximum_shares_ties():
    a, b = tt.tensor([1.0, 2.0]).requires_grad_(), tt.tensor([1.0, 1.0]).requires_grad_()
    tt.maximum(a, b).sum().backward()
    assert a.grad.tolist() == [0.5, 1]
    assert b.grad.tolist() == [0.5, 0]


def test_gradients_at_corners():
    for function, expected in [(tt.relu, 0), (tt.abs, 0), (lambda x: x**2, 0), (tt.sign, 0)]:
        x = tt.tensor([0.0]).requires_grad_()
        function(x).sum().backward()
        assert x.grad.tolist() == [expected]
    x = tt.tensor([0.0]).requires_grad_()
    (x ** tt.tensor([0.0])).sum().backward()
    assert x.grad.tolist() == [0]


def test_where_stops_nan():
    x = tt.tensor([-1.0, 4.0]).requires_grad_()
    tt.where(x > 0, x, 0).sum().backward()
    assert x.grad.tolist() == [0, 1]


INPLACE = {
    "exp_": (),
    "mul_": (3.0,),
    "sigmoid_": (),
    "pow_": (2,),
    "relu_": (),
    "div_": (4.0,),
    "clamp_": (0, 1),
}


@pytest.mark.parametrize("name", sorted(INPLACE))
def test_inplace_shares_the_derivative(name):
    arguments = INPLACE[name]
    values = np.array([0.5, -0.3, 1.5])
    functional, inplace = (tt.from_numpy(values.copy()).requires_grad_() for _ in range(2))
    getattr(functional * 2, name[:-1])(*arguments).sum().backward()
    changed = inplace * 2
    assert getattr(changed, name)(*arguments) is changed
    changed.sum().backward()
    np.testing.assert_allclose(inplace.grad.numpy(), functional.grad.numpy(), rtol=1e-12)


def test_comparisons_carry_no_gradient():
    x = tt.tensor([1.0, 2.0]).requires_grad_()
    for result in (x > 1, x == x, tt.logical_not(x), tt.isnan(x), tt.isfinite(x)):
        assert not result.requires_grad


def test_out_refuses_gradients():
    x = tt.ones(2).requires_grad_()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        tt.exp(x, out=tt.empty(2))


def test_promotion_is_undone():
    a, b = tt.tensor([1.0, 2.0]).requires_grad_(), tt.from_numpy(np.array([3.0, 4.0])).requires_grad_()
    (a * b).sum().backward()
    assert a.grad.dtype is tt.float32
    assert b.grad.dtype is tt.float64
    assert a.grad.tolist() == [3, 4]


def test_complex_gradients():
    z = tt.tensor([3 + 4j]).requires_grad_()
    tt.abs(z).sum().backward()
    got = complex(z.grad.numpy()[0])
    assert math.isclose(got.real, 0.6, rel_tol=1e-6)
    assert math.isclose(got.imag, 0.8, rel_tol=1e-6)
