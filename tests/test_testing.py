"""`tt.testing`: what is close, the messages of what is not, and operands made by `make_tensor`."""

import math

import numpy as np
import pytest

import triten as tt

assert_close, make_tensor = tt.testing.assert_close, tt.testing.make_tensor

CLOSE = {
    "equal": lambda d: ((tt.ones(2, device=d), tt.ones(2, device=d)), {}),
    "float32 within 1.3e-6": lambda d: ((tt.full((2,), 1.000001, device=d), tt.ones(2, device=d)), {}),
    "bfloat16": lambda d: ((tt.ones(2).bfloat16().to(d), (tt.ones(2) + 0.01).bfloat16().to(d)), {}),
    "infinities": lambda d: ((tt.tensor([math.inf], device=d), tt.tensor([math.inf], device=d)), {}),
    "nan as asked": lambda d: ((tt.tensor([math.nan], device=d),) * 2, {"equal_nan": True}),
    "integers as asked": lambda d: (
        (tt.tensor([1, 2], device=d), tt.tensor([1, 3], device=d)),
        {"rtol": 0, "atol": 1},
    ),
    "dtypes as asked": lambda d: (
        (tt.ones(2, device=d), tt.ones(2, dtype=tt.float64, device=d)),
        {"check_dtype": False},
    ),
    "devices as asked": lambda d: ((tt.ones(2, device=d), tt.ones(2)), {"check_device": False}),
    "other strides": lambda d: ((tt.ones(2, 3, device=d), tt.ones(3, 2, device=d).t()), {}),
    "no elements": lambda d: ((tt.ones(0, device=d), tt.ones(0, device=d)), {}),
    "nested": lambda d: (({"a": [tt.ones(2, device=d), 1.0]}, {"a": (tt.ones(2, device=d), 1.0)}), {}),
    "gradients": lambda d: ((tt.ones(2, device=d, requires_grad=True), tt.ones(2, device=d)), {}),
    "none": lambda d: ((None, None), {}),
    "numbers": lambda d: ((1.0, 1.0 + 1e-9), {}),
    "arrays": lambda d: ((np.ones(2), np.ones(2)), {}),
}


@pytest.mark.parametrize("name", CLOSE)
def test_close(name: str, device: str) -> None:
    arguments, options = CLOSE[name](device)
    assert_close(*arguments, **options)


FAR = {
    "elements": (
        lambda d: (tt.tensor([1.0, 2.0, 3.0], device=d), tt.tensor([1.0, 2.5, 3.0], device=d)),
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\n"
        "Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)",
    ),
    "unsigned integers": (
        lambda d: (
            tt.tensor([0, 255], dtype=tt.uint8, device=d),
            tt.tensor([255, 0], dtype=tt.uint8, device=d),
        ),
        "Tensor-likes are not equal!\n\nMismatched elements: 2 / 2 (100.0%)\n"
        "Greatest absolute difference: 255 at index (0,)\nGreatest relative difference: inf at index (1,)",
    ),
    "0-d": (
        lambda d: (tt.tensor(1.0, device=d), tt.tensor(2.0, device=d)),
        "Scalars are not close!\n\nExpected 2.0 but got 1.0.\nAbsolute difference: 1.0 (up to 1e-05 allowed)\n"
        "Relative difference: 0.5 (up to 1.3e-06 allowed)",
    ),
    "nan": (
        lambda d: (tt.tensor([math.nan], device=d),) * 2,
        "Greatest absolute difference: nan at index (0,)",
    ),
    "shape": (
        lambda d: (tt.ones(2, device=d), tt.ones(1, device=d)),
        "The values for attribute 'shape' do not match: triten.Size([2]) != triten.Size([1]).",
    ),
    "dtype": (lambda d: (tt.ones(2, device=d), tt.ones(2, device=d).double()), "attribute 'dtype'"),
    "item": (
        lambda d: ({"a": [tt.ones(1), tt.ones(1, device=d)]}, {"a": [tt.ones(1), tt.zeros(1, device=d)]}),
        "The failure occurred for item ['a'][1]",
    ),
    "keys": (lambda d: ({"a": 1}, {"b": 1}), "Missing keys in the actual mapping: ['b']\nAdditional keys"),
    "length": (lambda d: ([1], [1, 1]), "The length of the sequences mismatch: 1 != 2"),
    "none": (lambda d: (None, tt.ones(1, device=d)), "None mismatch: None is not tensor([1.]"),
    "numbers": (
        lambda d: (1, 2),
        "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\n",
    ),
    "types of numbers": (lambda d: (1, 1.0), "The (d)types do not match: <class 'int'> != <class 'float'>."),
    "truth values": (lambda d: (True, False), "Booleans mismatch: True is not False"),
}


