"""Numbers that a dtype or 64 bits cannot represent raise PyTorch's exceptions in every position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt

HUGE = 2**70


def _ones(device: str, dtype: tt.dtype = tt.float32) -> tt.Tensor:
    return tt.ones(2, 4, dtype=dtype, device=device)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x[HUGE],
        lambda x: x[-HUGE],
        lambda x: x[0, HUGE],
        lambda x: x[:, HUGE],
        lambda x: x[None, HUGE],
        lambda x: x[[0], HUGE],
        lambda x: x[[HUGE]],
        lambda x: x[[[HUGE, 0]]],
        lambda x: x.__setitem__(HUGE, 0),
        lambda x: x.__setitem__(0, HUGE),
        lambda x: x.__setitem__(0, 2**63),
        lambda x: x.__setitem__(x > 0, -HUGE),
        lambda x: x.__setitem__([0], HUGE),
        lambda x: x.size(HUGE),
        lambda x: x.stride(-HUGE),
    ],
)
def test_an_index_beyond_64_bits(call: Callable[[tt.Tensor], Any], device: str) -> None:
    x = _ones(device)
    for _ in range(2):  # the second time by the plan of smaller numbers
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            call(x)
        assert x[0].sum().item() == 4.0
        assert x.sum().item() == 8.0


def test_bounds_of_slices_beyond_64_bits_are_the_ends(device: str) -> None:
    x = _ones(device)
    assert x[HUGE:].shape == (0, 4)
    assert x[:HUGE].shape == (2, 4)
    assert x[-HUGE:].shape == (2, 4)
    assert x[:-HUGE].shape == (0, 4)
    assert x[0, 1:HUGE].shape == (3,)
    assert x[..., HUGE:].shape == (2, 0)


@pytest.mark.parametrize("number", [HUGE, -(2**63) - 1, 2**64])
def test_types_of_results_with_integers_beyond_64_bits(number: int) -> None:
    with pytest.raises(OverflowError, match=f"argument 'tensor2': {number} does not fit into 64 bits"):
        tt.result_type(tt.ones(2), number)
    assert tt.result_type(tt.ones(2), 2**63) is tt.float32


def test_a_number_of_threads_beyond_32_bits() -> None:
    threads = tt.get_num_threads()
    with pytest.raises(ValueError, match="Overflow when unpacking long"):
        tt.set_num_threads(2**31)
    assert tt.get_num_threads() == threads


NUMBERS: list[tuple[tt.dtype, Any, Any]] = [
    # PyTorch's value of the number, or None if PyTorch raises an error.
    (tt.uint8, -1, 255),
    (tt.uint8, -1.0, None),
    (tt.uint8, -0.5, None),
    (tt.uint8, 255.5, None),
    (tt.uint8, 256, None),
    (tt.uint8, -300, None),
    (tt.int8, 127.5, None),
    (tt.int8, -128.0, -128),
    (tt.int8, 300, None),
    (tt.int32, 2**40, None),
    (tt.int64, 2**63, None),
    (tt.int64, 9.3e18, None),
    (tt.int64, float("nan"), None),
    (tt.float32, 1e39, None),
    (tt.float32, float("inf"), float("inf")),
]


@pytest.mark.parametrize(("dtype", "number", "expected"), NUMBERS)
@pytest.mark.parametrize("name", ["full", "fill_", "masked_fill", "where", "index_fill", "scatter"])
def test_numbers_as_elements(name: str, dtype: tt.dtype, number: Any, expected: Any, device: str) -> None:
    zeros = tt.zeros(3, dtype=dtype, device=device)
    mask = tt.tensor([True, False, True], device=device)
    first = tt.tensor([0], device=device)
    calls: dict[str, Callable[[], tt.Tensor]] = {
        "full": lambda: tt.full((3,), number, dtype=dtype, device=device),
        "fill_": lambda: zeros.clone().fill_(number),
        "masked_fill": lambda: zeros.masked_fill(mask, number),
        "where": lambda: tt.where(mask, number, zeros),
        "index_fill": lambda: zeros.index_fill(0, first, number),
        "scatter": lambda: zeros.scatter(0, first, number),
    }
    if name == "where" and isinstance(number, float) and dtype.is_integral:
        assert tt.where(mask, number, zeros).dtype is tt.float32
        return
    if expected is None:
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"value cannot be converted to type .* without overflow"):
                calls[name]()
    else:
        assert calls[name]()[0].item() == expected


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (tt.uint8, -1, None),  # a border is a floating number
        (tt.int8, 300, None),
        (tt.int8, 2.7, 2),
        (tt.float16, 1e6, None),
        (tt.bfloat16, 1e39, None),
        (tt.float32, 1e39, None),
        (tt.float16, float("-inf"), float("-inf")),
        (tt.int64, float("-inf"), None),
        (tt.bool, 2, True),
    ],
)
def test_borders_of_numbers(dtype: tt.dtype, value: Any, expected: Any, device: str) -> None:
    x = tt.zeros(3, dtype=dtype, device=device)
    if expected is None:
        with pytest.raises(RuntimeError, match=r"value cannot be converted to type .* without overflow"):
            tt.nn.functional.pad(x, (1, 1), value=value)
    else:
        assert tt.nn.functional.pad(x, (1, 1), value=value)[0].item() == expected


def test_numbers_that_are_assigned_round_to_16_bits(device: str) -> None:
    x = _ones(device, tt.float16)
    x[0] = 1e6
    x[1] = -65510.0
    assert x[:, 0].tolist() == [float("inf"), -65504.0]
    assert tt.where(x > 0, 1e6, x)[0, 0].item() == float("inf")
    y = _ones(device, tt.uint8)
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
        y[0] = -1.0
    y[0] = -1
    assert y[0, 0].item() == 255


@pytest.mark.parametrize("values", [[127.5], [128], [float("inf")]])
def test_elements_of_a_new_tensor(values: list[float]) -> None:
    with pytest.raises(RuntimeError, match="value cannot be converted to type int8_t without overflow"):
        tt.tensor(values, dtype=tt.int8)
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
        tt.tensor([-0.5], dtype=tt.uint8)
