"""The elementwise kernels agree with the CPU for every layout and dtype, by launches alone."""

import numpy as np
import pytest

import triten as tt

FLOATS = [tt.float16, tt.bfloat16, tt.float32, tt.float64]
INTEGERS = [tt.uint8, tt.int8, tt.int16, tt.int32, tt.int64]
SHAPES = [(), (1,), (0,), (3, 0), (7,), (1000,), (20000,), (5, 6), (3, 1, 4), (2, 3, 4, 5)]


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, tt.bool], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_add(same, random, launches, dtype, shape):
    a, b = random(shape, dtype), random(shape, dtype)
    x, y = a.to("cuda"), b.to("cuda")
    before = launches.count
    z = x + y
    assert launches.count - before == (1 if a.numel() else 0)
    assert z.device == tt.empty(0, device="cuda").device
    same(z, a + b)


@pytest.mark.parametrize(
    ("left", "right"),
    [((4, 5), (5,)), ((4, 1), (1, 5)), ((), (3, 4)), ((2, 3, 4), (3, 1)), ((1,), (1, 1)), ((0, 1), (1, 3))],
    ids=str,
)
def test_operands_broadcast(same, random, left, right):
    a, b = random(left), random(right)
    same(a.to("cuda") + b.to("cuda"), a + b)


VIEWS = {
    "transposed": lambda t: t.permute((3, 2, 1, 0)),
    "inner transposed": lambda t: t.transpose(2, 3),
    "channels last": lambda t: t.permute((0, 2, 3, 1)).contiguous().permute((0, 3, 1, 2)),
    "every other": lambda t: t[:, ::2],
    "one column": lambda t: t[..., 1],
    "offset": lambda t: t[1:],
    "expanded": lambda t: t[:1].expand((4, *t.shape[1:])),
}


@pytest.mark.parametrize("first", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("second", VIEWS.values(), ids=VIEWS)
def test_any_strides(same, random, first, second):
    a = random((4, 4, 4, 4))
    x = a.to("cuda")
    try:
        expected = first(a) + second(a)
    except RuntimeError:
        with pytest.raises(RuntimeError, match="must match the size"):
            first(x) + second(x)
        return
    same(first(x) + second(x), expected)


def test_more_dimensions_than_the_skeleton_has(same, random):
    a = random((2, 3) * 4)
    order = (7, 0, 6, 1, 5, 2, 4, 3)
    x = a.to("cuda")
    same(x + x.permute((6, 7, 4, 5, 2, 3, 0, 1)), a + a.permute((6, 7, 4, 5, 2, 3, 0, 1)))
    same(x.permute(order).contiguous(), a.permute(order).contiguous())


@pytest.mark.parametrize("offset", range(1, 5))
def test_addresses_of_any_alignment(same, random, offset):
    a = random((1030,))
    x = a.to("cuda")
    same(x[offset:] + x[:-offset], a[offset:] + a[:-offset])


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("number", [1.5, -0.0, 1e300, float("inf"), float("nan"), 3])
def test_python_numbers(same, random, dtype, number):
    a = random((50,), dtype)
    same(a.to("cuda") + number, a + number)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_integers_wrap(same, dtype):
    info = tt.iinfo(dtype)
    a = tt.from_numpy(np.array([info.min, info.max, 0, 1], dtype.np))
    same(a.to("cuda") + a.to("cuda"), a + a)
    same(a.to("cuda") + 1, a + 1)


def test_a_scale(same, random):
    a, b = random((33,)), random((33,))
    same(tt.add(a.to("cuda"), b.to("cuda"), alpha=2.5), tt.add(a, b, alpha=2.5))


def test_operands_of_two_dtypes_promote(same, random):
    a, b = random((8, 3), tt.float16), random((3,), tt.int32)
    same(a.to("cuda") + b.to("cuda"), a + b)


def test_a_host_scalar_joins_device_tensors(same, random):
    a = random((8,))
    same(a.to("cuda") + tt.tensor(2.5), a + tt.tensor(2.5))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_relu_keeps_nan_and_loses_the_sign_of_zero(same, dtype):
    a = tt.from_numpy(np.array([-1, -0.0, 0, 2, np.nan, np.inf, -np.inf], np.float32).astype(dtype.np))
    same(a.to("cuda").relu(), a.relu())


def test_in_place(same, random):
    a, b = random((6, 5)), random((5,))
    x = a.to("cuda")
    address = x.data_ptr()
    assert x.add_(b.to("cuda")) is x
    assert x.data_ptr() == address
    same(x, a.add_(b))


def test_out(same, random):
    a, b = random((6, 5)), random((6, 5))
    out = tt.empty(5, 6, device="cuda").t()
    result = tt.add(a.to("cuda"), b.to("cuda"), out=out)
    assert result is out
    same(out, a + b)


def test_in_place_on_a_view_writes_only_there(same, random):
    a = random((6, 5))
    x = a.to("cuda")
    x[1:5:2, ::2].add_(1)
    a[1:5:2, ::2].add_(1)
    same(x, a)


def test_tensors_of_two_devices_are_refused(random):
    a = random((3,))
    with pytest.raises(RuntimeError, match=r"same device|two devices"):
        a.to("cuda") + a


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
@pytest.mark.parametrize("exponent", [2, 3, 0.5, -0.5, -1, -2, 1.7])
def test_a_number_as_exponent_takes_roots_and_products(dtype: tt.dtype, exponent: float, same) -> None:
    """Compute frequent exponents as roots and multiplications, which differ from powers: the root of -inf is
    NaN.
    """
    x = tt.tensor([-float("inf"), float("inf"), float("nan"), -0.0, 0.0, 1.5, -2.0], dtype=dtype)
    got, expected = x.to("cuda") ** exponent, x**exponent
    same(got, expected, tolerance=1e-6 if dtype is tt.float32 else 1e-14)
    signs = [np.signbit(t.cpu().numpy()[3:5]).tolist() for t in (got, expected)]
    assert signs[0] == signs[1]


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.bfloat16], ids=str)
@pytest.mark.parametrize("function", [tt.reciprocal, tt.rsqrt], ids=["reciprocal", "rsqrt"])
def test_one_over_infinity_is_zero(dtype: tt.dtype, function, same) -> None:
    x = tt.tensor([float("inf"), 4.0, 0.0], dtype=dtype)
    same(
        function(x.to("cuda")),
        tt.tensor([0.0, 0.5 if function is tt.rsqrt else 0.25, float("inf")], dtype=dtype),
    )


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize(
    "numbers", [{}, {"beta": 2.0}, {"threshold": 0.5}, {"beta": 3.0, "threshold": 0.1}], ids=str
)
def test_numbers_that_a_call_leaves_out_are_the_schemas(random, dtype, numbers):
    a = random((40,), dtype)
    beta, threshold = numbers.get("beta", 1.0), numbers.get("threshold", 20.0)
    x = a.to(tt.float64).numpy()
    expected = np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta)
    tolerance = {tt.float32: 1e-6, tt.float64: 1e-14, tt.bfloat16: 2e-2}[dtype]
    for given in (a, a.to("cuda")):
        found = tt.nn.functional.softplus(given, **numbers).cpu().to(tt.float64).numpy()
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", [1, 15, 17, 31, 33])
def test_nothing_is_written_behind_the_last_element(n):
    whole = tt.zeros(64, device="cuda")
    tt.add(tt.ones(n, device="cuda"), 1, out=whole[:n])
    assert whole.tolist() == [2] * n + [0] * (64 - n)