@pytest.mark.parametrize("name", FAR)
def test_far(name: str, device: str) -> None:
    operands, message = FAR[name]
    with pytest.raises(AssertionError) as raised:
        assert_close(*operands(device))
    assert message in str(raised.value)


def test_messages_strides_and_what_cannot_be_compared() -> None:
    one, other = tt.ones(1), tt.zeros(1)
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(one, other, msg="mine")
    with pytest.raises(AssertionError, match=r"^mine: Tensor-likes"):
        assert_close(one, other, msg=lambda text: f"mine: {text}")
    with pytest.raises(AssertionError, match=r"'stride\(\)' do not match: \(3, 1\) != \(1, 2\)"):
        assert_close(tt.ones(2, 3), tt.ones(3, 2).t(), check_stride=True)
    with pytest.raises(AssertionError, match="'device'"):
        assert_close(one, one.to("meta"))
    with pytest.raises(ValueError, match="got no atol"):
        assert_close(one, one, rtol=1e-3)
    for pair in ((one, np.ones(1)), (1.0, one), ("a", "a")):
        with pytest.raises(TypeError, match="No comparison pair"):
            assert_close(*pair)


@pytest.mark.parametrize(
    "dtype",
    [
        tt.float32,
        tt.float64,
        tt.bfloat16,
        tt.float16,
        tt.complex32,
        tt.complex64,
        tt.int64,
        tt.uint8,
        tt.bool,
    ],
    ids=str,
)
def test_make_tensor(dtype: tt.dtype, device: str) -> None:
    x = make_tensor(40, 50, dtype=dtype, device=device)
    assert x.shape == (40, 50) and x.dtype is dtype and x.device.type == device and x.is_contiguous()
    assert (x != x[0, 0]).any().item()
    parts = tt.view_as_real(x) if dtype.is_complex else x.double()
    assert parts.min().item() >= -9 and parts.max().item() <= 9
    assert make_tensor((2, 3), dtype=dtype, device=device, noncontiguous=True).stride() == (6, 2)
    if dtype is not tt.bool:
        narrow = make_tensor(20_000, dtype=dtype, device=device, low=0, high=2, exclude_zero=True)
        assert (narrow != 0).all().item()
        assert (tt.view_as_real(narrow) if dtype.is_complex else narrow).lt(2).all().item()
    assert make_tensor((), dtype=dtype, device=device).shape == ()


def test_make_tensor_options_and_refusals() -> None:
    assert make_tensor(2, dtype=tt.float32, device="cpu", requires_grad=True).requires_grad
    made = make_tensor(2, 3, 4, 5, dtype=tt.float32, device="cpu", memory_format=tt.channels_last)
    assert made.is_contiguous(memory_format=tt.channels_last)
    with pytest.raises(ValueError, match="requires_grad"):
        make_tensor(2, dtype=tt.int64, device="cpu", requires_grad=True)
    with pytest.raises(ValueError, match="must be less than"):
        make_tensor(2, dtype=tt.float32, device="cpu", low=1, high=0)
    with pytest.raises(ValueError, match="mutually exclusive"):
        make_tensor(2, 2, dtype=tt.float32, device="cpu", noncontiguous=True, memory_format=tt.channels_last)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "message"),
    [
        (tt.float32, math.nan, 1, r"`low` and `high` cannot be NaN, but got low=nan and high=1"),
        (tt.int32, 0, math.nan, r"`low` and `high` cannot be NaN, but got low=0 and high=nan"),
        (tt.bool, 0, 0, r"`low` must be less than `high`, but got 0 >= 0"),
        (tt.float32, 5, 1, r"`low` must be less than `high`, but got 5 >= 1"),
        pytest.param(tt.float64, 10**400, 10**401, "triten.float64 only supports", id="beyond-float64"),
        (tt.int32, 1e300, 2e300, r"but triten.int32 only supports \[-2147483648, 2147483648\)"),
        (tt.uint8, -5, -1, r"is \[-5, -1\), but triten.uint8 only supports \[0, 256\)"),
        (tt.complex64, 1e300, 2e300, r"is \[1e\+300, 2e\+300\), but triten.complex64 only supports"),
    ],
)
def test_make_tensor_refuses_ranges(dtype: tt.dtype, low: float, high: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_tensor(2, dtype=dtype, device="cpu", low=low, high=high)


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float32, tt.float64, tt.complex64])
def test_make_tensor_draws_from_the_whole_range_of_a_dtype(dtype: tt.dtype) -> None:
    made = make_tensor(200, dtype=dtype, device="cpu", low=-math.inf, high=math.inf)
    parts = tt.view_as_real(made) if dtype.is_complex else made.double()
    limit = tt.finfo(dtype).max
    assert made.isfinite().all() and parts.max() > limit / 4 and parts.min() < -limit / 4
    with pytest.warns(FutureWarning, match="Passing `low==high`"):
        assert (make_tensor(3, dtype=dtype, device="cpu", low=2, high=2).abs() >= 2).all()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_former_comparison():
    """Its tolerances are wider, numbers become tensors, and dtypes may differ."""
    close = tt.testing.assert_allclose
    close(tt.ones(2), tt.ones(2, dtype=tt.float64) + 1e-5)
    close([1.0, 1.0], tt.ones(2))
    close(1.0, 1.0001)
    close(tt.tensor(float("nan")), tt.tensor(float("nan")))
    with pytest.raises(AssertionError, match="not close"):
        close(tt.ones(2), tt.ones(2) + 1e-3)
    with pytest.raises(AssertionError, match="not close"):
        close(tt.tensor(float("nan")), tt.tensor(float("nan")), equal_nan=False)
    with pytest.raises(AssertionError, match=r"^hey$"):
        close(tt.ones(2), tt.zeros(2), msg="hey")
    with pytest.raises(ValueError, match="atol"):
        close(tt.ones(2), tt.zeros(2), rtol=1)


