"""Scales, zero points, axes and schemes that PyTorch refuses, or takes as they are."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

ONES = tt.ones(2, 2)


def by_channels(scales: Any, zero_points: Any, axis: int = 0, x: tt.Tensor = ONES) -> tt.Tensor:
    return tt.quantize_per_channel(x, tt.tensor(scales), tt.tensor(zero_points), axis, tt.quint8)


def uniform(dtype: tt.dtype = tt.quint8) -> tt.Tensor:
    return tt.quantize_per_tensor(ONES, 1.0, 0, dtype)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a zero point above": (
        lambda: tt.quantize_per_tensor(ONES, 1.0, 256, tt.quint8),
        RuntimeError,
        "256 is above",
    ),
    "a zero point below": (
        lambda: tt.quantize_per_tensor(ONES, 1.0, -1, tt.quint8),
        RuntimeError,
        "-1 is below",
    ),
    "a zero point of 33 bits": (
        lambda: tt.quantize_per_tensor(ONES, 1.0, 2**31, tt.qint32),
        RuntimeError,
        "2147483648 is above upper bound",
    ),
    "a zero point of a channel": (lambda: by_channels([1.0, 1.0], [0, 300]), RuntimeError, "300 is above"),
    "an axis behind the last": (
        lambda: by_channels([1.0, 1.0], [0, 0], 2),
        RuntimeError,
        "axis out of range",
    ),
    "an axis from the end": (lambda: by_channels([1.0, 1.0], [0, 0], -1), RuntimeError, "axis out of range"),
    "channels of no dimension": (
        lambda: by_channels([1.0], [0], 0, tt.ones(())),
        RuntimeError,
        "axis out of range",
    ),
    "too many scales": (lambda: by_channels([1.0] * 3, [0] * 3), RuntimeError, "length of scales"),
    "float64": (lambda: tt.quantize_per_tensor(ONES.double(), 1.0, 0, tt.quint8), RuntimeError, "got Double"),
    "a dtype of dense tensors": (
        lambda: tt.quantize_per_tensor(ONES, 1.0, 0, tt.int8),
        RuntimeError,
        "ScalarType Char is not supported",
    ),
    "a copy between schemes": (
        lambda: uniform().copy_(by_channels([1.0, 1.0], [0, 0])),
        RuntimeError,
        "only works with same qscheme",
    ),
    "schemes side by side": (
        lambda: tt.cat([uniform(), by_channels([1.0, 1.0], [0, 0])]),
        RuntimeError,
        "'cat'",
    ),
    "a dense tensor beside": (lambda: tt.cat([uniform(), ONES]), NotImplementedError, "aten::qscheme"),
    "windows over a dense tensor": (
        lambda: tt.quantized_max_pool1d(ONES, 2),
        NotImplementedError,
        "aten::quantized_max_pool1d",
    ),
    "windows over channels": (
        lambda: tt.quantized_max_pool1d(by_channels([1.0, 1.0], [0, 0]), 2),
        RuntimeError,
        "kPerTensorAffine",
    ),
    "a norm without a weight": (
        lambda: tt.quantized_batch_norm(uniform(), None, ONES[0], ONES[0], ONES[0], 0.1, 1.0, 0),
        RuntimeError,
        "Weight must be provided",
    ),
    "a norm without a bias": (
        lambda: tt.quantized_batch_norm(uniform(), ONES[0], None, ONES[0], ONES[0], 0.1, 1.0, 0),
        RuntimeError,
        "Bias must be provided",
    ),
    "a mapped quantized tensor": (
        lambda: tt.vmap(tt.relu)(uniform()),
        RuntimeError,
        "vmap: expected tensors that are not quantized, got one of dtype triten.quint8",
    ),
    "a mapped tensor quantized": (
        lambda: tt.vmap(lambda x: tt.quantize_per_tensor(x, 1.0, 0, tt.quint8))(ONES),
        RuntimeError,
        "vmap: aten::quantize_per_tensor takes or gives a quantized tensor",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    call, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    ("scale", "integer", "of_a_channel"),
    [(0.0, 255, 255), (-1.0, 0, 0), (math.nan, 255, 0), (math.inf, 3, 3)],
    ids=["zero", "negative", "nan", "infinite"],
)
def test_any_scale_is_taken(scale: float, integer: int, of_a_channel: int, device: str) -> None:
    """As by PyTorch: five over nothing is the greatest integer, nan that one or 0."""
    q = tt.quantize_per_tensor(tt.full((3,), 5.0, device=device), scale, 3, tt.quint8)
    assert q.int_repr().tolist() == [integer] * 3
    scales, zeros = tt.tensor([scale], device=device), tt.full((1,), 3, device=device)
    q = tt.quantize_per_channel(tt.full((1, 3), 5.0, device=device), scales, zeros, 0, tt.quint8)
    assert q.int_repr().tolist() == [[of_a_channel] * 3]
