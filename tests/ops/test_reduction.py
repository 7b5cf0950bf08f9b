"""Reductions: values against NumPy, edges as PyTorch defines them, ``out=`` forms, PyTorch's errors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import triten as tt

NAN, INF = math.nan, math.inf
DTYPES = ["float16", "bfloat16", "float32", "float64"]
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-12}

REFERENCES: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
    "var": lambda a, axis, keepdims: np.var(a, axis, ddof=1, keepdims=keepdims),
    "std": lambda a, axis, keepdims: np.std(a, axis, ddof=1, keepdims=keepdims),
    "logsumexp": lambda a, axis, keepdims: np.log(np.sum(np.exp(a), axis, keepdims=keepdims)),
    "any": np.any,
    "all": np.all,
}


def tensor(array: Any) -> Any:
    """Return a tensor with its own copy of an array."""
    return tt.from_numpy(np.array(array))


def array_of(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Return normal numbers in a dtype, including ml_dtypes' dtypes."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def laid_out(array: Any, layout: str) -> Any:
    """Return an array as a tensor of another memory layout."""
    if layout == "contiguous":
        return tensor(array)
    if layout == "transposed":
        return tensor(np.ascontiguousarray(array.T)).permute(tuple(reversed(range(array.ndim))))
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return tensor(wide).slice(array.ndim - 1, 0, None, 2)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
@pytest.mark.parametrize("dim", [0, -1, (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_values(name: str, dtype: str, dim: Any, layout: str) -> None:
    array = array_of(dtype, (3, 4, 5))
    for keepdim in (False, True):
        got = getattr(tt, name)(laid_out(array, layout), dim, keepdim=keepdim)
        want = REFERENCES[name](array.astype(np.float64), axis=dim, keepdims=keepdim)
        assert got.shape == want.shape
        assert got.dtype is (tt.from_numpy(array).dtype if want.dtype.kind == "f" else tensor([True]).dtype)
        tolerance = TOLERANCE[dtype]
        np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "amax", "amin", "var", "std", "any", "all", "prod", "max", "min"]
)
def test_of_everything(name: str) -> None:
    array = array_of("float64", (4, 6))
    references = {**REFERENCES, "max": np.max, "min": np.min, "prod": np.prod}
    if name in ("var", "std"):
        want = getattr(np, name)(array, ddof=1)
    else:
        want = references[name](array)
    for layout in ("contiguous", "transposed", "strided"):
        got = getattr(laid_out(array, layout), name)()
        assert got.shape == ()
        np.testing.assert_allclose(got.numpy(), want)


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum"])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_integers_accumulate_in_int64(name: str, dtype: str) -> None:
    array = np.array([100, 100, 100, 3]).astype(dtype)
    got = getattr(tt, name)(tensor(array), 0)
    want = getattr(np, name)(array, axis=0, dtype=np.int64)
    assert got.dtype is tt.int64
    np.testing.assert_array_equal(got.numpy(), want)


def test_sum_to_another_dtype_casts_each_element_first() -> None:
    x = tensor(np.array([1.7, 2.7], np.float32))
    assert x.sum(dtype=tt.int64).item() == 3
    assert tensor(np.array([200, 100], np.uint8)).sum(dtype=tt.uint8).item() == 44
    assert x.sum(dtype=tt.float64).dtype is tt.float64


@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_sums_have_pairwise_error_along_every_axis(dim: Any) -> None:
    array = np.full((4096, 512), 0.1, np.float32)
    got = tt.sum(tensor(array), dim).numpy()
    want = array.astype(np.float64).sum(axis=dim)
    np.testing.assert_allclose(got, want, rtol=3e-6)
    np.testing.assert_allclose(
        tt.mean(tensor(array), dim).numpy(), want / (array.size / want.size), rtol=3e-6
    )


def test_narrow_floats_accumulate_in_float32() -> None:
    assert tensor(np.ones(4096, np.float16)).sum().item() == 4096
    assert tensor(np.ones(1000, ml_dtypes.bfloat16)).sum().item() == 1000


def test_variance_of_numbers_far_from_zero() -> None:
    array = (np.arange(1000) % 2 + 1e4).astype(np.float32)
    got = tensor(array).var(unbiased=False).item()
    assert got == pytest.approx(0.25, rel=1e-5)


@pytest.mark.parametrize("name", ["var", "std"])
def test_ways_to_name_the_correction(name: str) -> None:
    array = array_of("float64", (3, 5))
    x, reference = tensor(array), getattr(np, name)
    function = getattr(tt, name)
    for got, ddof, axis in [
        (function(x), 1, None),
        (function(x, False), 0, None),
        (function(x, unbiased=False), 0, None),
        (function(x, 1), 1, 1),
        (function(x, 1, False), 0, 1),
        (function(x, (0, 1), True), 1, None),
        (function(x, correction=0), 0, None),
        (function(x, 0, correction=2), 2, 0),
        (function(x, dim=0, correction=0.5), 0.5, 0),
    ]:
        np.testing.assert_allclose(got.numpy(), reference(array, axis=axis, ddof=ddof))


def test_variance_with_mean() -> None:
    array = array_of("float64", (3, 5))
    spread, mean = tt.var_mean(tensor(array), 1, correction=0)
    np.testing.assert_allclose(spread.numpy(), array.var(1))
    np.testing.assert_allclose(mean.numpy(), array.mean(1))
    deviation, mean = tt.std_mean(tensor(array), 0, False, True)
    np.testing.assert_allclose(deviation.numpy(), array.std(0, keepdims=True))
    np.testing.assert_allclose(mean.numpy(), array.mean(0, keepdims=True))


def test_variance_without_freedom() -> None:
    with warnings.catch_warnings(record=True):
        assert math.isnan(tensor(1.0).var().item())
        assert tensor(np.array([1.0, 3.0])).var(correction=5).item() == INF


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", [*DTYPES, "int32", "uint8", "bool"])
def test_extremum_along_a_dimension_has_values_and_first_indices(name: str, dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    array = np.random.default_rng(1).integers(0, 4, (3, 4, 5)).astype(kind)
    for dim in (0, 1, -1):
        for keepdim in (False, True):
            got = getattr(tt, name)(tensor(array), dim, keepdim)
            index = getattr(np, f"arg{name}")(array.astype(np.float64), axis=dim, keepdims=True)
            value = np.take_along_axis(array, index, dim)
            if not keepdim:
                index, value = index.squeeze(dim), value.squeeze(dim)
            assert got.indices.dtype is tt.int64
            np.testing.assert_array_equal(got.indices.numpy(), index)
            np.testing.assert_array_equal(got.values.numpy(), value)


def test_max_of_two_tensors_is_maximum() -> None:
    a, b = array_of("float32", (3, 4)), array_of("float32", (4,), 1)
    np.testing.assert_array_equal(tt.max(tensor(a), tensor(b)).numpy(), np.maximum(a, b))
    np.testing.assert_array_equal(tensor(a).min(tensor(b)).numpy(), np.minimum(a, b))
    np.testing.assert_array_equal(tt.max(tensor(a), other=tensor(b)).numpy(), np.maximum(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_wins(dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    x = tensor(np.array([[1, NAN, 3], [NAN, INF, -INF]]).astype(kind))
    for name in ("amax", "amin", "sum", "mean", "prod", "max", "min"):
        assert math.isnan(getattr(tt, name)(x).item()), name
    assert tt.argmax(x).item() == tt.argmin(x).item() == 1
    for name in ("max", "min"):
        found = getattr(tt, name)(x, 1)
        assert all(math.isnan(float(v)) for v in found.values.numpy())
        assert found.indices.tolist() == [1, 0]
    assert tt.any(tensor(np.array([0, NAN]).astype(kind))).item() is True


def test_first_of_equals() -> None:
    x = tensor(np.array([3, 1, 3, 1]))
    assert (x.argmax().item(), x.argmin().item()) == (0, 1)
    found = tensor(np.array([-0.0, 0.0])).max(0)
    assert found.indices.item() == 0
    assert math.copysign(1, found.values.item()) == -1


def test_argmax_forms() -> None:
    array = array_of("float32", (3, 4))
    x = tensor(array)
    assert x.argmax().item() == array.argmax()
    np.testing.assert_array_equal(x.argmax(1).numpy(), array.argmax(1))
    np.testing.assert_array_equal(x.argmin(dim=0, keepdim=True).numpy(), array.argmin(0, keepdims=True))
    assert x.argmax(keepdim=True).shape == (1, 1)


def test_any_of_no_dimensions_is_the_truth_of_each_element() -> None:
    x = tensor(np.array([[0, 1], [2, 0]]))
    np.testing.assert_array_equal(x.any(()).numpy(), [[False, True], [True, False]])
    assert tensor(np.array([0, 3], np.uint8)).any().dtype is tt.uint8
    assert tensor(np.array([0.0, -0.0])).any().item() is False


def test_cumsum() -> None:
    array = array_of("float32", (3, 4))
    np.testing.assert_allclose(tensor(array).cumsum(1).numpy(), array.cumsum(1), rtol=1e-5)
    np.testing.assert_allclose(tt.cumsum(tensor(array), -2).numpy(), array.cumsum(0), rtol=1e-5)
    x = tensor(np.array([1, 2, 3], np.int32))
    assert x.cumsum_(0) is x
    assert x.tolist() == [1, 3, 6]
    assert x.dtype is tt.int32


def test_aminmax_and_count_nonzero() -> None:
    x = tensor(np.array([[0.0, 2.0], [-1.0, 0.0]]))
    found = tt.aminmax(x, dim=1)
    assert (found.min.tolist(), found.max.tolist()) == ([0, -1], [2, 0])
    assert tt.count_nonzero(x).item() == 2
    assert tt.count_nonzero(x, 0).tolist() == [1, 1]


def test_empty_tensors() -> None:
    e = tt.empty(0, 3)
    assert (e.sum().item(), e.prod().item(), e.any().item(), e.all().item()) == (0, 1, False, True)
    assert math.isnan(e.mean().item())
    assert e.sum(0).tolist() == [0, 0, 0]
    assert e.logsumexp(0).tolist() == [-INF] * 3
    assert e.amax(1).shape == e.max(1).values.shape == e.argmax(1).shape == (0,)
    assert tt.empty(3, 0).prod(1).tolist() == [1, 1, 1]


def test_zero_dimensional_tensors() -> None:
    x = tensor(np.array(3.0))
    for got in (x.sum(0), x.mean(-1), x.prod(0), x.amax((0,)), x.max(0).values, x.cumsum(0), x.logsumexp(0)):
        assert got.shape == ()
        assert got.item() == pytest.approx(3)
    assert x.argmax().item() == x.max(0).indices.item() == 0


def test_logsumexp_of_infinities() -> None:
    x = tensor(np.array([[-INF, -INF], [INF, 0.0], [1000.0, 1000.0]]))
    assert x.logsumexp(1).tolist() == pytest.approx([-INF, INF, 1000 + math.log(2)])


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin", "var", "std", "logsumexp"])
def test_out_is_written_and_returned(name: str) -> None:
    x = tensor(array_of("float32", (3, 4)))
    function = getattr(tt, name)
    out = tt.zeros(3)
    address = out.data_ptr()
    assert function(x, 1, out=out) is out
    assert out.data_ptr() == address
    np.testing.assert_array_equal(out.numpy(), function(x, 1).numpy())
    strided = tt.zeros(3, 2).select(1, 0)
    function(x, 1, out=strided)
    np.testing.assert_array_equal(strided.numpy(), out.numpy())


def test_out_of_several_results() -> None:
    x = tensor(array_of("float32", (3, 4)))
    values, indices = tt.zeros(3), tt.zeros(3, dtype=tt.int64)
    result = tt.max(x, 1, out=(values, indices))
    assert result[0] is values
    assert result[1] is indices
    np.testing.assert_array_equal(values.numpy(), x.amax(1).numpy())


@pytest.mark.parametrize(
    "name", ["sum", "mean", "amax", "max", "argmax", "any", "var", "cumsum", "logsumexp"]
)
def test_meta_says_the_same_shape_and_dtype(name: str) -> None:
    x = tt.empty(3, 4, 5)
    got, want = (getattr(tt, name)(t, 1) for t in (x.to("meta"), x))
    for g, w in zip(got if name == "max" else [got], want if name == "max" else [want], strict=True):
        assert g.is_meta
        assert (g.shape, g.dtype, g.stride()) == (w.shape, w.dtype, w.stride())


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: x.sum((0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
        (lambda x: x.amax((0, -2)), RuntimeError, "dim 0 appears multiple times"),
        (
            lambda x: x.sum(3),
            IndexError,
            r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 3\)",
        ),
        (lambda x: x.max(5), IndexError, "Dimension out of range"),
        (lambda x: x[:0].amax(), RuntimeError, r"amax\(\): Expected reduction dim to be specified"),
        (lambda x: x[:0].amax(0), IndexError, r"amax\(\): Expected reduction dim 0 to have non-zero size"),
        (lambda x: x[:0].max(), RuntimeError, r"max\(\): Expected reduction dim to be specified"),
        (lambda x: x[:0].max(0), IndexError, r"max\(\): Expected reduction dim 0 to have non-zero size"),
        (lambda x: x[:0].argmax(), IndexError, r"argmax\(\): Expected reduction dim to be specified"),
        (lambda x: x.to(tt.int64).mean(), RuntimeError, "could not infer output dtype.*Got: Long"),
        (lambda x: x.mean(dtype=tt.int64), RuntimeError, "Optional dtype must be either a floating point"),
        (lambda x: x.to(tt.int64).var(), RuntimeError, "std and var only support floating point and complex"),
        (lambda x: x.to(tt.complex64).max(0), RuntimeError, "does not support complex input"),
        (lambda x: x.to(tt.complex64).amax(), NotImplementedError, "not implemented for 'ComplexFloat'"),
        (
            lambda x: tt.amax(x, 0, out=tt.zeros(3, dtype=tt.float64)),
            RuntimeError,
            "Expected the dtype for input",
        ),
        (lambda x: tt.any(x, 0, out=tt.zeros(3)), RuntimeError, "any only supports bool tensor for result"),
        (lambda x: x.max(0.5), TypeError, "invalid combination of arguments"),
    ],
)
def test_errors(call: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(tt.ones(2, 3))


def test_numpy_error_state_of_the_user_changes_nothing() -> None:
    with np.errstate(all="raise"):
        x = tensor(np.array([[1e38, 1e38, INF, NAN]], np.float32).repeat(2, 0))
        assert math.isnan(x.sum().item())
        assert math.isnan(tt.sum(x, 1)[0].item())
        assert tensor(np.full((2, 3), 3e38, np.float32)).sum().item() == INF
        assert tensor(np.full((2, 3), 3e38, np.float32)).mean(0).shape == (3,)
        assert tensor(np.full(3, 3e38, np.float32)).mean().item() == INF
        x.var(1), x.logsumexp(1), x.prod(1), x.amax(), x.max(1), x.cumsum(1)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "prod", "any", "argmax"])
def test_results_of_permuted_inputs_lie_as_their_strides_say(name):
    x = tt.randn(3, 2, 5, 4).permute(2, 0, 1, 3)
    for keepdim in (False, True):
        y = getattr(x, name)(3, keepdim=keepdim)
        flat = y.as_strided((y.numel(),), (1,))
        np.testing.assert_array_equal(flat.numpy(), y.numpy().reshape(-1))


@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("given", [tt.float32, tt.complex64])
@pytest.mark.parametrize("wanted", [tt.float64, tt.complex64, tt.complex128])
def test_a_variance_is_written_to_a_wider_output(
    device: str, root: bool, given: tt.dtype, wanted: tt.dtype
) -> None:
    x = tt.tensor([1.0, 2.0, 4.0], dtype=given, device=device)
    function = tt.std if root else tt.var
    out = function(x, 0, out=tt.empty(0, dtype=wanted, device=device))
    assert out.dtype is wanted
    tt.testing.assert_close(out, function(x, 0).to(wanted))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        function(x, 0, out=tt.empty(0, dtype=tt.int64, device=device))
