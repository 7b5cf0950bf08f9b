"""Tensors with Python's and NumPy's numbers, arrays and protocols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import triten as tt


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        (lambda: tt.ones(2) * np.float64(2), tt.float32),
        (lambda: np.float64(2) * tt.ones(2), tt.float32),
        (lambda: tt.ones(2) * np.float32(2), tt.float32),
        (lambda: tt.ones(2, dtype=tt.int64) * np.float32(2), tt.float32),
        (lambda: tt.ones(2, dtype=tt.int32) * np.int64(2), tt.int32),
        (lambda: tt.ones(2) + np.ones(2), tt.float64),
        (lambda: np.add(tt.ones(2), tt.ones(2)), tt.float32),
    ],
)
def test_numpy_operands_give_tensors(made: Any, dtype: Any) -> None:
    result = made()
    assert isinstance(result, tt.Tensor)
    assert result.dtype is dtype
    assert result.tolist() == [2, 2]


def test_numpy_integers_are_sizes() -> None:
    assert tt.zeros(np.int64(3)).shape == (3,)
    assert tt.zeros(np.int64(3), 2).shape == (3, 2)


@pytest.mark.parametrize("element", ["a", None, [1]])
def test_contains_refuses_what_is_no_number(element: Any) -> None:
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        element in tt.ones(3)  # noqa: B015


def test_conversions_to_numbers_refuse_several_elements_and_imaginary_parts() -> None:
    for kind in (int, float, complex):
        with pytest.raises(ValueError, match="only one element"):
            kind(tt.ones(2))
    with pytest.raises(RuntimeError, match="without overflow"):
        float(tt.tensor(1 + 2j))
    assert float(tt.tensor(2 + 0j)) == 2.0


def test_numbers_beyond_64_bits_are_refused() -> None:
    for x in (tt.tensor([1]), tt.tensor([1.0])):
        with pytest.raises(OverflowError, match="too big"):
            x + 2**70
        assert x.tolist() == [1]


def test_format_of_a_single_number() -> None:
    assert f"{tt.tensor(1.5)} {tt.tensor(1.5):.2f}" == "1.5 1.50"


@pytest.mark.parametrize("value", [300, -300, float("nan"), float("inf")])
def test_masked_fill_refuses_a_number_that_the_dtype_cannot_hold(value: Any) -> None:
    x = tt.tensor([1, 2], dtype=tt.uint8)
    mask = x > 1
    for _ in range(2):
        with pytest.raises(RuntimeError, match="without overflow"):
            x.masked_fill_(mask, value)
    assert x.tolist() == [1, 2]
    assert x.masked_fill(mask, 255).tolist() == [1, 255]
    assert tt.ones(2).masked_fill(mask, float("-inf")).tolist() == [1.0, float("-inf")]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: tt.tensor([1.0, float("inf"), float("nan")]), "tensor([1., inf, nan])"),
        (lambda: tt.tensor([-0.0, 0.0]), "tensor([-0., 0.])"),
        (lambda: tt.tensor([1e5, 1.0]), "tensor([1.0000e+05, 1.0000e+00])"),
        (lambda: tt.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
        (lambda: tt.ones(2, 3, device="meta"), "tensor(..., device='meta', size=(2, 3))"),
    ],
)
def test_text_is_pytorchs(made: Any, text: str) -> None:
    assert repr(made()) == text


def test_numpy_of_a_tensor_that_requires_grad() -> None:
    w = tt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"):
        w.numpy()
    with tt.no_grad():
        assert w.numpy().tolist() == [1.0, 1.0]


def test_comparison_with_an_array_is_by_elements() -> None:
    x, array = tt.tensor([1, 2]), np.array([1.0, 3.0])
    for equal in (x == array, array == x):
        assert isinstance(equal, tt.Tensor) and equal.tolist() == [True, False]
    for unequal in (x != array, array != x):
        assert isinstance(unequal, tt.Tensor) and unequal.tolist() == [False, True]
    with tt.inference_mode():
        assert (x == array).tolist() == [True, False]
    assert (x == "text") is False and (x != [1, 2]) is True


def test_an_array_divided_by_a_tensor() -> None:
    made: Any = np.array([1, 3]) / tt.tensor([1, 2])
    assert isinstance(made, tt.Tensor) and made.dtype is tt.float64 and made.tolist() == [1.0, 1.5]


@pytest.mark.parametrize("query", [tt.numel, tt.is_complex, tt.is_floating_point])
def test_queries_of_what_is_no_tensor_are_refused(query: Any) -> None:
    with pytest.raises(TypeError, match=r"argument 'input' \(position 1\) must be Tensor, not int"):
        query(3)
