"""The text of tensors: layouts of lines, exponents, and the options."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import triten as tt


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    yield
    tt.set_printoptions(profile="default")
    tt.set_default_dtype(tt.float32)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([1e8], "tensor([100000000.])"),
        ([1e9], "tensor([1.0000e+09])"),
        ([0.5, 600.0], "tensor([5.0000e-01, 6.0000e+02])"),
        ([float("nan"), 0.0], "tensor([nan, 0.])"),
        ([1 + 2j, -3 - 10j], "tensor([ 1.+2.j, -3.-10.j])"),
        ([complex(1.5, -0.0)], "tensor([1.5000-0.j])"),
    ],
)
def test_numbers(data: list[complex], text: str) -> None:
    assert repr(tt.tensor(data)) == text


def test_lines_count_the_width_of_numbers() -> None:
    assert [len(line.split(", ")) for line in repr(tt.zeros(30)).split(",\n")] == [24, 6]
    assert [len(line.split(", ")) for line in repr(tt.ones(30, dtype=tt.complex64)).split(",\n")] == [
        12,
        12,
        6,
    ]


def test_what_is_said_of_a_tensor_begins_a_line_where_it_does_not_fit() -> None:
    text = repr(tt.ones(17, dtype=tt.float64))
    assert text.endswith("1., 1., 1.],\n       dtype=triten.float64)")
    assert "\n" not in repr(tt.ones(12, dtype=tt.float64))


def test_dtypes_are_said_where_they_do_not_follow_from_the_default() -> None:
    assert "dtype" not in repr(tt.tensor([1])) and "dtype" not in repr(tt.tensor([True]))
    assert repr(tt.ones(2, dtype=tt.int64, device="meta")).endswith("size=(2,), dtype=triten.int64)")
    assert repr(tt.tensor([], dtype=tt.int64)) == "tensor([], dtype=triten.int64)"
    tt.set_default_dtype(tt.float64)
    assert repr(tt.tensor([1.0])) == "tensor([1.])" and repr(tt.tensor([1j])) == "tensor([0.+1.j])"
    assert repr(tt.ones(1, dtype=tt.float32)) == "tensor([1.], dtype=triten.float32)"


def test_options() -> None:
    x = tt.tensor([1.23456, 2.5])
    tt.set_printoptions(precision=2)
    assert repr(x) == "tensor([1.23, 2.50])"
    tt.set_printoptions(sci_mode=True)
    assert repr(x) == "tensor([1.23e+00, 2.50e+00])"
    tt.set_printoptions(sci_mode=False)
    assert repr(tt.tensor([0.5, 600.0])) == "tensor([  0.50, 600.00])"
    tt.set_printoptions(threshold=4, edgeitems=1, linewidth=20)
    assert repr(tt.arange(5)) == "tensor([0,  ..., 4])"
    tt.set_printoptions(profile="full")
    assert "..." not in repr(tt.arange(1001))
    tt.set_printoptions(profile="default")
    assert repr(tt.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"


def test_beside_pytorch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for size in (1, 40):
        for exponent in (-6, 0, 3, 8):
            values = rng.standard_normal(size) * 10.0**exponent
            values[0] = np.nan
            for data in (values, np.round(values), values + 1j * rng.standard_normal(size)):
                expected = repr(torch.tensor(data.tolist())).replace("torch.", "triten.")
                assert repr(tt.tensor(data.tolist())) == expected


def test_limits_as_text() -> None:
    assert repr(tt.finfo(tt.bfloat16)).startswith("finfo(resolution=0.01, min=-3.38953e+38")
    assert tt.finfo(tt.float16).resolution == 0.001 and tt.finfo(tt.float64).resolution == 1e-15


def test_nodes_of_indexing_have_the_names_of_their_operators() -> None:
    x = tt.ones(3, requires_grad=True) * 1
    assert repr(x[0]) == "tensor(1., grad_fn=<SelectBackward0>)"
    assert type(x[1:].grad_fn).__name__ == "SliceBackward0"