def test_the_former_comparison_says_so():
    with pytest.warns(FutureWarning, match="assert_close"):
        tt.testing.assert_allclose(1, 1)


LAYOUTS = {
    "COO": tt.sparse_coo,
    "CSR": tt.sparse_csr,
    "CSC": tt.sparse_csc,
    "BSR": tt.sparse_bsr,
    "BSC": tt.sparse_bsc,
}


def _sparse(elements: list[list[float]], kind: str) -> tt.Tensor:
    dense = tt.tensor(elements)
    return dense.to_sparse(layout=LAYOUTS[kind], blocksize=(1, 1) if kind.startswith("BS") else None)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_sparse_tensors_are_compared_by_their_parts(kind: str) -> None:
    close = tt.testing.assert_close
    x = _sparse([[1.0, 0.0], [0.0, 2.0]], kind)
    close(x, _sparse([[1.0, 0.0], [0.0, 2.0 + 1e-7]], kind))
    with pytest.raises(AssertionError, match=rf"Sparse {kind} values are not close!"):
        close(x, _sparse([[1.0, 0.0], [0.0, 3.0]], kind))
    with pytest.raises(AssertionError, match=rf"Sparse {kind} \w*indices are not equal!"):
        close(x, _sparse([[0.0, 1.0], [2.0, 0.0]], kind))
    with pytest.raises(AssertionError, match=rf"values in sparse {kind} tensors does not match: 2 != 1"):
        close(x, _sparse([[1.0, 0.0], [0.0, 0.0]], kind))
    with pytest.raises(AssertionError, match="The values for attribute 'layout' do not match"):
        close(x, x.to_dense())
    close(x, x.to_dense(), check_layout=False)


def test_coordinates_of_other_sparse_dimensions_are_not_close() -> None:
    x = tt.ones(1, 1)
    with pytest.raises(AssertionError, match=r"number of sparse dimensions .* does not match: 1 != 2"):
        tt.testing.assert_close(x.to_sparse(1), x.to_sparse(2))


def test_quantized_tensors_are_compared_by_their_numbers() -> None:
    close = tt.testing.assert_close
    x = tt.quantize_per_tensor(tt.tensor([1.0, 2.0]), 0.5, 0, tt.qint8)
    close(x, tt.quantize_per_tensor(tt.tensor([1.0, 2.0]), 1.0, 3, tt.qint8))
    with pytest.raises(AssertionError, match="Quantized tensor-likes are not close!"):
        close(x, tt.quantize_per_tensor(tt.tensor([1.0, 3.0]), 0.5, 0, tt.qint8))
    with pytest.raises(AssertionError, match="'is_quantized' do not match: True != False"):
        close(x, tt.tensor([1.0, 2.0]))
    channels = tt.quantize_per_channel(tt.tensor([1.0, 2.0]), tt.ones(2), tt.zeros(2), 0, tt.qint8)
    with pytest.raises(AssertionError, match=r"attribute 'qscheme\(\)' do not match"):
        close(x, channels)
