"""softmax and log_softmax: values, stability, dtypes, layouts, errors."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import triten as tt
import triten.nn

F = triten.nn.functional
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-6, "float64": 1e-13}


def reference(array: Any, dim: int, log: bool) -> Any:
    wide = array.astype(np.float64)
    shifted = wide - wide.max(dim, keepdims=True)
    result = shifted - np.log(np.exp(shifted).sum(dim, keepdims=True))
    return result if log else np.exp(result)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("log", [False, True])
def test_values(log: bool, dtype: str, dim: int, transposed: bool) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    array = np.random.default_rng(0).standard_normal((3, 4, 200)).astype(kind)
    x = (
        tt.from_numpy(np.ascontiguousarray(array.T)).permute((2, 1, 0))
        if transposed
        else tt.from_numpy(array)
    )
    got = (tt.log_softmax if log else tt.softmax)(x, dim)
    assert got.dtype is x.dtype
    assert got.is_contiguous()
    tolerance = TOLERANCE[dtype] * (10 if log else 1)
    np.testing.assert_allclose(
        got.numpy().astype(np.float64), reference(array, dim, log), tolerance, tolerance
    )


@pytest.mark.parametrize("sizes", [(3, 5), (4, 200), (2, 3, 7), (60, 150)], ids=str)
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("log", [False, True], ids=["softmax", "log_softmax"])
def test_values_and_gradients_on_each_device(
    rng: np.random.Generator, device: str, log: bool, dim: int, sizes: tuple[int, ...]
) -> None:
    """Take short rows, long rows, several dimensions, and enough elements for the kernels in blocks."""
    array, grad = (rng.standard_normal(sizes).astype(np.float32) for _ in range(2))
    x = tt.from_numpy(array).to(device).requires_grad_()
    got = (tt.log_softmax if log else tt.softmax)(x, dim)
    expected = reference(array, dim, log)
    np.testing.assert_allclose(got.detach().cpu().numpy(), expected, rtol=1e-5, atol=1e-6)
    (got_grad,) = tt.autograd.grad(got, x, tt.from_numpy(grad).to(device))
    if log:
        expected_grad = grad - np.exp(expected) * grad.sum(dim, keepdims=True, dtype=np.float64)
    else:
        expected_grad = expected * (grad - (grad * expected).sum(dim, keepdims=True))
    np.testing.assert_allclose(got_grad.cpu().numpy(), expected_grad, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("log", [False, True], ids=["softmax", "log_softmax"])
def test_second_derivatives_and_tangents_are_those_of_differences(log: bool) -> None:
    function = tt.log_softmax if log else tt.softmax
    x = tt.tensor([[0.3, -1.2, 0.5], [2.0, 0.1, -0.4]], dtype=tt.float64, requires_grad=True)
    for dim in (0, 1):
        assert tt.autograd.gradcheck(lambda a, dim=dim: function(a, dim), (x,), check_forward_ad=True)
        assert tt.autograd.gradgradcheck(lambda a, dim=dim: function(a, dim), (x,))


def test_large_numbers_do_not_overflow() -> None:
    x = tt.tensor([[1000.0, 1000.0], [-1000.0, 0.0]])
    np.testing.assert_allclose(x.softmax(1).numpy(), [[0.5, 0.5], [0, 1]])
    np.testing.assert_allclose(x.log_softmax(1).numpy(), [[-math.log(2)] * 2, [-1000, 0]], rtol=1e-6)


def test_infinities() -> None:
    x = tt.tensor([[-math.inf, 0.0], [-math.inf, -math.inf], [math.inf, 0.0]])
    got = x.softmax(1).numpy()
    np.testing.assert_array_equal(got[0], [0, 1])
    assert np.isnan(got[1]).all()
    assert math.isnan(got[2, 0])
    assert x.log_softmax(1).numpy()[0].tolist() == [-math.inf, 0]


def test_zero_dimensional_and_empty() -> None:
    assert tt.tensor(5.0).softmax(0).item() == 1
    assert tt.tensor(5.0).log_softmax(-1).item() == 0
    assert tt.empty(0, 3).softmax(1).shape == (0, 3)
    assert tt.empty(3, 0).log_softmax(1).shape == (3, 0)


def test_dtype_is_converted_to_first() -> None:
    got = tt.tensor([1, 2]).softmax(0, tt.float64)
    assert got.dtype is tt.float64
    np.testing.assert_allclose(got.numpy(), reference(np.array([1, 2]), 0, False))


def test_out() -> None:
    x, out = tt.tensor([1.0, 2.0]), tt.zeros(2)
    assert tt.softmax(x, 0, out=out) is out
    np.testing.assert_array_equal(out.numpy(), x.softmax(0).numpy())


def test_functional_forms() -> None:
    x = tt.tensor([[1.0, 2.0]])
    np.testing.assert_array_equal(F.softmin(x, dim=1).numpy(), (-x).softmax(1).numpy())
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        np.testing.assert_array_equal(F.softmax(x).numpy(), x.softmax(1).numpy())


def test_errors() -> None:
    with pytest.raises(IndexError, match="Dimension out of range"):
        tt.ones(2).softmax(1)
    for x in (tt.tensor([1, 2]), tt.tensor([True])):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            x.softmax(0)


def test_meta() -> None:
    got = tt.empty(2, 3).to("meta").log_softmax(1)
    assert got.is_meta
    assert got.shape == (2, 3)


@pytest.mark.parametrize("dtype", [None, tt.float64])
def test_a_safe_softmax_of_nothing_but_minus_infinity_is_zero(dtype: Any, device: str) -> None:
    scores = tt.tensor([[-math.inf, -math.inf], [0.5, -math.inf], [0.5, 1.0]], device=device).requires_grad_()
    got = tt.ops.aten._safe_softmax(scores, -1, dtype)
    assert got.dtype is (dtype or tt.float32)
    expected = tt.softmax(scores.detach()[1:], -1, dtype)
    tt.testing.assert_close(got.detach(), tt.cat([tt.zeros_like(expected[:1]), expected]))
    (gradient,) = tt.autograd.grad((got * tt.tensor([1.0, 2.0], device=device)).sum(), scores)
    assert gradient[:2].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert gradient[2].isfinite().all().item()
    assert gradient[2].ne(0).all().item()
